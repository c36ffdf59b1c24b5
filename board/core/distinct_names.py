"""Short names for things of a list that are told apart by them: runs in a legend, options of a menu."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Final

from board.core.texts.one_line import on_one_line

CUT: Final = "…"
_SIGN: Final = r"[-/\\_.,:;=@+ ]"
_PART: Final = re.compile(
    rf"(?:(?!{_SIGN}).|(?<=\d)\.(?=\d)|(?<=\de)[-+](?=\d))+{_SIGN}?|{_SIGN}", re.DOTALL
)
"""A part of a name with the sign that ends it; numbers such as 1e-6 and 0.01 are of one part."""


def distinct_names(names: Sequence[str], limit: int = 40) -> list[str]:
    """A name on one line for each of these, no two of them the same, and none of them empty.

    Names of up to `limit` characters stay as they are. Of longer ones the parts that all have in common
    are left out, "…" in their place, then what does not fit. They are longer than the limit where what
    differs is. Names that are the same, or look the same, are numbered.
    """
    lines = [on_one_line(name) or CUT for name in names]
    different = [*dict.fromkeys(lines)]
    short = dict(zip(different, _short(different, limit), strict=True))
    return _numbered([short[line] for line in lines])


def _short(names: Sequence[str], limit: int) -> list[str]:
    """Names that differ, short, and still different."""
    if all(len(name) <= limit for name in names):
        return [*names]
    if len(names) == 1:
        return [_cut_within(names[0], limit)]
    best = [*names]
    for parts in ([_PART.findall(name) for name in names], [[*name] for name in names]):
        for shorten in (_without_start, _without_ends, _without_common):
            shorter = shorten(parts)
            if _all_differ(shorter) and _longest(shorter) < _longest(best):
                best = shorter
            if _longest(best) <= limit:
                return best
    for room in range(limit, _longest(best), limit):
        cut = [_cut_within(name, room) for name in best]
        if _all_differ(cut):
            return cut
    return best


def _without_start(parts: Sequence[Sequence[str]]) -> list[str]:
    """Names without the parts that all of them begin with; of each one part at least stays."""
    first = _equal_parts([name[: min(map(len, parts)) - 1] for name in parts])
    return [f"{CUT if first else ''}{''.join(name[first:])}" for name in parts]


def _without_ends(parts: Sequence[Sequence[str]]) -> list[str]:
    """The same, without the parts that all of them end with too."""
    most = min(map(len, parts)) - 1
    first = _equal_parts([name[:most] for name in parts])
    last = _equal_parts([name[::-1][: most - first] for name in parts])
    start, end = CUT if first else "", CUT if last else ""
    return [f"{start}{''.join(name[first : len(name) - last])}{end}" for name in parts]


def _equal_parts(parts: Sequence[Sequence[str]]) -> int:
    """With how many equal parts these begin, which are equally many."""
    columns = enumerate(zip(*parts, strict=True))
    return next((i for i, column in columns if len({*column}) > 1), len(parts[0]))


def _without_common(parts: Sequence[Sequence[str]]) -> list[str]:
    """Names without any part that is the same in all, where they have equally many parts."""
    if len({*map(len, parts)}) > 1:
        return ["".join(name) for name in parts]
    differs = [len({*column}) > 1 for column in zip(*parts, strict=True)]
    pieces = [
        (i, differing)
        for i, differing in enumerate(differs)
        if differing or not i or differs[i - 1]
    ]
    return ["".join(name[i] if differing else CUT for i, differing in pieces) for name in parts]


def _cut_within(name: str, room: int) -> str:
    """A name of so many characters at most: its beginning and its end."""
    if len(name) <= room:
        return name
    head = (room - 1) // 2
    return f"{name[:head]}{CUT}{name[len(name) - (room - 1 - head) :]}"


def _all_differ(names: Sequence[str]) -> bool:
    return len({*names}) == len(names)


def _longest(names: Sequence[str]) -> int:
    return max(map(len, names))


def _numbered(names: Sequence[str]) -> list[str]:
    """The names; of those that were there before each with the first number that makes it another."""
    given, result = {*names}, dict[str, None]()
    for name in names:
        numbered = (f"{name} ({count})" for count in itertools.count(2))
        free = (another for another in numbered if another not in given and another not in result)
        result[name if name not in result else next(free)] = None
    return [*result]
