"""Every error that Rollout Board raises on purpose, and what may have been meant by a name that is none.

    BoardError                 anything below; `str(error)` is fit to be shown to a user
    ├── NotFoundError          a folder, run, step or rollout that does not exist
    ├── OutsideRootError       a path outside the folder that the server was started with
    ├── UnreadableError        a file or folder that exists and can't be read
    ├── RecordError            one line that can't be used (becomes a Problem, never reaches a page)
    ├── ClusterError           a Ray cluster that can't be reached, or whose workers can't do their part
    └── ChoiceError            a choice (URL parameter, command line option) that is not available
        └── ExpressionError    a filter or metric that can't be read, with the place in its text

Each message says what was found, where, what was expected, and what to do about it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final


class BoardError(Exception):
    """Base of all errors raised on purpose; its message is written for the user."""


class NotFoundError(BoardError):
    """A folder, run, step or rollout that does not exist."""


class OutsideRootError(BoardError):
    """A path that leaves the folder the server was started with."""


class UnreadableError(BoardError):
    """A file or folder that exists and can't be read."""


class ChoiceError(BoardError):
    """A choice that does not exist, such as a sort column the run does not have."""


class ExpressionError(ChoiceError):
    """A filter or metric that can't be read.

    start, end: the characters of its text that are wrong, equal where something is missing. instead: what
    may have been meant in their place; empty where nothing comes close.
    """

    def __init__(self, reason: str, start: int, end: int, instead: str = "") -> None:
        super().__init__(f"at character {start + 1}: {reason}")
        self.reason = reason
        self.start, self.end = start, end
        self.instead = instead


class ClusterError(BoardError):
    """A Ray cluster that can't be reached, or whose workers can't do their part."""


class RecordError(BoardError):
    """One line of a log that can't be used. Readers turn it into a Problem."""

    def __init__(self, reason: str, *, field: str | None = None, hint: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.field = field
        self.hint = hint


_LISTED: Final = 12
_SUGGESTED: Final = 4


def close_to(name: str, known: Collection[str]) -> str:
    """The known name that comes closest to one that does not exist; empty where none does."""
    return next(iter(_close(name, known, 0.6)), "")


def did_you_mean(name: str, known: Collection[str]) -> str:
    """Words that name those which come close, or a few of all."""
    if close := _close(name, known, 0.5):
        return f"did you mean {', '.join(close)}?"
    more = f" and {len(known) - _LISTED} more" if len(known) > _LISTED else ""
    return f"expected one of: {', '.join([*known][:_LISTED])}{more}"


def _close(name: str, known: Collection[str], cutoff: float) -> list[str]:
    by_folded = {one.casefold(): one for one in known}
    import difflib  # most commands end without an error

    result = difflib.get_close_matches(name.casefold(), by_folded, n=_SUGGESTED, cutoff=cutoff)
    # A table of steps holds the mean of a rollout's column, which its users know without the ending.
    mean = f"{name.casefold()}_mean"
    first = [mean] if mean in by_folded else []
    return [by_folded[one] for one in dict.fromkeys([*first, *result])][:_SUGGESTED]


def no_column(
    name: str,
    columns: Collection[str],
    start: int,
    end: int | None = None,
    others: Collection[str] = (),
) -> ExpressionError:
    """The error for a name in an expression that is not a column. end: of a name in quotes. others: what
    columns are called besides.
    """
    known = (*others, *columns)
    close = close_to(name, known)
    hint = did_you_mean(name, known if close else columns)
    reason = f"the run has no column {name!r}; {hint}"
    if end is None:
        return ExpressionError(reason, start, start + len(name), close)
    return ExpressionError(reason, start, end, f'"{close}"' if close else "")
