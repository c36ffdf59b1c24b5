"""Everything the pages keep between reruns, with a bound on how much.

Runs are kept once for all browser tabs and followed; what is drawn of them is kept by their version.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import streamlit as st

from board.analysis.own_thresholds import OwnThresholds
from board.analysis.rollout import OpenRollout, open_rollout
from board.analysis.step_spans import StepReading, StepSpans
from board.analysis.tokenizers import load_vocabulary
from board.charts.curve_data import together
from board.charts.curves import Beside, CurveOptions, sketch
from board.charts.light import LightCurve, light
from board.core.texts import diff as differences
from board.core.texts.diff import Stretch
from board.core.tokens.vocabulary import Vocabulary
from board.errors import BoardError
from board.index.discovery import discovered_runs
from board.index.discovery.discovered_runs import Discovery, Location, RunInfo
from board.index.sidecar_files import state_of
from board.query import narrowing, rollouts, splits
from board.query.index_builder import start
from board.query.open_run import Follower, OpenOptions, Run
from board.query.selection import Selection
from board.views._text import plain, size

KEYS: Final[dict[str | type, Callable[[Any], Any]]] = {
    OpenOptions: repr,
    CurveOptions: repr,
    OwnThresholds: repr,
    type(Path()): str,
}
"""What stands for these in the key of a cache: Streamlit takes them apart field by field at each call."""
_SHOW_PROGRESS_BYTES = 8 << 20
"""Less is read before a progress bar could be seen."""
_PROGRESS_SECONDS = 0.2
"""A bar that moves more often takes time from what it tells of."""
_APART_BYTES = 256 << 20
"""More is read by a process of its own, while the page shows what there is."""


@st.cache_resource(ttl=5, max_entries=16, show_spinner=False, hash_funcs=KEYS)
def discovered(root: str) -> Discovery:
    """The runs under a folder, looked for at most every 5 seconds. Raises BoardError."""
    return discovered_runs.discover(discovered_runs.location_of(root))


@dataclass(slots=True)
class _Slot:
    """Where an opened run is kept; the lock lets only one tab read it.

    builder: the process that makes its index, while there is one. beside: the state of its settings and
    its vocabulary when it was opened.
    """

    follower: Follower
    lock: threading.Lock = field(default_factory=threading.Lock)
    run: Run | None = None
    builder: subprocess.Popen[bytes] | None = None
    beside: tuple[tuple[str, int, int], ...] = ()

    @property
    def is_building(self) -> bool:
        """Whether the index is still being made."""
        return self.builder is not None and self.builder.poll() is None


@st.cache_resource(max_entries=16, show_spinner=False, hash_funcs=KEYS)
def _slot(path: Location, only: str, options: OpenOptions) -> _Slot:
    """The slot of a run; filled outside, since progress can't be drawn in here."""
    return _Slot(Follower(options))


def run(info: RunInfo, options: OpenOptions) -> Run:
    """The run as its files stand; of a large one that has no index yet, as far as it was read."""
    slot = _slot(info.path, info.part, options)
    with slot.lock:
        was_building, building = slot.builder is not None, slot.is_building
        beside = state_of(info)
        if slot.run is None or slot.run.info != info or slot.beside != beside or was_building:
            slot.beside = beside
            unread = 0 if building else slot.follower.unread(info)
            if unread >= _APART_BYTES and not was_building:
                slot.builder = start(info, options.read)
            elif not building:  # what a process that has ended left is read here
                slot.builder = None
            slot.run = _open_with_progress(slot, info, unread)
        return slot.run


def is_at_hand(info: RunInfo, options: OpenOptions) -> bool:
    """Whether so little of the run is unread that nobody waits long for it."""
    return _slot(info.path, info.part, options).follower.unread(info) < _SHOW_PROGRESS_BYTES


@st.cache_resource(max_entries=16, show_spinner=False, hash_funcs=KEYS)
def _environments(version: str, path: Location, options: OpenOptions, _run: Run) -> tuple[str, ...]:
    return narrowing.environments_of(_run)


def environments(of: Run) -> tuple[str, ...]:
    """The environments that the run names."""
    return _environments(of.version, of.info.path, of.options, of)


@st.cache_resource(max_entries=16, show_spinner=False, hash_funcs=KEYS)
def _splits(version: str, path: Location, options: OpenOptions, _run: Run) -> dict[str, int]:
    return {name: sum(of.values()) for name, of in narrowing.splits_of(_run).items()}


def split_counts(of: Run) -> dict[str, int]:
    """The splits of a run, that of training first, with how many rollouts each has."""
    return _splits(of.version, of.info.path, of.options, of)


@st.cache_resource(max_entries=8, show_spinner=False, hash_funcs=KEYS)
def _of_split(version: str, path: Location, options: OpenOptions, name: str, _run: Run) -> Run:
    return narrowing.of_split(_run, name)


def of_split(of: Run, written: str) -> Run | None:
    """The run with the rollouts of a split as the URL has it: "" is training's, "all" all of them; None
    where it has none of that name.
    """
    held = split_counts(of)
    if written == splits.ALL or len(held) < 1:
        return of
    name = splits.meant(written) if written else next(iter(held))
    if name not in held:
        return None
    return _of_split(of.version, of.info.path, of.options, name, of) if len(held) > 1 else of


@st.cache_resource(
    max_entries=8, show_spinner="Averaging over the environments chosen …", hash_funcs=KEYS
)
def _narrowed(
    version: str, path: Location, options: OpenOptions, envs: tuple[str, ...], _run: Run
) -> Run:
    return narrowing.narrowed(_run, envs)


def narrowed(of: Run, envs: tuple[str, ...]) -> Run:
    """The run with the rollouts of these environments alone; the run itself without a name."""
    return _narrowed(of.version, of.info.path, of.options, envs, of) if envs else of


def is_building(info: RunInfo, options: OpenOptions) -> bool:
    """Whether a process is making the index of the run."""
    return _slot(info.path, info.part, options).is_building


def _open_with_progress(slot: _Slot, info: RunInfo, unread: int) -> Run:
    """unread: bytes that the index does not cover, where no other process makes it."""
    if slot.builder is not None:  # it may not have begun: this process would be the one that reads
        return slot.follower.so_far(info)
    if unread < _SHOW_PROGRESS_BYTES:
        return slot.follower.run(info, wait=False)
    label = f"Reading {plain(info.name)}"
    bar = st.progress(0.0, text=label)

    def report(done: int, total: int) -> None:
        share = min(done / total, 1.0) if total else 1.0
        bar.progress(share, text=f"{label}: {plain(size(done))} of {plain(size(total))}")

    try:
        return slot.follower.run(info, report, wait=False)
    finally:
        bar.empty()


@st.cache_resource(max_entries=32, show_spinner=False, hash_funcs=KEYS)
def _rollout(
    version: str,
    options: OpenOptions,
    step: int,
    index: int,
    tokenizer: str,
    _run: Run,
) -> OpenRollout:
    return open_rollout(_run, step, index, vocabulary(tokenizer) if tokenizer else None)


def rollout(of: Run, step: int, index: int, tokenizer: str = "") -> OpenRollout:
    """One rollout whole, ids decoded by the tokenizer where the log can't. Raises BoardError."""
    return _rollout(of.version, of.options, step, index, tokenizer, of)


@st.cache_resource(max_entries=8, show_spinner=False)
def text_diff(left: str, right: str) -> list[Stretch]:
    """The stretches of two texts; the caller must not change them."""
    return differences.text_diff(left, right)


@st.cache_resource(max_entries=4096, show_spinner="Reading lengths …", hash_funcs=KEYS)
def _transcript_length(
    version: str, options: OpenOptions, step: int, index: int, _run: Run
) -> int | None:
    try:
        return len(open_rollout(_run, step, index, None).transcript)
    except BoardError:
        return None


def transcript_length(of: Run, step: int, index: int) -> int | None:
    """Characters of a rollout that is recorded as messages; None where it can't be read."""
    return _transcript_length(of.version, of.options, step, index, of)


@st.cache_resource(max_entries=2, show_spinner="Loading the tokenizer …", hash_funcs=KEYS)
def vocabulary(name: str) -> Vocabulary:
    """A tokenizer's pieces, from this machine; loaded once for all rollouts. Raises BoardError."""
    return load_vocabulary(name)


def download_vocabulary(name: str) -> None:
    """Fetches a tokenizer from the hub into the local cache. Raises BoardError."""
    load_vocabulary(name, download=True)
    vocabulary.clear()


@st.cache_resource(max_entries=32, show_spinner=False, hash_funcs=KEYS)
def _step_reading(
    version: str, options: OpenOptions, step: int, _run: Run
) -> tuple[StepReading, threading.Lock]:
    return StepReading(_run, step), threading.Lock()


def step_spans(of: Run, step: int) -> StepSpans:
    """The range of each token metric over all rollouts of a step, read once, with a progress bar.

    A rerun in between loses nothing: the next one goes on where this one was stopped.
    """
    reading, lock = _step_reading(of.version, of.options, step, of)
    with lock:
        if not reading.is_complete:
            _read_with_progress(reading, step)
        return reading.result()


def _read_with_progress(reading: StepReading, step: int) -> None:
    bar = st.progress(0.0)
    try:
        shown = 0.0
        while not reading.is_complete:
            reading.read_one()
            if time.monotonic() - shown > _PROGRESS_SECONDS:
                shown = time.monotonic()
                words = f"Reading step {step}: {reading.done} of {reading.total} rollouts"
                bar.progress(reading.done / reading.total, text=words)
    finally:
        bar.empty()


@st.cache_resource(max_entries=256, show_spinner=False, hash_funcs=KEYS)
def _light_curve(
    version: str,
    path: Location,
    options: OpenOptions,
    columns: tuple[str, ...],
    look: CurveOptions,
    dark: bool,
    beside: tuple[str, ...],
    among: tuple[str, ...],
    _run: Run,
    _beside: tuple[Run, ...],
) -> LightCurve:
    others = [Beside(one.split or "", one.steps) for one in _beside]
    series = together(columns, among)
    steps = _run.steps
    return light(sketch(steps, series, look, dark=dark, beside=others))


def light_curve(
    of: Run,
    columns: tuple[str, ...],
    look: CurveOptions,
    *,
    dark: bool,
    beside: tuple[Run, ...] = (),
    among: tuple[str, ...] = (),
) -> LightCurve:
    """These columns over the run's steps, with points of other splits; the caller must not change it.

    among: see `together`.
    """
    key = (of.version, of.info.path, of.options, columns, look, dark)
    return _light_curve(*key, tuple(one.version for one in beside), among, of, beside)


@st.cache_resource(max_entries=64, show_spinner="Filtering the rollouts …", hash_funcs=KEYS)
def _rollout_count(
    version: str, path: Location, options: OpenOptions, chosen: str, _selection: Selection
) -> int:
    return rollouts.count(_selection)


def rollout_count(of: Run, selection: Selection) -> int:
    """How many rollouts of a run a selection has."""
    chosen = repr((selection.envs, selection.steps, selection.filters))
    return _rollout_count(of.version, of.info.path, of.options, chosen, selection)
