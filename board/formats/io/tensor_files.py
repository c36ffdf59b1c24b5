"""Files of one tensor (.safetensors) that slime keeps beside a dump: a header in JSON, then numbers.

Read from THUDM/slime@4c4adbb slime/utils/tensor_store.py: what a dump says of such a tensor is the path
under which it was written, of which the last two names are those in the dump's own folder `*_r3_spill`.
Only there is it looked for: a dump may have been moved since, and its path may say anything.
"""

from __future__ import annotations

import math
import re
from pathlib import PurePosixPath
from typing import Any, Final, cast

import numpy as np
import orjson

from board.formats.io.lines import read_bytes
from board.formats.io.locations import Location

_MOST_HEADER: Final = 1 << 16
_MOST_BYTES: Final = 256 << 20
_TYPES: Final = {"I32": "<i4", "I64": "<i8", "F16": "<f2", "F32": "<f4", "F64": "<f8"}
_NAME: Final = re.compile(r"[\w-]+(?:\.safetensors)?")


def spilled(dump: Location, path: str) -> np.ndarray[Any, Any]:
    """The tensor that a dump says is at a path. Raises OSError where it is not there as written."""
    folder, name = ("", *PurePosixPath(path).parts)[-2:]
    if not (_NAME.fullmatch(folder) and _NAME.fullmatch(name)):
        raise OSError(0, "its path names no file")
    found = dump.parent / f"{dump.name.removesuffix('.pt')}_r3_spill" / folder / name
    return _tensor(found)


def _tensor(path: Location) -> np.ndarray[Any, Any]:
    size = path.stat().st_size
    length = int.from_bytes(read_bytes(path, 0, 8), "little")
    if not 0 < length <= min(_MOST_HEADER, size - 8):
        raise OSError(0, "it does not begin as a file of tensors")
    try:
        header: Any = orjson.loads(read_bytes(path, 8, length))
        told = header["tensor"]
        dtype = np.dtype(_TYPES[told["dtype"]])
        shape = tuple(int(n) for n in cast("list[int]", told["shape"]))
        start, end = (int(n) for n in cast("list[int]", told["data_offsets"]))
    except (ValueError, KeyError, TypeError) as error:
        raise OSError(0, "its header is of no tensor that is read") from error
    wanted = math.prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or not 0 <= start <= end <= size - 8 - length:
        raise OSError(0, "it is shorter than its header says")
    if end - start != wanted or wanted > _MOST_BYTES:
        raise OSError(0, f"it holds {end - start:,} bytes of a tensor of {wanted:,}")
    return np.frombuffer(read_bytes(path, 8 + length + start, wanted), dtype).reshape(shape)
