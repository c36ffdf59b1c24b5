"""Rollouts that ended before the model had its last word, earlier than those that had it.

A budget that runs out ends the longest rollouts. What ends a short one after a call that nobody answered,
where rollouts that were paid end with an answer, is whoever should have answered.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from board.core.failures.causes import MOST_CHARACTERS
from board.index.segments import ENDS
from board.query.causes.earned import Earned
from board.query.database import quoted

_LEAST: Final = 10
"""Rollouts that end with an answer, at least."""
_LEAST_EARLY, _LEAST_EARLY_SHARE = 3, 0.01
"""Rollouts that end so early, and their share of all: a few are no outage."""
_EXCEPTIONS: Final = 0.02
"""Of the rollouts that were paid, the share that may end so too."""
_LONGEST: Final = 0.9
"""As long as this share of those that end with an answer are: beyond it may be a budget."""
_LENGTHS: Final = ("turns", "response_chars", "response_tokens")
_BY_POLICY: Final = (
    "(?i)invalid|illegal|format|pars(?:e|ing)|malformed|syntax|unknown (?:tool|action|function)|repeat"
    "|loop|no (?:tool|action|answer)|gave up|limit|budget|time.?out|timed out|too (?:many|long)|max"
    "|上限|límite|предел|лимит"
)
"""What a harness says that ends a rollout for what the policy did, or for a limit."""
_KIND: Final = f"split_part({quoted(ENDS)}, ': ', 1)"
_SAID: Final = {
    "call": ("sandbox", "its last call was never answered"),
    "harness": ("sandbox", "the harness had the last word"),
}


@dataclass(frozen=True, slots=True)
class EarlyEnds:
    """kinds: of ends that tell of a failure where a rollout is no longer than longest. length: the column
    of how long one is.
    """

    kinds: tuple[str, ...]
    length: str
    longest: float


def early_ends(
    read: Callable[[str], pa.Table], view: str, names: Collection[str], earned: Earned
) -> EarlyEnds | None:
    """Which ends of rollouts tell of a failure in a run; None for none."""
    length = next((name for name in _LENGTHS if name in names), None)
    if ENDS not in names or not earned.value or length is None:
        return None
    ends = ", ".join(
        f"count(*) FILTER ({earned.is_paid} AND {_KIND} = '{kind}') AS {kind}" for kind in _SAID
    )
    # Who has as many turns as anybody may have had all that there are.
    most = f"least({{0}}, max({length}) - 1)" if length == "turns" else "{0}"
    usual = f"quantile_cont({length}, {_LONGEST}) FILTER ({_KIND} = 'answer')"
    (counts,) = read(f"""
        SELECT count(*) AS rollouts, count(*) FILTER ({earned.is_paid}) AS paid,
            count(*) FILTER ({_KIND} = 'answer') AS answers,
            {most.format(usual)} AS longest, {ends}
        FROM {view}""").to_pylist()
    if counts["answers"] < _LEAST or counts["longest"] is None:
        return None
    kinds = tuple(kind for kind in _SAID if counts[kind] <= _EXCEPTIONS * counts["paid"])
    longest = float(counts["longest"])
    counted = ", ".join(
        f"count(*) FILTER ({_KIND} = '{kind}' AND {length} <= {longest!r}) AS {kind}"
        for kind in kinds
    )
    (early,) = read(f"SELECT {counted} FROM {view}").to_pylist() if kinds else ({},)
    least = max(_LEAST_EARLY, _LEAST_EARLY_SHARE * counts["rollouts"])
    kinds = tuple(kind for kind in kinds if early[kind] >= least)
    return EarlyEnds(kinds, length, longest) if kinds else None


def early_end_cases(early: EarlyEnds) -> Iterator[tuple[str, str, str]]:
    """SQL for cause, evidence and when it is one, of a rollout that was not paid."""
    for kind in early.kinds:
        cause, said = _SAID[kind]
        ends = quoted(ENDS)
        after = f"'{said}, after ' || {early.length} || ' {early.length}: ' || {ends}"
        evidence = f"left({after}, {MOST_CHARACTERS})"
        when = f"{_KIND} = '{kind}' AND {early.length} <= {early.longest!r}"
        if kind == "harness":
            when += f" AND NOT regexp_matches({ends}, '{_BY_POLICY}')"
        yield f"'{cause}'", evidence, when
