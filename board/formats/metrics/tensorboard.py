"""TensorBoard's event files.

A file is a sequence of TFRecords: length (8 bytes), its checksum (4), content, its checksum (4). They are
framed here and not by tensorboard's loader, which checks each content in Python, at a tenth of the speed,
and takes whatever length a record says into memory.
"""

from __future__ import annotations

import os
import struct
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np

from board.core.arrays import IntArray
from board.formats.io.locations import open_binary
from board.formats.metrics.base import MOST_RECORD_BYTES, MetricSource, Report
from board.formats.metrics.event_records import scalars_of

_LENGTH: Final = struct.Struct("<Q")
_HEADER_BYTES: Final = 12
_AROUND_BYTES: Final = 16
"""Of a record that are not its content."""
_LARGEST_LENGTH: Final = 1 << 40
"""A longer record says that its header is damaged."""
_BLOCK_BYTES: Final = 4 << 20


class EventFiles(MetricSource):
    """The event files of one folder, which are one stream: a resumed training begins another file."""

    title = "TensorBoard"
    place = ("_offsets",)

    def __init__(self, name: str, paths: tuple[Path, ...]) -> None:
        super().__init__(name, paths)
        self._offsets: dict[str, int] = {}
        """By a file's name where its records were read up to."""

    def restart(self) -> None:
        super().restart()
        self._offsets.clear()

    def read(self, report: Report) -> None:
        if any(path.stat().st_size < self._offsets.get(path.name, 0) for path in self.paths):
            self.restart()
        for path in self.paths:
            done = sum(self._offsets.values()) - self._offsets.get(path.name, 0)
            with open_binary(path) as file:
                while self._read_block(path, file):
                    report(done + self._offsets[path.name])

    def _read_block(self, path: Path, file: BinaryIO) -> bool:
        """Reads whole records behind those that were read, some megabytes; whether there may be more."""
        begin = self._offsets.setdefault(path.name, 0)
        file.seek(begin)
        content = file.read(_BLOCK_BYTES)
        offsets, rest = _framed(content)
        if len(offsets) > 1:
            self._add(content, offsets[:-1] + _HEADER_BYTES, np.diff(offsets) - _AROUND_BYTES)
        at = begin + int(offsets[-1])
        self._offsets[path.name] = at
        if rest is None:  # the end of the file, or of a header that is still being written
            self.torn_at = at if at == begin and content else self.torn_at
            return at > begin
        if rest > _LARGEST_LENGTH:
            self.note(f"{path.name} is damaged at byte {at}; the rest is not read", of_reading=True)
            return False
        end = at + rest + _AROUND_BYTES
        if end > os.fstat(file.fileno()).st_size:  # still being written, or torn
            self.torn_at = at
            return False
        if end > begin + _BLOCK_BYTES and at == begin:
            if rest <= MOST_RECORD_BYTES:  # else an image, or a graph
                file.seek(at + _HEADER_BYTES)
                self._add(file.read(rest), np.zeros(1, np.int64), np.array([rest]))
            self._offsets[path.name] = end
        return True

    def _add(self, content: bytes, offsets: IntArray, sizes: IntArray) -> None:
        scalars = scalars_of(content, offsets, sizes)
        if scalars.broken:
            self.note("an event that can't be read", count=scalars.broken)
        begins = np.searchsorted(scalars.number, [*scalars.starts]).tolist()
        bounds = pairwise([0, *begins, len(scalars.number)])
        for (begin, end), step in zip(bounds, [*scalars.starts.values(), None], strict=True):
            own = slice(begin, end)
            columns = (scalars.tag[own], scalars.step[own], scalars.value[own])
            self.points.add_all(scalars.tags, *columns)
            if step is not None:
                self.points.drop_from(step)


def _framed(content: bytes) -> tuple[IntArray, int | None]:
    """Where each whole record of a block begins, and where the last one ends; and the length of one more
    that does not end in the block, None where not even that is there.
    """
    begins: list[int] = []
    at, last, length = 0, len(content) - _HEADER_BYTES, 0
    unpack, append = _LENGTH.unpack_from, begins.append
    while at <= last:  # once a record: the length of a record says where the next one begins
        append(at)
        (length,) = unpack(content, at)
        at += length + _AROUND_BYTES
    if at <= len(content):
        return np.array([*begins, at]), None
    return np.array(begins), length
