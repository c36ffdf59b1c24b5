"""What stands for the objects in a torch.save file that are neither plain data nor tensors.

torch's weights_only unpickler makes objects of such classes alone as it was told of by name. It is told
of these in the place of numpy's, Pillow's and slime's: they keep what the file says of an object and do
nothing with it, so that no code of those libraries is run on what a file holds. Numbers are then taken
from the bytes that are there, of an image its size, of a tensor in a file of its own that file's name.
Anything else is refused.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, cast

import numpy as np


class StandIn:
    """What a file says of one object: what it was made with, and its state."""

    said: Sequence[Any] = ()
    state: Any = None

    def __init__(self, *said: Any) -> None:
        self.said = said

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def plain(self) -> Any:
        """What it is in plain data."""
        return None


class DType(StandIn):
    """numpy's type of the entries of an array: its code, its order of bytes."""

    def entries(self, content: bytes) -> np.ndarray[Any, Any] | None:
        """The numbers in the bytes; None where they are of another type, or do not fit it."""
        code = self.said[0] if self.said else None
        if not isinstance(code, str) or code not in _CODES:
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
        entries = state[2].entries(content) if isinstance(content, bytes) else None
        shape: object = state[1]
        if entries is None or not isinstance(shape, tuple):
            return None
        sizes = cast("tuple[object, ...]", shape)
        whole = all(isinstance(size, int) and size >= 0 for size in sizes)
        if not whole or math.prod(cast("tuple[int, ...]", sizes)) != len(entries):
            return None
        order = "F" if state[3] else "C"
        return entries.reshape(cast("tuple[int, ...]", sizes), order=order).tolist()


class Number(StandIn):
    """numpy's number, made with its type and its bytes."""

    def plain(self) -> Any:
        """The number; None where it is none."""
        if len(self.said) != 2 or not isinstance(self.said[0], DType):
            return None
        entries = self.said[0].entries(self.said[1]) if isinstance(self.said[1], bytes) else None
        return entries[0].item() if entries is not None and len(entries) == 1 else None


class Image(StandIn):
    """Pillow's image; its state is (what else is known, mode, size, palette, pixels)."""

    def plain(self) -> Any:
        """A part of a message that says its size; without one where it is not there."""
        state = _entries(self.state)
        size: object = state[2] if len(state) > 2 else None
        if isinstance(size, tuple) and len(cast("tuple[Any, ...]", size)) == 2:
            width, height = cast("tuple[Any, Any]", size)
            return {"width": width, "height": height}
        return {}


class StoredTensor(StandIn):
    """slime's tensor that is in a file of its own."""

    def plain(self) -> Any:
        """Under `tensor_file` the path that it had when it was written."""
        state: object = self.state
        said = cast("dict[str, Any]", state) if isinstance(state, dict) else {}
        return {"tensor_file": str(said.get("path"))}


class NoBytes(StandIn):
    """Bytes of which there are none: those that there are stand in the file as text."""


def _entries(state: object) -> Sequence[Any]:
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
