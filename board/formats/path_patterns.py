"""Patterns for the end of a path, as mapping files have them: regular expressions that can't take long.

A mapping file may come with somebody's log, and Python's matcher can be kept busy for years. So a pattern
is taken apart here and put together again, up to a bound on the ways there are to match.
"""

from __future__ import annotations

import re
from typing import Final

from board.errors import BoardError

MOST_CHARACTERS: Final = 200
_MOST_REPEATS: Final = 64
"""What + and * stand for: names of files are shorter than 256 characters, their parts shorter still."""
_MOST_WAYS: Final = 64 * 64 * 16
_TOKEN: Final = re.compile(
    r"(?P<open>\(\?P<(?:step|split)>|\(\?:)|(?P<close>\))|(?P<bar>\|)"
    r"|(?P<atom>\\[dw]|\\[^0-9A-Za-z]"
    r"|\[\^?(?:\\[dw]|[A-Za-z0-9_](?:-[A-Za-z0-9_])?|[/ .,+=@:])+-?\]"
    r"|[^\\()\[\]{}*+?|^$])(?P<times>[*+?]|\{[0-9]{1,2}(?:,[0-9]{1,2})?\})?"
)
_ENDS_DIGITS: Final = re.compile(r"\)?(?:$|\\[^dw]|[^\\\[.(|)0-9*+?{])")
"""What no digit matches, so that there is one way only to match the digits before it."""
_EXPECTED: Final = (
    r"expected characters, \d \w . [classes], (?P<step>...), (?P<split>train|eval), (?:...), and "
    "+ * ? {m,n} after single characters"
)


def path_pattern(text: str) -> re.Pattern[str]:
    """The pattern for the end of a path, as `Reader.layout`. A dot matches no slash.

    Raises BoardError when it is no such pattern, or could be matched in too many ways.
    """
    if len(text) > MOST_CHARACTERS:
        raise BoardError(f"has {len(text)} characters; expected at most {MOST_CHARACTERS}")
    parts: list[str] = []
    ways = 1
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise BoardError(f"can't be read at {text[position:][:20]!r}; {_EXPECTED}")
        part, more = _rewritten(match)
        parts.append(part)
        ways *= more
        position = match.end()
    if ways > _MOST_WAYS:
        raise BoardError(
            "can be matched in too many ways; expected at most two of + and * that could take each "
            "other's characters: end digits with a character that is none, or leave out folders in front"
        )
    try:
        return re.compile("".join(parts), re.ASCII)
    except re.error as error:
        raise BoardError(f"is not a pattern: {error}; {_EXPECTED}") from None


def _rewritten(match: re.Match[str]) -> tuple[str, int]:
    """A token with repetition bounded, and in how many ways it can be matched."""
    if not match["atom"]:
        return match[0], 2 if match["bar"] else 1
    atom = {".": "[^/]"}.get(match["atom"], match["atom"])
    times = match["times"] or "{1}"
    if times in "+*":
        least = int(times == "+")
        if atom in (r"\d", "[0-9]") and _ENDS_DIGITS.match(match.string, match.end()):
            return f"{atom}{{{least},19}}", 1
        return f"{atom}{{{least},{_MOST_REPEATS}}}", _MOST_REPEATS
    low, _, high = "0,1".partition(",") if times == "?" else times[1:-1].partition(",")
    return atom + times, max(int(high or low) - int(low), 0) + 1
