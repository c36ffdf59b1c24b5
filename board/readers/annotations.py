"""What prime-rl learned of a trace after it was written: annotations, read by their index.

Read from PrimeIntellect-ai/prime-rl's pull requests 3444 and 3465 (src/prime_rl/monitors/file/traces/):
beside `traces/stream/` each producer appends updates to `annotations/<producer>/NNNNN.jsonl`, of which
full chunks become .zst in seekable frames, and says where each begins in `<producer>.index.jsonl`:
{trace_id, chunk, offset, info}. Before chunks it was `<producer>.jsonl`. An update: {version, trace_id,
info{}, branches: [{index, <stream>: [number or null for each token of the branch]}]}. Only the indexes
are kept in memory; the updates of a trace are read when it is.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, cast

import orjson

from board.readers.lines import MAX_LINE_BYTES, read_bytes, read_lines
from board.readers.sources import DamagedError

_INDEX: Final = ".index.jsonl"
_BLOCK: Final = 1 << 16
_FOOTER_BYTES: Final = 9
_SEEKABLE_MAGIC: Final = (0x8F92EAB1).to_bytes(4, "little")
_HAS_CHECKSUM: Final = 0x80
_LOG: Final = re.compile(r"[^/]+/[0-9]+\.jsonl(?:\.zst)?|[^/]+\.jsonl")

_State = tuple[str, int, int]
_Place = tuple[str, int | None, int]
"""Producer, chunk (None: before there were chunks), and offset of an update."""


def annotation_files(stream: Path) -> Sequence[Path]:
    """The indexes and chunks beside a file of the stream, in a fixed order."""
    folder = _folder(stream)
    if not folder.is_dir():
        return ()
    found = (path for path in folder.rglob("*.jsonl*") if path.is_file())
    return sorted(path for path in found if _LOG.fullmatch(path.relative_to(folder).as_posix()))


def updates_of(stream: Path, trace_id: str) -> Iterator[Mapping[str, Any]]:
    """The updates of a trace in write order, one producer after the other.

    Raises OSError where an update that the index names can't be had.
    """
    folder = _folder(stream)
    if not folder.is_dir():
        return
    indexes = sorted(folder.glob(f"*{_INDEX}"))
    states = tuple(_state(path) for path in indexes)
    for producer, chunk, offset in _places(states).get(trace_id, ()):
        yield _update(_chunk(folder, producer, chunk), offset, trace_id)


def _folder(stream: Path) -> Path:
    above = stream.parent.parent if stream.parent.name == "stream" else stream.parent
    return above / "annotations"


def _state(path: Path) -> _State:
    found = path.stat()
    return str(path), found.st_size, found.st_mtime_ns


@lru_cache(maxsize=2)
def _places(indexes: tuple[_State, ...]) -> Mapping[str, Sequence[_Place]]:
    """By trace where its updates are, of indexes as they stood."""
    places: dict[str, list[_Place]] = {}
    for name, size, _ in indexes:
        producer = Path(name).name.removesuffix(_INDEX)
        for line in read_lines(Path(name), 0, size):
            try:
                row: object = orjson.loads(line.text or b"")
            except orjson.JSONDecodeError:  # the last one, still being written
                continue
            if isinstance(row, dict):
                fields = cast("dict[str, Any]", row)
                chunk, offset = fields.get("chunk"), fields.get("offset")
                if isinstance(offset, int) and isinstance(chunk, int | None):
                    trace = str(fields.get("trace_id"))
                    places.setdefault(trace, []).append((producer, chunk, offset))
    return places


def _chunk(folder: Path, producer: str, chunk: int | None) -> Path:
    """The chunk as it is now: a full one is packed, and the plain one goes away after that."""
    if chunk is None:
        return folder / f"{producer}.jsonl"
    plain = folder / producer / f"{chunk:05d}.jsonl"
    return plain if plain.exists() else plain.with_name(f"{plain.name}.zst")


def _update(path: Path, offset: int, trace_id: str) -> Mapping[str, Any]:
    try:
        update: object = orjson.loads(_line_at(path, offset))
    except orjson.JSONDecodeError as error:
        raise DamagedError(f"{path.name} holds no update at {offset}: {error}") from error
    fields = cast("dict[str, Any]", update) if isinstance(update, dict) else {}
    if fields.get("trace_id") != trace_id:
        raise DamagedError(f"{path.name} holds no update of this trace at {offset}")
    return fields


def _line_at(path: Path, offset: int) -> bytes:
    blocks = _packed_blocks(path, offset) if path.suffix == ".zst" else _blocks(path, offset)
    line = bytearray()
    for block in blocks:
        newline = block.find(b"\n")
        line += block if newline < 0 else block[:newline]
        if newline >= 0 or len(line) > MAX_LINE_BYTES:
            break
    return bytes(line)


def _blocks(path: Path, offset: int) -> Iterator[bytes]:
    while block := read_bytes(path, offset, _BLOCK):
        yield block
        offset += len(block)


def _packed_blocks(path: Path, offset: int) -> Iterator[bytes]:
    """The unpacked bytes from an offset on, frame by frame. Raises OSError where it has no frames."""
    state = _state(path)
    starts, packed = _frames(state)
    number = bisect_right(starts, offset) - 1
    while 0 <= number < len(starts) - 1:
        frame = _frame(state, packed[number], packed[number + 1])
        yield frame[max(offset - starts[number], 0) :]
        number += 1


@lru_cache(maxsize=16)
def _frames(state: _State) -> tuple[Sequence[int], Sequence[int]]:
    """Where the frames begin and the last one ends: in unpacked and in packed bytes.

    By the seek table at the end of the file, zstd's contrib/seekable_format: for each frame its packed
    and unpacked size, perhaps a checksum; then how many there are, a descriptor, and a magic number.
    """
    path, size = Path(state[0]), state[1]
    footer = read_bytes(path, size - _FOOTER_BYTES, _FOOTER_BYTES) if size > _FOOTER_BYTES else b""
    if footer[5:] != _SEEKABLE_MAGIC:
        raise DamagedError(f"{path.name} has no seek table: it was packed by another program")
    count, width = int.from_bytes(footer[:4], "little"), 12 if footer[4] & _HAS_CHECKSUM else 8
    if count * width > size:
        raise DamagedError(f"{path.name} has a seek table that can't be")
    table = read_bytes(path, size - _FOOTER_BYTES - count * width, count * width)
    starts, packed = [0], [0]
    for entry in range(0, count * width, width):
        packed.append(packed[-1] + int.from_bytes(table[entry : entry + 4], "little"))
        starts.append(starts[-1] + int.from_bytes(table[entry + 4 : entry + 8], "little"))
    return starts, packed


@lru_cache(maxsize=4)
def _frame(state: _State, begin: int, end: int) -> bytes:
    """One frame, unpacked: 4 MB as prime-rl writes them. Neighbours in it are asked for next."""
    try:
        import zstandard
    except ImportError:
        raise DamagedError("zstandard is not installed (pip install zstandard)") from None
    unpacker: Any = zstandard.ZstdDecompressor(max_window_size=1 << 27)
    try:
        packed = read_bytes(Path(state[0]), begin, end - begin)
        return cast(bytes, unpacker.decompress(packed, max_output_size=MAX_LINE_BYTES))
    except zstandard.ZstdError as error:
        raise DamagedError(f"{Path(state[0]).name} is damaged: {error}") from error
