"""What a source of trainer metrics is: scalars by step from files of one kind, read on as they grow.

A source holds all points that were read of it. What is torn, too long or no number is counted in its
`problems`; nothing of a file is run, and files are opened for reading only.
"""

from __future__ import annotations

import importlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, Final

from board.core.problems import Problem, ProblemLog, Severity
from board.formats.metrics.points import MOST_NAME_CHARACTERS, MOST_NAMES, MOST_POINTS, Points

Report = Callable[[int], object]
"""Called with the bytes that were read so far; may raise to stop the reading."""

MOST_RECORD_BYTES: Final = 16 << 20
"""A longer line or record is passed over and counted."""
MOST_DOCUMENT_BYTES: Final = 256 << 20
_MOST_REASON_CHARACTERS: Final = 200
_AT_REST_SECONDS: Final = 60.0
"""What is torn at the end of a file that was not changed for so long will not be completed."""
_LARGEST_STEP: Final = 2**53

_STEP_KEYS: Final = (
    *("step", "global_step", "train/global_step", "training/global_step", "trainer/global_step"),
    *("_step", "training_step", "train/step", "train_step", "trainer_step", "iteration", "iter"),
    *("global_steps", "steps", "progress/step", "progress/batch", "batch", "rollout_id"),
    *("rollout/step", "time/iterations", "time/total_timesteps"),
)
"""Names of the step of a record, the first that is there counts."""
_PROGRESS_KEY: Final = "global_step/max_steps"
"""ms-swift's, as "5/100"."""


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
    place: ClassVar[tuple[str, ...]] = ()
    """Attributes that say how far the files were read, as JSON has them."""
    rewrites: ClassVar[bool] = False
    """Whether a file that only grew may begin with other bytes than before."""

    def __init__(self, name: str, paths: Sequence[Path]) -> None:
        self.name, self.paths = name, tuple(paths)
        self.watched = self.paths
        self.variant = ""
        """What of its files it reads, where that is a choice."""
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
        return sum(size for size, _, _ in self.files())

    @property
    def is_new(self) -> bool:
        """Whether nothing was read yet."""
        return self._read_state is None

    @property
    def is_changed(self) -> bool:
        """Whether a file changed since the last update."""
        return self.files() != self._read_state

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What could not be used, a torn end included once the file is at rest."""
        problems = ProblemLog((*self._problems, *self._of_reading))
        if self.torn_at is not None and self.paths:
            changed = max(mtime for _, mtime, _ in self.files()) / 1e9
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

        state, self.torn_at, self._of_reading = self.files(), None, ProblemLog()
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

    def state(self) -> dict[str, Any]:
        """How far the files were read and what was wrong with them, for `resume`; JSON holds it."""
        counts = ("non_finite", "left_out", "too_long")
        return {
            "files": self._read_state,
            "place": {name: getattr(self, name) for name in self.place},
            "torn_at": self.torn_at,
            "problems": [asdict(problem) for problem in self._problems],
            "of_reading": [asdict(problem) for problem in self._of_reading],
            "points": {name: getattr(self.points, name) for name in counts},
        }

    def resume(self, state: Mapping[str, Any], points: Points) -> None:
        """Goes on from what another source of the same files had read. points: of that."""
        for name in self.place:
            setattr(self, name, state["place"][name])
        self.torn_at, self.points = state["torn_at"], points
        for name, value in state["points"].items():
            setattr(points, name, type(getattr(points, name))(value))
        self._problems, self._of_reading = _log(state["problems"]), _log(state["of_reading"])
        self._read_state = tuple((size, time, inode) for size, time, inode in state["files"])

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

    def files(self) -> tuple[tuple[int, int, int], ...]:
        """Size, time and number of each watched file; zeros where there is none."""
        states: list[tuple[int, int, int]] = []
        for path in self.watched:
            try:
                stat = path.stat()
                states.append((stat.st_size, stat.st_mtime_ns, stat.st_ino))
            except OSError:
                states.append((0, 0, 0))
        return tuple(states)


def _log(problems: Sequence[Mapping[str, Any]]) -> ProblemLog:
    log = ProblemLog()
    for problem in problems:
        values: dict[str, Any] = {**problem, "lines": tuple(problem["lines"])}
        log.add(Problem(**values))
    return log


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
