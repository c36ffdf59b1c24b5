"""Logs that are no plain text in UTF-8: written so once, into the user's cache, and read there.

These are compressed files (gzip, zstd), known by their first bytes whatever they are called, text in
UTF-16 or UTF-32, and JSON over many lines, or one array, under the name of a file of lines. Bytes in the
middle of such a file can't be read without all that come before them.
"""

from __future__ import annotations

import codecs
import hashlib
import os
import re
import time
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Final

from board.core.problems import Problem
from board.formats import source_of
from board.formats.io.lines import (
    MAX_LINE_BYTES,
    Fault,
    Line,
    elements,
    read_bytes,
    read_line_blocks,
    read_lines,
)
from board.formats.io.locations import Location, binary, cache_folder
from board.formats.io.remote import RemoteLocation
from board.formats.sources import JSON_DOCUMENT, MULTILINE_JSON
from board.index.discovery.run_info import AT_REST_SECONDS, LogFile

_PACKED_KINDS: Final = (".jsonl", ".ndjson", ".json", ".csv", ".tsv")
PACKED_SUFFIXES: Final = tuple(kind + end for kind in _PACKED_KINDS for end in (".gz", ".zst"))
HEAD_OF_KIND: Final = 4096
"""Bytes at the beginning of a file that say how it is written."""
_BUFFER: Final = 4 << 20
_HEAD_BUFFER: Final = 256 << 10
"""What is asked of a store at once: for the whole, and for the first lines."""
_PIECE: Final = 1 << 10
"""Packed bytes that are unpacked at once: zstd may make 32,000 times as many of them."""
_MAGIC_BYTES: Final = 4
_GZIP: Final = (b"\x1f\x8b",)
_ZSTD: Final = (b"\x28\xb5\x2f\xfd", *(bytes((0x50 + i, 0x2A, 0x4D, 0x18)) for i in range(16)))
"""With what such files begin; zstd's may begin with a frame to be skipped."""
_MARKS: Final = (
    *((codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32")),
    *((codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16")),
    *((b"{\0", "utf-16-le"), (b"[\0", "utf-16-le"), (b"\0{", "utf-16-be"), (b"\0[", "utf-16-be")),
)
"""With what texts begin that are no UTF-8: a mark of their encoding, or JSON in it."""
_OVER_LINES: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:\{\s*\n(?:\s+\"|\})|\[\s*[{\[\n])")
_ARRAY: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*\[")
_MOST_LAYERS: Final = 3
"""Such as UTF-16 in gzip; more are made to cost time."""
_ANY_SIZE: Final = 256 << 20
_MOST_TIMES: Final = 200
"""Numbers and text compress to a tenth or so. What grows more often than this is made to fill a disk."""
_TOO_LONG: Final = b'"a record that is too long"'
_CUT: Final = "-cut.jsonl"
"""How the name of a copy ends whose file ends in the middle."""


class PackedError(OSError):
    """A compressed file that can't be unpacked whole; what came before the fault is there."""


class CutError(PackedError):
    """A compressed file that ends in the middle: it is still written, or was cut off."""


class BehindError(CutError):
    """A compressed file behind whose end something else stands. size: bytes of it."""

    def __init__(self, size: int) -> None:
        super().__init__(0, f"{size:,} bytes behind its end are not packed")
        self.size = size


def is_packed(path: Location) -> bool:
    """Whether a file is compressed, by its name."""
    return path.name.lower().endswith(PACKED_SUFFIXES)


def is_wrapped(path: Location, head: bytes) -> bool:
    """Whether a copy has to be made to read a file. head: its first HEAD_OF_KIND bytes."""
    if is_packed(path) or layer_of(head):
        return True
    return source_of(path).appends and _OVER_LINES.match(head) is not None


def head_lines(path: Location, size: int) -> Iterator[Line]:
    """The lines within the first `size` bytes of a copy; a JSON document whole, or its elements."""
    is_document = source_of(path) is JSON_DOCUMENT
    head = b""
    with suppress(CutError):
        for block in _blocks(path, _HEAD_BUFFER):
            head += block
            is_all = is_document and not _ARRAY.match(head)
            if len(head) >= (MAX_LINE_BYTES if is_all else size):
                break
    if is_document and not _ARRAY.match(head):
        yield Line(0, len(head), head)
    elif _ARRAY.match(head) and (is_document or _OVER_LINES.match(head)):
        lines = elements(lambda offset, length: head[:size][offset : offset + length])
        yield from (line for line in lines if not isinstance(line, Fault))
    elif _OVER_LINES.match(head):
        yield from MULTILINE_JSON.together(_lines_of(head[:size]))
    else:
        yield from _lines_of(head[:size])


def is_cut_at_once(path: Location) -> bool:
    """Whether a packed file ends before anything of it can be unpacked."""
    try:
        any(_blocks(path, _HEAD_BUFFER))
    except CutError:
        return True
    return False


def _lines_of(head: bytes) -> Iterator[Line]:
    offset = 0
    for text in head.split(b"\n"):
        yield Line(offset, len(text) + 1, text)
        offset += len(text) + 1


def readable(file: LogFile) -> LogFile:
    """The file to read lines from: the copy of one that is wrapped, made if need be.

    Raises OSError when it can't be made; its message says what is wrong with the file.
    """
    if not file.is_wrapped:
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


def cut_problem(name_in_problems: str, listed: LogFile, file: LogFile) -> Problem | None:
    """What is wrong where a file that `readable` gave is a copy of one that ends in the middle.

    It is lost at once: whether a writer is still at it nobody can tell from the file.
    """
    if not file.path.name.endswith(_CUT):
        return None
    if behind := _size_behind(listed.path):
        reason = (
            f"{behind:,} bytes behind the end of its packed data are no gzip or zstd: they are lost"
        )
        hint = "what comes before is read; pack or copy it again"
        return Problem(name_in_problems, None, None, reason, hint, "lost")
    lines = sum(len(block.sizes) for block in read_line_blocks(file.path))
    known = _size_by_header(listed.path)
    of = f" of {known:,}" if known > file.size else ""
    size = f"{file.size:,}{of} bytes"
    reason = f"it ends in the middle, after {lines:,} lines ({size}): what follows is lost"
    is_young = time.time() - listed.mtime_ns / 1e9 <= AT_REST_SECONDS
    hint = "it is still being written, or was cut off" if is_young else "pack or copy it again"
    return Problem(name_in_problems, None, None, reason, hint, "lost")


def _size_behind(path: Location) -> int:
    """How many bytes stand behind the end of a packed file."""
    try:
        for _ in _blocks(path):
            pass
    except BehindError as error:
        return error.size
    except OSError:
        return 0
    return 0


def _size_by_header(path: Location) -> int:
    """How large a zstd file is by its first frame; 0 where that does not say. gzip says it at its end."""
    head = read_bytes(path, 0, HEAD_OF_KIND)
    if not head.startswith(_ZSTD[:1]):
        return 0
    import zstandard

    try:
        size = zstandard.get_frame_parameters(head).content_size
    except zstandard.ZstdError:
        return 0
    return 0 if size == zstandard.CONTENTSIZE_UNKNOWN else size


def _unpack(file: LogFile, plain: Path, cut: Path) -> Path:
    """Writes the copy of a file to `plain`, or to `cut` where it ends in the middle; which of them."""
    plain.parent.mkdir(parents=True, exist_ok=True)
    temporary = plain.with_name(f".{uuid.uuid4().hex}.tmp")
    in_lines = plain.with_name(f".{uuid.uuid4().hex}.tmp")
    try:
        is_whole = _write(_blocks(file.path), temporary, max(_ANY_SIZE, _MOST_TIMES * file.size))
        made = temporary
        head = read_bytes(temporary, 0, HEAD_OF_KIND)
        if source_of(file.path).appends and _OVER_LINES.match(head):
            is_array = _ARRAY.match(head) is not None
            lines = elements(partial(read_bytes, temporary)) if is_array else None
            lines = MULTILINE_JSON.together(read_lines(temporary)) if lines is None else lines
            is_whole = _write(_one_by_one(lines), in_lines, None) and is_whole
            made = in_lines
        # A copy is at rest as long as what it was made of.
        os.utime(made, ns=(file.mtime_ns, file.mtime_ns))
        return made.replace(plain if is_whole else cut)
    finally:
        temporary.unlink(missing_ok=True)
        in_lines.unlink(missing_ok=True)


def _one_by_one(lines: Iterable[Line]) -> Iterator[bytes]:
    """Lines of JSON as bytes of one line each; one that is too long becomes a text that says so."""
    for line in lines:
        if isinstance(line, Fault):
            raise CutError(0, line.reason)
        yield (_TOO_LONG if line.text is None else line.text).replace(b"\n", b" ") + b"\n"


def _write(blocks: Iterable[bytes], target: Path, most: int | None) -> bool:
    """Writes blocks to a file; whether they are all. most: bytes that are not too many."""
    written = 0
    with target.open("wb") as out:
        try:
            for block in blocks:
                written += len(block)
                if most is not None and written > most:
                    raise PackedError(0, f"it unpacks to more than {_MOST_TIMES} times its size")
                out.write(block)
        except CutError:
            return False
    return True


def layer_of(head: bytes) -> str:
    """How bytes that begin so are packed or encoded; empty for what is neither."""
    if head.startswith(_GZIP):
        return "gzip"
    if head.startswith(_ZSTD):
        return "zstd"
    return next((encoding for mark, encoding in _MARKS if head.startswith(mark)), "")


def _blocks(path: Location, buffer: int = _BUFFER) -> Iterator[bytes]:
    """The bytes in UTF-8, unpacked. Raises CutError at the end of a file that ends in the middle."""
    with binary(path, buffer) as file:
        blocks = iter(partial(file.read, _PIECE), b"")
        if is_packed(path):
            head, blocks = _peeked(blocks)
            kind = "gzip" if path.name.lower().endswith(".gz") else "zstd"
            if len(head) >= _MAGIC_BYTES and layer_of(head) not in ("gzip", "zstd"):
                raise PackedError(0, f"it is not a {kind} file, despite its name")
        for _ in range(_MOST_LAYERS):
            head, blocks = _peeked(blocks)
            layer = layer_of(head)
            if not layer:
                break
            is_text = layer.startswith("utf")
            blocks = _decoded(blocks, layer) if is_text else _unpacked(blocks, layer)
        yield from blocks


def _peeked(blocks: Iterator[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """The first bytes, at least _MAGIC_BYTES where there are so many, and all blocks."""
    head = b""
    try:
        for block in blocks:
            head += block
            if len(head) >= _MAGIC_BYTES:
                break
    except CutError as error:
        return head, chain([head], _raising(error))
    return head, chain([head], blocks)


def _raising(error: Exception) -> Iterator[bytes]:
    raise error
    yield b""


def _decoded(blocks: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    """Text of another encoding in UTF-8; what is no text becomes U+FFFD."""
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    for block in blocks:
        yield decoder.decode(block).encode()
    rest = decoder.decode(b"", final=True)
    if rest:
        yield rest.encode()
        raise CutError(0, "it ends within a character")


def _unpacked(blocks: Iterator[bytes], kind: str) -> Iterator[bytes]:
    new_unpacker, error_class = _GZIP_UNPACKER if kind == "gzip" else _zstd_unpacker()
    unpacker = new_unpacker()
    for block in blocks:
        # Of a layer within another a block may be large.
        for start in range(0, len(block), _PIECE):
            end = start + _PIECE
            data = block[start:end]
            while data:
                if unpacker.eof:  # another member or frame follows, or zeros that fill a block
                    rest = data.lstrip(b"\0")
                    if not rest:
                        break
                    if _is_begun(rest, kind):
                        unpacker, data = new_unpacker(), rest
                    else:
                        after = len(block[end:]) + sum(map(len, blocks))
                        raise BehindError(len(rest) + after)
                try:
                    yield unpacker.decompress(data)
                except error_class as error:
                    raise PackedError(0, f"it is damaged: {error}") from error
                data = unpacker.unused_data if unpacker.eof else b""
    if not unpacker.eof:
        raise CutError(0, "it ends in the middle")


def _is_begun(data: bytes, kind: str) -> bool:
    """Whether data may be the beginning of a member or a frame."""
    marks = _GZIP if kind == "gzip" else _ZSTD
    return any(data.startswith(mark) or mark.startswith(data) for mark in marks)


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
