"""What keeps the text of a log from steering a terminal: from moving its cursor, colouring it, or turning
a line around.

Everything that a command prints goes through `HarmlessStream`. JSON and CSV are escaped before, so that
they can be read back; nothing is left to do for them then.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any, Final, TextIO

_BIDI: Final = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_LINE_ENDS: Final = (0x85, 0x2028, 0x2029)
_STEERING: Final = (*range(32), *range(127, 160), *_LINE_ENDS, *_BIDI)
"""Control characters (ECMA-48: C0, DEL, C1), and those that set the direction of text (UAX 9)."""
_SPACES: Final = dict.fromkeys(_STEERING, " ")
_IN_LINES: Final = {code: " " for code in _STEERING if chr(code) != "\n"}
_IN_JSON: Final = {code: f"\\u{code:04x}" for code in _STEERING if code >= 32}
_IN_CSV: Final = {
    code: f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
    for code in _STEERING
    if chr(code) not in "\t\n\r"
}


def _any_of(codes: dict[int, str]) -> re.Pattern[str]:
    return re.compile("[" + "".join(f"\\u{code:04x}" for code in codes) + "]")


_FINDS: Final = {id(table): _any_of(table) for table in (_SPACES, _IN_LINES, _IN_JSON, _IN_CSV)}


def _translated(text: str, table: dict[int, str]) -> str:
    """The text with the characters of a table replaced; most texts have none, and stay as they are."""
    return text.translate(table) if _FINDS[id(table)].search(text) else text


def one_line(text: str) -> str:
    """Return the text without line breaks and other characters that steer a terminal."""
    return _translated(text, _SPACES)


def printable(text: str) -> str:
    """Return the text with its line breaks, tabs as spaces, and nothing else that steers a terminal."""
    return "\n".join(one_line(line.replace("\t", "    ")) for line in text.split("\n"))


def escaped_json(document: str) -> str:
    """Return the same JSON document with steering characters as escapes: serializers escape C0 alone."""
    return _translated(document, _IN_JSON)


def escaped_cell(cell: Any) -> Any:
    """Return a cell of CSV with steering characters as they are written in Python's programs."""
    return _translated(cell, _IN_CSV) if isinstance(cell, str) else cell


class HarmlessStream:
    """A text stream that passes on what is written without the characters that steer a terminal.

    Line breaks stay. `stream` is the one below, for the program's own moves of the cursor.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write a text; return its length."""
        self.stream.write(_translated(text, _IN_LINES))
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Write texts one after the other."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


@contextmanager
def harmless_output() -> Iterator[None]:
    """Let what is printed meanwhile go through a `HarmlessStream`, to stdout and to stderr."""
    out, err = HarmlessStream(sys.stdout), HarmlessStream(sys.stderr)
    with redirect_stdout(out), redirect_stderr(err):  # pyright: ignore[reportArgumentType]
        yield
