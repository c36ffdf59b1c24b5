"""A file of a run, as it was found."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class LogFile:
    """A log file as it stood when it was looked at. size in bytes, mtime_ns as os.stat gives it."""

    path: Path
    reader: str
    size: int
    mtime_ns: int
    inode: int
