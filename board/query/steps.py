"""The table of steps: count, mean, its error, standard deviation and quantiles of each metric, by step.

That of a whole run is stored beside its index, and computed again for steps that changed.

Rollouts that answer one prompt have its difficulty in common, so a step of 8 groups of 8 is worth fewer
than 64 rollouts. The error of the mean is clustered by group: with x_i the value of rollout i, m the mean
of the n rollouts of a step, and S_g the sum of (x_i - m) over the rollouts of group g of G,

    se² = E / (E - 1) · Σ_g S_g² / n²,   E = n² / Σ_g n_g²

(Liang and Zeger 1986; for language models: Miller 2024, arXiv 2411.00640). E is how many groups of equal
size are as good: with equal ones G, and the correction for few clusters the usual G / (G - 1). Without
groups each rollout is one, and se is the usual s / √n.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from board.core.metrics.definitions import base_name
from board.core.sampling import step_ranges
from board.index.manifest import BrokenIndexError, Manifest
from board.index.storage import StepRange, Storage
from board.query.database import quoted

if TYPE_CHECKING:
    import pandas as pd

    from board.query.predicate import StepValues
    from board.query.run import Run
    from board.query.run_rows import RunRows

QUANTILES: Final[dict[str, float]] = {
    "q00": 0.0,
    "q05": 0.05,
    "q25": 0.25,
    "q50": 0.5,
    "q75": 0.75,
    "q95": 0.95,
    "q100": 1.0,
}
"""Suffix -> quantile over the rollouts of a step; q00 is the smallest value and q100 the largest."""
OWN: Final = "own metric"
"""Stem of the columns of `own_steps`."""
_CHUNK_VALUES: Final = 4_000_000
"""Quantiles do not spill to disk: about so many values are in memory at once."""
_ERRORS_AT_ONCE: Final = 4
"""Metrics of one statement: sums by group of many would not fit into memory."""
NO_STEPS: Final[StepRange] = (1, 0)
_COUNTS: Final = ("rollouts", "ranks", "groups")
_STEP: Final = pa.schema([("step", pa.int64())])
_INNER: Final = {name: q for name, q in QUANTILES.items() if 0 < q < 1}


def recorded_counts(run: Run) -> pa.Table:
    """By step, ascending: its rollouts, and as m_n how many of them have a value of each metric m."""
    if run.has_stored_steps:
        return run.step_table()
    is_chosen = bool(run.envs or run.filters or run.split is not None)
    if run.whole is not None and run.step_range is not None and not is_chosen:
        table, (first, last) = run.whole.step_table(), run.step_range
        begin, end = np.searchsorted(table["step"].to_numpy(), (first, last + 1)).tolist()
        return table.slice(begin, max(end - begin, 0))
    values = ", ".join(
        f"count({run.column(name)}) AS {quoted(f'{base_name(name)}_n')}"
        for name in run.rows.metrics
    )
    return run.table(f"""
        SELECT step, count(*) AS rollouts, {values}
        FROM {run.view} WHERE {run.condition} GROUP BY step ORDER BY step
    """)


def steps_of(run: Run, *, quantiles: bool) -> pa.Table:
    """The table of steps, stored or computed, with `complete`: see Run.steps."""
    if run.has_stored_steps:
        table = stored_steps(run.rows.storage, run.rows.manifest)
    else:
        table = steps_table(run, quantiles=quantiles)
    if missing := run.rows.missing_ranks:
        steps = table["step"].to_pylist()
        complete = [not missing[step] if step in missing else None for step in steps]
        table = table.append_column("complete", pa.array(complete, pa.bool_()))
    return table


def steps_table(run: Run, *, quantiles: bool = True) -> pa.Table:
    """One row for each step of the run, ascending.

    Columns: step, rollouts; for each metric with stem m that a rollout has: m_mean, m_std (n - 1 in the
    denominator, missing for one rollout), m_n (rollouts that have a value), m_se, m_groups and m_even
    (the error, groups with a value, and E; only with quantiles) and m_q00 ... m_q100; then ranks (only if
    known), groups and zero_std_group_fraction, the share of the groups of 2 rewards or more whose rewards
    are equal (both only where group_id is recorded). NaN is not recorded.

    quantiles: also those between both ends, and errors; they take most of the time.
    """
    return _tidied(_computed(run, run.counts, quantiles=quantiles), run.rows.metrics)


def refreshed(run: Run) -> Manifest:
    """The manifest of a whole run with a table of steps in which nothing is stale.

    Raises BrokenIndexError.
    """
    rows, counts = run.rows, run.rows.counts
    manifest, storage = rows.manifest, rows.storage
    stale = {*counts} if manifest.steps is None else _stale_steps(rows)
    if not stale and manifest.steps is not None:
        return manifest
    stored = stored_steps(storage, manifest)
    steps = stored["step"].to_pylist()
    is_current = pa.array([step in counts and step not in stale for step in steps], pa.bool_())
    fresh = _computed(run, {step: n for step, n in counts.items() if step in stale}, quantiles=True)
    tables = [table for table in (fresh, stored.filter(is_current)) if table.num_rows]
    both = pa.concat_tables(tables, promote_options="permissive") if tables else stored
    name = storage.put("steps", _tidied(both, rows.metrics))
    return replace(manifest, steps=name, stale=frozenset(), rules=rows.rules)


def _stale_steps(rows: RunRows) -> set[int]:
    """Steps whose rollouts are others than those that the table of steps was made of."""
    now, before = rows.rules, rows.manifest.rules
    if now == before:
        return {*rows.manifest.stale}
    first = min(step for _, step in set(before.items()) ^ set(now.items()))
    every = (step for counts in rows.files.counts.values() for step in counts)
    return {*rows.manifest.stale, *(step for step in every if step >= first)}


def stored_steps(storage: Storage, manifest: Manifest) -> pa.Table:
    """The table of steps as it was last stored; without rows where it never was."""
    if manifest.steps is None:
        return _tidied(_STEP.empty_table(), ())
    table = storage.get(manifest.steps)
    if "step" not in table.column_names:
        raise BrokenIndexError("the table of steps has no steps")
    return table


def own_steps(run: Run, text: str, of_steps: StepValues | None = None) -> pd.DataFrame:
    """An expression as a metric OWN over the rollouts of each step: mean, std, n and quantiles as
    steps_table has them, infinities left out. Raises ExpressionError, UnreadableError.

    of_steps: numbers of steps that it may use besides the columns of rollouts.
    """
    value = run.number(text, of_steps)
    values = {OWN: f"CASE WHEN isfinite({value.sql}) THEN {value.sql} END"}
    table = _statistics(run, "true", values, value.parameters)
    quantiles = _quantiles(run, "true", run.counts, values, value.parameters)
    return _with(table, quantiles).to_pandas()


def _computed(run: Run, counts: Mapping[int, int], *, quantiles: bool) -> pa.Table:
    """The table of these steps, with columns of metrics that nothing is recorded of.

    counts: rollouts by step.
    """
    if not counts:
        return _STEP.empty_table()
    names = {column.name for column in run.rows.columns}
    values = {base_name(name): run.column(name) for name in run.rows.metrics}
    is_whole = len(counts) == len(run.counts)
    among = "true" if is_whole else f"step IN ({', '.join(map(str, counts))})"
    table = _statistics(run, among, values)
    if {"group_id", "reward"} <= names:
        table = _with(table, _groups(run, among, values["reward"]))
    if quantiles:
        table = _with(table, _quantiles(run, among, counts, values))
        for some in _batches(values, _ERRORS_AT_ONCE):
            table = _with(table, _standard_errors(run, some, among))
    return table


def _with(table: pa.Table, other: pa.Table) -> pa.Table:
    """The table with the columns of another at the same steps: NULL at steps that the other lacks."""
    import pyarrow.compute as pc

    places = pc.index_in(table["step"], other["step"])
    columns = {name: other[name].take(places) for name in other.column_names if name != "step"}
    own = dict(zip(table.column_names, table.columns, strict=True))
    return pa.Table.from_pydict({**own, **columns})


def errors_of(run: Run, columns: Sequence[str]) -> pd.DataFrame:
    """The columns step, m_se, m_groups and m_even of some metrics of a run that may be narrowed."""
    values = {base_name(name): run.column(name) for name in columns if name in run.metrics}
    table = pa.table({"step": pa.array([*run.counts], pa.int64())})
    for some in _batches(values, _ERRORS_AT_ONCE):
        name = f"errors of {[*some]}"
        part = run.remembered(name, lambda some=some: _standard_errors(run, some))
        table = _with(table, part)
    return table.to_pandas()


def _batches(values: Mapping[str, str], size: int) -> Iterator[dict[str, str]]:
    for start in range(0, len(values), size):
        yield dict(islice(values.items(), start, start + size))


def _statistics(
    run: Run,
    among: str,
    values: Mapping[str, str],
    parameters: Mapping[str, Any] | None = None,
) -> pa.Table:
    """Rollouts and ranks of each step, and mean, std, n and both ends of values.

    among: SQL for which steps. values: SQL by stem.
    """
    parts = {"mean": "avg", "std": "stddev_samp", "n": "count", "q00": "min", "q100": "max"}
    selected, aggregates = [], []
    for number, (stem, value) in enumerate(values.items()):
        selected.append(f", CAST({value} AS DOUBLE) AS v{number}")
        aggregates += [f", {f}(v{number}) AS {quoted(f'{stem}_{p}')}" for p, f in parts.items()]
    sql = f"""
        SELECT step, count(*) AS rollouts, count(DISTINCT rank) AS ranks {"".join(aggregates)}
        FROM (SELECT step, rank {"".join(selected)} FROM {run.view} WHERE {run.condition} AND {among})
        GROUP BY step ORDER BY step
    """
    return run.table(sql, parameters)


def _quantiles(
    run: Run,
    among: str,
    counts: Mapping[int, int],
    values: Mapping[str, str],
    parameters: Mapping[str, Any] | None = None,
) -> pa.Table:
    """The quantiles between both ends. counts: rollouts by step; others: as of _statistics."""
    if not (values and counts):
        return _STEP.empty_table()
    import pyarrow.compute as pc

    tables: list[pa.Table] = []
    wanted = ", ".join(map(str, _INNER.values()))
    for first, last in step_ranges(counts, max(_CHUNK_VALUES // len(values), 1)):
        own = {step: n for step, n in counts.items() if first <= step <= last}
        part = run.where(steps=(first, last))
        columns: dict[str, Any] = {"step": pa.array([*own], pa.int64())}
        for some in _batches(values, max(_CHUNK_VALUES // sum(own.values()), 1)):
            lists_of = (
                f"quantile_cont(CAST({sql} AS DOUBLE), [{wanted}])" for sql in some.values()
            )
            sql = f"""
                SELECT {", ".join(lists_of)} FROM {part.view}
                WHERE {part.condition} AND {among} GROUP BY step ORDER BY step
            """
            table = part.table(sql, parameters)
            for stem, lists in zip(some, table.columns, strict=True):
                for place, suffix in enumerate(_INNER):
                    columns[f"{stem}_{suffix}"] = pc.list_element(lists, place)
        tables.append(pa.table(columns))
    return pa.concat_tables(tables)


def _standard_errors(run: Run, values: Mapping[str, str], among: str = "true") -> pa.Table:
    """By step, of each stem m `m_se` (NaN for fewer than two groups with a value), `m_groups`, how many
    groups have a value, and `m_even`, how many of equal size these are worth. values, at most
    _ERRORS_AT_ONCE, and among: as of _statistics.
    """
    group, places = run.column("group_id"), range(len(values))
    # Of a rollout without a group a value of its own.
    own_group = f"""CASE WHEN {group} IS NULL THEN hash(file, line, part)
        ELSE hash({group}, {run.split_value}) END"""
    own = [f"CAST({sql} AS DOUBLE) AS v{i}" for i, sql in enumerate(values.values())]
    # Deviations from the mean of the step: squares of large numbers would lose what differs.
    centred = [f"v{i} - avg(v{i}) OVER (PARTITION BY step) AS d{i}" for i in places]
    sums = [f"sum(d{i}) AS s{i}, count(d{i}) AS n{i}" for i in places]
    errors = [
        f"""count(*) FILTER (n{i} > 0) AS {quoted(f"{stem}_groups")},
            sum(n{i})::DOUBLE ** 2 / nullif(sum(n{i} * n{i}), 0) AS {quoted(f"{stem}_even")},
            CASE WHEN count(*) FILTER (n{i} > 0) > 1 THEN
                sqrt(sum(s{i} * s{i}) / (1 - sum(n{i} * n{i}) / sum(n{i})::DOUBLE ** 2)) / sum(n{i})
                END AS {quoted(f"{stem}_se")}"""
        for i, stem in enumerate(values)
    ]
    return run.table(f"""
        WITH rollouts AS (
            SELECT step, {own_group} AS own_group, {", ".join(own)}
            FROM {run.view} WHERE {run.condition} AND {among}),
        centred AS (SELECT step, own_group, {", ".join(centred)} FROM rollouts),
        groups AS (SELECT step, {", ".join(sums)} FROM centred GROUP BY step, own_group)
        SELECT step, {", ".join(errors)} FROM groups GROUP BY step ORDER BY step
    """)


def _groups(run: Run, among: str, reward: str) -> pa.Table:
    """Groups of each step, and the share of those with 2 or more rewards whose rewards are all equal.

    reward: SQL.
    """
    return run.table(f"""
        SELECT step, count(*) AS groups,
            count(*) FILTER (scored >= 2 AND lowest = highest)
                / nullif(count(*) FILTER (scored >= 2), 0) AS zero_std_group_fraction
        FROM (
            SELECT step, count(reward) AS scored, min(reward) AS lowest, max(reward) AS highest
            FROM (
                SELECT step, group_id, {run.split_value} AS split, {reward} AS reward
                FROM {run.view} WHERE {run.condition} AND {among} AND group_id IS NOT NULL)
            GROUP BY step, group_id, split)
        GROUP BY step
    """)


def _tidied(table: pa.Table, metrics: Sequence[str]) -> pa.Table:
    """In ascending order, with the columns of metrics that any rollout has, in the order of metrics."""
    if not table.num_rows:
        return _STEP.append(pa.field("rollouts", pa.int64())).empty_table()
    import pyarrow.compute as pc

    there = {*table.column_names}
    names = ["step", "rollouts"]
    for stem in map(base_name, metrics):
        if f"{stem}_n" in there and _holds_any(table[f"{stem}_n"]):
            suffixes = ("mean", "std", "n", "se", "groups", "even", *QUANTILES)
            names += [name for suffix in suffixes if (name := f"{stem}_{suffix}") in there]
    if "ranks" in there and _holds_any(table["ranks"]):
        names.append("ranks")
    if "groups" in there and _holds_any(table["groups"]):
        names += ["groups", "zero_std_group_fraction"]
    ordered = table.select(names).take(pc.sort_indices(table["step"]))
    columns: dict[str, pa.ChunkedArray] = {}
    for name in names:
        values = ordered[name]
        if name.endswith(("_n", "_groups")):  # of metrics that a part of the table lacks
            values = pc.fill_null(values, pa.scalar(0, values.type))
        is_count = name in _COUNTS or name.endswith(("_n", "_groups"))
        columns[name] = values.cast(pa.int64()) if is_count else values
    return pa.Table.from_pydict(columns)


def _holds_any(counts: pa.ChunkedArray) -> bool:
    return any(counts.to_pylist())
