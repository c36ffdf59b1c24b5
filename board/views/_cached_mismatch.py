"""What *Mismatch* keeps between reruns, with a bound on how much; see `_cached`."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Final

import streamlit as st

from board.analysis.mismatch import StepMismatch, mismatch_by_step
from board.analysis.mismatch import step_mismatch as read_mismatch
from board.analysis.stepwise import Stepwise, coarse_to_fine
from board.index.discovery.discovered_runs import Location
from board.query.open_run import OpenOptions, Run
from board.views import _cached

_SHOW_PROGRESS_ROLLOUTS: Final = 64
"""Fewer are read before a progress bar could be seen."""


@dataclass(slots=True)
class _Kept:
    """A result that is filled in outside of the cache, since progress can't be drawn inside."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    found: StepMismatch | None = None


@st.cache_resource(max_entries=24, show_spinner=False, hash_funcs=_cached.KEYS)
def _mismatch(version: str, path: Location, options: OpenOptions, step: int) -> _Kept:
    return _Kept()


def step_mismatch(of: Run, step: int) -> StepMismatch:
    """Sampler against trainer at a step, its tokens read with progress. Raises BoardError."""
    kept = _mismatch(of.version, of.info.path, of.options, step)
    with kept.lock:
        if kept.found is None:
            kept.found = _with_progress(of, step)
        return kept.found


def _with_progress(of: Run, step: int) -> StepMismatch:
    if of.counts.get(step, 0) < _SHOW_PROGRESS_ROLLOUTS:
        return read_mismatch(of, step)
    bar = st.progress(0.0, text="Reading the tokens of the step")

    def report(done: int, total: int) -> None:
        bar.progress(done / total, text=f"Reading tokens: {done:,} of {total:,} rollouts")

    try:
        return read_mismatch(of, step, report)
    finally:
        bar.empty()


@st.cache_resource(
    max_entries=4, show_spinner=False, on_release=Stepwise.stop, hash_funcs=_cached.KEYS
)
def _mismatch_scan(
    version: str, path: Location, options: OpenOptions, _run: Run
) -> Stepwise[StepMismatch]:
    steps = [int(step) for step in _run.steps["step"]]
    return Stepwise(mismatch_by_step(_run, coarse_to_fine(steps)), len(steps))


def mismatch_scan(of: Run) -> Stepwise[StepMismatch]:
    """The scan of all steps' tokens, begun or not; one for all tabs."""
    return _mismatch_scan(of.version, of.info.path, of.options, of)
