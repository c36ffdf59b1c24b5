"""Metrics by environment: curves, and a table of one step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from board.core.groups.environments import EnvCurves, curves_from
from board.core.metrics.definitions import is_zero_std
from board.core.metrics.intervals import interval_of_means, two_values
from board.core.metrics.seeds import LEAST
from board.core.metrics.skewed_means import LEAST_UNBOUNDED, interval_by_clusters
from board.errors import ChoiceError, did_you_mean
from board.query.columns import numbers
from board.query.groups import group_codes
from board.query.run import Run

if TYPE_CHECKING:
    import pandas as pd


def environments_of(run: Run) -> tuple[str, ...]:
    """The environments that rollouts of the run name, in alphabetical order. Raises UnreadableError."""
    if "env" not in run.columns:
        return ()
    table = run.table(f"""
        SELECT DISTINCT env FROM {run.view}
        WHERE {run.condition} AND env IS NOT NULL ORDER BY env
    """)
    return tuple(map(str, table["env"].to_pylist()))


def of_known_environments(run: Run, names: Sequence[str]) -> Run:
    """The run with the rollouts of these environments alone; the run itself without a name. Raises
    ChoiceError for one that it does not have.
    """
    known = environments_of(run) if names else ()
    for name in names:
        if name not in known:
            raise ChoiceError(
                f"{run.info.name} has no environment {name!r}; {did_you_mean(name, known)}"
            )
    return run.where(envs=names)


def environment_curves(run: Run, column: str = "reward") -> EnvCurves:
    """Means of a metric by step and environment; "step": how many rollouts there are.

    Raises ChoiceError where the run has no such metric, UnreadableError.
    """
    if column not in ("step", *run.metrics):
        raise ChoiceError(f"{run.info.name} has no column {column!r} that makes a curve")
    table = run.table(f"""
        SELECT step, env, count(value) AS rollouts, coalesce(sum(value), 0) AS total
        FROM (
            SELECT step, {run.column("env")} AS env,
                CAST({run.column(column)} AS DOUBLE) AS value
            FROM {run.view} WHERE {run.condition})
        GROUP BY step, env ORDER BY step, env
    """)
    steps, sums, counts = (table[name].to_numpy() for name in ("step", "total", "rollouts"))
    names = sorted(map(str, pc.unique(table["env"]).drop_null().to_pylist()))
    codes = pc.index_in(table["env"], pa.array(names, pa.string())).fill_null(-1)
    return curves_from(steps, codes.to_numpy().astype(np.int64), names, sums, counts)


def environment_means(run: Run, column: str = "reward") -> pd.DataFrame:
    """A row for each environment, by name, over all steps: env, rollouts, n (those with a value), mean,
    and low and high, its 95 % interval by an error clustered by group: of two values as of
    share_interval, NaN for fewer than three groups; else as of interval_by_clusters, NaN for fewer than
    LEAST_UNBOUNDED.

    Raises ChoiceError where the run has no such metric, UnreadableError.
    """
    import pandas as pd

    if column not in run.metrics:
        raise ChoiceError(f"{run.info.name} has no column {column!r} that makes a mean")
    group = run.column("group_id")
    table = run.table(f"""
        WITH rollouts AS (
            SELECT env, CAST({run.column(column)} AS DOUBLE) AS value,
                CASE WHEN {group} IS NULL THEN hash(file, line, part)
                ELSE hash(step, {group}, {run.split_value}) END AS own_group
            FROM {run.view} WHERE {run.condition} AND env IS NOT NULL),
        centred AS (
            SELECT env, own_group, value, avg(value) OVER (PARTITION BY env) AS middle
            FROM rollouts),
        groups AS (
            SELECT env, any_value(middle) AS middle, sum(value - middle) AS deviation,
                count(value) AS known, count(*) AS rollouts, min(value) AS least, max(value) AS most,
                sum((value - middle) ** 2) AS squares
            FROM centred GROUP BY env, own_group)
        SELECT env, sum(rollouts) AS rollouts, sum(known) AS n, any_value(middle) AS mean,
            count(*) FILTER (known > 0) AS groups,
            sqrt(sum(squares) / nullif(sum(known) - 1, 0)) AS std, min(least) AS least, max(most) AS most,
            sum(known)::DOUBLE ** 2 / nullif(sum(known * known), 0) AS even,
            CASE WHEN count(*) FILTER (known > 0) > 1 THEN sqrt(sum(deviation * deviation)
                / (1 - sum(known * known) / sum(known)::DOUBLE ** 2)) / sum(known) END AS error,
            sum(deviation ** 3) / sum(known)::DOUBLE ** 3 AS third
        FROM groups GROUP BY env ORDER BY env
    """).to_pandas()
    names = ("mean", "error", "even", "n", "std", "least", "most", "third", "groups")
    mean, error, even, n, std, least, most, third, groups = (
        table[name].to_numpy(np.float64, na_value=np.nan) for name in names
    )
    scale = two_values(mean, std, n, least, most)
    if scale is not None:
        low, high = interval_of_means(mean, error, even, n, scale)
    else:
        low, high = interval_by_clusters(mean, error, third, even)
    is_enough = groups >= (LEAST_UNBOUNDED if scale is None else LEAST)
    low, high = (np.where(is_enough, end, np.nan) for end in (low, high))
    counts = {name: table[name].astype(np.int64) for name in ("rollouts", "n")}
    return pd.DataFrame(
        {"env": table["env"].astype(str), **counts, "mean": mean, "low": low, "high": high}
    )


def table_of_step(rows: pd.DataFrame, metrics: Sequence[str]) -> pd.DataFrame:
    """A step's rollouts by environment: one row for all, then one for each.

    Columns: scope ("all" or "env"), env (empty for all), rollouts, the means of `metrics`, and
    without_gradient, the share of groups of equal rewards, where groups are recorded.
    """
    import pandas as pd

    parts = [("all", "", rows)]
    parts += [("env", str(name), own) for name, own in rows.groupby("env", observed=True)]
    return pd.DataFrame(
        {"scope": scope, "env": name, "rollouts": len(own), **_means(own, metrics)}
        for scope, name, own in parts
    )


def _means(rows: pd.DataFrame, metrics: Sequence[str]) -> dict[str, float]:
    import pandas as pd

    values = {metric: numbers(rows, metric) for metric in metrics}
    means = {name: pd.Series(own[np.isfinite(own)]).mean() for name, own in values.items()}
    if "group_id" in rows and "reward" in rows:
        rewards, codes = pd.Series(numbers(rows, "reward")), group_codes(rows)
        groups = rewards[codes >= 0].groupby(codes[codes >= 0])
        equal = [is_zero_std(np.asarray(own, np.float64)) for _, own in groups]
        means["without_gradient"] = pd.Series(equal, dtype=float).mean()
    return means
