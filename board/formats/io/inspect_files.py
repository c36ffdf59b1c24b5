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
from board.formats.parse import object_at, objects_in, parse_whole
from board.formats.sources import DamagedError, Row, Source, zstd_unpacker

_SAMPLE: Final = re.compile(r"samples/[^/]+\.json")
_HEADERS: Final = ("header.json", "_journal/start.json")
"""Members that say which task and model it was; the first is written at the end."""
_ALL_SUMMARIES: Final = "summaries.json"
"""Written at the end; until then there is a member for every few samples."""
_SUMMARY: Final = re.compile(rf"{_ALL_SUMMARIES}|_journal/summaries/[^/]+\.json")
_SUMMARIZED: Final = ("id", "epoch", "model_usage", "total_time", "working_time")
_ZSTD: Final = 93
_LOCAL_HEADER: Final = 30
_BUFFER: Final = 256 << 10


class InspectFiles(Source):
    """Rows of a .eval file: each sample, with the header of all under `header`."""

    suffixes = (".eval",)
    unpacks = 5

    @property
    def outline(self) -> Source:
        return _SUMMARIES

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


class _InspectSummaries(InspectFiles):
    """The same rows by the summaries of samples, a small part of the file; of a file whose summaries are
    not of its samples, the samples.
    """

    def lines(self, path: Location) -> Iterator[Line]:
        with _opened(path) as samples:
            summaries = samples.summaries()
            for number, member in enumerate(samples.members):
                if summaries is None:
                    yield samples.row(number)
                else:
                    record = {**summaries[member.filename], "header": samples.header_without_model}
                    yield Row(number, 1, None, record=record)


_SUMMARIES: Final = _InspectSummaries()


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

    @cached_property
    def header_without_model(self) -> Mapping[str, Any]:
        """The header without the model: samples name theirs, which their summaries do not."""
        return {**self.header, "eval": {**object_at(self.header, "eval"), "model": None}}

    def summaries(self) -> Mapping[str, Mapping[str, Any]] | None:
        """By the names of the samples' members what summaries say of them, as samples say it; None where
        there is not one for each. Texts and metadata are left out: long ones are cut there.
        """
        names = [name for name in self._archive.namelist() if _SUMMARY.fullmatch(name)]
        if _ALL_SUMMARIES in names:
            names = [_ALL_SUMMARIES]
        by_member: dict[str, Mapping[str, Any]] = {}
        with suppress(ValueError):
            for name in names:
                text = _content(self._archive, self._archive.getinfo(name))
                for summary in objects_in(json.loads(text or "[]")):
                    member = f"samples/{summary.get('id')}_epoch_{summary.get('epoch')}.json"
                    by_member[member] = _as_sample(summary)
        is_complete = sorted(by_member) == sorted(member.filename for member in self.members)
        return by_member if is_complete else None

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


def _as_sample(summary: Mapping[str, Any]) -> dict[str, Any]:
    """What a summary says, under the names of a sample."""
    scores = object_at(summary, "scores")
    values = {name: {"value": object_at(scores, name).get("value")} for name in scores}
    known = {key: summary[key] for key in _SUMMARIZED if key in summary}
    error, limit = summary.get("error"), summary.get("limit")
    return known | {"scores": values, "error": {"message": error}, "limit": {"type": limit}}


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
