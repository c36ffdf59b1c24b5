"""Folders for log files that users drop on the page: in the cache, until the server ends."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path, PureWindowsPath
from typing import Final

from board.formats.io.locations import cache_folder

_LONGEST_NAME: Final = 200
_DEPTH: Final = 2
"""Of a folder for files: below that of its server."""


def folder_with(files: Iterable[tuple[str, bytes | memoryview]]) -> Path:
    """Return a new folder in which a folder, named after the first of the files, holds them. files:
    names, as a browser gives them, and contents. Raises OSError.
    """
    folder = Path(tempfile.mkdtemp(dir=_folder_of_server()))
    run: Path | None = None
    for number, (given, content) in enumerate(files):
        name = file_name(given) or f"log{number}"
        if run is None:
            run = folder / (name.partition(".")[0] or name)
            run.mkdir()
        path = run / name
        # Two files of the same name, from two folders, are both read.
        (run / f"{number}-{name}" if path.exists() else path).write_bytes(content)
    return folder


def is_dropped(path: str) -> bool:
    """Whether a path, links resolved, is a folder that a server made for files, or lies in one."""
    above = _above_all().resolve()
    try:
        folder = Path(path).resolve()
    except (OSError, ValueError, RuntimeError):  # NUL, a name too long, a loop of links
        return False
    return folder.is_relative_to(above) and len(folder.relative_to(above).parts) >= _DEPTH


def file_name(name: str) -> str:
    """The last part of a name, whatever the browser says it is; empty where that names no file."""
    last = PureWindowsPath(name).name.replace("\0", "")
    shortened = last.encode("utf-8", "replace")[-_LONGEST_NAME:].decode("utf-8", "ignore")
    return "" if shortened.startswith(".") else shortened


def _above_all() -> Path:
    return cache_folder() / "dropped"


@cache
def _folder_of_server() -> Path:
    """The folder of all files that were dropped on this server; it goes with it."""
    _above_all().mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=_above_all()))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made
