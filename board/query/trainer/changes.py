"""Where the trainer's scalars change: those that the rollouts do not have as well."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from board.core.findings.series import Changes, Series, changes_of
from board.core.metrics.trainer import PREFIX, Agreement
from board.query.trainer.metrics import TrainerMetrics

_MOST_CURVES: Final = 200


def trainer_steps(trainer: TrainerMetrics) -> np.ndarray:
    """Every step at which the trainer logs anything, ascending."""
    each = [np.array([], np.int64), *(curve.steps for curve in trainer.curves.values())]
    return np.unique(np.concatenate(each))


def trainer_changes(trainer: TrainerMetrics, compared: Sequence[Agreement]) -> Changes:
    """Changes by place in `trainer_steps`. compared: metrics of which the rollouts tell more."""
    steps, known = trainer_steps(trainer), {one.trainer for one in compared}
    series: list[Series] = []
    for curve in [c for c in trainer.curves.values() if c.name not in known][:_MOST_CURVES]:
        values = np.full(len(steps), np.nan)
        values[np.searchsorted(steps, curve.steps)] = curve.values
        series.append(Series(curve.name, curve.name.removeprefix(PREFIX), values))
    return changes_of(series)
