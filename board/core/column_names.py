"""The columns of an expression by every name that means them: their own, and those on the screen.

A column's own name always wins. Other names ignore the case; one that means several columns is an error
that lists them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from board.errors import ExpressionError, no_column

Meanings = Mapping[str, tuple[str, ...]]
"""By a name with its case folded the columns that it means."""

_NOT_PLAIN: Final = re.compile(r"[\s\"'()]|^[\d.]")
_WORDS: Final = re.compile(r"#|[^\W\d][\w.]*(?: [\w.]+)*")
"""What can be typed of another name than a column's own; anything else is quoted."""
_GOES_ON: Final = re.compile(r"[\w.]")
_MOST_LISTED: Final = 6


class Typed(NamedTuple):
    """A column that stands in a text, up to the character `end`; is_own: by its own name."""

    column: str
    end: int
    is_own: bool


def ends_of(name: str) -> Iterator[str]:
    """What a name with dots or slashes ends with: lr and optim.lr of config.optim.lr."""
    return (name[sign.end() :] for sign in re.finditer(r"[./](?=.)", name))


def meanings_of(
    columns: Collection[str], groups: Iterable[Mapping[str, Sequence[str]]]
) -> Meanings:
    """Names with the columns that they mean. groups: a name of one means what it does there, whatever
    it would mean in those after it; last come the columns' own names in any case.
    """
    folded: dict[str, dict[str, None]] = {}
    own = {name: [name] for name in columns}
    for group in (*groups, own):
        known = {*folded}
        for name, meant in group.items():
            if name and name.casefold() not in known:
                folded.setdefault(name.casefold(), {}).update(dict.fromkeys(meant))
    return {name: (*meant,) for name, meant in folded.items()}


class ColumnNames:
    """The names that an expression can use. reserved: words that no other name than a column's begins or
    goes on with.
    """

    def __init__(
        self, columns: Collection[str], meanings: Meanings, reserved: Collection[str]
    ) -> None:
        self.columns = columns
        self._meanings, self._reserved = meanings, reserved
        # The longest first: rewards.a-b is a column before it is a difference.
        plain = (name for name in columns if name and not _NOT_PLAIN.search(name))
        self._plain = sorted(plain, key=len, reverse=True)

    def meant(self, name: str) -> tuple[str, ...]:
        """The columns that a name means: one, several, or none."""
        return (name,) if name in self.columns else self._meanings.get(name.casefold(), ())

    def column(self, name: str, start: int, end: int | None = None) -> str:
        """The column that a name means. start, end: its characters in the text; end: of a name in quotes.
        Raises ExpressionError.
        """
        meant = self.meant(name)
        if len(meant) == 1:
            return meant[0]
        if not meant:
            others = [other for other in self._meanings if _WORDS.fullmatch(other)]
            raise no_column(name, self.columns, start, end, others)
        listed = ", ".join(meant[:_MOST_LISTED]) + (", ..." if meant[_MOST_LISTED:] else "")
        reason = f"{name!r} may mean {listed}: write one of these"
        raise ExpressionError(reason, start, start + len(name) if end is None else end)

    def typed_at(self, text: str, start: int) -> Typed | None:
        """The column that stands at a place of the text, by the longest name that does."""
        own = ""
        for name in self._plain:
            if text.startswith(name, start) and not _GOES_ON.match(text, start + len(name)):
                own = name
                break
        other = self._other_at(text, start)
        if len(other) > len(own):
            return Typed(self.column(other, start), start + len(other), is_own=False)
        return Typed(own, start + len(own), is_own=True) if own else None

    def _other_at(self, text: str, start: int) -> str:
        """The longest other name at a place."""
        words = _WORDS.match(text, start)
        if words is None:
            return ""
        parts = words.group().split(" ")
        allowed = next((n for n, part in enumerate(parts) if part.lower() in self._reserved), None)
        for count in range(len(parts[:allowed]), 0, -1):
            name = " ".join(parts[:count])
            if name.casefold() in self._meanings:
                return name
        return ""
