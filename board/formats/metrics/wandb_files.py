"""`.wandb` files, which W&B writes in every mode; the extra `wandb` has the protocol buffers in them.

wandb has had no reader in Python since 0.30 (its datastore module is gone). A file is a log as LevelDB
writes it: after 7 bytes of header, blocks of 32 KiB with pieces of records, each with a checksum (4
bytes), a length (2) and a kind (1: whole, 2: first, 3: middle, 4: last piece).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, BinaryIO, Final

import orjson

from board.formats.io.locations import open_binary
from board.formats.metrics.base import (
    MOST_RECORD_BYTES,
    MetricSource,
    Report,
    extra_module,
    whole_number,
)

_MAGIC: Final = b":W&B"
_FILE_HEADER_BYTES: Final = 7
_BLOCK_BYTES: Final = 32 << 10
_PIECE: Final = struct.Struct("<IHB")
_WHOLE, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_STEP: Final = "_step"
_OWN: Final = frozenset((_STEP, "_timestamp", "_runtime", "_wandb"))
"""What W&B adds to each record."""
_REPORT_RECORDS: Final = 1000
_MOST_CHARACTERS: Final = 100
"""Characters of a metric's name in a note."""


class WandbFile(MetricSource):
    """The history of one W&B run. Steps are those of the metric that `define_metric` names, as the
    Trainer of transformers does, else `_step`. Where a record has no value of that metric, its last value
    counts.
    """

    title = "W&B"
    place = ("_offset", "_step_metrics", "_last_steps")

    def __init__(self, name: str, paths: tuple[Path, ...]) -> None:
        super().__init__(name, paths)
        self._forget()

    def _forget(self) -> None:
        self._offset = _FILE_HEADER_BYTES
        self._step_metrics: dict[str, str] = {}
        """By the name or pattern of metrics the name of the metric that counts their steps."""
        self._last_steps: dict[str, int | None] = {}
        """By the name of a metric that counts steps its last value; None: it is no whole number."""

    def restart(self) -> None:
        super().restart()
        self._forget()

    def read(self, report: Report) -> None:
        record = extra_module("wandb.proto.wandb_internal_pb2", "wandb").Record
        (path,) = self.paths
        if path.stat().st_size < self._offset:
            self.restart()
        with open_binary(path) as file:
            if file.read(len(_MAGIC)) != _MAGIC:
                self.note("it is not a file that W&B wrote", severity="lost", of_reading=True)
                return
            for number, (content, end) in enumerate(self._records(file)):
                self._add(record, content)
                self._offset = end
                if number % _REPORT_RECORDS == 0:
                    report(end)

    def _records(self, file: BinaryIO) -> Iterator[tuple[bytes, int]]:
        """The whole records behind those that were read, and where each ends; of one that is too long
        only that, and no bytes.
        """
        position, content, size, is_inside = self._offset, bytearray(), 0, False
        file.seek(position)
        while True:
            left = _BLOCK_BYTES - position % _BLOCK_BYTES
            if left < _PIECE.size:  # the end of a block that no piece fits into
                file.seek(left, 1)
                position += left
                continue
            header = file.read(_PIECE.size)
            if not header and not is_inside:
                return
            _, length, kind = _PIECE.unpack(header.ljust(_PIECE.size, b"\0"))
            piece = file.read(length)
            if len(header) < _PIECE.size or len(piece) < length:  # still being written, or torn
                self.torn_at = position
                return
            if kind not in (_WHOLE, _FIRST, _MIDDLE, _LAST) or length > left - _PIECE.size:
                reason = f"it is damaged at byte {position}; the rest is not read"
                self.note(reason, of_reading=True)
                return
            position += _PIECE.size + length
            if kind in (_WHOLE, _FIRST):
                content, size = bytearray(), 0
            size += length
            if size <= MOST_RECORD_BYTES:  # of a longer one only the end is looked for
                content += piece
            is_inside = kind in (_FIRST, _MIDDLE)
            if not is_inside:
                if size > MOST_RECORD_BYTES:
                    self.note(f"a record longer than {MOST_RECORD_BYTES >> 20} MB")
                    content = bytearray()
                yield bytes(content), position

    def _add(self, record_class: Any, content: bytes) -> None:
        try:
            record = record_class.FromString(content)
        except Exception:  # of protobuf, whose versions raise different classes
            self.note("a record that can't be read")
            return
        kind = record.WhichOneof("record_type")
        if kind == "metric" and record.metric.step_metric:
            name = record.metric.name or record.metric.glob_name
            self._step_metrics[name] = record.metric.step_metric
        elif kind == "history":
            self._add_history(record.history)

    def _add_history(self, history: Any) -> None:
        values: dict[str, object] = {}
        media = set[str]()
        for item in history.item:
            keys = [*item.nested_key] or [item.key]
            if keys[-1] == "_type":  # a table, an image or a histogram
                media.add(keys[0])
            values[".".join(keys)] = _value(item.value_json)
        own_step = whole_number(values.get(_STEP))
        own_step = history.step.num if own_step is None else own_step
        for name in {*self._step_metrics.values()} & values.keys():
            self._last_steps[name] = whole_number(values[name])
        for name, value in values.items():
            if name in _OWN or name.partition(".")[0] in media:
                continue
            step_metric = self._step_metric(name)
            step = own_step if step_metric == _STEP else self._last_steps.get(step_metric)
            if step is None:
                reason = "a value whose step is not known, or no whole number"
                self.note(reason, f"its step is that of {step_metric[:_MOST_CHARACTERS]}")
            else:
                self.points.add_record(step, {name: value})

    def _step_metric(self, name: str) -> str:
        if name in self._step_metrics:
            return self._step_metrics[name]
        for pattern, step_metric in self._step_metrics.items():
            if name != step_metric and fnmatchcase(name, pattern):
                return step_metric
        return _STEP


def _value(text: str) -> object:
    """A value of JSON, or NaN and Infinity, which W&B writes bare; None where it can't be read."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
