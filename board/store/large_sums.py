"""Puts together what was found in the pieces of a step of very many rollouts."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
# pyarrow ships without types, and makes its compute functions when it is imported.

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa

from board.store import step_parts
from board.store.large_rows import FACTOR, NO_KEY, Keys, LargeRows, first_with, hashed

_LEAST: Final = ("lowest", "started")
_MOST: Final = ("highest", "clock")
_OWN: Final = ("step", "earliest", "ranks", "rank_last")


def merged_sums(tables: Sequence[pa.Table]) -> pa.Table:
    """The entry of a set whose rollouts are of several pieces. tables: its entry of each, as
    step_parts.groups_table has it.
    """
    table = pa.concat_tables(tables, promote_options="permissive")
    found: dict[str, pa.Array] = {}
    for name in table.column_names:
        values = table.column(name)
        stem, _, field = name.rpartition(":")
        if name in ("member", "step", "env"):
            value = values[0].as_py()
        elif field in ("low", "high"):
            value = _end(values.to_numpy(), least=field == "low")
        elif field in ("at_low", "at_high"):
            ends = table.column(f"{stem}:{field.removeprefix('at_')}").to_numpy()
            at_end = ends == _end(ends, least=field == "at_low")
            value = int(values.to_numpy()[at_end].sum())
        else:
            value = values.to_numpy().sum().item()
        found[name] = pa.array([value], values.type)
    return pa.table(found)


def merged_checks(tables: Sequence[pa.Table], copies: pd.DataFrame) -> pa.Table:
    """What rules ask of a step of which each piece was asked. tables: of step_parts.checks_table;
    copies: as step_parts.copies_of has them.
    """
    table = pa.concat_tables(tables, promote_options="permissive")
    found = {name: _merged(table, name) for name in table.column_names if name not in _OWN[2:]}
    if "ranks" in table.column_names:
        last: dict[int, int] = {}
        lists = (table.column(name).to_pylist() for name in ("ranks", "rank_last"))
        for ranks, places in zip(*lists, strict=True):
            for rank, place in zip(ranks or (), places or (), strict=True):
                last[rank] = max(last.get(rank, -1), place)
        whole = pa.list_(pa.int64())
        found["ranks"] = pa.array([sorted(last)], whole)
        found["rank_last"] = pa.array([[last[rank] for rank in sorted(last)]], whole)
    if len(copies):
        for name in ("index", "of", "rank"):
            values = pa.array(copies[name], pa.int64(), from_pandas=True)
            found[f"copy:{name}"] = pa.ListArray.from_arrays([0, len(copies)], values)
    return pa.table(found)


def _merged(table: pa.Table, name: str) -> pa.Array:
    values = table.column(name)
    held = values.drop_null()
    if not len(held):
        return pa.array([None], values.type)
    numbers = held.to_numpy()
    if name == "earliest":
        started = table.column("started").to_numpy()
        numbers = numbers[started == _end(started, least=True)]
        value = numbers.min() if len(numbers) else -1
    elif name in ("step", "spread"):
        value = numbers[0]
    elif name in _LEAST:
        value = _end(numbers, least=True)
    elif name in _MOST or name.startswith("furthest:") or name.endswith(":highest"):
        value = _end(numbers, least=False)
    else:
        value = numbers.sum()
    return pa.array(np.array([value]), values.type)


def _end(values: Any, *, least: bool) -> Any:
    """The least or largest of the values that are known, NaN where none is."""
    return (np.fmin if least else np.fmax).reduce(values)


def reward_spread(rows: LargeRows) -> float:
    """The standard deviation of the rewards of all grouped rollouts, as core.advantages has it."""
    if not {"advantage", "group_id"} <= rows.of.names:
        return float("nan")  # nobody asks
    values = rows.numbers("reward")
    values = values[(rows.groups >= 0) & np.isfinite(values)]
    if len(values) < 2:
        return float("nan")
    one = np.zeros(len(values), np.int64)  # summed as core does, to the last digit
    values -= np.bincount(one, weights=values) / len(values)
    np.square(values, out=values)
    return float(np.sqrt(np.bincount(one, weights=values) / (len(values) - 1))[0])


def copies_of(rows: LargeRows) -> pd.DataFrame:
    """As step_parts.copies_of, of all rollouts of a step."""
    step = rows.of
    none = pd.DataFrame({"step": np.zeros(0, np.int64)})
    if "rollout_id" not in step.names:
        return none
    keys = step.keys(("rollout_id",), lambda own: hashed(own["rollout_id"]))
    first = first_with(keys)
    again = (first != rows.places) & (keys != NO_KEY)
    if not again.any():
        return none
    has_id = keys != NO_KEY
    del keys
    names = [name for name in step_parts.SAME if name in step.names]
    first = first_with(np.where(has_id, step.keys(names, _key_of), NO_KEY))
    again = (first != rows.places) & has_id
    index = rows.places[again]
    ranks = rows.only(again).numbers("rank")
    found = {"step": np.full(len(index), step.step), "index": index.astype(np.int64)}
    found |= {"of": first[again].astype(np.int64)}
    return pd.DataFrame(found).assign(rank=pd.Series(ranks).astype("Int64"))


def _key_of(rows: pd.DataFrame) -> Keys:
    """[rows] a number that is equal for rollouts that are the same."""
    found = np.zeros(len(rows), np.uint64)
    for name in step_parts.SAME[:-1]:
        if name not in rows:
            continue
        if pd.api.types.is_numeric_dtype(rows[name]):
            values = step_parts.numbers(rows, name) + 0.0
            own = np.where(np.isnan(values), np.nan, values).view(np.uint64)
        else:
            own = hashed(rows[name])
        found = found * FACTOR + own
    return found
