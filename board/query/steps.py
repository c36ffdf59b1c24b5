"""The table of steps of some rollouts: count, mean, spread and quantiles of each metric, by step."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportAttributeAccessIssue=false
# pyarrow ships without types, and makes its compute functions when it is imported.

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pandas as pd
import pyarrow.compute as pc

from board.query.selection import Selection
from board.store.step_store import tidied
from board.store.steps import QUANTILES, base_name

_CHUNK_ROLLOUTS: Final = 500_000
"""Quantiles do not spill: the values of so many rollouts are in memory at once."""
_QUANTILES: Final = ", ".join(str(q) for q in QUANTILES.values())


def counts_by_step(selection: Selection) -> dict[int, int]:
    """Rollouts of each step, ascending."""
    table = selection.table(f"""
        SELECT step, count(*) AS rollouts FROM {selection.view} WHERE {selection.condition}
        GROUP BY step ORDER BY step
    """)
    return dict(zip(*(table[name].to_pylist() for name in ("step", "rollouts")), strict=True))


def steps_table(selection: Selection, counts: Mapping[int, int]) -> pd.DataFrame:
    """As store.steps.steps_table. counts: rollouts by step, ascending."""
    metrics = selection.rows.run.metrics
    tables = [_of_range(selection, low, high) for low, high in _ranges(counts)]
    none = pd.DataFrame({"step": pd.Series([], dtype="int64")})
    return tidied(pd.concat(tables or [none], ignore_index=True), metrics)


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


def _of_range(selection: Selection, low: int, high: int) -> pd.DataFrame:
    """The table of the steps from low to high."""
    rows, metrics = selection.rows, selection.rows.run.metrics
    columns = {column.name: column for column in rows.run.shown.columns}
    rank = "rank" if "rank" in rows.names else "NULL"
    values = "".join(
        f", CAST({rows.value(columns[name])} AS DOUBLE) AS v{i}" for i, name in enumerate(metrics)
    )
    aggregates = "".join(
        f""", avg(v{i}) AS mean{i}, stddev_samp(v{i}) AS std{i}, count(v{i}) AS n{i},
        quantile_cont(v{i}, [{_QUANTILES}]) AS quantiles{i}"""
        for i in range(len(metrics))
    )
    table = selection.table(f"""
        SELECT step, count(*) AS rollouts, count(DISTINCT rank) AS ranks {aggregates}
        FROM (
            SELECT step, {rank} AS rank {values} FROM {selection.view}
            WHERE {selection.condition} AND step BETWEEN {low} AND {high})
        GROUP BY step ORDER BY step
    """)
    found = {name: table[name].to_numpy() for name in ("step", "rollouts", "ranks")}
    for i, name in enumerate(metrics):
        stem = base_name(name)
        for part in ("mean", "std", "n"):
            found[f"{stem}_{part}"] = table[f"{part}{i}"].to_numpy()
        for place, suffix in enumerate(QUANTILES):
            found[f"{stem}_{suffix}"] = pc.list_element(table[f"quantiles{i}"], place).to_numpy()
    frame = pd.DataFrame(found)
    if not {"group_id", "reward"} <= columns.keys():
        return frame
    return frame.merge(_groups(selection, low, high), "left", "step")


def _groups(selection: Selection, low: int, high: int) -> pd.DataFrame:
    """Groups of each step, and the share of those with 2 or more rewards whose rewards are all equal."""
    columns = {column.name: column for column in selection.rows.run.shown.columns}
    reward = selection.rows.value(columns["reward"])
    table = selection.table(f"""
        SELECT step, count(*) AS groups,
            count(*) FILTER (scored >= 2 AND lowest = highest)
                / nullif(count(*) FILTER (scored >= 2), 0) AS zero_std_group_fraction
        FROM (
            SELECT step, count(reward) AS scored, min(reward) AS lowest, max(reward) AS highest
            FROM (
                SELECT step, group_id, {selection.split_value} AS split, {reward} AS reward
                FROM {selection.view}
                WHERE {selection.condition} AND group_id IS NOT NULL AND step BETWEEN {low} AND {high})
            GROUP BY step, group_id, split)
        GROUP BY step
    """)
    return table.to_pandas()
