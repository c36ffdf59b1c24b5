"""Following a log: the page is drawn anew when the log grew, or when more of it was read."""

from __future__ import annotations

import math
import time
from typing import Final

import streamlit as st

from board.errors import BoardError
from board.index.discovery.discovered_runs import RunInfo, is_remote
from board.index.discovery.log_file import LogFile
from board.query.open_run import OpenOptions
from board.views.shared import opened_runs, state
from board.views.shared.text import ago, plain

_LOOK_SECONDS: Final = 1.0
"""Looking asks for the size and time of files and no more: often enough that what is new is on the page
within twice as long.
"""
_DRAW_SECONDS: Final = 2.0
"""What grows all the time is drawn no more often."""
_BUILDING_SECONDS: Final = 2.0
_QUIET_SECONDS: Final = 60.0
"""A log that did not change for so long has a grey dot."""
_DRAWN: Final = "_live_drawn"
_SEEN: Final = "_building_seen"


def toggle(info: RunInfo, root: str) -> None:
    """When the log changed last, and the switch that follows it."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        with st.container(width="stretch"):
            if state.get("live"):
                _watch(info, root)
            else:
                st.caption(f"changed {_since(info)} ago")
        st.toggle(
            "Live",
            key="live",
            help="Checks every second whether the log grew, and redraws the page at most every "
            f"{_DRAW_SECONDS:g} s.",
            on_change=state.put,
            kwargs={"follow": True},
            persist_state="session",
        )


@st.fragment(run_every=_LOOK_SECONDS)
def _watch(info: RunInfo, root: str) -> None:
    """Says how long ago the log changed, and draws the page anew when it changes."""
    with st.empty():
        is_new = time.time() - _changed_at(info) < _QUIET_SECONDS
        st.caption(f"{':green[●]' if is_new else ':gray[●]'} changed {_since(info)} ago")
    try:
        is_grown = has_news(info, root)
    except BoardError as error:
        st.caption(f":material/cloud_off: The log can't be followed now. {plain(error, 400)}")
        return
    if is_grown:
        st.session_state[_DRAWN] = time.monotonic()
        st.rerun()


def has_news(info: RunInfo | None, root: str) -> bool:
    """Whether the size or the time of a log file, or the set of files, has changed since the page was
    drawn; not more often than a page is worth drawing. info: None where there was no run.

    Raises:
        BoardError: the folder can't be listed.
    """
    if time.monotonic() - st.session_state.get(_DRAWN, -math.inf) < _DRAW_SECONDS:
        return False
    if info and not is_remote(info) and any(_has_changed(file) for file in info.files):
        opened_runs.discovered.clear()
        return True
    # Files that are new are found as often as the cache looks, every few seconds; what a store holds
    # is told by its listing.
    found = {run.name: run.files for run in opened_runs.discovered(root).runs}
    return bool(found) if info is None else found.get(info.name) != info.files


@st.fragment(run_every=_BUILDING_SECONDS)
def watch_building(info: RunInfo, options: OpenOptions) -> None:
    """Reruns the page while the index is made, so that it shows what was read meanwhile."""
    begun = st.session_state.get(_SEEN)
    st.session_state[_SEEN] = begun is None
    if begun is not None or not opened_runs.is_building(info, options):
        st.session_state.pop(_SEEN)
        st.rerun()


def _has_changed(file: LogFile) -> bool:
    try:
        found = file.path.stat()
    except OSError:
        return True
    return (found.st_size, found.st_mtime_ns) != (file.size, file.mtime_ns)


def _changed_at(info: RunInfo) -> float:
    """Unix seconds of the last change of a file; of a store, as its listing had it."""
    if is_remote(info):
        return info.mtime
    return max(map(_written_at, info.files), default=info.mtime)


def _written_at(file: LogFile) -> float:
    try:
        return file.path.stat().st_mtime
    except OSError:
        return file.mtime_ns / 1e9


def _since(info: RunInfo) -> str:
    return ago(max(time.time() - _changed_at(info), 0.0))
