"""torch.save files (.pt) of plain data and tensors. Nothing in them is ever run.

They are opened by `torch.load(weights_only=True)` alone, which refuses anything but plain data, tensors
and what something harmless stands for; versions of torch in which that can be got round are refused. To
recognise one, the names in it are taken from its pickle's text opcodes, without loading it.

torch's weights_only unpickler makes objects of such classes alone as it was told of by name. It is told
of these in the place of numpy's, Pillow's and slime's: they keep what the file says of an object and do
nothing with it, so that no code of those libraries is run on what a file holds.

slime keeps tensors in files of their own (.safetensors) beside a dump. Read from THUDM/slime@4c4adbb
slime/utils/tensor_store.py: what a dump says of such a tensor is the path under which it was written, of
which the last two names are those in the dump's own folder `*_r3_spill`. Only there is it looked for: a
dump may have been moved since, and its path may say anything.
"""

from __future__ import annotations

import importlib
import math
import pickletools
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import PurePosixPath
from threading import Lock
from typing import Any, Final, cast

import numpy as np
import orjson

from board.formats.io.lines import Line, read_bytes
from board.formats.io.locations import Location, binary
from board.formats.parse import as_object, is_object
from board.formats.sources import LFS_REASON, DamagedError, Row, Source, lfs_pointer


class StandIn:
    """What a file says of one object: what it was made with, and its state."""

    arguments: Sequence[Any] = ()
    state: Any = None

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def plain(self) -> Any:
        """What it is in plain data."""
        return None


class DType(StandIn):
    """numpy's type of the entries of an array: its code, its order of bytes."""

    def entries(self, content: object) -> np.ndarray[Any, Any] | None:
        """The numbers in the bytes; None where they are of another type, or do not fit it."""
        code = self.arguments[0] if self.arguments else None
        if not isinstance(code, str) or code not in _CODES or not isinstance(content, bytes):
            return None
        state = _entries(self.state)
        order = state[1] if len(state) > 1 and state[1] in ("<", ">") else "="
        dtype = np.dtype(f"{order}{code}")
        return np.frombuffer(content, dtype) if len(content) % dtype.itemsize == 0 else None


class Array(StandIn):
    """numpy's array; its state is (version, shape, type, whether by columns, bytes or a list)."""

    def plain(self) -> Any:
        """Nested lists of its numbers; None where it holds no numbers."""
        state = _entries(self.state)
        if len(state) != 5 or not isinstance(state[2], DType):
            return None
        content = b"" if isinstance(state[4], NoBytes) else state[4]
        entries, shape = state[2].entries(content), _entries(state[1])
        is_whole = all(isinstance(size, int) and size >= 0 for size in shape)
        if entries is None or not is_whole or math.prod(shape) != len(entries):
            return None
        return entries.reshape(tuple(shape), order="F" if state[3] else "C").tolist()


class Number(StandIn):
    """numpy's number, made with its type and its bytes."""

    def plain(self) -> Any:
        """The number; None where it is none."""
        if len(self.arguments) != 2 or not isinstance(self.arguments[0], DType):
            return None
        entries = self.arguments[0].entries(self.arguments[1])
        return entries[0].item() if entries is not None and len(entries) == 1 else None


class Image(StandIn):
    """Pillow's image; its state is (what else is known, mode, size, palette, pixels)."""

    def plain(self) -> Any:
        """A part of a message that says its size; without one where it is not there."""
        state = _entries(self.state)
        size = _entries(state[2]) if len(state) > 2 else ()
        return dict(zip(("width", "height"), size, strict=True)) if len(size) == 2 else {}


class StoredTensor(StandIn):
    """slime's tensor that is in a file of its own."""

    def plain(self) -> Any:
        """Under `tensor_file` the path that it had when it was written."""
        return {"tensor_file": str(as_object(self.state).get("path"))}


class NoBytes(StandIn):
    """Bytes of which there are none: those that there are stand in the file as text."""


def _entries(state: object) -> Sequence[Any]:
    """A list or tuple of a pickle; an empty one for anything else."""
    return cast("Sequence[Any]", state) if isinstance(state, list | tuple) else ()


_CODES: Final = frozenset(
    {"b1", "f2", "f4", "f8", *(f"{kind}{size}" for kind in "iu" for size in "1248")}
)
_IMAGES: Final = (
    *("PIL.Image.Image", "PIL.PngImagePlugin.PngImageFile", "PIL.WebPImagePlugin.WebPImageFile"),
    *("PIL.JpegImagePlugin.JpegImageFile", "PIL.BmpImagePlugin.BmpImageFile"),
    *("PIL.GifImagePlugin.GifImageFile", "PIL.MpoImagePlugin.MpoImageFile"),
)
STAND_INS: Final[Sequence[tuple[type[StandIn], str]]] = (
    *((Array, f"numpy.{core}.multiarray._reconstruct") for core in ("_core", "core")),
    *((Number, f"numpy.{core}.multiarray.scalar") for core in ("_core", "core")),
    (Array, "numpy.ndarray"),
    (DType, "numpy.dtype"),
    (NoBytes, "builtins.bytes"),
    *((Image, name) for name in _IMAGES),
    (StoredTensor, "slime.utils.tensor_store.DiskTensorRef"),
)
"""What stands for what, by the name that files have for it."""

_HEAD_BYTES: Final = 1 << 16
_MOST_BYTES: Final = 2 << 30
"""A larger file would not fit beside everything else: it is loaded whole."""
_SAFE: Final = (2, 10)
"""Before 2.6 a file could run code in spite of weights_only (CVE-2025-32434, GHSA-53q9-r3pm-6pq6), before
2.10 it could corrupt memory, and so perhaps run code (CVE-2026-24747, GHSA-63cw-57p8-fm3p).
"""
_SAFE_GLOBALS_LOCK: Final = Lock()


class TorchFiles(Source):
    """One mapping per file."""

    suffixes = (".pt",)
    by_layout = True

    def head(self, path: Location) -> Iterator[Line]:
        """One row of the first texts in the file, without values; keys are among them."""
        yield Row(0, 1, None, record=dict.fromkeys(_names(path)))

    def lines(self, path: Location) -> Iterator[Line]:
        yield self.fetch(path, 0, 1)

    def fetch(self, path: Location, offset: int, size: int) -> Line:
        stat = path.stat()
        record = _loaded(path, stat.st_size, stat.st_mtime_ns, stat.st_ino)
        return Row(offset, size, None, record=record)


def _names(path: Location) -> list[str]:
    if lfs_pointer(read_bytes(path, 0, 64)):
        raise DamagedError(LFS_REASON)
    names: list[str] = []
    with suppress(ValueError, IndexError):  # the head ends within an opcode
        for code, argument, _ in pickletools.genops(_pickle_head(path)):
            if "UNICODE" in code.name and isinstance(argument, str):
                names.append(argument)
            if len(names) >= 64:
                break
    return names


def _pickle_head(path: Location) -> bytes:
    try:
        with binary(path, _HEAD_BYTES) as content, zipfile.ZipFile(content) as archive:
            inner = next((n for n in archive.namelist() if n.endswith("/data.pkl")), None)
            if inner is None:
                raise DamagedError("it is a zip file without the data.pkl of torch.save")
            with archive.open(inner) as file:
                return file.read(_HEAD_BYTES)
    except zipfile.BadZipFile:
        raise DamagedError(
            "it is not a torch.save file of PyTorch 1.6 or later: half-written, cut off, or older"
        ) from None


@lru_cache(maxsize=2)
def _loaded(path: Location, size: int, mtime_ns: int, inode: int) -> Mapping[str, Any]:
    """The content as plain data, kept until two other files are asked for: a joined rollout is of two."""
    if size > _MOST_BYTES:
        raise DamagedError(f"it is larger than {_MOST_BYTES >> 30} GB")
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError:
        raise DamagedError("torch is not installed (pip install 'rollout-board[torch]')") from None
    _check(torch)
    safe_globals = torch.serialization.safe_globals
    try:
        # What torch is told of holds for the whole process until it is taken back.
        with _SAFE_GLOBALS_LOCK, safe_globals(list(STAND_INS)), binary(path) as file:
            content = torch.load(file, map_location="cpu", weights_only=True)
    except OSError:
        raise
    except Exception as error:  # torch raises what the damaged part happens to raise
        raise DamagedError(f"torch refuses it as plain data: {_refusal(error)}") from error
    try:
        plain = _plain(content, torch)
    except RecursionError:
        raise DamagedError("it is nested too deep") from None
    if not is_object(plain):
        raise DamagedError("it holds no mapping")
    return plain


def _refusal(error: Exception) -> str:
    """What of a file torch does not open, in a few words."""
    message = str(error)
    if match := re.search(r"GLOBAL ([\w.]+)", message):
        return f"it holds {match[1][:80]}, which is neither plain data nor a tensor and is never executed"
    help_before = r"^Weights only load failed.*?WeightsUnpickler error: "
    lines = re.sub(help_before, "", message, flags=re.DOTALL).splitlines()
    return lines[0][:120] if lines else type(error).__name__


def _check(torch: Any) -> None:
    """Raises DamagedError where nobody should open a file with this torch; a release before 2.10.0, made
    of the sources while they were written, is one of them.
    """
    match = re.match(r"(\d+)\.(\d+)(?:\.0)?(a|b|rc|\.dev)?", str(torch.__version__))
    major, minor = (int(match[1]), int(match[2])) if match else (0, 0)
    if (major, minor) < _SAFE or ((major, minor) == _SAFE and match and match[3]):
        raise DamagedError(
            f"it can't be opened safely with torch {torch.__version__}: before 2.10.0 a file can "
            "bypass weights_only and run code (CVE-2025-32434, CVE-2026-24747); pip install 'torch>=2.10'"
        )


def _plain(value: Any, torch: Any) -> Any:
    """The value with tensors as lists of numbers, and what something stands for in plain data."""
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, StandIn):
        return value.plain()
    if is_object(value):
        return {str(k): _plain(v, torch) for k, v in value.items()}
    if isinstance(value, list | tuple):
        entries = cast("list[Any]", value)
        # Lists of numbers are long, and there is nothing to change in them.
        is_flat = not any(
            isinstance(entry, torch.Tensor | StandIn | dict | list | tuple) for entry in entries
        )
        return list(entries) if is_flat else [_plain(entry, torch) for entry in entries]
    return value


TORCH: Final = TorchFiles()

_MOST_TENSOR_BYTES: Final = 256 << 20
_TYPES: Final = {"I32": "<i4", "I64": "<i8", "F16": "<f2", "F32": "<f4", "F64": "<f8"}
_NAME: Final = re.compile(r"[\w-]+(?:\.safetensors)?")


def spilled(dump: Location, path: str) -> np.ndarray[Any, Any]:
    """The tensor that a dump says is at a path. Raises OSError where it is not there as written."""
    folder, name = ("", *PurePosixPath(path).parts)[-2:]
    if not (_NAME.fullmatch(folder) and _NAME.fullmatch(name)):
        raise OSError(0, "its path names no file")
    spill = dump.parent / f"{dump.name.removesuffix('.pt')}_r3_spill" / folder / name
    return _tensor(spill)


def _tensor(path: Location) -> np.ndarray[Any, Any]:
    """The tensor of a file: 8 bytes of a length, a header in JSON of that length, then numbers."""
    size = path.stat().st_size
    length = int.from_bytes(read_bytes(path, 0, 8), "little")
    if not 0 < length <= min(1 << 16, size - 8):
        raise OSError(0, "it does not begin as a file of tensors")
    try:
        header: Any = orjson.loads(read_bytes(path, 8, length))
        tensor = header["tensor"]
        dtype = np.dtype(_TYPES[tensor["dtype"]])
        shape = tuple(map(int, tensor["shape"]))
        start, end = map(int, tensor["data_offsets"])
    except (ValueError, KeyError, TypeError) as error:
        raise OSError(0, "its header is of no tensor that is read") from error
    wanted = math.prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or not 0 <= start <= end <= size - 8 - length:
        raise OSError(0, "it is shorter than its header says")
    if end - start != wanted or wanted > _MOST_TENSOR_BYTES:
        raise OSError(0, f"it holds {end - start:,} bytes of a tensor of {wanted:,}")
    return np.frombuffer(read_bytes(path, 8 + length + start, wanted), dtype).reshape(shape)
