"""The columns of an expression by every name that means them: their own, and those on the screen.

A column's own name always wins. Other names ignore the case; one that means several columns is an error
that lists them. Names with signs or words of the language, such as trainer/sampler ratio and in the loss,
mean their columns only where a text can't be read without them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
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
    goes on with. literal: whether other names may hold these words, and signs, all the same.
    """

    def __init__(
        self,
        columns: Collection[str],
        meanings: Meanings,
        reserved: Collection[str],
        *,
        literal: bool = False,
    ) -> None:
        self.columns = columns
        self._meanings, self._reserved = meanings, reserved
        # The longest first: rewards.a-b is a column before it is a difference.
        self._plain = _by_first(name for name in columns if not _NOT_PLAIN.search(name))
        self._literal = _by_first(meanings if literal else ())

    @cached_property
    def with_signs(self) -> ColumnNames:
        """The names, also those that hold signs or words of the language."""
        return ColumnNames(self.columns, self._meanings, self._reserved, literal=True)

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
        for name in self._plain.get(text[start : start + 1], ()):
            if text.startswith(name, start) and not _GOES_ON.match(text, start + len(name)):
                own = name
                break
        other = max(self._other_at(text, start), self._literal_at(text, start), key=len)
        if len(other) > len(own):
            return Typed(self.column(other, start), start + len(other), is_own=False)
        return Typed(own, start + len(own), is_own=True) if own else None

    def _literal_at(self, text: str, start: int) -> str:
        """The longest name at a place that may hold signs of the language."""
        for name in self._literal.get(text[start : start + 1].casefold()[:1], ()):
            # Folded, a letter may be two.
            ends = range(start + len(name), start, -1)
            end = next((end for end in ends if text[start:end].casefold() == name), start)
            if end > start and not (_GOES_ON.match(name[-1]) and _GOES_ON.match(text, end)):
                return text[start:end]
        return ""

    def _other_at(self, text: str, start: int) -> str:
        """The longest other name of words at a place."""
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


def _by_first(names: Iterable[str]) -> dict[str, list[str]]:
    """The names by their first letter, the longest first."""
    by_first: dict[str, list[str]] = {}
    for name in sorted(filter(None, names), key=len, reverse=True):
        by_first.setdefault(name[0], []).append(name)
    return by_first
