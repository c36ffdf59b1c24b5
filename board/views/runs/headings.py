"""Heads of columns of settings: at most two lines each, and none like another."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from itertools import count
from typing import Final

MOST_SIGNS: Final = 18
"""In a line of a head, of which there are LINES."""
LINES: Final = 2
_PART: Final = re.compile(r"[^_/.]*[_/.]?")
_CUT: Final = "…"


def lines_of(name: str, signs: int) -> list[str]:
    """A name in lines of at most so many signs each, as the table breaks it: behind _, / and a dot; a
    longer part anywhere.
    """
    lines = [""]
    for part in filter(None, _PART.findall(name)):
        if lines[-1] and len(lines[-1]) + len(part) > signs:
            lines.append("")
        while len(lines[-1]) + len(part) > signs:
            room = signs - len(lines[-1])
            lines[-1] += part[:room]
            part = part[room:]
            lines.append("")
        lines[-1] += part
    return [line for line in lines if line]


def signs_for(name: str) -> int:
    """The fewest signs a line with which a name of at most 2 MOST_SIGNS has two lines."""
    most = next((n for n in range(1, MOST_SIGNS) if len(lines_of(name, n)) <= LINES), MOST_SIGNS)
    longest = max((len(part) for part in _PART.findall(name)), default=0)
    return max(most, min(longest, MOST_SIGNS))


def cut_names(names: Mapping[str, str]) -> dict[str, str]:
    """By key the names, cut to two lines of MOST_SIGNS signs: the middle is left out, since settings
    begin and end differently; names that would be alike then bear a number.
    """
    cut = {key: _cut(name) for key, name in names.items()}
    counts, used = Counter(cut.values()), set(cut.values())
    for key, name in cut.items():
        if counts[name] > 1:
            numbered = (_cut(f"{n}{_CUT}{names[key]}") for n in count(1))
            cut[key] = next(one for one in numbered if one not in used)
            used.add(cut[key])
    return cut


def _cut(name: str) -> str:
    if len(lines_of(name, MOST_SIGNS)) <= LINES:
        return name
    end = name[-MOST_SIGNS:]
    # The end has a line of its own: what breaks within it would make a third one.
    for begin in range(MOST_SIGNS, 0, -1):
        whole = f"{name[:begin]}{_CUT}{end}"
        if len(lines_of(whole, MOST_SIGNS)) <= LINES:
            return whole
    return end
