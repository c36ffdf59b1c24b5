"""Files called .jsonl whose records may stand over many lines each, as json.dump with `indent` writes.

Such a record begins with a line that is a brace alone and ends with one that is, since all between them
is indented; every other line is a record of its own. A record that never ends costs only itself: the
next one begins where a line is no longer indented.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Final

from board.formats.io.lines import MAX_LINE_BYTES, Line, read_lines
from board.formats.io.locations import Location
from board.formats.io.remote import RemoteLocation
from board.formats.sources import JSON_LINES, Source

_NAMES: Final = re.compile(
    r"(?:(?:train|eval)_rollout_[0-9]+|(?:rollout_idx|eval)_[0-9]+_trajectory)"
    r"\.jsonl(?:\.gz|\.zst)?",
    re.IGNORECASE,
)
"""What xtuner called such files; it calls its files of lines so, too."""


class SpreadRecords(Source):
    """One JSON object after the other, each on one line or over several."""

    suffixes = ()
    appends = False
    by_layout = False

    def takes(self, path: PurePath | RemoteLocation) -> bool:
        """As Source: by the whole name."""
        return _NAMES.fullmatch(path.name) is not None

    @property
    def like(self) -> Source:
        """To readers they are lines of JSON."""
        return JSON_LINES

    def together(self, lines: Iterable[Line]) -> Iterator[Line]:
        """Each record as one line, followed by blank ones, so that counting them gives line numbers."""
        record: _Spread | None = None
        for line in lines:
            text = (line.text or b"").strip(b"\r\xef\xbb\xbf")
            ends = text == b"}"
            if record is not None and (ends or _is_inside(line, text)):
                record.add(line)
                if ends:
                    yield from record.lines()
                    record = None
                continue
            if record is not None:
                yield from record.lines()
            record = _Spread(line) if text == b"{" else None
            if record is None:
                yield line
        if record is not None:
            yield from record.lines()

    def head(self, path: Location) -> Iterator[Line]:
        """As Source."""
        return self.lines(path)

    def lines(self, path: Location, start: int = 0, end: int | None = None) -> Iterator[Line]:
        """As Source."""
        return self.together(read_lines(path, start, end))

    def fetch(self, path: Location, offset: int, size: int) -> Line:
        """As Source."""
        return JSON_LINES.fetch(path, offset, size)


def _is_inside(line: Line, text: bytes) -> bool:
    """Whether a line can only be within a record: blank, indented, or too long to be looked at."""
    return line.text is None or not text or text[:1] in (b" ", b"\t")


@dataclass(slots=True)
class _Spread:
    """A record whose end is still to come. Bytes of one that is too long are only counted."""

    first: Line
    texts: list[bytes] = field(default_factory=list[bytes])
    size: int = 0
    count: int = 0
    is_whole: bool = True

    def __post_init__(self) -> None:
        self.add(self.first)

    def add(self, line: Line) -> None:
        """Takes one more of its lines."""
        self.size += line.size
        self.count += 1
        if line.text is None or self.size > MAX_LINE_BYTES:
            self.is_whole = False
            self.texts.clear()
        elif self.is_whole:
            self.texts.append(line.text)

    def lines(self) -> Iterator[Line]:
        """The record as a line, and a blank one for each further line that it stands on."""
        text = b"\n".join(self.texts) if self.is_whole else None
        yield Line(self.first.offset, self.size, text)
        end = self.first.offset + self.size
        for _ in range(self.count - 1):
            yield Line(end, 0, b"")


SPREAD: Final = SpreadRecords()
