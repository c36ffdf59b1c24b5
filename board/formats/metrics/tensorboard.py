"""TensorBoard's event files: the extra `tensorboard` has the protocol buffers of what is in them.

A file is a sequence of TFRecords: length (8 bytes), its checksum (4), content, its checksum (4). They are
framed here and not by the package's loader, which checks each content in Python, at a tenth of the speed,
and takes whatever length a record says into memory.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from board.formats.io.locations import open_binary
from board.formats.metrics.base import MOST_RECORD_BYTES, MetricSource, Report, extra_module

_HEADER: Final = struct.Struct("<QI")
_CHECKSUM_BYTES: Final = 4
_LARGEST_LENGTH: Final = 1 << 40
"""A longer record says that its header is damaged."""
_REPORT_RECORDS: Final = 2000
_FLOAT, _DOUBLE = 1, 2
"""Types of tensors, of tensorflow's types.proto."""


class EventFiles(MetricSource):
    """The event files of one folder, which are one stream: a resumed training begins another file."""

    title = "TensorBoard"

    def __init__(self, name: str, paths: tuple[Path, ...]) -> None:
        super().__init__(name, paths)
        self._offsets: dict[Path, int] = {}

    def restart(self) -> None:
        super().restart()
        self._offsets.clear()

    def read(self, report: Report) -> None:
        event = extra_module("tensorboard.compat.proto.event_pb2", "tensorboard").Event
        if any(path.stat().st_size < self._offsets.get(path, 0) for path in self.paths):
            self.restart()
        for path in self.paths:
            done = sum(self._offsets.values()) - self._offsets.get(path, 0)
            for number, (content, end) in enumerate(self._records(path)):
                self._add(event, content)
                self._offsets[path] = end
                if number % _REPORT_RECORDS == 0:
                    report(done + end)

    def _records(self, path: Path) -> Iterator[tuple[bytes, int]]:
        """The whole records behind those that were read, and where each ends; of one that is too long
        only that, and no bytes.
        """
        with open_binary(path) as file:
            end = self._offsets.get(path, 0)
            file.seek(end)
            while len(header := file.read(_HEADER.size)) == _HEADER.size:
                length, _ = _HEADER.unpack(header)
                size = _HEADER.size + length + _CHECKSUM_BYTES
                if length > _LARGEST_LENGTH:
                    reason = f"{path.name} is damaged at byte {end}; the rest is not read"
                    self.note(reason, of_reading=True)
                    return
                if end + size > os.fstat(file.fileno()).st_size:
                    break
                content = b""
                if length > MOST_RECORD_BYTES:  # an image, or a graph
                    file.seek(end + size)
                else:
                    content = file.read(length + _CHECKSUM_BYTES)[:length]
                end += size
                yield content, end
            if end < os.fstat(file.fileno()).st_size:  # still being written, or torn
                self.torn_at = end

    def _add(self, event_class: Any, content: bytes) -> None:
        try:
            event = event_class.FromString(content)
        except Exception:  # of protobuf, whose versions raise different classes
            self.note("an event that can't be read")
            return
        if event.HasField("session_log") and event.session_log.status == event.session_log.START:
            self.points.drop_from(event.step)
        for value in event.summary.value:
            number = _scalar(value)
            if number is not None:
                self.points.add(event.step, value.tag, number)


def _scalar(value: Any) -> float | None:
    """The number that a summary holds; None of images, texts and histograms."""
    kind = value.WhichOneof("value")
    if kind == "simple_value":
        return value.simple_value
    if kind != "tensor" or value.tensor.tensor_shape.dim:
        return None
    tensor = value.tensor
    if tensor.dtype == _FLOAT:
        numbers = tensor.float_val or _unpacked("<f", tensor.tensor_content)
    elif tensor.dtype == _DOUBLE:
        numbers = tensor.double_val or _unpacked("<d", tensor.tensor_content)
    else:
        return None
    return float(numbers[0]) if len(numbers) == 1 else None


def _unpacked(code: str, content: bytes) -> tuple[float, ...]:
    return struct.unpack(code, content) if len(content) == struct.calcsize(code) else ()
