"""Where the bytes of a log are: a path of this machine, or a location in an object store.

Everything that reads a log asks here, or one of the two kinds of location, which answer alike: `stat`,
`name`, `parent`, `/`, `relative_to`. What is above this knows no protocol.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path, PurePath, PurePosixPath
from typing import BinaryIO, Final, cast

from board.formats.io.local_files import open_binary, open_descriptor
from board.formats.io.remote import RemoteFile, RemoteLocation, is_url

Location = Path | RemoteLocation
Preadinto = Callable[[bytearray | memoryview, int], int]
"""Fills the beginning of a buffer with the bytes at an offset; how many, none at the end."""

_LOCAL: Final = ("file://", "local://")
_BUFFER: Final = 4 << 20


def location_of(text: str) -> Location:
    """The location that a path or a URL names. Raises ChoiceError on a URL that is not taken."""
    for prefix in _LOCAL:
        if text.lower().startswith(prefix):
            return Path(text[len(prefix) :])
    return RemoteLocation.of(text) if is_url(text) else Path(text)


def below(location: Location, folder: Location) -> str:
    """The path of a location told from a folder above it. Raises ValueError where it is not below."""
    if isinstance(location, Path) and isinstance(folder, Path):
        return location.relative_to(folder).as_posix()
    if isinstance(location, RemoteLocation) and isinstance(folder, RemoteLocation):
        return location.relative_to(folder).as_posix()
    raise ValueError(f"{location} is not below {folder}")


def pure_path(location: PurePath | RemoteLocation) -> PurePath:
    """A location's path as names alone, for readers and layouts: of an object its bucket and key."""
    return PurePosixPath(location.path) if isinstance(location, RemoteLocation) else location


@contextmanager
def opened(location: Location, end: int) -> Generator[Preadinto]:
    """What reads at any offset of a location. Raises OSError.

    end: offset up to which all is wanted; of what follows a store is asked for a little at a time.
    """
    if isinstance(location, RemoteLocation):
        yield RemoteFile(location, end)
        return
    descriptor = open_descriptor(location)
    try:
        yield lambda buffer, offset: os.preadv(descriptor, [buffer], offset)
    finally:
        os.close(descriptor)


def binary(location: Location, buffer: int = _BUFFER) -> BinaryIO:
    """A location as a file that can be read and sought. Raises OSError.

    buffer: bytes that a store is asked for at once.
    """
    if isinstance(location, RemoteLocation):
        return cast("BinaryIO", io.BufferedReader(_Ranges(location), buffer))
    return open_binary(location)


class _Ranges(io.RawIOBase):
    """An object of a store as a raw file."""

    def __init__(self, location: RemoteLocation) -> None:
        self._location = location
        self._size = location.stat().st_size
        self._position = 0

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def tell(self) -> int:
        """The offset of the next byte."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """As files have it."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(base + offset, 0)
        return self._position

    def readinto(self, buffer: memoryview) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]  # the stub's buffer type is private
        """Fills the buffer by one request."""
        wanted = min(len(buffer), self._size - self._position)
        content = self._location.read(self._position, wanted)
        buffer[: len(content)] = content
        self._position += len(content)
        return len(content)
