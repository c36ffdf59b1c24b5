"""A file of a run, as it was found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from board.formats.io.locations import Location

AT_REST_SECONDS: Final = 60.0
"""A file unchanged for so long is taken to be finished: its torn last line will not be completed."""


@dataclass(frozen=True, slots=True)
class LogFile:
    """A log file as it stood when it was looked at. size in bytes, mtime_ns as os.stat gives it.

    beside: hash of names, sizes and times of the files beside it that it is read with; empty: none.
    inode: of an object in a store, a number that stands for its version; 0 where it tells none.
    """

    path: Location
    reader: str
    size: int
    mtime_ns: int
    inode: int
    beside: str = ""
