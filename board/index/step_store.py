"""Brings the table of steps up to date: steps whose rollouts changed are computed again."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false
# pyarrow ships without types.

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from board.index import group_ids
from board.index.manifest import BrokenIndexError, Manifest
from board.index.step_statistics import QUANTILES, base_name, steps_table
from board.index.storage import Storage
from board.index.visible_rows import Shown

_CHUNK_ROLLOUTS: Final = 30_000
"""Rollouts whose numbers are in memory at once, if no step has more."""
_COUNTS: Final = ("rollouts", "ranks", "groups")


def refreshed(storage: Storage, manifest: Manifest, order: Sequence[str]) -> Manifest:
    """The manifest with a table of steps, and of joins, in which nothing is stale."""
    shown = Shown(storage, manifest, order)
    stale = shown.stale()
    if not stale and manifest.steps is not None:
        return manifest
    counts = shown.counts()
    chunks = _chunks({step: counts[step] for step in sorted(stale) if counts.get(step)})
    tables = [steps_table(_rows_of(shown, chunk), shown.metrics) for chunk in chunks]
    kept = load(storage, manifest)
    kept = kept[kept["step"].isin(counts) & ~kept["step"].isin(stale)]
    if len(kept):
        tables.append(kept)
    name = storage.put("steps", pa.table(_tidied(_together(tables), shown.metrics)))
    joins = {kind: storage.put(kind, table) for kind, table in shown.join_tables.items()}
    return replace(manifest, steps=name, stale=frozenset(), rules=shown.rules, joins=joins)


def _rows(shown: Shown, counts: Mapping[int, int], cap: int) -> Iterator[pd.DataFrame]:
    """The first rollouts of each of these steps (ascending, with how many each has), a bounded number
    at a time.
    """
    for chunk in _chunks(counts):
        rows = _rows_of(shown, chunk)
        yield rows[rows["index"] < cap].reset_index(drop=True)


def _rows_of(shown: Shown, steps: Sequence[int]) -> pd.DataFrame:
    """All rollouts of some steps, which are ascending."""
    columns = [*dict.fromkeys((*shown.metrics, "rank", *group_ids.COLUMNS, "reward"))]
    stored = shown.stored_rows((steps[0], steps[-1]), columns)
    rows = stored.frame({*columns, "step", "index"})
    if len(steps) <= steps[-1] - steps[0]:
        rows = rows[rows["step"].isin(steps)]
    return rows.reset_index(drop=True)


def _chunks(counts: Mapping[int, int]) -> Iterator[list[int]]:
    """The steps, ascending, in pieces of at most so many rollouts, or of one step."""
    chunk: list[int] = []
    rollouts = 0
    for step, count in counts.items():
        if chunk and rollouts + count > _CHUNK_ROLLOUTS:
            yield chunk
            chunk, rollouts = [], 0
        chunk.append(step)
        rollouts += count
    if chunk:
        yield chunk


def load(storage: Storage, manifest: Manifest) -> pd.DataFrame:
    """The table of steps as it was last made; without rows where it never was."""
    if manifest.steps is None:
        return pd.DataFrame({"step": np.array([], np.int64)})
    table = storage.get(manifest.steps)
    if "step" not in table.column_names:
        raise BrokenIndexError("the table of steps has no steps")
    return table.to_pandas(ignore_metadata=True)


def capped(shown: Shown, cap: int) -> pd.DataFrame:
    """The table of all steps over the first `cap` rollouts of each."""
    tables = [steps_table(rows, shown.metrics) for rows in _rows(shown, shown.counts(), cap)]
    return tidied(_together(tables), shown.metrics)


def _together(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    if not tables:
        return pd.DataFrame({"step": np.array([], np.int64)})
    return tables[0] if len(tables) == 1 else pd.concat(tables, ignore_index=True)


def tidied(table: pd.DataFrame, metrics: Sequence[str]) -> pd.DataFrame:
    """In ascending order, with the columns of metrics that any rollout has, in the order of metrics."""
    return pd.DataFrame(_tidied(table, metrics))


def _tidied(table: pd.DataFrame, metrics: Sequence[str]) -> dict[str, npt.NDArray[Any]]:
    order = np.argsort(table["step"].to_numpy(), kind="stable")
    held = {str(name): values.to_numpy()[order] for name, values in table.items()}
    held.setdefault("rollouts", np.array([], np.int64))
    names = ["step", "rollouts"]
    for metric in metrics:
        stem = base_name(metric)
        if f"{stem}_n" in held and np.nansum(held[f"{stem}_n"]) > 0:
            names += [f"{stem}_{suffix}" for suffix in ("mean", "std", "n", *QUANTILES)]
    if "ranks" in held and np.nansum(held["ranks"]) > 0:
        names.append("ranks")
    if "groups" in held and np.nansum(held["groups"]) > 0:
        names += ["groups", "zero_std_group_fraction"]
    return {name: _whole(name, held[name]) for name in names}


def _whole(name: str, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Counts as whole numbers, those of metrics that a part of the table lacks as zero."""
    if name.endswith("_n"):
        return np.nan_to_num(values).astype(np.int64)
    return values.astype(np.int64) if name in _COUNTS and not np.isnan(values).any() else values
