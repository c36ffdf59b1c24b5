"""What the tests of the readers share: a line of a log, read as the scan reads it."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from board.core.records import ReadOptions, Record
from board.formats import reader_named
from board.formats.base import Event, LineContext
from board.formats.number_arrays import LineParser

ReadLine = Callable[..., Record | Event]


@pytest.fixture(params=["parsed whole", "arrays cut out"])
def read_line(request) -> ReadLine:
    """Reads one line by the reader of that name, once parsed whole and once with arrays cut out."""

    def read(
        reader: str, fields: dict, options: ReadOptions | None = None, path: str = "log.jsonl"
    ) -> Record | Event:
        line = json.dumps(fields).encode()
        parser = LineParser()
        parsed, _ = parser.parse(line)
        if request.param == "arrays cut out":
            parsed, _ = parser.parse(line)
        known = reader_named(reader)
        return known.record(parsed, LineContext(Path(path), options, known.layout))

    return read
