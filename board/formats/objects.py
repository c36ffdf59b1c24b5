"""The objects of a store that a listing named, found by where they are without asking the store again."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from board.formats.io.locations import Location
from board.formats.io.remote import RemoteLocation

State = tuple[Location, int, int, int]
"""A file or object as it stood: where it is, its size, time and version."""


class Objects:
    """Objects of one listing."""

    def __init__(self, found: Iterable[RemoteLocation] = ()) -> None:
        self._found = sorted(found, key=lambda location: location.path)
        self._paths = [location.path for location in self._found]

    def at(self, location: RemoteLocation) -> RemoteLocation | None:
        """The object that lies there; None where there was none."""
        place = bisect_left(self._paths, location.path)
        is_there = place < len(self._paths) and self._paths[place] == location.path
        return self._found[place] if is_there else None

    def below(self, folder: RemoteLocation) -> Sequence[RemoteLocation]:
        """The objects below a folder, in the order of their names."""
        first = bisect_left(self._paths, f"{folder.path}/")
        return self._found[first : bisect_left(self._paths, f"{folder.path}0")]  # 0 follows /


def state_of(location: Location) -> State:
    """A file or object as it stands, or as it was listed. Raises OSError."""
    if isinstance(location, Path):
        found = location.stat()
    else:
        found = location.listed or location.stat()
        location = replace(location, listed=None)
    return location, found.st_size, found.st_mtime_ns, found.st_ino
