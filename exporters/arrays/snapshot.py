"""Copies of what a call hands over, so that training may overwrite its tensors once it returns.

A tensor on a CUDA device is copied without waiting: to pinned memory, on the current stream, with an
event behind it that whoever reads the copy has to wait for. torch is never imported here; a tensor
brings it along.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from exporters.arrays.room import Room

Array = npt.NDArray[Any]

_EXPORTED = {"f": np.float32, "b": np.uint8}  # by kind; integers stay as they are


class Copies:
    """The copies of one call. Read none of them before the events of `ready` have passed.

    room: where copies in host memory are put; default: memory of their own.
    """

    def __init__(self, room: Room | None = None) -> None:
        self._devices: dict[Any, None] = {}
        self.room = room or Room()

    def take(self, value: Any, *, exact: bool = False) -> Array:
        """A private copy: floats as float32, bools as uint8, integers as they are; None is NaN.

        exact: doubles of at most one dimension stay doubles, because float32 changes times and counters.
        Raises an exception of whatever kind on what is not a rectangle of numbers.
        """
        if hasattr(value, "detach"):
            return self._take_tensor(value, exact)
        array = np.asarray(value)
        if array.dtype.kind == "O":
            array = array.astype(np.float64)
        if array.dtype.kind not in "fbiu":
            raise TypeError(f"expected numbers, found {array.dtype}")
        copy = self.room.empty(array.shape, _exported_dtype(array, exact))
        with np.errstate(all="ignore"):  # training may have numpy raise on what float32 cannot hold
            np.copyto(copy, array, casting="unsafe")
        return copy

    def take_row(self, value: Any) -> Array | list[Any] | None:
        """As `take`, for one of many: a list is copied as it is, its numbers are read later."""
        if value is None or isinstance(value, list | tuple):
            return None if value is None else list(value)
        return self.take(value)

    def ready(self) -> tuple[Any, ...]:
        """One event per device that was copied from, recorded behind all of the copies so far."""
        return tuple(record_event(device) for device in self._devices)

    def _take_tensor(self, tensor: Any, exact: bool) -> Array:
        if hasattr(tensor, "full_tensor"):  # gathering it is a collective: not ours to start
            raise TypeError("found a DTensor, expected a tensor: hand over .to_local()")
        tensor = tensor.detach()
        if tensor.is_complex():
            raise TypeError(f"expected real numbers, found {tensor.dtype}")
        kind = _exported_type(tensor, exact)
        if not is_on_cuda(tensor):
            copy = self.room.empty(tuple(tensor.shape), _numpy_type(kind))
            sys.modules["torch"].from_numpy(copy).copy_(tensor)
            return copy
        self._devices[tensor.device] = None
        return copy_to_pinned(tensor.to(kind).contiguous())


def as_numbers(values: Sequence[Any] | Array) -> Array:
    """A row that `Copies.take_row` kept as a list, as `Copies.take` would have copied it."""
    return values if isinstance(values, np.ndarray) else Copies().take(values)


def is_on_cuda(tensor: Any) -> bool:
    """Whether a tensor lives on a CUDA device."""
    return bool(tensor.is_cuda)


def copy_to_pinned(tensor: Any) -> Array:
    """Starts the copy of a contiguous CUDA tensor on the current stream and does not wait for it."""
    torch = sys.modules["torch"]
    host = torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu", pin_memory=True)
    host.copy_(tensor, non_blocking=True)
    return host.numpy()


def record_event(device: Any) -> Any:
    """An event behind everything on the device's current stream; a thread that waits for it sleeps."""
    cuda = sys.modules["torch"].cuda
    event = cuda.Event(blocking=True)
    event.record(cuda.current_stream(device))
    return event


def is_capturing() -> bool:
    """Whether a CUDA graph is being captured: what is logged now would be logged at every replay."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return False
    return bool(torch.cuda.is_current_stream_capturing())


@cache
def _numpy_type(kind: Any) -> npt.DTypeLike:
    """Of a type of torch. The device is named: training may have set another default."""
    return sys.modules["torch"].empty(0, dtype=kind, device="cpu").numpy().dtype


def _exported_dtype(array: Array, exact: bool) -> npt.DTypeLike:
    if exact and array.dtype == np.float64 and array.ndim <= 1:
        return np.float64
    return _EXPORTED.get(array.dtype.kind, array.dtype.newbyteorder("="))


def _exported_type(tensor: Any, exact: bool) -> Any:
    torch = sys.modules["torch"]
    if tensor.is_floating_point():
        stays = exact and tensor.dtype == torch.float64 and tensor.ndim <= 1
        return torch.float64 if stays else torch.float32
    return torch.uint8 if tensor.dtype == torch.bool else tensor.dtype
