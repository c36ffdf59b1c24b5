"""A file of a run, as it was found."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

AT_REST_SECONDS: Final = 60.0
"""A file unchanged for so long is taken to be finished: its torn last line will not be completed."""


@dataclass(frozen=True, slots=True)
class LogFile:
    """A log file as it stood when it was looked at. size in bytes, mtime_ns as os.stat gives it.

    beside: hash of names, sizes and times of the files beside it that it is read with; empty: none.
    """

    path: Path
    reader: str
    size: int
    mtime_ns: int
    inode: int
    beside: str = ""
