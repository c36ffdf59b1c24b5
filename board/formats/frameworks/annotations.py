"""What prime-rl learned of a trace after it was written: annotations, read by their index.

Read from PrimeIntellect-ai/prime-rl's pull requests 3444 and 3465 (src/prime_rl/monitors/file/traces/):
beside `traces/stream/` each producer appends updates to `annotations/<producer>/NNNNN.jsonl`, of which
full chunks become .zst in seekable frames, and says where each begins in `<producer>.index.jsonl`.
Before chunks it was `<producer>.jsonl`. An update: {trace_id, info{}, branches: [{index, <stream>:
[number or null for each token of the branch]}]}. Only the indexes are kept in memory.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import orjson

from board.formats.io.lines import MAX_LINE_BYTES, read_bytes, read_lines
from board.formats.io.locations import Location, Objects, State, below, existing_file, state_of
from board.formats.io.remote import RemoteLocation
from board.formats.parse import as_object
from board.formats.sources import DamagedError, zstd_unpacker

_INDEX: Final = ".index.jsonl"
_FOOTER_BYTES: Final = 9
_LOG: Final = re.compile(r"[^/]+/[0-9]+\.jsonl(?:\.zst)?|[^/]+\.jsonl")

_Place = tuple[str, int | None, int]
"""Producer, chunk (None: before there were chunks), and offset of an update."""


def annotation_files(stream: Location, objects: Objects) -> Sequence[Location]:
    """The indexes and chunks beside a file of the stream, in a fixed order."""
    folder = _folder(stream)
    if isinstance(folder, Path):
        paths = folder.rglob("*.jsonl*") if folder.is_dir() else ()
        files: Sequence[Location] = sorted(path for path in paths if path.is_file())
    else:
        files = objects.below(folder)
    return [file for file in files if _LOG.fullmatch(below(file, folder))]


class Annotations:
    """The updates of the traces of a stream. What can't be had of them is raised when it is asked for."""

    def __init__(self, stream: Location) -> None:
        self._folder = _folder(stream)
        self._objects = Objects()
        self._error: OSError | None = None
        self._places: Mapping[str, Sequence[_Place]] = {}
        try:
            self._places = _places(tuple(state_of(index) for index in self._indexes()))
        except OSError as error:
            self._error = error

    def _indexes(self) -> Sequence[Location]:
        if isinstance(self._folder, Path):
            return sorted(self._folder.glob(f"*{_INDEX}"))
        with suppress(FileNotFoundError):
            self._objects = Objects(self._folder.files()[0])
        objects = self._objects.below(self._folder)
        return [o for o in objects if o.name.endswith(_INDEX) and o.parent == self._folder]

    def of(self, trace_id: str) -> Iterator[Mapping[str, Any]]:
        """The updates of a trace in write order, one producer after the other.

        Raises OSError where an update that the index names can't be had.
        """
        if self._error is not None:
            raise self._error
        for producer, chunk, offset in self._places.get(trace_id, ()):
            yield _update(self._chunk(producer, chunk), offset, trace_id)

    def _chunk(self, producer: str, chunk: int | None) -> Location:
        """The chunk as it is now: a full one is packed, and the plain one goes away after that."""
        name = producer if chunk is None else f"{producer}/{chunk:05d}"
        plain, packed = (self._folder / f"{name}.jsonl{end}" for end in ("", ".zst"))
        existing = (existing_file(location, self._objects) for location in (plain, packed))
        return next(filter(None, existing), plain if chunk is None else packed)


def _folder(stream: Location) -> Location:
    above = stream.parent.parent if stream.parent.name == "stream" else stream.parent
    return above / "annotations"


@lru_cache(maxsize=2)
def _places(indexes: tuple[State, ...]) -> Mapping[str, Sequence[_Place]]:
    """By trace where its updates are, of indexes as they stood."""
    places: dict[str, list[_Place]] = {}
    for index, size, *_ in indexes:
        producer = index.name.removesuffix(_INDEX)
        for line in read_lines(index, 0, size):
            try:
                row = as_object(orjson.loads(line.text or b""))
            except orjson.JSONDecodeError:  # the last one, still being written
                continue
            chunk, offset = row.get("chunk"), row.get("offset")
            if isinstance(offset, int) and isinstance(chunk, int | None):
                place = (producer, chunk, offset)
                places.setdefault(str(row.get("trace_id")), []).append(place)
    return places


def _update(path: Location, offset: int, trace_id: str) -> Mapping[str, Any]:
    try:
        update = as_object(orjson.loads(_line_at(path, offset)))
    except orjson.JSONDecodeError as error:
        raise DamagedError(f"{path.name} holds no update at {offset}: {error}") from error
    if update.get("trace_id") != trace_id:
        raise DamagedError(f"{path.name} holds no update of this trace at {offset}")
    return update


def _line_at(path: Location, offset: int) -> bytes:
    blocks = _packed_blocks(path, offset) if path.name.endswith(".zst") else _blocks(path, offset)
    line = bytearray()
    for block in blocks:
        newline = block.find(b"\n")
        line += block if newline < 0 else block[:newline]
        if newline >= 0 or len(line) > MAX_LINE_BYTES:
            break
    return bytes(line)


def _blocks(path: Location, offset: int) -> Iterator[bytes]:
    """The bytes from an offset on; of an object in blocks that hold the updates of many traces."""
    size = 4 << 20 if isinstance(path, RemoteLocation) else 1 << 16
    state = state_of(path)
    while block := _block(state, offset // size, size)[offset % size :]:
        yield block
        offset += len(block)


@lru_cache(maxsize=8)
def _block(state: State, number: int, size: int) -> bytes:
    return read_bytes(state[0], number * size, size)


def _packed_blocks(path: Location, offset: int) -> Iterator[bytes]:
    """The unpacked bytes from an offset on, frame by frame. Raises OSError where it has no frames."""
    state = state_of(path)
    starts, packed = _frames(state)
    number = bisect_right(starts, offset) - 1
    while 0 <= number < len(starts) - 1:
        frame = _frame(state, packed[number], packed[number + 1])
        yield frame[max(offset - starts[number], 0) :]
        number += 1


@lru_cache(maxsize=16)
def _frames(state: State) -> tuple[Sequence[int], Sequence[int]]:
    """Where the frames begin and the last one ends: in unpacked and in packed bytes.

    By the seek table at the end of the file, zstd's contrib/seekable_format: for each frame its packed
    and unpacked size, perhaps a checksum; then how many there are, a descriptor, and a magic number.
    """
    path, size, *_ = state
    footer = read_bytes(path, size - _FOOTER_BYTES, _FOOTER_BYTES) if size > _FOOTER_BYTES else b""
    if footer[5:] != (0x8F92EAB1).to_bytes(4, "little"):
        raise DamagedError(f"{path.name} has no seek table: it was packed by another program")
    count, width = int.from_bytes(footer[:4], "little"), 12 if footer[4] & 0x80 else 8
    if count * width > size:
        raise DamagedError(f"{path.name} has a seek table that can't be")
    table = read_bytes(path, size - _FOOTER_BYTES - count * width, count * width)
    sizes = np.frombuffer(table, "<u4").reshape(count, width // 4)
    packed, starts = np.cumsum(sizes, axis=0, dtype=np.int64).T[:2].tolist()
    return [0, *starts], [0, *packed]


@lru_cache(maxsize=4)
def _frame(state: State, begin: int, end: int) -> bytes:
    """One frame, unpacked: 4 MB as prime-rl writes them. Neighbours in it are asked for next."""
    with zstd_unpacker(state[0].name) as unpacker:
        packed = read_bytes(state[0], begin, end - begin)
        return cast(bytes, unpacker.decompress(packed, max_output_size=MAX_LINE_BYTES))
