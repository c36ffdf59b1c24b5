"""Log files that a user drops on the page: kept in a folder of this server until it ends."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path, PureWindowsPath
from typing import Any, Final

import streamlit as st

from board.formats.io.locations import cache_folder
from board.views.shared import state

MOST_MEGABYTES: Final = 200
_OPENED: Final = "_opened_files"
_LONGEST_NAME: Final = 200
_DEPTH: Final = 2
"""Of a folder for files: below that of its server."""


def choose_files() -> None:
    """Draws a field that takes files, and opens the run of those that are new in it."""
    files: Sequence[Any] = st.file_uploader(
        "Log files, from this computer",
        accept_multiple_files=True,
        max_upload_size=MOST_MEGABYTES,
        help=f"Up to {MOST_MEGABYTES} MB each; the files of all ranks together are a run. They are kept "
        "on the server's disk until it ends, with labels and notes on them.",
    )
    ids = [file.file_id for file in files]
    if ids and ids != st.session_state.get(_OPENED):
        st.session_state[_OPENED] = ids
        state.go("overview", root=str(_folder_with(files)), run="", step=None, index=None)


def is_dropped(path: str) -> bool:
    """Whether a path, links resolved, is a folder that a server made for files, or lies in one."""
    above = _above_all().resolve()
    try:
        folder = Path(path).resolve()
    except (OSError, ValueError, RuntimeError):  # NUL, a name too long, a loop of links
        return False
    return folder.is_relative_to(above) and len(folder.relative_to(above).parts) >= _DEPTH


def _above_all() -> Path:
    return cache_folder() / "dropped"


@cache
def _folder_of_server() -> Path:
    """The folder of all files that were dropped on this server; it goes with it."""
    _above_all().mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=_above_all()))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def _folder_with(files: Sequence[Any]) -> Path:
    """Return a new folder in which a folder, named after the first file, holds the files."""
    folder = Path(tempfile.mkdtemp(dir=_folder_of_server()))
    names = [_file_name(file.name) or f"log{number}" for number, file in enumerate(files)]
    run = folder / (names[0].partition(".")[0] or names[0])
    run.mkdir()
    for number, (name, file) in enumerate(zip(names, files, strict=True)):
        # Two files of one name, from two folders, are both read.
        is_taken = name in names[:number]
        (run / (f"{number}-{name}" if is_taken else name)).write_bytes(file.getbuffer())
    return folder


def _file_name(name: str) -> str:
    """The last part of a name, whatever the browser says it is; empty where that names no file."""
    last = PureWindowsPath(name).name.replace("\0", "")
    shortened = last.encode("utf-8", "replace")[-_LONGEST_NAME:].decode("utf-8", "ignore")
    return "" if shortened.startswith(".") else shortened
