"""Standard errors of the means of steps: rollouts of one group are not independent.

Rollouts that answer one prompt have its difficulty in common, so a step of 8 groups of 8 is worth fewer
than 64 rollouts. The error of the mean is clustered by group: with x_i the value of rollout i, m the mean
of the n rollouts of a step, and S_g the sum of (x_i - m) over the rollouts of group g of G,

    se² = G / (G - 1) · Σ_g S_g² / n²

(Liang and Zeger 1986, with the correction for few clusters, CR1; for language models: Miller 2024, arXiv
2411.00640). Without groups each rollout is one, and se is the usual s / √n.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import pandas as pd

from board.query.database import quoted

if TYPE_CHECKING:
    from board.query.run import Run

AT_ONCE: Final = 4
"""Values of one statement: sums by group of many would not fit into memory."""


def standard_errors(run: Run, values: Mapping[str, str], among: str = "true") -> pd.DataFrame:
    """One row for each step, ascending: step, and of each stem m `m_se` (NaN for fewer than two groups
    with a value) and `m_groups`, how many groups have a value.

    Args:
        run: may be narrowed.
        values: SQL by stem, of at most AT_ONCE metrics.
        among: SQL for which steps.

    Raises:
        UnreadableError: the index was deleted or damaged.
    """
    places = range(len(values))
    own = [f"CAST({sql} AS DOUBLE) AS v{i}" for i, sql in enumerate(values.values())]
    # Deviations from the mean of the step: squares of large numbers would lose what differs.
    centred = [f"v{i} - avg(v{i}) OVER (PARTITION BY step) AS d{i}" for i in places]
    sums = [f"sum(d{i}) AS s{i}, count(d{i}) AS n{i}" for i in places]
    errors = [
        f"""count(*) FILTER (n{i} > 0) AS {quoted(f"{stem}_groups")},
            sqrt(count(*) FILTER (n{i} > 0) / nullif(count(*) FILTER (n{i} > 0) - 1, 0)
                * sum(s{i} * s{i})) / nullif(sum(n{i}), 0) AS {quoted(f"{stem}_se")}"""
        for i, stem in enumerate(values)
    ]
    return run.table(f"""
        WITH rollouts AS (
            SELECT step, {_group(run)} AS own_group, {", ".join(own)}
            FROM {run.view} WHERE {run.condition} AND {among}),
        centred AS (SELECT step, own_group, {", ".join(centred)} FROM rollouts),
        groups AS (SELECT step, {", ".join(sums)} FROM centred GROUP BY step, own_group)
        SELECT step, {", ".join(errors)} FROM groups GROUP BY step ORDER BY step
    """).to_pandas()


def _group(run: Run) -> str:
    """SQL for the group of a rollout; of one that has none a value of its own."""
    own = "hash(file, line, part)"
    if "group_id" not in {column.name for column in run.rows.columns}:
        return own
    group = run.column("group_id")
    return f"CASE WHEN {group} IS NULL THEN {own} ELSE hash({group}, {run.split_value}) END"
