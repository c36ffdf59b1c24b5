"""The runs that are compared, and what they are called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from board.core.metrics.definitions import reward_parts
from board.query.compare.answer import run_names
from board.query.open_run import Run
from board.query.trainer.metrics import TrainerMetrics
from board.views.shared import state, trainer


@dataclass(frozen=True, slots=True)
class Compared:
    """Runs side by side, the current one first. names: short, no two the same. shifts: steps added to
    those of each.
    """

    runs: tuple[Run, ...]
    names: tuple[str, ...]
    shifts: tuple[int, ...]

    @property
    def trainers(self) -> tuple[TrainerMetrics, ...]:
        """What the trainer of each run logged."""
        return tuple(map(trainer.metrics, self.runs))

    @property
    def names_with_shifts(self) -> tuple[str, ...]:
        """What the runs are called where all have the steps of the first."""
        sides = zip(self.names, self.shifts, strict=True)
        return tuple(f"{name} {shift:+,} steps" if shift else name for name, shift in sides)

    def narrowed(self, runs: Sequence[Run]) -> Compared:
        """These runs, each a part of one of them or that itself, as it is called and moved."""
        every = [run.info.name for run in self.runs]
        places = [every.index(run.info.name) for run in runs]
        names = tuple(self.names[place] for place in places)
        return Compared(tuple(runs), names, tuple(self.shifts[place] for place in places))


def compared_of(runs: Sequence[Run]) -> Compared:
    """The runs with their names and the shifts that somebody chose."""
    shifts: Mapping[str, int] = {**state.get("compare_shifts"), state.get("run"): 0}
    steps = (shifts.get(run.info.name, 0) for run in runs)
    return Compared(tuple(runs), tuple(run_names(runs)), tuple(steps))


def metrics_of(run: Run) -> tuple[str, ...]:
    """What can be compared of a run: metrics of its rollouts, then those of its trainer."""
    return (*run.metrics, *trainer.metrics(run).curves)


def shared_parts(runs: Sequence[Run]) -> list[str]:
    """The parts of the reward that all of the runs have."""
    parts = reward_parts(runs[0].metrics)
    return [part for part in parts if all(part in run.metrics for run in runs)]
