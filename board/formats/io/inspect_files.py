"""Inspect's .eval files: a zip with a member for each sample, whose JSON is packed by deflate or zstd."""

from __future__ import annotations

import json
import re
import struct
import zipfile
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from itertools import islice
from typing import Any, Final

from board.errors import RecordError
from board.formats.io.lines import MAX_LINE_BYTES, Line
from board.formats.io.locations import Location, binary
from board.formats.parse import parse_whole
from board.formats.sources import DamagedError, Row, Source, zstd_unpacker

_SAMPLE: Final = re.compile(r"samples/[^/]+\.json")
_HEADERS: Final = ("header.json", "_journal/start.json")
"""Members that say which task and model it was; the first is written at the end."""
_ZSTD: Final = 93
_LOCAL_HEADER: Final = 30
_BUFFER: Final = 256 << 10


class InspectFiles(Source):
    """Rows of a .eval file: each sample, with the header of all under `header`."""

    suffixes = (".eval",)

    def head(self, path: Location) -> Iterator[Line]:
        return islice(self.lines(path), 1)

    def lines(self, path: Location) -> Iterator[Line]:
        with _opened(path) as samples:
            yield from map(samples.row, range(len(samples.members)))

    def fetch(self, path: Location, offset: int, size: int) -> Line:
        return next(self.fetch_many(path, [(offset, size)]))

    def fetch_many(self, path: Location, places: Sequence[tuple[int, int]]) -> Iterator[Line]:
        with _opened(path) as samples:
            for offset, _ in places:
                if offset >= len(samples.members):
                    raise DamagedError("it has fewer samples than before")
                yield samples.row(offset)


class _Samples:
    """The samples of an archive. Its members are looked through once, its header is read once."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self.members = [
            member for member in archive.infolist() if _SAMPLE.fullmatch(member.filename)
        ]

    @cached_property
    def header(self) -> Mapping[str, Any]:
        """What is said of all samples."""
        for name in _HEADERS:
            with suppress(KeyError, ValueError):
                if text := _content(self._archive, self._archive.getinfo(name)):
                    return json.loads(text)
        return {}

    def row(self, number: int) -> Line:
        """A sample; one that can't be read is a line without text, or with what it holds instead."""
        text = _content(self._archive, self.members[number])
        if text is None:
            return Line(number, 1, None)
        try:
            record, _ = parse_whole(text)
        except RecordError:
            return Line(number, 1, text)
        return Row(number, 1, None, record={**record, "header": self.header})


@contextmanager
def _opened(path: Location) -> Generator[_Samples]:
    """The samples of an archive, with what is wrong with it said in words."""
    try:
        with binary(path, _BUFFER) as file, zipfile.ZipFile(file) as archive:
            yield _Samples(archive)
    except zipfile.BadZipFile as error:
        raise DamagedError(f"it is not a complete zip file yet: {error}") from error


def _content(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes | None:
    """What a member unpacks to; None where that is too much to be read."""
    if member.file_size > MAX_LINE_BYTES:
        return None
    if member.compress_type != _ZSTD:
        return archive.read(member)
    file: Any = archive.fp
    file.seek(member.header_offset)
    name_size, extra_size = struct.unpack("<HH", file.read(_LOCAL_HEADER)[-4:])
    file.seek(member.header_offset + _LOCAL_HEADER + name_size + extra_size)
    packed, unpacked = file.read(member.compress_size), b""
    with zstd_unpacker(member.filename) as unpacker:
        while packed and len(unpacked) < member.file_size:  # a frame after the other
            frame = unpacker.decompressobj()
            unpacked += frame.decompress(packed)
            packed = frame.unused_data
    return unpacked


INSPECT: Final = InspectFiles()
