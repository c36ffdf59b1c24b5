"""Runs that repeat one setup: equal settings but for the seed and for what names a run."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import takewhile
from typing import Any, Final

from board.core.run_differences import flat_settings, names_a_run

_SEED: Final = re.compile(r"(^|[._])seeds?([._]|$)", re.IGNORECASE)
_TOKEN: Final = re.compile(r"\d+|[^\W\d_]+|[\W_]")
_FIELD: Final = "\x1f"


@lru_cache(maxsize=1 << 14)
def is_seed(path: str) -> bool:
    """Whether a setting, by its path, is a seed."""
    return _SEED.search(path) is not None


@lru_cache(maxsize=1 << 14)
def is_of_the_setup(path: str) -> bool:
    """Whether a setting says how a run was set up, and is neither a seed nor a name of the run."""
    return not (path == "start_step" or is_seed(path) or names_a_run(path))


def setup_of(settings: Mapping[str, Any]) -> str:
    """A short text that runs share whose settings are equal but for seeds and names; empty where nothing
    else is recorded. 1 and 1.0 are the same, 1 and true are not.
    """
    lines = sorted(
        f"{path}{_FIELD}{_written(value)}"
        for path, value in flat_settings(settings)
        if is_of_the_setup(path)
    )
    if not lines:
        return ""
    content = "\n".join(lines).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(content, digest_size=12).hexdigest()


def _written(value: Any) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"number {float(value) if abs(value) < 2**53 else value!r}"
    return f"{type(value).__name__} {value!r}"


def shared_name(names: Sequence[str]) -> str:
    """What several names share, with * for what differs, which begins and ends where a number or a word
    does: a/grpo-seed1 and a/grpo-seed12 are a/grpo-seed*. Where nothing is shared, the first and how many
    others there are.
    """
    parts = [_TOKEN.findall(name) for name in names]
    begin = _common(parts)
    rest = [part[len(begin) :] for part in parts]
    end = _common([part[::-1] for part in rest])[::-1]
    if not any(token.isalnum() for token in (*begin, *end)):
        return f"{names[0]} and {len(names) - 1} more"
    return f"{''.join(begin)}*{''.join(end)}"


def _common(parts: Sequence[Sequence[str]]) -> list[str]:
    """The tokens that all lists begin with."""
    alike = takewhile(lambda tokens: len({*tokens}) == 1, zip(*parts, strict=False))
    return [tokens[0] for tokens in alike]
