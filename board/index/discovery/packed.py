"""Compressed logs (.jsonl.gz, .jsonl.zst): unpacked once, into the user's cache, and read from there.

Bytes in the middle of a compressed file can't be read without all that come before them.
"""

from __future__ import annotations

import hashlib
import os
import time
import uuid
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from board.core.problems import Problem
from board.formats.io.lines import Line
from board.formats.io.locations import Location, binary, cache_folder
from board.formats.io.remote import RemoteLocation
from board.index.discovery.run_info import AT_REST_SECONDS, LogFile

PACKED_SUFFIXES: Final = (".jsonl.gz", ".ndjson.gz", ".jsonl.zst", ".ndjson.zst")
_BUFFER: Final = 4 << 20
_HEAD_BUFFER: Final = 256 << 10
"""What is asked of a store at once: for the whole, and for the first lines."""
_PIECE: Final = 1 << 10
"""Packed bytes that are unpacked at once: zstd may make 32,000 times as many of them."""
_MAGIC_BYTES: Final = 4
_GZIP: Final = (b"\x1f\x8b",)
_ZSTD: Final = (b"\x28\xb5\x2f\xfd", *(bytes((0x50 + i, 0x2A, 0x4D, 0x18)) for i in range(16)))
"""With what such files begin; zstd's may begin with a frame to be skipped."""
_ANY_SIZE: Final = 256 << 20
_MOST_TIMES: Final = 200
"""Numbers and text compress to a tenth or so. What grows more often than this is made to fill a disk."""
_CUT: Final = "-cut.jsonl"
"""How the name of a copy ends whose file ends in the middle."""


class PackedError(OSError):
    """A compressed file that can't be unpacked whole; what came before the fault is there."""


class CutError(PackedError):
    """A compressed file that ends in the middle: it is still written, or was cut off."""


def is_packed(path: Location) -> bool:
    """Whether a file is compressed, by its name."""
    return path.name.lower().endswith(PACKED_SUFFIXES)


def head_lines(path: Location, size: int) -> Iterator[Line]:
    """The lines within the first `size` unpacked bytes."""
    head = b""
    with suppress(CutError):
        for block in _blocks(path, _HEAD_BUFFER):
            head += block
            if len(head) >= size:
                break
    offset = 0
    for text in head[:size].split(b"\n"):
        yield Line(offset, len(text) + 1, text)
        offset += len(text) + 1


def readable(file: LogFile) -> LogFile:
    """The file to read lines from: of a compressed one the unpacked copy, made if need be.

    Raises OSError when it can't be made; its message says what is wrong with the file.
    """
    if not is_packed(file.path):
        return file
    where = file.path if isinstance(file.path, RemoteLocation) else os.path.realpath(file.path)
    state = f"{where} {file.size} {file.mtime_ns} {file.inode}"
    name = hashlib.blake2b(os.fsencode(state), digest_size=16).hexdigest()
    folder = cache_folder() / "unpacked"
    whole, cut = folder / f"{name}.jsonl", folder / f"{name}{_CUT}"
    plain = next((path for path in (whole, cut) if path.exists()), None)
    if plain is None:
        plain = _unpack(file, whole, cut)
    return replace(file, path=plain, size=plain.stat().st_size)


def cut_problem(name_in_problems: str, file: LogFile) -> Problem | None:
    """What is wrong where a file that `readable` gave is a copy of one that ends in the middle, and stays
    so.
    """
    is_old = time.time() - file.mtime_ns / 1e9 > AT_REST_SECONDS
    if not file.path.name.endswith(_CUT) or not is_old:
        return None
    reason = "it ends abruptly: lines are missing at the end"
    return Problem(name_in_problems, None, None, reason, "pack or copy it again")


def _unpack(file: LogFile, plain: Path, cut: Path) -> Path:
    """Unpacks a file to `plain`, or to `cut` where it ends in the middle; which of them."""
    plain.parent.mkdir(parents=True, exist_ok=True)
    temporary = plain.with_name(f".{uuid.uuid4().hex}.tmp")
    most = max(_ANY_SIZE, _MOST_TIMES * file.size)
    written = 0
    try:
        with temporary.open("wb") as out:
            try:
                for block in _blocks(file.path):
                    written += len(block)
                    if written > most:
                        reason = f"it unpacks to more than {_MOST_TIMES} times its size"
                        raise PackedError(0, reason)
                    out.write(block)
            except CutError:
                plain = cut
        return temporary.replace(plain)
    finally:
        temporary.unlink(missing_ok=True)


def _blocks(path: Location, buffer: int = _BUFFER) -> Iterator[bytes]:
    """The unpacked bytes. Raises CutError at the end of a file that ends in the middle."""
    is_gzip = path.name.lower().endswith(".gz")
    new_unpacker, error_class = _GZIP_UNPACKER if is_gzip else _zstd_unpacker()
    with binary(path, buffer) as file:
        data = file.read(_PIECE)
        if len(data) >= _MAGIC_BYTES and not data.startswith(_GZIP if is_gzip else _ZSTD):
            kind = "gzip" if is_gzip else "zstd"
            raise PackedError(0, f"it is not a {kind} file, despite its name")
        unpacker = new_unpacker()
        while data or (data := file.read(_PIECE)):
            if unpacker.eof:  # another member or frame follows
                unpacker = new_unpacker()
            try:
                yield unpacker.decompress(data)
            except error_class as error:
                raise PackedError(0, f"it is damaged: {error}") from error
            data = unpacker.unused_data if unpacker.eof else b""
        if not unpacker.eof:
            raise CutError(0, "it ends in the middle")


_Unpacker = tuple[Callable[[], Any], type[Exception]]
"""What makes a decompressor, and the class of its errors."""
_GZIP_UNPACKER: Final[_Unpacker] = partial(zlib.decompressobj, wbits=31), zlib.error


def _zstd_unpacker() -> _Unpacker:
    try:
        import zstandard
    except ImportError:
        raise PackedError(0, "zstandard is not installed (pip install zstandard)") from None
    context: Any = zstandard.ZstdDecompressor(max_window_size=1 << 27)
    return context.decompressobj, zstandard.ZstdError
