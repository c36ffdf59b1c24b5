"""Where the bytes of a log are: a path of this machine, or a location in an object store.

A server opens local files only below the folder that it shows. Discovery checks paths, and tells users.
Whoever writes into the folder can swap a file, or a folder above it, for a link after that: so each file
is opened name by name from the folder on, and links are not followed.
"""

from __future__ import annotations

import errno
import io
import os
from bisect import bisect_left
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path, PurePath, PurePosixPath
from typing import BinaryIO, Final, cast

from board.formats.io.remote import RemoteLocation, is_url

_FLAGS: Final = os.O_RDONLY | os.O_NONBLOCK
# Of a folder that is passed through only the right to pass is needed, where the system knows of that.
_FOLDER: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW


def cache_folder() -> Path:
    """Where what can be made again is kept when it has no place beside the log."""
    given = os.environ.get("ROLLOUT_BOARD_CACHE")
    if given:
        return Path(given)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path("~/.cache").expanduser()) / "rollout-board"


def is_confined() -> bool:
    """Whether this process, or the server it was started by, shows one folder alone."""
    is_any_path_allowed = os.environ.get("ROLLOUT_BOARD_ALLOW_ANY_PATH") == "1"
    return bool(os.environ.get("ROLLOUT_BOARD_ROOT")) and not is_any_path_allowed


_NAMED_FILES: Final = ("ROLLOUT_BOARD_THRESHOLDS", "ROLLOUT_BOARD_METRICS")
"""Environment variables with files that the command line named; these may lie anywhere."""


def open_descriptor(path: Path) -> int:
    """A descriptor of a file to read. Raises OSError; PermissionError where it is not to be shown."""
    if not is_confined() or str(path) in map(os.environ.get, _NAMED_FILES):
        return os.open(path, _FLAGS)
    real = Path(os.path.realpath(path))
    for folder in _allowed_folders():
        if real != folder and real.is_relative_to(folder):
            return _opened_below(folder, real.relative_to(folder).parts)
    raise PermissionError(errno.EACCES, "it is a link that leads outside the root", str(path))


def open_binary(path: Path) -> BinaryIO:
    """The same as a file."""
    return os.fdopen(open_descriptor(path), "rb")


@contextmanager
def pinned_name(path: Path) -> Generator[str]:
    """A name by which others open the very file that `open_descriptor` found, whatever `path` becomes."""
    descriptor = open_descriptor(path)
    try:
        yield f"/dev/fd/{descriptor}" if Path("/dev/fd").is_dir() else str(path)
    finally:
        os.close(descriptor)


def _allowed_folders() -> list[Path]:
    """The folder that is shown, links resolved, the cache, where unpacked copies of logs are, and the
    folder of metrics that the command line named.
    """
    root, metrics = os.environ["ROLLOUT_BOARD_ROOT"], os.environ.get("ROLLOUT_BOARD_METRICS", "")
    folders = [Path(os.path.realpath(cache_folder()))]
    if not is_url(root):
        visible = Path(os.path.realpath(root))
        folders.append(visible if visible.is_dir() else visible.parent)
    if metrics and Path(metrics).is_dir():
        folders.append(Path(os.path.realpath(metrics)))
    return folders


def _opened_below(folder: Path, names: Sequence[str]) -> int:
    """Opens folder/names without following a link in any of the names."""
    if os.open not in os.supports_dir_fd:
        return os.open(folder.joinpath(*names), _FLAGS)
    above = os.open(folder, _FOLDER)
    try:
        for name in names[:-1]:
            inner = os.open(name, _FOLDER, dir_fd=above)
            os.close(above)
            above = inner
        return os.open(names[-1], _FLAGS | os.O_NOFOLLOW, dir_fd=above)
    finally:
        os.close(above)


Location = Path | RemoteLocation
Preadinto = Callable[[bytearray | memoryview, int], int]
"""Fills the beginning of a buffer with the bytes at an offset; how many, none at the end."""
_PAST_THE_END_BYTES: Final = 512 << 10

_BUFFER: Final = 4 << 20


def location_of(text: str) -> Location:
    """The location that a path or a URL names. Raises ChoiceError on a URL that is not taken."""
    for prefix in ("file://", "local://"):
        if text.lower().startswith(prefix):
            return Path(text[len(prefix) :])
    return RemoteLocation.of(text) if is_url(text) else Path(text)


def below(location: Location, folder: Location) -> str:
    """The path of a location told from a folder above it. Raises ValueError where it is not below."""
    if isinstance(location, Path) != isinstance(folder, Path):
        raise ValueError(f"{location} is not below {folder}")
    return cast("Path", location).relative_to(cast("Path", folder)).as_posix()


def pure_path(location: PurePath | RemoteLocation) -> PurePath:
    """A location's path as names alone, for readers and layouts: of an object its bucket and key."""
    return PurePosixPath(location.path) if isinstance(location, RemoteLocation) else location


@contextmanager
def opened(location: Location, end: int) -> Generator[Preadinto]:
    """What reads at any offset of a location. Raises OSError.

    end: offset up to which all is wanted; of what follows a store is asked for a little at a time.
    """
    if isinstance(location, RemoteLocation):

        def preadinto(buffer: bytearray | memoryview, offset: int) -> int:
            # Of what follows the asked range only the end of a line is needed.
            asked = end - offset if offset < end else _PAST_THE_END_BYTES
            content = location.read(offset, min(len(buffer), asked))
            buffer[: len(content)] = content
            return len(content)

        yield preadinto
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
        return cast("BinaryIO", io.BufferedReader(_RemoteFile(location), buffer))
    return open_binary(location)


class _RemoteFile(io.RawIOBase):
    """An object of a store as a raw file."""

    def __init__(self, location: RemoteLocation) -> None:
        self._location = location
        self._size = location.stat().st_size
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
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


State = tuple[Location, int, int, int]
"""A file or object as it stood: where it is, its size, time and version."""


class Objects:
    """Objects of one listing."""

    def __init__(self, objects: Iterable[RemoteLocation] = ()) -> None:
        self._objects = sorted(objects, key=lambda location: location.path)
        self._paths = [location.path for location in self._objects]

    def at(self, location: RemoteLocation) -> RemoteLocation | None:
        """The object that lies there; None where there was none."""
        place = bisect_left(self._paths, location.path)
        return next((o for o in self._objects[place : place + 1] if o == location), None)

    def below(self, folder: RemoteLocation) -> Sequence[RemoteLocation]:
        """The objects below a folder, in the order of their names."""
        first = bisect_left(self._paths, f"{folder.path}/")
        return self._objects[first : bisect_left(self._paths, f"{folder.path}0")]  # 0 follows /


def existing_file(location: Location, objects: Objects) -> Location | None:
    """The location, if a file or an object of the listing is there."""
    if isinstance(location, Path):
        return location if location.is_file() else None
    return objects.at(location)


def state_of(location: Location) -> State:
    """A file or object as it stands, or as it was listed. Raises OSError."""
    if isinstance(location, Path):
        objects = location.stat()
    else:
        objects = location.listed or location.stat()
        location = replace(location, listed=None)
    return location, objects.st_size, objects.st_mtime_ns, objects.st_ino
