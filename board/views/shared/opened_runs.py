"""Runs as the server has them: discovered, opened once for all browser tabs, and followed."""

from __future__ import annotations

import subprocess
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path

import streamlit as st

from board.errors import BoardError
from board.index import cause_rules
from board.index.discovery import discovered_runs
from board.index.discovery.discovered_runs import Discovery, Location, RunInfo
from board.index.discovery.sidecar_files import files_state, state_of
from board.query.index_builder import start
from board.query.labels.matching import with_labels
from board.query.open_run import Follower, OpenOptions, Run
from board.query.outlines import OUTLINE_BYTES, outlined
from board.views.shared.background import BackgroundTask, show_progress
from board.views.shared.text import plain, size

_BACKGROUND_BYTES = 8 << 20
"""Less is read before a progress bar could be seen."""
_OTHER_PROCESS_BYTES = OUTLINE_BYTES
"""More is read by another process, while the page shows the outline, or the rollouts read so far."""


@st.cache_resource(ttl=5, max_entries=16, show_spinner=False)
def discovered(root: str) -> Discovery:
    """The runs under a folder, looked for at most every 5 seconds. Raises BoardError."""
    return discovered_runs.discover(discovered_runs.location_of(root))


@dataclass(slots=True)
class _Slot:
    """An opened run; the lock lets one tab at a time open it.

    outline: opens its outline. builder: the process that makes its indexes, while there is one. so_far:
    the run as far as its index has it, while `run` is the outline. sidecar_state: of its settings and its
    vocabulary when it was opened.
    """

    follower: Follower
    outline: Follower
    lock: threading.Lock = field(default_factory=threading.Lock)
    run: Run | None = None
    so_far: Run | None = None
    opening: BackgroundTask[Run] | None = None
    builder: subprocess.Popen[bytes] | None = None
    sidecar_state: tuple[tuple[str, int, int], ...] = ()

    @property
    def is_building(self) -> bool:
        """Whether the index is still being made."""
        return self.builder is not None and self.builder.poll() is None


@st.cache_resource(
    max_entries=64, show_spinner=False, hash_funcs={OpenOptions: repr, type(Path()): str}
)
def _slot(path: Location, only: str, options: OpenOptions) -> _Slot:
    """The slot of a run; filled outside, since progress can't be drawn in here."""
    return _Slot(Follower(options), Follower(outlined(options)))


def opened(info: RunInfo, options: OpenOptions) -> Run:
    """The run as its files are now; of a large one without an index what was read. Raises BoardError."""
    slot = _slot(info.path, info.part, options)
    with slot.lock:
        was_building, building = slot.builder is not None, slot.is_building
        sidecar_state = state_of(info) + cause_rules.state_of(info)
        if slot.run is not None and slot.run.reward is not None:  # the trainer's says what it is
            sidecar_state += files_state(info.metric_files)
        is_changed = slot.run is None or slot.run.info != info
        if is_changed or slot.sidecar_state != sidecar_state or was_building:
            unread = 0 if building else slot.follower.unread(info)
            if unread >= _OTHER_PROCESS_BYTES and not was_building:
                slot.builder = start(info, options.read)
            elif not building:  # what a process that has ended left is read here
                slot.builder = None
            slot.run = _read(slot, info, unread)
            slot.sidecar_state = sidecar_state
        assert slot.run is not None
        slot.run = with_labels(slot.run)
        return slot.run


def is_building(info: RunInfo, options: OpenOptions) -> bool:
    """Whether a process is making the index of the run."""
    return _slot(info.path, info.part, options).is_building


def read_so_far(run: Run) -> Run:
    """The run as far as its index has it, while it is shown as an outline; else the run itself."""
    options = replace(run.options, read=replace(run.options.read, outline=False))
    return _slot(run.info.path, run.info.part, options).so_far or run


def _read(slot: _Slot, info: RunInfo, unread: int) -> Run:
    """unread: bytes that the index does not cover, where no other process makes it."""
    if slot.builder is not None:  # it may not have begun: this process would be the one that reads
        run, outline = slot.follower.so_far(info), slot.outline.so_far(info)
        slot.so_far = run if outline.rollout_count > run.rollout_count else None
        return run if slot.so_far is None else outline
    slot.so_far = None
    if slot.opening is None:
        if unread < _BACKGROUND_BYTES:
            return slot.follower.run(info, wait=False)
        slot.opening = BackgroundTask(lambda report: slot.follower.run(info, report, wait=False))
    try:
        run = show_progress(
            slot.opening,
            f"Reading {plain(info.name)}",
            describe=lambda done, total: f"{plain(size(done))} of {plain(size(total))}",
        )
    except BoardError:
        slot.opening = None
        raise
    slot.opening = None
    assert run is not None, "nobody can stop it"
    return run
