"""The trainer's metrics as the server has them: read in the background, once for all browser tabs."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import streamlit as st

from board.charts.curve_data import mean_column
from board.core.metrics.definitions import base_name
from board.core.metrics.trainer import Agreement, explaining_column
from board.index.discovery.run_info import Location
from board.query.open_run import Run
from board.query.trainer.agreement import agreements
from board.query.trainer.metrics import TrainerMetrics, TrainerMetricsReader
from board.views.shared import state
from board.views.shared.background import BackgroundTask
from board.views.shared.text import plain, size

_WAIT_SECONDS: Final = 0.3
"""What is read within this time is on the page at once."""
_POLL_SECONDS: Final = 0.5
_EXPLAINS: Final = (
    *("k3_mean", "mismatch_kl_mean", "importance_ratio_mean", "entropy_mean"),
    *("is_masked_mean", "advantage", "response_tokens"),
)
"""Metrics of rollouts of which one may explain a spike of the trainer, those of tokens first."""


@dataclass(slots=True)
class _Slot:
    """The reader of a run's metrics. version: of the run that was read last; task: the reading of now."""

    reader: TrainerMetricsReader
    lock: threading.Lock = field(default_factory=threading.Lock)
    version: str = ""
    task: BackgroundTask[TrainerMetrics] | None = None


@st.cache_resource(max_entries=32, show_spinner=False, hash_funcs={type(Path()): str})
def _slot(path: Location, part: str, shift: int | None) -> _Slot:
    given = os.environ.get("ROLLOUT_BOARD_METRICS")
    return _Slot(TrainerMetricsReader(Path(given) if given else None, shift))


def metrics(run: Run) -> TrainerMetrics:
    """The metrics of a run's trainer as far as they are read; what is new begins to be read."""
    whole = run.whole or run
    slot = _slot(whole.info.path, whole.info.part, shift())
    with slot.lock:
        is_reading = slot.task is not None and slot.task.is_running
        if not is_reading and (slot.version != whole.version or slot.reader.is_changed(whole)):
            slot.version = whole.version
            slot.task = BackgroundTask(lambda report: slot.reader.read(whole, report))
            slot.task.start()
            slot.task.wait(_WAIT_SECONDS)
        task = slot.task
    if task is not None and task.has_ended and task.error is not None:
        task.finish()  # raises what went wrong
    return slot.reader.result or TrainerMetrics()


def has_news(run: Run) -> bool:
    """Whether a file of metrics has changed since it was read."""
    whole = run.whole or run
    slot = _slot(whole.info.path, whole.info.part, shift())
    is_reading = slot.task is not None and slot.task.is_running
    return not is_reading and slot.reader.is_changed(whole)


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
    slot = _slot(whole.info.path, whole.info.part, shift())
    if slot.task is not None and slot.task.is_running:
        _show_running(slot.task)


@st.fragment(run_every=_POLL_SECONDS)
def _show_running(task: BackgroundTask[TrainerMetrics]) -> None:
    if not task.is_running:
        st.rerun()
    words = f"{plain(size(task.done))} of {plain(size(task.total))}"
    st.progress(
        min(task.done / max(task.total, 1), 1.0), text=f"Reading the trainer's metrics: {words}"
    )


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
    whole = run.whole or run
    trainer = metrics(whole)
    return whole.remembered(f"agreement {trainer.version}", lambda: agreements(whole, trainer))
