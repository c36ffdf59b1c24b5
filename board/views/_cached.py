"""Everything the pages keep between reruns, with a bound on how much.

Runs are kept once for all browser tabs and followed; what is drawn of them is kept by their version.
"""

from __future__ import annotations

import subprocess
import threading
import time
from dataclasses import dataclass, field

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from board.charts import env_charts, group_charts
from board.charts.curves import CurveOptions, Series, curve
from board.charts.run_charts import RunSteps, overlaid_runs
from board.core.contributions import Contributions, RolloutShare, TypeShare
from board.core.environments import EnvCurves
from board.core.findings.digest import Digest
from board.core.metrics import rollout_metric
from board.core.spike import TOKEN_SOURCES, Headline, contributions_to, headline
from board.core.vocabulary import Vocabulary
from board.errors import BoardError
from board.store import discovery
from board.store import rollout as opening
from board.store.builder import start
from board.store.discovery import Discovery, Location, RunInfo
from board.store.expressed import OWN, own_steps
from board.store.findings import Diagnosis, diagnose
from board.store.groups import environment_curves
from board.store.log_sample import sampled_digests
from board.store.mismatch import StepMismatch, mismatch_by_step
from board.store.mismatch import step_mismatch as read_mismatch
from board.store.own_thresholds import OwnThresholds
from board.store.rollout import OpenRollout, open_rollout, said, search
from board.store.run import Follower, OpenOptions, Run
from board.store.run_groups import RunGroups, StepFit, run_groups
from board.store.run_prompts import RunPrompts, run_prompts
from board.store.spans import StepReading, StepSpans
from board.store.step_tokens import ReadTokens, read_step
from board.store.stepwise import Stepwise, coarse_to_fine
from board.store.tokenizers import load_vocabulary
from board.store.watch_words import Watched, compiled, watch
from board.views._reading import Progress, Reading
from board.views._text import plain, size

_SHOW_PROGRESS_BYTES = 8 << 20
"""Less is read before a progress bar could be seen."""
_PROGRESS_SECONDS = 0.2
"""A bar that moves more often takes time from what it tells of."""
_SHOW_PROGRESS_ROLLOUTS = 64
"""Fewer are read before a progress bar could be seen."""
_APART_BYTES = 256 << 20
"""More is read by a process of its own, while the page shows what there is."""


@st.cache_resource(ttl=5, max_entries=16, show_spinner=False)
def discovered(root: str) -> Discovery:
    """The runs under a folder, looked for at most every 5 seconds. Raises BoardError."""
    return discovery.discover(discovery.location_of(root))


@dataclass(slots=True)
class _Slot:
    """Where an opened run is kept; the lock lets only one tab read it.

    builder: the process that makes its index, while there is one.
    """

    follower: Follower
    lock: threading.Lock = field(default_factory=threading.Lock)
    run: Run | None = None
    builder: subprocess.Popen[bytes] | None = None

    @property
    def is_building(self) -> bool:
        """Whether the index is still being made."""
        return self.builder is not None and self.builder.poll() is None


@st.cache_resource(max_entries=16, show_spinner=False)
def _slot(path: Location, only: str, options: OpenOptions) -> _Slot:
    """The slot of a run; filled outside, since progress can't be drawn in here."""
    return _Slot(Follower(options))


def run(info: RunInfo, options: OpenOptions) -> Run:
    """The run as its files stand; of a large one that has no index yet, as far as it was read."""
    slot = _slot(info.path, info.part, options)
    with slot.lock:
        was_building, building = slot.builder is not None, slot.is_building
        if slot.run is None or slot.run.info != info or was_building:
            if not building and slot.follower.unread(info) >= _APART_BYTES:
                slot.builder = start(info, options.read)
            elif not building:
                slot.builder = None
            slot.run = _open_with_progress(slot, info)
        return slot.run


def is_building(info: RunInfo, options: OpenOptions) -> bool:
    """Whether a process is making the index of the run."""
    return _slot(info.path, info.part, options).is_building


def _open_with_progress(slot: _Slot, info: RunInfo) -> Run:
    if slot.builder is not None or slot.follower.unread(info) < _SHOW_PROGRESS_BYTES:
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


@st.cache_resource(max_entries=32, show_spinner=False)
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


@st.cache_resource(max_entries=4096, show_spinner="Comparing prompts …")
def _prompt_key(version: str, options: OpenOptions, step: int, index: int, _run: Run) -> str | None:
    try:
        return opening.prompt_key(_run, step, index)
    except BoardError:
        return None


def prompt_key(of: Run, step: int, index: int) -> str | None:
    """The same for rollouts of one prompt; None where that can't be read."""
    return _prompt_key(of.version, of.options, step, index, of)


@st.cache_resource(max_entries=2, show_spinner="Loading the tokenizer …")
def vocabulary(name: str) -> Vocabulary:
    """A tokenizer's pieces, from this machine; loaded once for all rollouts. Raises BoardError."""
    return load_vocabulary(name)


def download_vocabulary(name: str) -> None:
    """Fetches a tokenizer from the hub into the local cache. Raises BoardError."""
    load_vocabulary(name, download=True)
    vocabulary.clear()


@st.cache_resource(max_entries=32, show_spinner=False)
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


@st.cache_resource(max_entries=256, show_spinner=False)
def _curve(
    version: str,
    options: OpenOptions,
    columns: tuple[str, ...],
    look: CurveOptions,
    dark: bool,
    _run: Run,
) -> go.Figure:
    return curve(_run.steps, [Series.of(column) for column in columns], look, dark=dark)


def curve_figure(of: Run, columns: tuple[str, ...], look: CurveOptions, *, dark: bool) -> go.Figure:
    """The figure of these columns over the run's steps; the caller must not change it."""
    return _curve(of.version, of.options, columns, look, dark, of)


@st.cache_resource(max_entries=16, show_spinner="Searching the texts …")
def _found(
    version: str, options: OpenOptions, step: int | None, text: str, _run: Run
) -> pd.Series[bool]:
    rows = _run.rollouts if step is None else _run.of_step(step)
    return search(_run, rows, text)


def found(of: Run, step: int | None, text: str) -> pd.Series[bool]:
    """Which rollouts of a step (None: of the run) hold `text`, by their row label."""
    return _found(of.version, of.options, step, text, of)


@dataclass(frozen=True, slots=True)
class Spike:
    """What carries a column at a step: who contributes most, the most first, and the whole behind it."""

    found: Contributions
    headline: Headline | None
    rollouts: list[RolloutShare]
    kinds: list[TypeShare]


@st.cache_resource(max_entries=3, show_spinner=False)
def _spike(
    version: str,
    options: OpenOptions,
    step: int,
    column: str,
    tokenizer: str,
    _run: Run,
    _vocabulary: Vocabulary | None,
) -> Reading[Spike | None]:
    def work(progress: Progress) -> Spike | None:
        metric, _ = TOKEN_SOURCES[column]
        tokens = read_step(_run, step, ReadTokens.of_metric(metric), None, _vocabulary, progress)
        if metric not in tokens.metric_names:
            return None
        found = contributions_to(tokens, column)
        return Spike(found, headline(found), found.top_rollouts(), found.by("kind"))

    return Reading(work)


def spike(of: Run, step: int, column: str, tokenizer: str = "") -> Reading[Spike | None]:
    """The reading of what carries a column of tokens at a step; None where the step has no values."""
    known = vocabulary(tokenizer) if tokenizer else None
    return _spike(of.version, of.options, step, column, tokenizer, of, known)


@st.cache_resource(max_entries=16, show_spinner=False)
def _index_findings(
    version: str, options: OpenOptions, limits: OwnThresholds, _run: Run
) -> Diagnosis:
    return diagnose(_run, limits.thresholds, tokens=False)


def index_findings(of: Run, limits: OwnThresholds) -> Diagnosis:
    """What the rules find that need nothing but the index."""
    return _index_findings(of.version, of.options, limits, of)


@st.cache_resource(max_entries=8, show_spinner=False)
def _findings(
    version: str, options: OpenOptions, limits: OwnThresholds, _run: Run
) -> Reading[Diagnosis]:
    return Reading(lambda progress: diagnose(_run, limits.thresholds, progress=progress))


def findings(of: Run, limits: OwnThresholds) -> Reading[Diagnosis]:
    """The reading of what all rules find, those of tokens among them."""
    return _findings(of.version, of.options, limits, of)


@st.cache_resource(max_entries=8, show_spinner=False)
def _sampled(
    version: str, options: OpenOptions, step: int, _run: Run
) -> Reading[tuple[Digest, ...]]:
    return Reading(lambda progress: sampled_digests(_run, step, progress))


def sampled(of: Run, step: int) -> Reading[tuple[Digest, ...]]:
    """The reading of a few steps' tokens, this one among them, for the checks of the log."""
    return _sampled(of.version, of.options, step, of)


@st.cache_resource(max_entries=4, show_spinner=False)
def _groups(version: str, path: Location, options: OpenOptions, _run: Run) -> RunGroups | None:
    return run_groups(_run)


def groups(of: Run) -> RunGroups | None:
    """The groups of a run; None where it has none."""
    return _groups(of.version, of.info.path, of.options, of)


@st.cache_resource(max_entries=64, show_spinner=False)
def _advantage_fit(
    version: str, path: Location, options: OpenOptions, step: int, _run: Run
) -> StepFit | None:
    found = groups(_run)
    return None if found is None else found.fit(step)


def advantage_fit(of: Run, step: int) -> StepFit | None:
    """Advantages of a step, recorded against recomputed; None where none is recorded."""
    return _advantage_fit(of.version, of.info.path, of.options, step, of)


@st.cache_resource(max_entries=64, show_spinner=False)
def _group_curve(
    version: str,
    path: Location,
    options: OpenOptions,
    chart: str,
    smoothing: float,
    dark: bool,
    _run: Run,
) -> go.Figure:
    found = groups(_run)
    assert found is not None, "the page looks for groups first"
    if chart == "pass":
        return group_charts.pass_at(found.groups, dark=dark, smoothing=smoothing)
    draw = group_charts.no_gradient if chart == "zero" else group_charts.effective_batch
    return draw(found.by_step, dark=dark, smoothing=smoothing)


def group_curve(of: Run, chart: str, smoothing: float, *, dark: bool) -> go.Figure:
    """A chart of groups over the steps: "zero", "batch" or "pass"; the caller must not change it."""
    return _group_curve(of.version, of.info.path, of.options, chart, smoothing, dark, of)


@st.cache_resource(max_entries=4, show_spinner=False)
def _prompts(version: str, path: Location, options: OpenOptions, _run: Run) -> RunPrompts | None:
    return run_prompts(_run)


def prompts(of: Run) -> RunPrompts | None:
    """The prompts of a run and how they went; None where it has no prompts or rewards."""
    return _prompts(of.version, of.info.path, of.options, of)


@st.cache_resource(max_entries=64, show_spinner=False)
def _by_environment(
    version: str, path: Location, options: OpenOptions, column: str, _run: Run
) -> EnvCurves:
    return environment_curves(_run, column)


def by_environment(of: Run, column: str) -> EnvCurves:
    """A metric by environment over the steps."""
    return _by_environment(of.version, of.info.path, of.options, column, of)


@st.cache_resource(max_entries=128, show_spinner=False)
def _environment_curve(
    version: str,
    path: Location,
    options: OpenOptions,
    column: str,
    shown: tuple[int, ...],
    alone: bool,
    look: CurveOptions,
    dark: bool,
    _run: Run,
) -> go.Figure:
    means = by_environment(_run, column)
    unit = rollout_metric(column).unit
    if alone:
        return env_charts.small_multiple(means, shown[0], unit, look, dark=dark)
    return env_charts.overlaid(means, shown, unit, look, dark=dark)


def environment_curve(
    of: Run, column: str, shown: tuple[int, ...], look: CurveOptions, *, alone: bool, dark: bool
) -> go.Figure:
    """Curves of these environments and of all; alone: a small chart of the first one."""
    return _environment_curve(
        of.version, of.info.path, of.options, column, shown, alone, look, dark, of
    )


@dataclass(slots=True)
class _Kept:
    """A result that is filled in outside of the cache, since progress can't be drawn inside."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    found: StepMismatch | None = None


@st.cache_resource(max_entries=24, show_spinner=False)
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
        if done % 16 == 0:
            bar.progress(done / total, text=f"Reading tokens: {done:,} of {total:,} rollouts")

    try:
        return read_mismatch(of, step, report)
    finally:
        bar.empty()


@st.cache_resource(max_entries=4, show_spinner=False, on_release=Stepwise.stop)
def _mismatch_scan(
    version: str, path: Location, options: OpenOptions, _run: Run
) -> Stepwise[StepMismatch]:
    steps = [int(step) for step in _run.steps["step"]]
    return Stepwise(mismatch_by_step(_run, coarse_to_fine(steps)), len(steps))


def mismatch_scan(of: Run) -> Stepwise[StepMismatch]:
    """The scan of all steps' tokens, begun or not; one for all tabs."""
    return _mismatch_scan(of.version, of.info.path, of.options, of)


@st.cache_resource(max_entries=64, show_spinner=False)
def _compared(
    versions: tuple[str, ...],
    paths: tuple[Location, ...],
    names: tuple[str, ...],
    options: OpenOptions,
    shifts: tuple[int, ...],
    column: str,
    look: CurveOptions,
    dark: bool,
    _runs: tuple[Run, ...],
) -> go.Figure:
    sides = [
        RunSteps(name, run.steps, shift)
        for name, run, shift in zip(names, _runs, shifts, strict=True)
    ]
    return overlaid_runs(sides, column, look, dark=dark)


def compared_curve(
    runs: tuple[Run, ...], shifts: tuple[int, ...], column: str, look: CurveOptions, *, dark: bool
) -> go.Figure:
    """One metric of several runs over their steps; the caller must not change it."""
    versions = tuple(run.version for run in runs)
    paths = tuple(run.info.path for run in runs)
    names = tuple(run.info.name for run in runs)
    return _compared(versions, paths, names, runs[0].options, shifts, column, look, dark, runs)


@st.cache_resource(max_entries=16, show_spinner=False, on_release=Stepwise.stop)
def _watched(
    version: str, path: Location, options: OpenOptions, text: str, by: str, regex: bool, _run: Run
) -> Stepwise[Watched]:
    steps = [int(step) for step in _run.steps["step"]]
    pattern = compiled(text, regex=regex)
    return Stepwise(watch(_run, pattern, by, coarse_to_fine(steps)), len(steps))


def watched(of: Run, text: str, by: str, *, regex: bool) -> Stepwise[Watched]:
    """The search for a pattern through all steps, begun or not; one for all tabs."""
    return _watched(of.version, of.info.path, of.options, text, by, regex, of)


@st.cache_resource(max_entries=64, show_spinner="Searching the step …")
def _watched_step(
    version: str,
    path: Location,
    options: OpenOptions,
    text: str,
    by: str,
    regex: bool,
    step: int,
    _run: Run,
) -> tuple[Watched, ...]:
    return tuple(watch(_run, compiled(text, regex=regex), by, [step]))


def watched_step(of: Run, text: str, by: str, step: int, *, regex: bool) -> tuple[Watched, ...]:
    """A pattern at one step, by environment."""
    return _watched_step(of.version, of.info.path, of.options, text, by, regex, step, of)


def said_in(of: Run, step: int, index: int, by: str) -> list[str]:
    """What is said in a rollout by the one named; nothing where it can't be read any more."""
    try:
        return [*said(of, rollout(of, step, index).record, by)]
    except BoardError:
        return []


@st.cache_resource(max_entries=32, show_spinner=False)
def _own_curve(
    version: str,
    path: Location,
    options: OpenOptions,
    text: str,
    look: CurveOptions,
    dark: bool,
    _run: Run,
) -> go.Figure:
    return curve(own_steps(_run, text), [Series(OWN, text, "gap")], look, dark=dark)


def own_curve(of: Run, text: str, look: CurveOptions, *, dark: bool) -> go.Figure:
    """The curve of an expression; the caller must not change it. Raises ChoiceError."""
    return _own_curve(of.version, of.info.path, of.options, text, look, dark, of)
