"""Small objects of a store that are read whole, and kept: following a run does not fetch them anew."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from board.formats.io.locations import Location, open_binary
from board.formats.io.remote import RemoteLocation, RemoteStat

_MAX_CACHE_BYTES: Final = 128 << 20
"""Bytes of objects that are kept."""
_MOST_BYTES: Final = 64 << 20

_before: OrderedDict[RemoteLocation, tuple[RemoteStat | None, bytes]] = OrderedDict()


def content_of(location: Location, most: int = _MOST_BYTES) -> bytes:
    """The first `most` bytes of a file or object; of one that did not change since, those kept.

    Raises OSError.
    """
    if not isinstance(location, RemoteLocation):
        with open_binary(location) as file:
            return file.read(most)
    known = _before.get(location)
    if known is not None and location.listed is not None and known[0] == location.listed:
        return known[1]
    size = location.listed.st_size if location.listed else most
    content = location.read(0, min(size, most))
    _before[location] = (location.listed, content)
    while sum(len(cached) for _, cached in _before.values()) > _MAX_CACHE_BYTES:
        _before.popitem(last=False)
    return content


def forget() -> None:
    """Forgets all objects."""
    _before.clear()
