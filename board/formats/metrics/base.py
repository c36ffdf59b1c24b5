"""What a source of trainer metrics is: scalars by step from files of one kind, read on as they grow.

A source holds all points that were read of it. What is torn, too long or no number is counted in its
`problems`; nothing of a file is run, and files are opened for reading only.
"""

from __future__ import annotations

import importlib
import math
import time
from abc import ABC, abstractmethod
from array import array
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np

from board.core.arrays import FloatArray, IntArray
from board.core.problems import Problem, ProblemLog, Severity
from board.formats.parse import is_measure, is_object

Report = Callable[[int], object]
"""Called with the bytes that were read so far; may raise to stop the reading."""

MOST_RECORD_BYTES: Final = 16 << 20
"""A longer line or record is passed over and counted."""
MOST_DOCUMENT_BYTES: Final = 256 << 20
MOST_NAMES: Final = 5_000
"""Metrics of one source."""
MOST_POINTS: Final = 50_000_000
MOST_NAME_CHARACTERS: Final = 300
"""A metric with a longer name is left out."""
_MOST_REASON_CHARACTERS: Final = 200
_MOST_DEPTH: Final = 8
_AT_REST_SECONDS: Final = 60.0
"""What is torn at the end of a file that was not changed for so long will not be completed."""
_LARGEST_STEP: Final = 2**53
_WORDS: Final = {
    "nan": math.nan,
    "inf": math.inf,
    "-inf": -math.inf,
    "infinity": math.inf,
    "-infinity": -math.inf,
}
"""NaN and infinities as writers of JSON and CSV spell them, in lower case."""

_STEP_KEYS: Final = (
    *("step", "global_step", "train/global_step", "training/global_step", "trainer/global_step"),
    *("_step", "training_step", "train/step", "train_step", "trainer_step", "iteration", "iter"),
    *("global_steps", "steps", "progress/step", "progress/batch", "batch", "rollout_id"),
    *("rollout/step", "time/iterations", "time/total_timesteps"),
)
"""Names of the step of a record, the first that is there counts."""
_PROGRESS_KEY: Final = "global_step/max_steps"
"""ms-swift's, as "5/100"."""


class Points:
    """Scalars in the order of their file. non_finite: by name how many are NaN or infinite: gaps."""

    def __init__(self) -> None:
        self._steps: dict[str, array[int]] = {}
        self._values: dict[str, array[float]] = {}
        self.non_finite = Counter[str]()
        self.count = 0
        self.left_out = 0
        """Points beyond MOST_NAMES or MOST_POINTS."""
        self.too_long = 0
        """Values whose names are longer than MOST_NAME_CHARACTERS."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the metrics, in the order in which they first appeared."""
        return tuple(name for name, steps in self._steps.items() if steps)

    def add(self, step: int, name: str, value: float) -> None:
        """Adds a point; a value that is not finite is a gap."""
        if not self._has_place(name, 1):
            return
        if self.count >= MOST_POINTS:
            self.left_out += 1
            return
        if not math.isfinite(value):
            self.non_finite[name] += 1
            value = math.nan
        self._steps[name].append(step)
        self._values[name].append(value)
        self.count += 1

    def add_all(
        self, names: Sequence[str], name: IntArray, steps: IntArray, values: FloatArray
    ) -> None:
        """Adds points, [n] each, in their order. name: of each its place among names."""
        order = np.argsort(name, kind="stable")
        used, firsts = np.unique(name[order], return_index=True)
        for place, own in zip(used.tolist(), np.split(order, firsts[1:]), strict=False):
            self._add_to(names[place], steps[own], values[own])

    def _add_to(self, name: str, steps: IntArray, values: FloatArray) -> None:
        if not self._has_place(name, len(steps)):
            return
        room = MOST_POINTS - self.count
        self.left_out += max(len(steps) - room, 0)
        steps, values = steps[:room], values[:room]
        is_gap = ~np.isfinite(values)
        if gaps := int(is_gap.sum()):
            self.non_finite[name] += gaps
        self._steps[name].frombytes(steps.astype(np.int64).tobytes())
        self._values[name].frombytes(np.where(is_gap, math.nan, values).tobytes())
        self.count += len(steps)

    def _has_place(self, name: str, count: int) -> bool:
        """Whether so many points of a metric may be added; counts them where it has no place."""
        if name not in self._steps:
            if len(name) > MOST_NAME_CHARACTERS:
                self.too_long += count
                return False
            if len(self._steps) >= MOST_NAMES:
                self.left_out += count
                return False
            self._steps[name], self._values[name] = array("q"), array("d")
        return True

    def add_record(self, step: int, record: Mapping[str, Any], without: str = "") -> None:
        """Adds the numbers of a record, those of objects in it as `outer/inner`. without: its key of the
        step.
        """
        for name, value in record.items():
            if name != without:
                self._add_value(step, name, value, 0)

    def _add_value(self, step: int, name: str, value: object, depth: int) -> None:
        if isinstance(value, float):
            self.add(step, name, value)
        elif is_object(value):
            if len(name) > MOST_NAME_CHARACTERS:  # which would be copied for each value in it
                self.too_long += 1
            elif depth < _MOST_DEPTH and "_type" not in value:  # no table, no image
                for inner, own in value.items():
                    self._add_value(step, f"{name}/{inner}", own, depth + 1)
        elif isinstance(value, str):
            if (number := _WORDS.get(value.lower())) is not None:
                self.add(step, name, number)
        elif is_measure(value) and not isinstance(value, bool):
            self.add(step, name, float(value))

    def drop_from(self, step: int) -> None:
        """Drops the points at this step and later ones, which a resumed training writes again."""
        for name, steps in self._steps.items():
            known = np.frombuffer(steps, np.int64)
            if len(known) and known.max() >= step:
                stays = known < step
                values = np.frombuffer(self._values[name], np.float64)[stays]
                self._steps[name] = array("q", known[stays].tobytes())
                self._values[name] = array("d", values.tobytes())
                self.count -= int(len(known) - stays.sum())

    def lengths(self) -> dict[str, int]:
        """By name the number of points; `cut` goes back to it."""
        return {name: len(steps) for name, steps in self._steps.items()}

    def cut(self, lengths: Mapping[str, int]) -> None:
        """Takes back the points that were added since."""
        for name, values in self._values.items():
            begin = lengths.get(name, 0)
            self.count -= len(values) - begin
            if gaps := sum(map(math.isnan, values[begin:])):
                self.non_finite[name] -= gaps
            del values[begin:], self._steps[name][begin:]

    def curve(self, name: str) -> tuple[IntArray, FloatArray]:
        """The steps [n], ascending, and values [n] of a metric. Of a step that was written several times,
        by a resumed training, the last value counts.
        """
        steps = np.array(self._steps[name], np.int64)
        values = np.array(self._values[name], np.float64)
        unique, places = np.unique(steps[::-1], return_index=True)
        return unique, values[::-1][places]


class _ReportError(BaseException):
    """Carries what `report` raised through the reading, where no `except Exception` may take it for a
    fault of the file.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error


class MetricSource(ABC):
    """Files of one kind that are one stream of metrics.

    paths: of the files, in natural order. name: of the source, as users see it: a path below the run's
    folder. watched: the files whose change is one of the source. `update` reads what was written since it
    was called before.
    """

    title: ClassVar[str]
    """What writes such files."""

    def __init__(self, name: str, paths: Sequence[Path]) -> None:
        self.name, self.paths = name, tuple(paths)
        self.watched = self.paths
        self.points = Points()
        self.torn_at: int | None = None
        """Where the last file ends with a part of a record, in bytes."""
        self._problems = ProblemLog()
        """Of the records that were read so far."""
        self._of_reading = ProblemLog()
        """Of the last update alone: the next one may find that all is well."""
        self._read_state: tuple[tuple[int, int, int], ...] | None = None

    @property
    def bytes(self) -> int:
        """Size of all files; of those that are gone 0."""
        return sum(size for size, _, _ in self._state())

    @property
    def is_changed(self) -> bool:
        """Whether a file changed since the last update."""
        return self._state() != self._read_state

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What could not be used, a torn end included once the file is at rest."""
        problems = ProblemLog((*self._problems, *self._of_reading))
        if self.torn_at is not None and self.paths:
            changed = max(mtime for _, mtime, _ in self._state()) / 1e9
            if time.time() - changed > _AT_REST_SECONDS:
                reason = f"its end is torn, from byte {self.torn_at} on"
                problems.add(Problem(self.name, None, None, reason, "", "partial"))
        return problems.as_tuple()

    def update(self, report: Report = lambda done: None) -> None:
        """Reads what is new. Whatever is wrong with a file becomes a problem; what `report` raises is
        raised.
        """

        def reported(done: int) -> None:
            try:
                report(done)
            except Exception as error:
                raise _ReportError(error) from error

        state, self.torn_at, self._of_reading = self._state(), None, ProblemLog()
        try:
            self.read(reported)
        except _ReportError as stopped:
            raise stopped.error from None
        except OSError as error:
            self._cannot_read(error.strerror or error)
        except Exception as error:  # a file that no reader foresaw must not take the page down
            self._cannot_read(f"{type(error).__name__}: {error}")
        if self.points.left_out:
            what = f"more than {MOST_NAMES:,} metrics or {MOST_POINTS:,} points"
            reason = f"{what}: the others are not shown"
            self.note(reason, count=self.points.left_out, of_reading=True)
        if self.points.too_long:
            reason = f"metrics whose names are longer than {MOST_NAME_CHARACTERS} characters are left out"
            self.note(reason, count=self.points.too_long, of_reading=True)
        self._read_state = state

    def _cannot_read(self, reason: object) -> None:
        text = f"can't be read: {reason}"[:_MOST_REASON_CHARACTERS]
        self.note(text, severity="lost", of_reading=True)

    @abstractmethod
    def read(self, report: Report) -> None:
        """Adds to `points` what was written since the last call. Raises whatever a damaged file makes it
        raise.
        """

    def restart(self) -> None:
        """Forgets what was read: the file was replaced, or is read as a whole each time."""
        self.points, self._problems = Points(), ProblemLog()

    def note(
        self,
        reason: str,
        hint: str = "",
        *,
        line: int | None = None,
        count: int = 1,
        severity: Severity = "partial",
        of_reading: bool = False,
    ) -> None:
        """Counts something that could not be used. of_reading: it is said of the file as it is now, and
        not of a record, which is read once.
        """
        log = self._of_reading if of_reading else self._problems
        log.add(Problem(self.name, line, None, reason, hint, severity, count))

    def _state(self) -> tuple[tuple[int, int, int], ...]:
        states: list[tuple[int, int, int]] = []
        for path in self.watched:
            try:
                stat = path.stat()
                states.append((stat.st_size, stat.st_mtime_ns, stat.st_ino))
            except OSError:
                states.append((0, 0, 0))
        return tuple(states)


def step_of(record: Mapping[str, Any]) -> tuple[str, int] | None:
    """The key and the value of a record's step; None where it has none that is a whole number."""
    for key in _STEP_KEYS:
        if key in record and (step := whole_number(record[key])) is not None:
            return key, step
    progress = record.get(_PROGRESS_KEY)
    step = whole_number(progress.partition("/")[0]) if isinstance(progress, str) else None
    return None if step is None else (_PROGRESS_KEY, step)


def whole_number(value: object) -> int | None:
    """A step as an integer: 3, 3.0, "3" and "3.0" alike."""
    if isinstance(value, str):
        value = number_in(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    is_whole = abs(value) <= _LARGEST_STEP and value == int(value)
    return int(value) if is_whole else None


def number_in(text: str) -> float | None:
    """The number that a text is; None where it is none. NaN and infinities are taken as writers spell
    them, in any case.
    """
    # 1_000 and digits of other scripts are numbers in Python alone.
    if "_" in text or not text.isascii():
        return None
    try:
        return float(text)
    except ValueError:
        return None


def extra_module(name: str, extra: str) -> Any:
    """A module of an extra. Raises OSError where the extra is not installed, which says how to do so."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        command = f"pip install 'rollout-board[{extra}]'"
        raise OSError(0, f"it needs the extra {extra}: {command}") from error
