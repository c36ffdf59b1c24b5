"""torch.save files (.pt) of plain data and tensors. Nothing in them is ever run.

They are opened by `torch.load(weights_only=True)` alone, which refuses anything but plain data, tensors
and what something harmless stands for (torch_stand_ins.py); versions of torch in which that can be got
round are refused. torch is imported when the first such file is read, and nowhere else in the board. To
recognise one, the names in it are taken from its pickle's text opcodes, without loading it.
"""

from __future__ import annotations

import importlib
import pickletools
import re
import zipfile
from collections.abc import Iterator, Mapping
from functools import lru_cache
from threading import Lock
from typing import Any, Final, cast

from board.formats.io.lines import Line, read_bytes
from board.formats.io.locations import Location, binary
from board.formats.io.torch_stand_ins import STAND_INS, StandIn
from board.formats.sources import LFS_REASON, DamagedError, Row, Source, lfs_pointer

_HEAD_BYTES: Final = 1 << 16
_MOST_NAMES: Final = 64
_MOST_BYTES: Final = 2 << 30
"""A larger file would not fit beside everything else: it is loaded whole."""
_SAFE: Final[tuple[int, int]] = (2, 10)
"""Before 2.6 a file could run code in spite of weights_only (CVE-2025-32434, GHSA-53q9-r3pm-6pq6), before
2.10 it could corrupt memory, and so perhaps run code (CVE-2026-24747, GHSA-63cw-57p8-fm3p).
"""
_VERSION: Final = re.compile(r"(\d+)\.(\d+)(?:\.0)?(a|b|rc|\.dev)?")

_REFUSED: Final = re.compile(r"GLOBAL ([\w.]+)")
_WITHOUT_HELP: Final = re.compile(
    r"^Weights only load failed.*?WeightsUnpickler error: ", re.DOTALL
)
_TOLD: Final = Lock()


class TorchFiles(Source):
    """One mapping per file."""

    suffixes = (".pt",)
    appends = False
    by_layout = True

    def head(self, path: Location) -> Iterator[Line]:
        """One row of the first texts in the file, without values; keys are among them."""
        yield Row(0, 1, None, record=dict.fromkeys(_names(path)))

    def lines(self, path: Location, start: int = 0, end: int | None = None) -> Iterator[Line]:
        """As Source."""
        yield self.fetch(path, 0, 1)

    def fetch(self, path: Location, offset: int, size: int) -> Line:
        """As Source."""
        found = path.stat()
        record = _loaded(path, found.st_size, found.st_mtime_ns, found.st_ino)
        return Row(offset, size, None, record=record)


def _names(path: Location) -> list[str]:
    if lfs_pointer(read_bytes(path, 0, 64)):
        raise DamagedError(LFS_REASON)
    names: list[str] = []
    try:
        for code, argument, _ in pickletools.genops(_pickle_head(path)):
            if "UNICODE" in code.name and isinstance(argument, str):
                names.append(argument)
            if len(names) >= _MOST_NAMES:
                break
    except (ValueError, IndexError):
        pass  # the head ends within an opcode
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
        with _TOLD, safe_globals(list(STAND_INS)), binary(path) as file:
            content = torch.load(file, map_location="cpu", weights_only=True)
    except OSError:
        raise
    except Exception as error:  # torch raises what the damaged part happens to raise
        raise DamagedError(f"torch refuses it as plain data: {_refusal(error)}") from error
    try:
        plain = _plain(content, torch)
    except RecursionError:
        raise DamagedError("it is nested too deep") from None
    if not isinstance(plain, dict):
        raise DamagedError("it holds no mapping")
    return cast("Mapping[str, Any]", plain)


def _refusal(error: Exception) -> str:
    """What of a file torch does not open, in a few words."""
    said = str(error)
    if match := _REFUSED.search(said):
        return f"it holds {match[1][:80]}, which is neither plain data nor a tensor and is never executed"
    lines = _WITHOUT_HELP.sub("", said).splitlines()
    return lines[0][:120] if lines else type(error).__name__


def _check(torch: Any) -> None:
    """Raises DamagedError where nobody should open a file with this torch; a release before 2.10.0, made
    of the sources while they were written, is one of them.
    """
    match = _VERSION.match(str(torch.__version__))
    major, minor = (int(match[1]), int(match[2])) if match else (0, 0)
    version = (major, minor)
    if version < _SAFE or (version == _SAFE and match is not None and match[3]):
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
    if isinstance(value, dict):
        return {str(k): _plain(v, torch) for k, v in cast("dict[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        entries = cast("list[Any]", value)
        # Lists of numbers are long, and there is nothing to change in them.
        flat = not any(
            isinstance(entry, torch.Tensor | StandIn | dict | list | tuple) for entry in entries
        )
        return list(entries) if flat else [_plain(entry, torch) for entry in entries]
    return value


TORCH: Final = TorchFiles()
