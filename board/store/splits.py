"""Train and evaluation rollouts told apart: their names, and what is kept of each where a step has both.

Rollouts of which no split is recorded are training's. Of a step that holds rollouts of one split alone
what is kept of the whole step is that split's already; only of mixed steps something is kept besides.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false
# pyarrow ships without types.

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from board.store import env_parts, step_parts
from board.store.steps import steps_table

TRAIN: Final = "train"
"""The split of rollouts that name none."""
ALL: Final = "all"
"""What stands for all splits together; a split of that name is written `=all`."""
COUNTS: Final = "splits"
"""The kind of part that has the rollouts of each step and split."""
STEPS: Final = "split_steps"
"""The kind of part that has the table of steps of each split, of mixed steps."""

MOST: Final = 16
"""Splits of which something is kept in each piece of an index; of further ones rollouts are read."""

IntArray = npt.NDArray[np.int64]


def written(name: str) -> str:
    """A split as users write it, in a URL or a command line; one that is called `all` is `=all`."""
    return f"={name}" if name == ALL or name.startswith("=") else name


def meant(text: str) -> str | None:
    """The name of the split that a user wrote; None: all of them together."""
    return None if text == ALL else text.removeprefix("=")


def is_training(name: str) -> bool:
    """Whether a split is by its name the one of training."""
    return name.lower() in (TRAIN, "training")


def training_split(rollouts: Mapping[str, int]) -> str:
    """The split of training among those of a run, by how many rollouts each has; without one, the
    largest.
    """
    for name in (TRAIN, *sorted(filter(is_training, rollouts))):
        if name in rollouts:
            return name
    return max(sorted(rollouts), key=lambda name: rollouts[name])


def of_rows(splits: pd.Series[Any], name: str) -> npt.NDArray[np.bool_]:
    """[rows] whether each is of the split; splits: a column of the table of rollouts."""
    codes, names = _coded(splits)
    return codes == names.index(name) if name in names else np.zeros(len(codes), bool)


def _coded(splits: pd.Series[Any]) -> tuple[IntArray, list[str]]:
    """[rows] places in the names, and the names."""
    kinds = splits.astype("category").cat
    names = [str(name) or TRAIN for name in kinds.categories]
    codes = np.asarray(kinds.codes, np.int64)
    unique = [*dict.fromkeys((TRAIN, *names))]
    places = np.array([*(unique.index(name) for name in names), 0], np.int64)
    return places[codes], unique


def counted(rows: pd.DataFrame) -> pa.Table:
    """Columns step, split, rollouts, by step. rows: rollouts with step and split."""
    codes, names = _coded(rows["split"])
    steps, of_step = np.unique(rows["step"].to_numpy(np.int64), return_inverse=True)
    pairs, counts = np.unique(of_step * len(names) + codes, return_counts=True)
    named = pa.array([names[code] for code in (pairs % len(names)).tolist()], pa.string())
    return pa.table(
        {"step": steps[pairs // len(names)], "split": named, "rollouts": counts.astype(np.int64)}
    )


def kept_of(
    rows: pd.DataFrame, metrics: Sequence[str], same: step_parts.RowsOf
) -> dict[str, pa.Table]:
    """By kind what is kept of some steps: env_parts.kept_of, and the same of each split of mixed steps.

    rows: all their rollouts, ordered by step and index, with a column `split` where the log has one.
    """
    found = env_parts.kept_of(rows, metrics, same)
    if "split" not in rows or rows.empty:
        return found
    found[COUNTS] = counts = counted(rows)
    steps, splits = np.unique(counts.column("step").to_numpy(), return_counts=True)
    mixed = rows[np.isin(rows["step"].to_numpy(np.int64), steps[splits > 1])]
    made: dict[str, list[pa.Table]] = {}
    for name in _largest(mixed["split"]):
        own = mixed[of_rows(mixed["split"], name)].reset_index(drop=True)
        for kind, table in _of_split(own, name, metrics, same).items():
            named = table.append_column("split", pa.repeat(pa.scalar(name), table.num_rows))
            made.setdefault(kind, []).append(named)
    for kind, tables in made.items():
        together = step_parts.loaded(tables)
        if together is not None:
            found[kind] = together
    return found


def _largest(splits: pd.Series[Any]) -> list[str]:
    codes, names = _coded(splits)
    counts = np.bincount(codes, minlength=len(names))
    order = np.argsort(-counts, kind="stable")[:MOST]
    return [names[code] for code in order.tolist() if counts[code]]


def _of_split(
    own: pd.DataFrame, name: str, metrics: Sequence[str], same: step_parts.RowsOf
) -> dict[str, pa.Table]:
    def same_split(steps: Sequence[int]) -> pd.DataFrame:
        rows = same(steps)
        return rows[of_rows(rows["split"], name)].reset_index(drop=True)

    parts = env_parts.kept_of(own, metrics, same_split)
    table = steps_table(own, metrics)
    steps = pa.table({str(column): table[column].to_numpy() for column in table.columns})
    return {STEPS: steps, **{kind_of_split(kind): part for kind, part in parts.items()}}


def kind_of_split(kind: str) -> str:
    """The kind of part that has, of mixed steps and each split, what `kind` has of steps."""
    return f"split_{kind}"


def by_name(counts: pa.Table, every: Mapping[int, int]) -> dict[str, dict[int, int]]:
    """By split, that of training first, its rollouts by step. counts: of kind COUNTS; every: rollouts of
    all steps, of which those that the table lacks name no split.
    """
    found: dict[str, dict[int, int]] = {}
    known: set[int] = set()
    for step, name, count in zip(*(_listed(counts)), strict=True):
        found.setdefault(name, {})[step] = count
        known.add(step)
    rest = {step: count for step, count in every.items() if step not in known}
    if rest:
        found[TRAIN] = dict(sorted((found.get(TRAIN, {}) | rest).items()))
    return {name: found[name] for name in in_order(found)}


def _listed(counts: pa.Table) -> list[list[Any]]:
    return [counts.column(name).to_pylist() for name in ("step", "split", "rollouts")]


def in_order(found: Mapping[str, Mapping[int, int]]) -> Iterable[str]:
    """Names of splits, that of training first. found: by split, its rollouts by step."""
    if not found:
        return ()
    first = training_split({name: sum(counts.values()) for name, counts in found.items()})
    return sorted(found, key=lambda name: (name != first, name))
