"""Opens files of this machine; those of a server only below the folder that it shows.

Whether a path leads out of the folder is asked when files are looked for, too, and told to users there.
Whoever writes into the folder can swap a file, or a folder above it, for a link after that: so each
file is opened name by name from the folder on, and what is a link by then is not followed.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from board.formats.io.remote import is_url

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
    return bool(os.environ.get("ROLLOUT_BOARD_ROOT")) and not _is_any_path_allowed()


def open_descriptor(path: Path) -> int:
    """A descriptor of a file to read. Raises OSError; PermissionError where it is not to be shown."""
    # A file that was named on the command line may lie anywhere.
    if not is_confined() or os.environ.get("ROLLOUT_BOARD_THRESHOLDS") == str(path):
        return os.open(path, _FLAGS)
    real = Path(os.path.realpath(path))
    for folder in _shown_folders():
        if real != folder and real.is_relative_to(folder):
            return _opened_below(folder, real.relative_to(folder).parts)
    raise PermissionError(errno.EACCES, "it is a link that leads outside the root", str(path))


def open_binary(path: Path) -> BinaryIO:
    """The same as a file."""
    return os.fdopen(open_descriptor(path), "rb")


@contextmanager
def held(path: Path) -> Generator[str]:
    """A name by which others open the very file that `open_descriptor` found, whatever `path` becomes."""
    descriptor = open_descriptor(path)
    try:
        yield f"/dev/fd/{descriptor}" if Path("/dev/fd").is_dir() else str(path)
    finally:
        os.close(descriptor)


def _is_any_path_allowed() -> bool:
    return os.environ.get("ROLLOUT_BOARD_ALLOW_ANY_PATH") == "1"


def _shown_folders() -> list[Path]:
    """The folder that is shown, links resolved, and the cache, where unpacked copies of logs are."""
    root = os.environ["ROLLOUT_BOARD_ROOT"]
    cache = Path(os.path.realpath(cache_folder()))
    if is_url(root):
        return [cache]
    shown = Path(os.path.realpath(root))
    return [shown if shown.is_dir() else shown.parent, cache]


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
