"""Following a log: the page is drawn anew when the log grew, or when more of it was read."""

from __future__ import annotations

import math
import time
from typing import Final, NoReturn

import streamlit as st

from board.errors import BoardError
from board.store.discovery import RunInfo, is_remote
from board.store.log_file import LogFile
from board.store.run import OpenOptions
from board.views import _cached, _state
from board.views._text import plain

_LOOK_SECONDS: Final = 1.0
"""Looking asks for the size and time of files and no more: often enough that what is new is on the page
within twice as long.
"""
_DRAW_SECONDS: Final = 2.0
"""What grows all the time is drawn no more often."""
_BUILDING_SECONDS: Final = 2.0
_DRAWN: Final = "_live_drawn"
_SEEN: Final = "_building_seen"


def toggle(info: RunInfo, root: str) -> None:
    """The switch that follows the log, and what looks whether it grew."""
    st.toggle(
        "Live",
        key="live",
        help="Looks every second whether the log grew, and reads what is new, "
        f"every {_DRAW_SECONDS:g} s at most.",
        persist_state="session",
    )
    if _state.get("live"):
        _watch(info, root)


@st.fragment(run_every=_LOOK_SECONDS)
def _watch(info: RunInfo, root: str) -> None:
    """Reruns the page when the size or the time of a log file, or the set of files, has changed."""
    if time.monotonic() - st.session_state.get(_DRAWN, -math.inf) < _DRAW_SECONDS:
        return
    if not is_remote(info) and any(_has_changed(file) for file in info.files):
        _cached.discovered.clear()
        _draw()
    # Files that are new are found as often as the cache looks, every few seconds; what a store holds
    # is told by its listing.
    try:
        found = {run.name: run.files for run in _cached.discovered(root).runs}
    except BoardError as error:
        st.caption(f":material/cloud_off: The log can't be followed now. {plain(error, 400)}")
        return
    if found.get(info.name) != info.files:
        _draw()


def _draw() -> NoReturn:
    st.session_state[_DRAWN] = time.monotonic()
    st.rerun()


@st.fragment(run_every=_BUILDING_SECONDS)
def watch_building(info: RunInfo, options: OpenOptions) -> None:
    """Reruns the page while the index is made, so that it shows what was read meanwhile."""
    begun = st.session_state.get(_SEEN)
    st.session_state[_SEEN] = begun is None
    if begun is not None or not _cached.is_building(info, options):
        st.session_state.pop(_SEEN)
        st.rerun()


def _has_changed(file: LogFile) -> bool:
    try:
        found = file.path.stat()
    except OSError:
        return True
    return (found.st_size, found.st_mtime_ns) != (file.size, file.mtime_ns)
