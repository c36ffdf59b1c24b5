"""How many prompts and rollouts would show a difference, by the variances of a run's last steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from board.core.metrics.sample_size import Variances, prompts_needed, variances
from board.errors import ChoiceError
from board.query.run import Run

LAST: Final = 20
"""Steps whose groups are taken: early in a run rewards vary otherwise."""
ROLLOUTS: Final = (1, 2, 4, 8, 16, 32, 64)


@dataclass(frozen=True, slots=True)
class Needed:
    """Prompts that show the difference, with so many rollouts of each in both runs. paired: the same
    prompts in both; unpaired: other ones.
    """

    rollouts: int
    paired: int
    unpaired: int


def group_variances(run: Run, metric: str) -> Variances | None:
    """The variances of a metric over the groups of the last steps; None where there are too few groups.

    Raises ChoiceError where the run has no such metric, UnreadableError.
    """
    if metric not in run.metrics:
        raise ChoiceError(
            f"{run.info.name} has no metric {metric!r}; it has {', '.join(run.metrics)}"
        )
    if "group_id" not in run.columns or not run.counts:
        return None
    steps = [*run.counts][-LAST:]
    group = run.column("group_id")
    table = run.table(f"""
        SELECT step, avg(value) AS mean, var_samp(value) AS within, count(value) AS rollouts
        FROM (SELECT step, {group} AS own, {run.split_value} AS split,
                CAST({run.column(metric)} AS DOUBLE) AS value
            FROM {run.view} WHERE {run.condition} AND step >= {steps[0]} AND {group} IS NOT NULL)
        GROUP BY step, own, split HAVING count(value) > 0
    """)
    columns = (table[name].to_numpy() for name in ("mean", "within", "rollouts", "step"))
    return variances(*columns)


def needed(own: Variances, difference: float, rollouts: Sequence[int] = ROLLOUTS) -> list[Needed]:
    """For each number of rollouts per prompt how many prompts show the difference, which is not 0."""
    return [
        Needed(
            count,
            prompts_needed(own, difference, count, is_paired=True),
            prompts_needed(own, difference, count, is_paired=False),
        )
        for count in rollouts
    ]
