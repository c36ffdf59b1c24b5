"""Memory for copies that is used again, step after step.

Fresh memory costs more than the copying into it: the kernel hands it over page by page, and where
numpy asks for large pages it may first have to move others away. The blocks of a step that was
written serve the next one.
"""

from __future__ import annotations

import threading

import numpy as np
import numpy.typing as npt

Block = npt.NDArray[np.uint8]

_SHARED_BYTES = 1 << 20  # a block that small copies share
_ALIGNMENT = 64
_LARGEST_WASTE = 1.5  # a spare block may be so many times as large as what is asked for


class Spare:
    """Blocks that are free again, at most `limit` bytes of them."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._blocks: list[Block] = []
        self._lock = threading.RLock()

    @property
    def nbytes(self) -> int:
        """How much memory waits to be used again, in bytes."""
        return sum(map(len, self._blocks))

    def take(self, nbytes: int) -> Block:
        """A block of at least `nbytes` bytes; what is in it is anything."""
        with self._lock:
            fitting = [
                i for i, b in enumerate(self._blocks) if nbytes <= len(b) <= _LARGEST_WASTE * nbytes
            ]
            if fitting:
                return self._blocks.pop(min(fitting, key=lambda i: len(self._blocks[i])))
        return np.empty(nbytes, np.uint8)

    def give(self, blocks: list[Block]) -> None:
        """Takes blocks back that nobody reads any more."""
        with self._lock:
            self._blocks += blocks
            while self.nbytes > self._limit:
                self._blocks.pop(0)


class Room:
    """The memory of one call's copies."""

    def __init__(self, spare: Spare | None = None) -> None:
        self._spare = spare or Spare(0)
        self._blocks: list[Block] = []
        self._shared: Block = np.empty(0, np.uint8)
        self._used = 0

    def empty(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[np.generic]:
        """An array that holds anything."""
        nbytes = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        return self._bytes(nbytes).view(dtype).reshape(shape)

    def release(self) -> None:
        """Gives the memory back; the arrays may not be read any more."""
        blocks, self._blocks = self._blocks, []
        self._shared, self._used = np.empty(0, np.uint8), 0
        self._spare.give(blocks)

    def _bytes(self, nbytes: int) -> Block:
        if nbytes > _SHARED_BYTES // 4:
            return self._block(nbytes)[:nbytes]
        if self._used + nbytes > len(self._shared):
            self._shared, self._used = self._block(_SHARED_BYTES), 0
        start = self._used
        self._used += -(-nbytes // _ALIGNMENT) * _ALIGNMENT
        return self._shared[start : start + nbytes]

    def _block(self, nbytes: int) -> Block:
        block = self._spare.take(nbytes)
        self._blocks.append(block)
        return block
