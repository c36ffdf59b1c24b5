"""Where the bytes of a log are: a path of this machine, or a place in an object store.

Everything that reads a log asks here, or one of the two kinds of place, which answer alike: `stat`,
`name`, `parent`, `/`, `relative_to`. What is above this knows no protocol.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, cast

from board.readers.remote import RemoteFile, RemotePlace, is_url

Place = Path | RemotePlace
Preadinto = Callable[[bytearray, int], int]
"""Fills the beginning of a buffer with the bytes at an offset; how many, none at the end."""

_LOCAL: Final = ("file://", "local://")
_BUFFER: Final = 4 << 20


def place_of(text: str) -> Place:
    """The place that a path or a URL names. Raises ChoiceError on a URL that is not taken."""
    for prefix in _LOCAL:
        if text.lower().startswith(prefix):
            return Path(text[len(prefix) :])
    return RemotePlace.of(text) if is_url(text) else Path(text)


def below(place: Place, folder: Place) -> str:
    """The path of a place told from a folder above it. Raises ValueError where it is not below."""
    if isinstance(place, Path) and isinstance(folder, Path):
        return place.relative_to(folder).as_posix()
    if isinstance(place, RemotePlace) and isinstance(folder, RemotePlace):
        return place.relative_to(folder).as_posix()
    raise ValueError(f"{place} is not below {folder}")


@contextmanager
def opened(place: Place, end: int) -> Generator[Preadinto]:
    """What reads at any offset of a place. Raises OSError.

    end: offset up to which all is wanted; of what follows a store is asked for a little at a time.
    """
    if isinstance(place, RemotePlace):
        yield RemoteFile(place, end)
        return
    descriptor = os.open(place, os.O_RDONLY | os.O_NONBLOCK)
    try:
        yield lambda buffer, offset: os.preadv(descriptor, [buffer], offset)
    finally:
        os.close(descriptor)


def binary(place: Place, buffer: int = _BUFFER) -> BinaryIO:
    """A place as a file that can be read and sought. Raises OSError.

    buffer: bytes that a store is asked for at once.
    """
    if isinstance(place, RemotePlace):
        return cast("BinaryIO", io.BufferedReader(_Ranges(place), buffer))
    return place.open("rb")


class _Ranges(io.RawIOBase):
    """An object of a store as a raw file."""

    def __init__(self, place: RemotePlace) -> None:
        self._place = place
        self._size = place.stat().st_size
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
        content = self._place.read(self._position, wanted)
        buffer[: len(content)] = content
        self._position += len(content)
        return len(content)
