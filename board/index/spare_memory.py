"""Memory that was used and is free again, of which the system hears only when it is told."""

# pyright: reportUnknownMemberType=false, reportMissingTypeStubs=false
# pyarrow ships without types.

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final

import pyarrow as pa

_MUCH: Final = 170 << 20
"""Bytes: what an index is made in is not to have 200 MB, and half a batch is read between two looks."""
_STATM: Final = Path("/proc/self/statm")


def give_back(above: int = _MUCH) -> None:
    """Where this process has so many bytes of memory, gives the system what Arrow and the C library
    keep of it for what comes next: of one batch, or of one step, after the other they else keep ever
    more, a multiple of what is ever used at once. Not each time, for to get it anew takes longer.
    """
    if _resident() > above:
        pa.default_memory_pool().release_unused()
        if (trim := _trim()) is not None:
            trim(0)


@cache
def _trim() -> Callable[[int], int] | None:
    """The function of glibc that does so; None where there is another library."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError):
        return None


def _resident() -> int:
    """Bytes of this process in memory; where the system does not say so, what counts as much."""
    try:
        return int(_STATM.read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return _MUCH + 1
