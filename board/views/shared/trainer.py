"""The trainer's metrics as the server has them: read in the background, once for all browser tabs."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import streamlit as st

from board.charts.curve_data import mean_column
from board.core.arrays import IntArray
from board.core.findings.series import Changes
from board.core.metrics.definitions import base_name
from board.core.metrics.trainer import Agreement, explaining_column
from board.index.discovery.run_info import Location
from board.query.open_run import Run
from board.query.trainer.agreement import agreements
from board.query.trainer.changes import trainer_changes, trainer_steps
from board.query.trainer.metrics import ReportProgress, TrainerMetrics, TrainerMetricsReader
from board.views.shared import state
from board.views.shared.background import BackgroundTask
from board.views.shared.text import plain, size

_WAIT_SECONDS: Final = 0.3
"""What is read within this time is on the page at once."""
_POLL_SECONDS: Final = 0.5
_LOOK_SECONDS: Final = 1.0
_MOST_LISTED: Final = 12
"""Metrics that are named while the others are still looked for."""
_EXPLAINS: Final = (
    *("k3_mean", "mismatch_kl_mean", "importance_ratio_mean", "entropy_mean"),
    *("is_masked_mean", "advantage", "response_tokens"),
)
"""Metrics of rollouts of which one may explain a spike of the trainer, those of tokens first."""


@dataclass(slots=True)
class _Slot:
    """The reader of a run's metrics. version: of the run that was read last; task: the reading of now.

    looked: when its files were last asked whether they changed, in seconds of the monotonic clock.
    results: by shift, of what was read last. compared: the comparison with the rollouts that was made
    last, and the versions of both; changes: where scalars change, likewise.
    """

    reader: TrainerMetricsReader
    lock: threading.Lock = field(default_factory=threading.Lock)
    version: str = ""
    looked: float = 0.0
    task: BackgroundTask[None] | None = None
    results: dict[int | None, TrainerMetrics] = field(default_factory=dict[Any, TrainerMetrics])
    compared: tuple[object, list[Agreement]] = (None, [])
    changes: tuple[object, Changes] = (None, Changes())

    @property
    def is_reading(self) -> bool:
        return self.task is not None and self.task.is_running

    def is_changed(self, run: Run) -> bool:
        """Whether a file has changed since it was read; asked anew after a second."""
        if time.monotonic() - self.looked < _LOOK_SECONDS:
            return False
        self.looked = time.monotonic()
        return self.reader.is_changed(run)

    def read(self, run: Run, shift: int | None, report: ReportProgress) -> None:
        self.reader.read(run, report)
        self.results = {shift: self.reader.metrics(run, shift)}


@st.cache_resource(max_entries=64, show_spinner=False, hash_funcs={type(Path()): str})
def _slot(path: Location, part: str) -> _Slot:
    given = os.environ.get("ROLLOUT_BOARD_METRICS")
    return _Slot(TrainerMetricsReader(Path(given) if given else None))


def metrics(run: Run) -> TrainerMetrics:
    """The metrics of a run's trainer as far as they are read; what is new begins to be read."""
    whole, moved = run.whole or run, shift()
    slot = _slot(whole.info.path, whole.info.part)
    with slot.lock:
        if not slot.is_reading and (slot.version != whole.version or slot.is_changed(whole)):
            slot.version = whole.version
            slot.task = BackgroundTask(lambda report: slot.read(whole, moved, report))
            slot.task.start()
            slot.task.wait(_WAIT_SECONDS)
        if slot.task is not None and slot.task.has_ended and slot.task.error is not None:
            slot.task.finish()  # raises what went wrong
        if moved not in slot.results and not slot.is_reading:
            slot.results[moved] = slot.reader.metrics(whole, moved)
        return slot.results.get(moved) or TrainerMetrics()


def has_news(run: Run) -> bool:
    """Whether a file of metrics has changed since it was read."""
    whole = run.whole or run
    slot = _slot(whole.info.path, whole.info.part)
    return not slot.is_reading and slot.reader.is_changed(whole)


def shift() -> int | None:
    """Steps to add to the trainer's, as the run settings or the command line say; None: detected."""
    chosen = state.get("metric_shift")
    given = os.environ.get("ROLLOUT_BOARD_METRIC_SHIFT")
    if chosen is not None:
        return int(chosen)
    return int(given) if given else None


def show_reading(run: Run) -> None:
    """How far the reading is, while it goes on; the page is drawn again at its end."""
    whole = run.whole or run
    slot = _slot(whole.info.path, whole.info.part)
    if slot.task is not None and slot.is_reading:
        _show_running(slot.task, slot.reader)


@st.fragment(run_every=_POLL_SECONDS)
def _show_running(task: BackgroundTask[None], reader: TrainerMetricsReader) -> None:
    if not task.is_running:
        st.rerun()
    words = f"{plain(size(task.done))} of {plain(size(task.total))}"
    st.progress(
        min(task.done / max(task.total, 1), 1.0), text=f"Reading the trainer's metrics: {words}"
    )
    if names := reader.names:
        listed, more = names[:_MOST_LISTED], len(names) - _MOST_LISTED
        rest = f" and {more:,} more" if more > 0 else ""
        st.caption(f"Found so far: {', '.join(map(plain, listed))}{rest}")


def explaining_metric(run: Run, step: int) -> str:
    """The metric of rollouts that stands out most at a step: what may explain a spike of the trainer."""
    # The mean of advantages is 0 in each group: what grows with the gradient is how far they spread.
    stems = {
        name: "advantage_std" if name == "advantage" else base_name(name)
        for name in _EXPLAINS
        if name in run.metrics
    }
    means = {name: mean_column(run.steps, stem) for name, stem in stems.items()}
    recorded = {name: values for name, values in means.items() if values is not None}
    return explaining_column(run.steps["step"].to_numpy(np.int64), recorded, step) or ""


def compared(run: Run) -> list[Agreement]:
    """What the trainer and the rollouts of the whole run both have."""
    whole, read = run.whole or run, metrics(run)
    slot, versions = _slot(whole.info.path, whole.info.part), (whole.version, read.version)
    known, result = slot.compared
    if known != versions:
        result = agreements(whole, read)
        slot.compared = (versions, result)
    return result


def changed_at(run: Run) -> tuple[IntArray, Changes]:
    """The steps of the trainer's scalars, and where these change, by their place in the steps."""
    whole, read = run.whole or run, metrics(run)
    slot, versions = _slot(whole.info.path, whole.info.part), (whole.version, read.version)
    known, result = slot.changes
    if known != versions:
        result = trainer_changes(read, compared(run))
        slot.changes = (versions, result)
    return trainer_steps(read), result
