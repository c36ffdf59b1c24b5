"""Large arrays of a rollout, such as routed experts [R, L, k], in files beside the log.

A line of the log would hold millions of numbers for them. It says where they are instead: the name of a
file beside the log, and at which of its bytes an array in numpy's npy format begins.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from exporters.arrays.snapshot import Array
from exporters.writing.parts import Parts

LEAST_DIMENSIONS = 3
"""Of the array of a rollout; one of fewer is in the line."""


class SideArrays:
    """Appends arrays to `name(0)`, and goes on with `name(1)` when that is full. No array, no file."""

    def __init__(
        self,
        folder: Path,
        name: Callable[[int], str],
        rotate_bytes: int,
        on_closed: Callable[[Path], None],
    ) -> None:
        self._folder, self._name = folder, name
        self._limit, self._on_closed = rotate_bytes, on_closed
        self._parts: Parts | None = None

    def add(self, values: Array) -> dict[str, Any]:
        """Writes an array; returns what the line says of it. Raises OSError where the disk is full."""
        if self._parts is None:
            self._parts = Parts(self._folder, self._name, None, self._limit, self._on_closed)
        content = io.BytesIO()
        narrow = _narrow(values)
        np.lib.format.write_array(content, narrow, allow_pickle=False)
        offset = self._parts.append(content.getvalue())
        file = self._parts.path.name
        return {"file": file, "offset": offset, "shape": narrow.shape, "dtype": narrow.dtype.name}

    def close(self) -> None:
        """Closes the last file, if there is one."""
        if self._parts is not None:
            self._parts.close()
            self._on_closed(self._parts.path)


def _narrow(values: Array) -> Array:
    """The array, contiguous; numbers of experts in as few bytes as the largest needs."""
    if values.dtype.kind in "iu" and values.size and values.min() >= 0:
        values = values.astype(np.min_scalar_type(values.max()))
    return np.ascontiguousarray(values)
