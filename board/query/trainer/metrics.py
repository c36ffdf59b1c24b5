"""The trainer's scalars of a run, by step: from its step_end lines and from files beside its logs."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from board.core.arrays import FloatArray, IntArray
from board.core.metrics.trainer import PREFIX, Means, detect_shift
from board.core.problems import Problem, ProblemLog
from board.formats.metrics import MetricSource, metric_sources
from board.index import metric_cache
from board.index.discovery.metric_files import metric_files_in
from board.query.run import Run
from board.query.trainer.agreement import rollout_means
from board.query.trainer.step_end import TITLE, Counts, StepEndMetrics

if TYPE_CHECKING:
    import pandas as pd

STEP_END: Final = "step_end lines"
"""Name of the source that the log itself is."""
_WORTH_KEEPING_SECONDS: Final = 0.3
ReportProgress = Callable[[int, int], object]
"""Called with the bytes that were read and all of them; may raise to stop the reading."""


@dataclass(frozen=True, slots=True)
class Curve:
    """A trainer metric over the steps of the rollouts, [n] ascending; NaN is a gap.

    name: begins with "trainer/". source: the file that it is from. low, high: the smallest and largest
    value of a rank, None where one writes it, or all write the same.
    """

    name: str
    source: str
    steps: IntArray
    values: FloatArray
    low: FloatArray | None = None
    high: FloatArray | None = None

    @property
    def points(self) -> int:
        """How many values are known."""
        return int(np.isfinite(self.values).sum())

    @property
    def last(self) -> float | None:
        """The last value that is known."""
        known = self.values[np.isfinite(self.values)]
        return float(known[-1]) if len(known) else None


@dataclass(frozen=True, slots=True)
class SourceSummary:
    """A source that was read. shift: steps that its own were moved by; shift_metric: the metric that says
    so, empty where it was given or nothing was moved. non_finite: values that are NaN or infinite.
    """

    name: str
    title: str
    metrics: int
    points: int
    bytes: int
    non_finite: int = 0
    shift: int = 0
    shift_metric: str = ""

    @property
    def summary(self) -> str:
        """What was read of it, and how its steps were moved."""
        text = f"{self.name} ({self.title}): {self.metrics:,} metrics, {self.points:,} points"
        if self.shift:
            why = f", by {self.shift_metric}" if self.shift_metric else ", as given"
            text += f"; its steps are moved by {self.shift:+d}{why}"
        return text


@dataclass(frozen=True)
class TrainerMetrics:
    """All trainer metrics of a run as they were read at one moment.

    curves: by name. written: by step the rollouts that all ranks wrote, those that the exporter had to
    drop, and those that it was asked to leave out, where the log says so.
    """

    curves: Mapping[str, Curve] = field(default_factory=dict[str, Curve])
    sources: tuple[SourceSummary, ...] = ()
    problems: tuple[Problem, ...] = ()
    written: Mapping[int, Counts] = field(default_factory=dict[int, Counts])

    @cached_property
    def version(self) -> str:
        """Another one whenever any of it may be different."""
        digest = hashlib.blake2b(repr(self.sources).encode("utf-8", "replace"), digest_size=12)
        for curve in self.curves.values():
            digest.update(curve.name.encode("utf-8", "replace"))
            for numbers in (curve.steps, curve.values, curve.low, curve.high):
                digest.update(b"" if numbers is None else numbers.tobytes())
        return digest.hexdigest()

    @cached_property
    def step_count(self) -> int:
        """At how many steps anything was logged."""
        of_each = [np.array([], np.int64), *(curve.steps for curve in self.curves.values())]
        return len(np.unique(np.concatenate(of_each)))

    def columns(self, names: Sequence[str]) -> dict[str, IntArray | FloatArray]:
        """An entry for each step, ascending, of any of these metrics: the steps, a column of each name,
        and its `_q00` and `_q100` where ranks differ.
        """
        of_each = [np.array([], np.int64), *(self.curves[name].steps for name in names)]
        steps = np.unique(np.concatenate(of_each))
        columns: dict[str, IntArray | FloatArray] = {"step": steps}
        for name in names:
            curve = self.curves[name]
            places = np.searchsorted(steps, curve.steps)
            parts = {name: curve.values, f"{name}_q00": curve.low, f"{name}_q100": curve.high}
            for column, values in parts.items():
                if values is not None:
                    columns[column] = np.full(len(steps), np.nan)
                    columns[column][places] = values
        return columns

    def table(self, names: Sequence[str]) -> pd.DataFrame:
        """What `columns` gives, as charts take it."""
        import pandas as pd

        return pd.DataFrame(self.columns(names))

    def long_table(self) -> pa.Table:
        """Columns step, name, value and source, a row for each point; NULL is a gap."""
        curves = [*self.curves.values()]
        lengths = [len(curve.steps) for curve in curves]
        values = np.concatenate([np.array([]), *(curve.values for curve in curves)])
        steps = np.concatenate([np.array([], np.int64), *(curve.steps for curve in curves)])
        names, sources = ([getattr(c, key) for c in curves] for key in ("name", "source"))
        columns = {
            "step": pa.array(steps, pa.int64()),
            "name": pa.array(np.repeat(names, lengths).tolist(), pa.string()),
            "value": pa.array(values, pa.float64(), mask=~np.isfinite(values)),
            "source": pa.array(np.repeat(sources, lengths).tolist(), pa.string()),
        }
        return pa.table(columns)


class TrainerMetricsReader:
    """Reads the trainer metrics of a run, again and again while they grow.

    given: a file or folder with metrics that lies elsewhere.
    """

    def __init__(self, given: Path | None = None) -> None:
        self._given = given
        self._sources: dict[tuple[Path, ...], MetricSource] = {}
        self._step_ends = StepEndMetrics()
        self._unread = ProblemLog()
        self._unkept: dict[tuple[Path, ...], float] = {}
        """Of each source the seconds that it took to read what is not kept yet."""

    def _present_sources(self, run: Run) -> dict[tuple[Path, ...], MetricSource]:
        """The sources that there are now, those that were read as they were read so far."""
        info = run.info
        folder = info.path if isinstance(info.path, Path) else Path()
        given = () if self._given is None else metric_files_in(self._given, info.name)
        base = self._given if self._given is not None and self._given.is_dir() else folder
        run_key = info.files[0].run
        sources = [
            *metric_sources(info.metric_files, folder, run_key),
            *metric_sources(given, base, run_key),
        ]
        return {source.paths: self._sources.get(source.paths, source) for source in sources}

    def is_changed(self, run: Run) -> bool:
        """Whether a file has changed since it was read, or there is another one."""
        present = self._present_sources(run)
        return {*present} != {*self._sources} or any(one.is_changed for one in present.values())

    def read(self, run: Run, report: ReportProgress = lambda done, total: None) -> None:
        """Reads what is new. run: the whole run."""
        self._sources = self._present_sources(run)
        sources = [*self._sources.values()]
        total, done = sum(source.bytes for source in sources), 0
        self._unread = ProblemLog()
        try:
            self._step_ends.update(run, lambda _: report(0, total))
        except OSError as error:
            reason = f"its step_end lines can't be read: {error.strerror or error}"
            self._unread.add(Problem(run.info.name, None, None, reason, "", "partial"))
        for source in sources:
            if source.is_new:
                metric_cache.restore(source)
            if source.is_changed:
                before, begun = done, time.monotonic()
                source.update(lambda own, before=before: report(before + own, total))
                self._keep(source, time.monotonic() - begun)
            done += source.bytes

    def _keep(self, source: MetricSource, seconds: float) -> None:
        """Keeps what was read of a source once that took longer than it is worth to wait for."""
        unkept = self._unkept.get(source.paths, 0.0) + seconds
        if unkept > _WORTH_KEEPING_SECONDS:
            metric_cache.store(source)
            unkept = 0.0
        self._unkept[source.paths] = unkept

    @property
    def names(self) -> list[str]:
        """The metrics of which anything was read by now, also while `read` goes on."""
        names = (name for source in [*self._sources.values()] for name in [*source.points.names])
        return [*dict.fromkeys(names)]

    def metrics(self, run: Run, shift: int | None = None) -> TrainerMetrics:
        """What was read so far. What could not be read is a problem.

        run: the whole run. shift: steps to add to those of all files; None: detected from a metric that
        both have.
        """
        curves, summaries = dict[str, Curve](), list[SourceSummary]()
        problems, sources = ProblemLog(), [*self._sources.values()]
        problems.extend(self._unread.as_tuple())
        ranks = self._step_ends.curves(run)
        for name, means in ranks.items():
            is_same = np.array_equal(means.low, means.high, equal_nan=True)
            low, high = (None, None) if is_same else (means.low, means.high)
            full = PREFIX + name.removeprefix(PREFIX)
            curves[full] = Curve(full, STEP_END, means.steps, means.values, low, high)
        if ranks:
            points = sum(len(means.steps) for means in ranks.values())
            gaps = self._step_ends.non_finite().total()
            size = self._step_ends.bytes
            summaries.append(SourceSummary(STEP_END, TITLE, len(ranks), points, size, gaps))
        means = rollout_means(run) if sources else {}
        for source in sources:
            problems.extend(source.problems)
            if source.points.names:
                summaries.append(_add(source, curves, means, shift))
        for summary in summaries:
            if summary.non_finite:
                reason = "values that are NaN or infinite are gaps"
                note = Problem(summary.name, None, None, reason, "", "note", summary.non_finite)
                problems.add(note)
        written = self._step_ends.counts(run)
        return TrainerMetrics(curves, tuple(summaries), problems.as_tuple(), written)


def _add(
    source: MetricSource,
    curves: dict[str, Curve],
    means: Mapping[str, Sequence[Means]],
    given_shift: int | None,
) -> SourceSummary:
    """Adds the curves of a source."""
    own = {name: source.points.curve(name) for name in source.points.names}
    shift, metric = given_shift or 0, ""
    if given_shift is None:
        shift, metric = detect_shift(own, means)
    for name, (steps, values) in own.items():
        full = PREFIX + name.removeprefix(PREFIX)
        if full in curves:  # another file has it, too
            full = f"{PREFIX}{source.name}/{name}"
        curves[full] = Curve(full, source.name, steps + shift, values)
    return SourceSummary(
        source.name,
        source.title,
        len(own),
        source.points.count,
        source.bytes,
        source.points.non_finite.total(),
        shift,
        metric,
    )


def read_trainer_metrics(
    run: Run, given: Path | None = None, shift: int | None = None
) -> TrainerMetrics:
    """The trainer metrics of a run, read once. given, shift: as of TrainerMetricsReader."""
    reader, whole = TrainerMetricsReader(given), run.whole or run
    reader.read(whole)
    return reader.metrics(whole, shift)
