"""The table of steps of some rollouts: count, mean, spread and quantiles of each metric, by step."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportAttributeAccessIssue=false
# pyarrow ships without types, and makes its compute functions when it is imported.

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import pandas as pd
import pyarrow.compute as pc

from board.index.step_statistics import QUANTILES, base_name
from board.index.step_store import tidied
from board.query.predicate import number_of, parsed
from board.query.run import Run
from board.query.selection import Selection, selection_of

_CHUNK_ROLLOUTS: Final = 500_000
"""Quantiles do not spill: the values of so many rollouts are in memory at once."""
OWN: Final = "own metric"
"""Stem of the columns of `own_steps`."""
_NONE: Final = pd.DataFrame({"step": pd.Series([], dtype="int64")})
_QUANTILES: Final = ", ".join(str(q) for q in QUANTILES.values())


def steps_table(selection: Selection, counts: Mapping[int, int]) -> pd.DataFrame:
    """As store.steps.steps_table. counts: by step, ascending, at least as many rollouts as there are."""
    rows = selection.rows
    columns = {column.name for column in rows.run.shown.columns}
    values = {base_name(name): selection.column(name) for name in rows.run.metrics}
    tables: list[pd.DataFrame] = []
    for steps in _ranges(counts):
        own = replace(selection, steps=steps)
        table = _statistics(own, values)
        if {"group_id", "reward"} <= columns:
            table = table.merge(_groups(own, values["reward"]), "left", "step")
        tables.append(table)
    return tidied(pd.concat(tables or [_NONE], ignore_index=True), rows.run.metrics)


def own_steps(run: Run, text: str) -> pd.DataFrame:
    """An expression as a metric OWN over the rollouts of each step: mean, std, n and quantiles as
    store.steps.steps_table has them, infinities left out. Raises ExpressionError, UnreadableError.
    """
    selection = selection_of(run)
    found = number_of(selection.rows, parsed(run, text))
    bound = replace(selection, parameters=found.parameters)
    values = {OWN: f"CASE WHEN isfinite({found.sql}) THEN {found.sql} END"}
    tables = [_statistics(replace(bound, steps=steps), values) for steps in _ranges(run.counts)]
    return pd.concat(tables or [_NONE], ignore_index=True)


def _ranges(counts: Mapping[int, int]) -> list[tuple[int, int]]:
    """First and last steps of chunks of _CHUNK_ROLLOUTS, or of one step."""
    found: list[tuple[int, int]] = []
    rollouts = _CHUNK_ROLLOUTS
    for step, count in counts.items():
        if rollouts + count > _CHUNK_ROLLOUTS:
            found.append((step, step))
            rollouts = 0
        found[-1] = (found[-1][0], step)
        rollouts += count
    return found


def _statistics(selection: Selection, values: Mapping[str, str]) -> pd.DataFrame:
    """Rollouts and ranks of each step, and mean, std, n and quantiles of values. values: SQL by stem."""
    rank = "rank" if "rank" in selection.rows.names else "NULL"
    selected = "".join(f", CAST({sql} AS DOUBLE) AS v{i}" for i, sql in enumerate(values.values()))
    aggregates = "".join(
        f""", avg(v{i}) AS mean{i}, stddev_samp(v{i}) AS std{i}, count(v{i}) AS n{i},
        quantile_cont(v{i}, [{_QUANTILES}]) AS quantiles{i}"""
        for i in range(len(values))
    )
    table = selection.table(f"""
        SELECT step, count(*) AS rollouts, count(DISTINCT rank) AS ranks {aggregates}
        FROM (SELECT step, {rank} AS rank {selected} FROM {selection.view}
            WHERE {selection.condition})
        GROUP BY step ORDER BY step
    """)
    found = {name: table[name].to_numpy() for name in ("step", "rollouts", "ranks")}
    for i, stem in enumerate(values):
        for part in ("mean", "std", "n"):
            found[f"{stem}_{part}"] = table[f"{part}{i}"].to_numpy()
        for place, suffix in enumerate(QUANTILES):
            found[f"{stem}_{suffix}"] = pc.list_element(table[f"quantiles{i}"], place).to_numpy()
    return pd.DataFrame(found)


def _groups(selection: Selection, reward: str) -> pd.DataFrame:
    """Groups of each step, and the share of those with 2 or more rewards whose rewards are all equal.

    reward: SQL.
    """
    return selection.table(f"""
        SELECT step, count(*) AS groups,
            count(*) FILTER (scored >= 2 AND lowest = highest)
                / nullif(count(*) FILTER (scored >= 2), 0) AS zero_std_group_fraction
        FROM (
            SELECT step, count(reward) AS scored, min(reward) AS lowest, max(reward) AS highest
            FROM (
                SELECT step, group_id, {selection.split_value} AS split, {reward} AS reward
                FROM {selection.view} WHERE {selection.condition} AND group_id IS NOT NULL)
            GROUP BY step, group_id, split)
        GROUP BY step
    """).to_pandas()
