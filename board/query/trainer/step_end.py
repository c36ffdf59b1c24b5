"""Metrics in a log's own lines: `step_end` lines of `exporters.RolloutExporter`, and lines of numbers.

The index has the place of each rollout; what lies between them are the other lines. So a log of 100 GB
is not read again for them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from board.core.arrays import FloatArray, IntArray
from board.errors import RecordError
from board.formats.frameworks.native import NativeReader
from board.formats.io.lines import Line, read_lines
from board.formats.metric_lines import METRICS, metrics_in
from board.formats.metrics.base import MOST_RECORD_BYTES, Points, Report, step_of, whole_number
from board.formats.metrics.lines import scalars_of
from board.formats.parse import is_object, parse_whole
from board.index.discovery.packed import readable
from board.index.manifest import FileState
from board.query.run import Run

TITLE: Final = "Rollout Board"
_COUNTED: Final = ("records", "dropped", "sampled_out")
_MARK: Final = b'"step_end"'

Counts = tuple[int, int, int]
"""Rollouts that were written, those that were dropped, and those that were left out as was asked."""
_File = tuple[int, str, str]
"""A file by its id, path and head. One that was replaced gets another id; but an index that is made again
begins its ids again, and then the head tells.
"""


@dataclass(frozen=True, slots=True)
class RankMeans:
    """A metric over the steps [n]: mean, smallest and largest value of the ranks that wrote it."""

    steps: IntArray
    values: FloatArray
    low: FloatArray
    high: FloatArray


class StepEndMetrics:
    """The metrics of all ranks. `update` reads the lines that came since it was called before.

    bytes: that were read.
    """

    def __init__(self) -> None:
        self._points: dict[_File, Points] = {}
        self._counts: dict[_File, dict[int, Counts]] = {}
        self._done: dict[_File, int] = {}
        self._has_metrics: dict[_File, bool] = {}
        self.bytes = 0

    def update(self, run: Run, report: Report = lambda done: None) -> None:
        """Reads what the index of the run has and was not read yet. Raises OSError."""
        numbers = run.rows.files.number_of
        known = {_file_of(state): state.consumed for state in run.rows.files.states}
        for file in [file for file, done in self._done.items() if done > known.get(file, -1)]:
            for by_file in (self._points, self._counts, self._done):
                by_file.pop(file, None)  # it was replaced
        files = {numbers[state.id]: _file_of(state) for state in run.rows.files.states}
        states = {_file_of(state): state for state in run.rows.files.states}
        for number, begin, end in self._between(run):
            file = files[number]
            begin = max(begin, self._done.get(file, 0))
            if begin >= end:
                continue
            self._has_metrics[file] = _has_metrics(states[file])
            for line in read_lines(readable(run.info.files[number]).path, begin, end):
                self._add(file, line)
                self.bytes += line.size
                self._done[file] = line.offset + line.size
                report(self.bytes)

    def _between(self, run: Run) -> Iterator[tuple[int, int, int]]:
        """What lies between the rollouts of each native file: its number, the first byte, the end."""
        states = run.rows.files.states
        # all_ended: the steps of its step_end lines. A file without one or other metrics is not read.
        native = [s for s in states if s.reader == NativeReader.name and s.all_ended]
        with_metrics = [s for s in states if s not in native and _has_metrics(s)]
        ends = {
            run.rows.files.number_of[state.id]: state.consumed for state in (*native, *with_metrics)
        }
        if not ends:
            return
        numbers = ", ".join(map(str, ends))
        table = run.rows.table(f"""
            WITH rows AS (SELECT file, "offset", size FROM ({run.rows.every_row()})
                          WHERE file IN ({numbers})),
            ends AS (SELECT file, max("offset" + size) AS last FROM rows GROUP BY file),
            between_rows AS (
                SELECT file, coalesce(lag("offset" + size) OVER (
                    PARTITION BY file ORDER BY "offset"), 0) AS "begin", "offset" AS "end" FROM rows)
            SELECT file, "begin", "end" FROM between_rows WHERE "end" > "begin"
            UNION ALL SELECT file, last, NULL FROM ends
            ORDER BY file, "begin"
        """)
        columns = [column.to_pylist() for column in table.columns]
        yield from (
            (file, begin, ends[file] if end is None else end)
            for file, begin, end in zip(*columns, strict=True)
        )
        without_rollouts = ends.keys() - {*columns[0]}
        yield from ((file, 0, ends[file]) for file in sorted(without_rollouts))

    def _add(self, file: _File, line: Line) -> None:
        if line.text is None or line.size > MOST_RECORD_BYTES:
            return
        if _MARK not in line.text and not self._has_metrics[file]:
            return
        try:
            record, _ = parse_whole(line.text)
        except RecordError:  # the index has counted it
            return
        key, step = step_of(record) or ("", None)
        if step is None:
            return
        if record.get("type") != "step_end":
            if metrics_in(record, frozenset()) is not None:
                self._points.setdefault(file, Points()).add_record(step, scalars_of(record), key)
            return
        written, dropped, left_out = (whole_number(record.get(key)) or 0 for key in _COUNTED)
        self._counts.setdefault(file, {})[step] = (written, dropped, left_out)
        metrics = record.get("metrics")
        if is_object(metrics):
            self._points.setdefault(file, Points()).add_record(step, metrics)

    def counts(self, run: Run) -> dict[int, Counts]:
        """By step the rollouts of all ranks."""
        total: dict[int, Counts] = {}
        for file, is_current in _files(run):
            for step, own in self._counts.get(file, {}).items():
                if is_current(step):
                    a, b, c = total.get(step, (0, 0, 0))
                    total[step] = (a + own[0], b + own[1], c + own[2])
        return total

    def curves(self, run: Run) -> Mapping[str, RankMeans]:
        """Each metric over the steps, without what a resumed training wrote again."""
        parts = defaultdict[str, list[tuple[IntArray, FloatArray]]](list)
        for file, is_current in _files(run):
            points = self._points.get(file)
            for name in points.names if points else ():
                assert points is not None
                steps, values = points.curve(name)
                own = np.fromiter(map(is_current, steps.tolist()), bool, len(steps))
                parts[name].append((steps[own], values[own]))
        return {name: _over_ranks(several) for name, several in parts.items()}

    def non_finite(self) -> Counter[str]:
        """By metric how many values are NaN or infinite."""
        return sum((points.non_finite for points in self._points.values()), Counter[str]())


def _file_of(state: FileState) -> _File:
    return state.id, state.path, state.head


def _files(run: Run) -> Iterator[tuple[_File, Callable[[int], bool]]]:
    """The files of a run, and of which steps what they say counts: a later launch, or a restart within
    the file, may have written steps again or be about to.
    """
    from_step = {
        file: step for file, rank, _, step in run.rows.files.superseded_ranges if rank is None
    }
    for state in run.rows.files.states:
        until = from_step.get(state.id, np.inf)
        current = None if _has_metrics(state) else {*state.all_ended}

        def counts(step: int, until: float = until, current: set[int] | None = current) -> bool:
            return step < until and (current is None or step in current)

        yield _file_of(state), counts


def _has_metrics(state: FileState) -> bool:
    """Whether lines of a file were numbers of the trainer, and no rollouts."""
    return any(problem.reason == METRICS.reason for problem in state.problems)


def _over_ranks(parts: list[tuple[IntArray, FloatArray]]) -> RankMeans:
    steps = np.unique(np.concatenate([own for own, _ in parts]))
    values = np.full((len(parts), len(steps)), np.nan)
    for rank, (own, numbers) in enumerate(parts):
        values[rank, np.searchsorted(steps, own)] = numbers
    known = np.isfinite(values)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = np.where(known, values, 0).sum(axis=0) / known.sum(axis=0)
    low = np.where(known, values, np.inf).min(axis=0)
    high = np.where(known, values, -np.inf).max(axis=0)
    is_known = known.any(axis=0)
    return RankMeans(
        steps, means, np.where(is_known, low, np.nan), np.where(is_known, high, np.nan)
    )
