"""Files that users of a folder share: labels, notes, saved views. Each lies beside an index, in the
folder .rollout-board of a run or a root, or else in the user's cache.

Lines are only ever appended, each batch by one write under a lock, so that two writers at once lose
nothing.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, Final

from board.errors import ChoiceError
from board.formats.io.locations import Location, cache_folder
from board.formats.io.remote import RemoteLocation
from board.index.discovery.run_info import digest
from board.index.storage import INDEX_FOLDER

LARGEST_BYTES: Final = 4 << 20
"""Of a file of notes or views; of a larger one the end is read."""
MOST_BYTES: Final = 256 << 20
"""Of any file beside a log that is read at once. Labels of a million rollouts have some 150 MB."""
_NOT_REGULAR: Final = "it is no regular file"

FileStates = tuple[tuple[str, int, int], ...]
"""Path, time of the last change and size of each file."""


def places_for(folder: Location, name: str) -> list[Path]:
    """Where a file of a run or a root may be, the place to write first."""
    if isinstance(folder, RemoteLocation):
        return [cache_folder() / digest(str(folder).encode()) / name]
    path = Path(str(folder))
    cached = cache_folder() / digest(os.fsencode(path.resolve())) / name
    own = path / INDEX_FOLDER / name
    # A link here would let whoever made the run choose where this process writes.
    is_link = own.is_symlink() or own.parent.is_symlink()
    return [cached] if is_link else [own, cached]


def states_of(places: Sequence[Path]) -> FileStates:
    """Another one when one of the files may be another."""
    states: list[tuple[str, int, int]] = []
    for path in places:
        try:
            status = path.stat()
        except OSError:
            continue
        states.append((str(path), status.st_mtime_ns, status.st_size))
    return tuple(states)


def lines_of(places: Sequence[Path]) -> list[str]:
    """The lines of all the files; of a file that is too large those at its end. A file that can't be read
    has none.
    """
    return [line for state in states_of(places) for line in _lines(*state)]


@lru_cache(maxsize=256)
def _lines(path: str, mtime_ns: int, size: int) -> tuple[str, ...]:
    """The arguments besides path tell states of the file apart."""
    try:
        with _regular_file(path, os.O_NOFOLLOW) as file:
            start = max(os.fstat(file.fileno()).st_size - LARGEST_BYTES, 0)
            file.seek(start)
            lines = file.read(LARGEST_BYTES).decode("utf-8", "replace").split("\n")
    except OSError:
        return ()
    return tuple(line for line in lines[start > 0 :] if line.strip())


def read_all(path: str | Path) -> bytes:
    """Return what a small file beside a log holds.

    Raises OSError, also where it is no regular file, which may never end, or larger than MOST_BYTES.
    """
    with _regular_file(path) as file:
        if os.fstat(file.fileno()).st_size > MOST_BYTES:
            raise OSError(errno.EFBIG, f"it is larger than {MOST_BYTES >> 20} MB", str(path))
        return file.read(MOST_BYTES)


def _regular_file(path: str | Path, flags: int = 0) -> BinaryIO:
    """Open a file to read, without waiting for the writer of a pipe. Raises OSError of anything else."""
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | flags), "rb")
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    raise OSError(errno.EINVAL, _NOT_REGULAR, str(path))


def append_lines(
    places: Sequence[Path],
    content: bytes,
    *,
    is_deep: bool = True,
    check: Callable[[], None] | None = None,
) -> Path:
    """Adds lines to the first file that can be written, all or none; returns it.

    is_deep: whether more than the last folder above it may be made. check: is called under the lock, and
    raises what keeps the lines from being written. Raises ChoiceError where no file can be.
    """
    reason = ""
    for path in places:
        try:
            # A run that was deleted must not come back as an empty folder.
            if not path.parent.is_dir():
                parents = is_deep and path.parent.name != INDEX_FOLDER
                path.parent.mkdir(parents=parents, exist_ok=True)
            _append(path, content, check)
        except OSError as error:
            reason = reason or f"{path}: {error.strerror}"
        else:
            return path
    raise ChoiceError(f"nothing can be written: {reason}")


def _append(path: Path, content: bytes, check: Callable[[], None] | None) -> None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o666)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, _NOT_REGULAR, str(path))
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if check is not None:
            check()
        size = os.fstat(descriptor).st_size
        # Another writer's last line may have been cut by a full disk.
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            content = b"\n" + content
        written = 0
        try:
            while written < len(content):
                written += os.write(descriptor, content[written:])
        except OSError:
            os.ftruncate(descriptor, size)
            raise
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
