"""What a user may have meant by a name that is none."""

from __future__ import annotations

import difflib
from collections.abc import Collection
from typing import Final

from board.errors import ExpressionError

_LISTED: Final = 12
_SUGGESTED: Final = 4


def close_to(name: str, known: Collection[str]) -> str:
    """The known name that comes closest; empty where none does."""
    return next(iter(_close(name, known, 0.6)), "")


def did_you_mean(name: str, known: Collection[str]) -> str:
    """Words that name those which come close, or a few of all."""
    if close := _close(name, known, 0.5):
        return f"did you mean {', '.join(close)}?"
    more = f" and {len(known) - _LISTED} more" if len(known) > _LISTED else ""
    return f"nothing comes close; there are {', '.join([*known][:_LISTED])}{more}"


def _close(name: str, known: Collection[str], cutoff: float) -> list[str]:
    by_folded = {one.casefold(): one for one in known}
    result = difflib.get_close_matches(name.casefold(), by_folded, n=_SUGGESTED, cutoff=cutoff)
    # A table of steps holds the mean of a rollout's column, which its users know without the ending.
    mean = f"{name.casefold()}_mean"
    first = [mean] if mean in by_folded else []
    return [by_folded[one] for one in dict.fromkeys([*first, *result])][:_SUGGESTED]


def no_column(
    name: str, columns: Collection[str], start: int, end: int | None = None
) -> ExpressionError:
    """The error for a name in an expression that is not a column. end: of a name in quotes."""
    reason = f"the run has no column {name!r}; {did_you_mean(name, columns)}"
    close = close_to(name, columns)
    if end is None:
        return ExpressionError(reason, start, start + len(name), close)
    return ExpressionError(reason, start, end, f'"{close}"' if close else "")
