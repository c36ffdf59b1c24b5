"""A line of a log, read again by the place that the index has of a rollout."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from board.errors import RecordError, UnreadableError
from board.formats import reader_named, source_read_by
from board.formats.base import LineContext
from board.formats.number_arrays import LineParser
from board.formats.parse import LARGE_LINE, lacks_digits, parse_exactly
from board.formats.sources import Row
from board.index import segments
from board.index.discovery.packed import readable
from board.index.discovery.run_info import LogFile


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line as it was parsed. text: None of one that is no text. rows: the rollouts of it; number: of
    the one that is looked for.
    """

    content: Mapping[str, Any]
    text: bytes | None
    is_mended: bool
    rows: Sequence[Mapping[str, Any]]
    number: int

    @property
    def part(self) -> Mapping[str, Any]:
        """What the line says of the rollout."""
        return self.rows[self.number]


Parse = Callable[[bytes], tuple[Mapping[str, Any], bool]]
"""Gives the values of a line, and whether broken text in it had to be mended."""


def read_line(
    file: LogFile, context: LineContext, place: Mapping[str, Any], parse: Parse = parse_exactly
) -> LogLine:
    """The line at a place. Raises UnreadableError."""
    where = f"{file.path.name}:{int(place['line'])}"
    number = int(place.get(segments.PART) or 0)
    offset, size = int(place["offset"]), int(place["size"])
    try:
        line = source_read_by(file.reader, file.path).fetch(readable(file).path, offset, size)
        is_row = isinstance(line, Row)
        content, mended = (line.record, False) if is_row else parse(line.text or b"")
        rows = reader_named(file.reader).rows(content, context)
    except OSError as error:
        reason = f"{where} can't be read: {error.strerror}; was the log moved?"
        raise UnreadableError(reason) from error
    except RecordError as error:
        raise changed(where, error.reason) from error
    if number >= len(rows):
        raise changed(where, f"its line has {len(rows)} rollouts now")
    return LogLine(content, line.text, mended, rows, number)


def parse_lightly(text: bytes) -> tuple[Mapping[str, Any], bool]:
    """The values of a line, of a large one with its long arrays of numbers as RawNumbers."""
    if len(text) <= LARGE_LINE:
        return parse_exactly(text)
    record, is_mended = LineParser().parse(text)
    return parse_exactly(text) if lacks_digits(record) else (record, is_mended)


def changed(where: str, reason: str = "") -> UnreadableError:
    """The error of a line that holds another rollout now."""
    why = f" ({reason})" if reason else ""
    return UnreadableError(f"{where} no longer holds the rollout it held{why}; reload the run")
