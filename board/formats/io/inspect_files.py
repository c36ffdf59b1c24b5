"""Inspect's .eval files: a zip with a member for each sample, whose JSON is packed by deflate or zstd."""

from __future__ import annotations

import json
import re
import struct
import zipfile
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
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
        with _opened(path) as archive:
            yield from (_row(archive, number) for number in range(len(_samples(archive))))

    def fetch(self, path: Location, offset: int, size: int) -> Line:
        with _opened(path) as archive:
            if offset >= len(_samples(archive)):
                raise DamagedError("it has fewer samples than before")
            return _row(archive, offset)


@contextmanager
def _opened(path: Location) -> Generator[zipfile.ZipFile]:
    """The archive, with what is wrong with it said in words."""
    try:
        with binary(path, _BUFFER) as file, zipfile.ZipFile(file) as archive:
            yield archive
    except zipfile.BadZipFile as error:
        raise DamagedError(f"it is not a complete zip file yet: {error}") from error


def _samples(archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    return [member for member in archive.infolist() if _SAMPLE.fullmatch(member.filename)]


def _row(archive: zipfile.ZipFile, number: int) -> Line:
    """A sample; one that can't be read is a line without text, or with what it holds instead."""
    text = _content(archive, _samples(archive)[number])
    if text is None:
        return Line(number, 1, None)
    try:
        record, _ = parse_whole(text)
    except RecordError:
        return Line(number, 1, text)
    return Row(number, 1, None, record={**record, "header": _header(archive)})


def _header(archive: zipfile.ZipFile) -> Mapping[str, Any]:
    for name in _HEADERS:
        with suppress(KeyError, ValueError):
            if text := _content(archive, archive.getinfo(name)):
                return json.loads(text)
    return {}


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
