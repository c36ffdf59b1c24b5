"""Which columns the table of rollouts has, and which of them make a curve."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from board.core.metrics.aggregate import COLUMNS
from board.core.metrics.definitions import REWARD_PART, ROLLOUT_METRICS
from board.index import segments
from board.index.segments import Column

_NO_CURVE: Final = frozenset(
    (
        *("step", "index", "file", *segments.LOCATION, segments.PART, *COLUMNS, *segments.TEXTS),
        *("rank", "micro_step", "policy_version", "timestamp", "pad_tokens"),
    )
)
_WORDS: Final = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+")
_IDS: Final = frozenset(("id", "idx", "index", "uid", "uuid"))
"""Last words of names of what tells rollouts apart: also where it is a number, its mean says nothing."""
_FIRST: Final = ("step", "index", "rank", "group_id", "env")
GAP: Final = "reward_gap"
_KEYS: Final = frozenset((segments.REPEAT_KEY, *segments.JOIN_KEYS, segments.PROMPT_KEY))


def with_derived(columns: Sequence[Column], *, has_rank: bool) -> tuple[Column, ...]:
    """The columns of the table of rollouts, those that every run has first."""
    held = {column.name: column for column in columns if column.name not in _KEYS}
    if has_rank:
        held["rank"] = Column("rank", numbers=True)
    for name in ("step", "index", "file", *segments.LOCATION):
        held[name] = Column(name, numbers=True)
    if "reward" in held and "ref_reward" in held:
        held[GAP] = Column(GAP, numbers=True)
    if "response_tokens" in held:
        held.pop("response_chars", None)
    first = [held.pop(name) for name in _FIRST if name in held]
    fixed = [held.pop(name) for name in segments.FIXED_ORDER if name in held]
    return (*first, *fixed, *sorted(held.values(), key=lambda column: column.name))


def metrics_of(columns: Sequence[Column]) -> tuple[str, ...]:
    """Columns that make a curve: known ones first, then reward parts, then what else is logged."""
    numbers = [column.name for column in columns if not column.words]
    others = [name for name in numbers if not (name in ROLLOUT_METRICS or _has_no_curve(name))]
    others.sort(key=lambda name: not name.startswith(REWARD_PART))
    return (*(name for name in ROLLOUT_METRICS if name in numbers), *others)


def _has_no_curve(name: str) -> bool:
    if name.startswith(REWARD_PART):
        return False
    words = _WORDS.findall(name)
    return name in _NO_CURVE or bool(words and words[-1].lower() in _IDS)
