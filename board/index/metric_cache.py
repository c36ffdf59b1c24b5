"""Trainer's metrics that took long to read, kept as Parquet in the user's cache and read on from there.

A file holds the points of one source, steps and values of one metric after the other, and in the schema's
metadata what the source says of its files. It is used as long as these are what was read, or only grew.
"""

from __future__ import annotations

import os
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from board.formats.io.lines import read_bytes
from board.formats.io.locations import cache_folder
from board.formats.metrics.base import MetricSource
from board.formats.metrics.points import Points
from board.index.discovery.run_info import digest

_VERSION: Final = 1
"""Raised whenever what is read of the same bytes changes."""
_KEY: Final = b"rollout-board"
_HEAD_BYTES: Final = 4096
_UNUSABLE: Final = (
    *(OSError, ValueError, LookupError, TypeError, AttributeError, StopIteration),
    pa.ArrowException,
)
"""What reading a file raises that is not there, or that somebody damaged."""


def restore(source: MetricSource) -> bool:
    """Gives a source that has read nothing what is kept of its files; whether that can be used."""
    path = _path(source)
    try:
        with pq.ParquetFile(path) as file:
            saved: dict[str, Any] = orjson.loads((file.schema_arrow.metadata or {})[_KEY])
            if not _is_of(source, saved):
                return False
            source.resume(saved["state"], _points(file, saved["lengths"]))
    except _UNUSABLE:
        source.restart()
        return False  # the files are read again
    return True


def store(source: MetricSource) -> None:
    """Keeps what a source has read; where that can't be written nothing is kept."""
    path = _path(source)
    temporary = path.with_name(f".{uuid.uuid4().hex}.tmp")
    state = source.state()
    with suppress(OSError, orjson.JSONEncodeError):  # of names that are no text
        heads = _heads(source, [size for size, _, _ in state["files"]])
        saved = {"state": state, "heads": heads, "lengths": source.points.lengths()}
        columns = [("step", pa.int64()), ("value", pa.float64())]
        schema = pa.schema(columns, metadata={_KEY: orjson.dumps(saved)})
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            options: dict[str, Any] = {"compression": "zstd", "use_dictionary": ["step"]}
            with pq.ParquetWriter(temporary, schema, **options) as writer:
                for steps, values in source.points.batches():
                    rows = pa.table([pa.array(steps), pa.array(values)], schema=schema)
                    writer.write_table(rows, row_group_size=max(rows.num_rows, 1))
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


def _points(file: pq.ParquetFile, lengths: dict[str, int]) -> Points:
    """The points of a file, of which each row group holds whole metrics. lengths: of these, in order."""
    points, names = Points(), iter(lengths.items())
    for group in range(file.num_row_groups):
        table = file.read_row_group(group, use_threads=False)
        steps, values = (table.column(name).to_numpy() for name in ("step", "value"))
        end = 0
        while end < len(steps):
            name, length = next(names)
            points.extend(name, steps[end : end + length], values[end : end + length])
            end += length
    if points.count != sum(lengths.values()):
        raise ValueError("it holds other points than it says")
    return points


def _path(source: MetricSource) -> Path:
    files = (os.path.realpath(path) for path in source.paths)
    key = (str(_VERSION), source.title, source.name, source.variant, *files)
    return cache_folder() / "metrics" / f"{digest(os.fsencode(chr(0).join(key)))}.parquet"


def _is_of(source: MetricSource, saved: dict[str, Any]) -> bool:
    """Whether the files of a source are those that were read, or have only grown since."""
    known = [tuple(state) for state in saved["state"]["files"]]
    now = source.files()
    if known == [*now]:
        return True
    pairs = list(zip(known, now, strict=True))
    if any(ours[2] not in (0, theirs[2]) or theirs[0] < ours[0] for ours, theirs in pairs):
        return False
    return source.rewrites or _heads(source, [size for size, _, _ in known]) == saved["heads"]


def _heads(source: MetricSource, sizes: list[int]) -> list[str]:
    """Hashes of the beginnings of files of which so many bytes were there."""
    if source.rewrites:
        return []
    watched = zip(source.watched, sizes, strict=True)
    return [digest(read_bytes(path, 0, min(size, _HEAD_BYTES))) for path, size in watched if size]
