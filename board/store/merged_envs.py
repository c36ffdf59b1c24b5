"""What is kept of several environments, put together: what their rollouts have at each step in common."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
# pyarrow ships without types, and makes its compute functions when it is imported.

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from board.core.records import FloatArray
from board.store.steps import QUANTILES, base_name
from board.store.tally import IntArray

MERGED: Final = ("mean", "std", "n", "q00", "q100")
"""Of a metric's columns in a table of steps, those that follow from those of parts of its rollouts."""
OF_GROUPS: Final = ("groups", "groups_compared", "zero_std_group_fraction")

_SUMS: Final = ("rollouts", "scored", "pairs", "xx", "yy", "xy")
_LOWS: Final = ("lowest", "started")
_HIGHS: Final = ("highest", "clock")
_RANKS: Final = ("ranks", "rank_last")
_COPIES: Final = ("copy:index", "copy:of", "copy:rank")


@dataclass(frozen=True, slots=True)
class Cells:
    """Rows of a kind of part by step, several of a step one after the other. starts: [steps] where
    those of each step begin.
    """

    table: pa.Table
    steps: IntArray
    starts: IntArray

    @classmethod
    def of(cls, table: pa.Table) -> Self:
        """table: ordered by step."""
        steps, starts = np.unique(table.column("step").to_numpy(), return_index=True)
        return cls(table, steps, starts)

    def has(self, *names: str) -> bool:
        """Whether there are all of these columns."""
        return {*names} <= {*self.table.column_names}

    def floats(self, name: str) -> FloatArray:
        """[rows] a column, NaN where there is none."""
        return self.table.column(name).cast(pa.float64()).to_numpy()

    def sums(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """[steps] sums of [rows] values."""
        return np.add.reduceat(values, self.starts)

    def reduced(self, ufunc: np.ufunc, name: str) -> FloatArray:
        """[steps] the lowest (np.fmin) or highest (np.fmax) of a column, NaN where there is none."""
        return ufunc.reduceat(self.floats(name), self.starts)


def merged_steps(cells: Cells, metrics: Sequence[str]) -> pd.DataFrame:
    """Tables of steps put together, as store.steps.steps_table makes them of all these rollouts, but for
    ranks and for quantiles between the smallest and the largest value: these do not follow.

    Standard deviations by Chan, Golub and LeVeque 1979, Updating formulae and a pairwise algorithm for
    computing sample variances, Stanford STAN-CS-79-773, equation 2.1.
    """
    columns: dict[str, Any] = {"step": cells.steps}
    columns["rollouts"] = cells.sums(cells.table.column("rollouts").to_numpy())
    for stem in map(base_name, metrics):
        if cells.has(*(f"{stem}_{suffix}" for suffix in MERGED)):
            columns |= _moments(cells, stem)
    if cells.has(*OF_GROUPS):
        columns |= _groups(cells)
    return pd.DataFrame(columns)


def _moments(cells: Cells, stem: str) -> dict[str, Any]:
    counts = np.nan_to_num(cells.floats(f"{stem}_n"))
    means, stds = cells.floats(f"{stem}_mean"), cells.floats(f"{stem}_std")
    n = cells.sums(counts)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        mean = cells.sums(np.where(counts > 0, counts * means, 0.0)) / n
        sizes = np.diff(np.append(cells.starts, len(counts)))
        apart = np.where(counts > 0, means - np.repeat(mean, sizes), 0.0)
        within = np.where(counts > 1, (counts - 1) * stds**2, 0.0)
        std = np.sqrt(cells.sums(within + counts * apart**2) / np.where(n > 1, n - 1, np.nan))
    unknown = np.full(len(mean), np.nan)
    return {
        **{f"{stem}_{suffix}": unknown for suffix in QUANTILES},
        f"{stem}_mean": mean,
        f"{stem}_std": std,
        f"{stem}_n": n.astype(np.int64),
        f"{stem}_q00": cells.reduced(np.fmin, f"{stem}_q00"),
        f"{stem}_q100": cells.reduced(np.fmax, f"{stem}_q100"),
    }


def _groups(cells: Cells) -> dict[str, Any]:
    """Groups of one environment each."""
    held, told, share = (np.nan_to_num(cells.floats(name)) for name in OF_GROUPS)
    groups, compared = cells.sums(held), cells.sums(told)
    equal = cells.sums(np.round(share * told))
    return {
        "groups": np.where(groups > 0, groups, np.nan),
        "zero_std_group_fraction": equal / np.where(compared > 0, compared, np.nan),
    }


def rank_counts(cells: Cells) -> IntArray:
    """[steps] how many ranks have a rollout. cells: of checks, with ranks."""
    steps = _ranks(cells)[0]
    return np.bincount(np.searchsorted(cells.steps, steps), minlength=len(cells.steps))


def needed(columns: Iterable[str]) -> tuple[str, ...]:
    """Columns of checks that these are put together from."""
    names = {"step", *columns}
    for related in (("earliest", "started"), _RANKS, _COPIES):
        if names & {*related}:
            names |= {*related}
    return tuple(sorted(names))


def merged_checks(cells: Cells, columns: Sequence[str]) -> pa.Table:
    """Checks put together, as step_parts.checks_table makes them of all these rollouts where no group has
    rollouts of several of the environments. cells: with the columns of `needed`; columns: those that
    are asked for.
    """
    made: dict[str, Any] = {"step": cells.steps}
    for name in columns:
        if name in _RANKS or name in _COPIES:
            made |= _lists(cells, _RANKS if name in _RANKS else _COPIES)
        elif name not in made and cells.has(name):
            made[name] = _merged(cells, name)
    return pa.table(made).select([name for name in columns if name in made])


def _merged(cells: Cells, name: str) -> Any:
    if name == "earliest":
        return _earliest(cells)
    if name in _SUMS:
        return cells.sums(cells.table.column(name).to_numpy())
    if name in _LOWS:
        return cells.reduced(np.fmin, name)
    if name in _HIGHS or name.endswith(":highest"):
        return cells.reduced(np.fmax, name)
    if name == "spread" or name.startswith("furthest:"):
        return pa.array(cells.reduced(np.fmax, name), from_pandas=True)
    return _counted(cells, name)


def _counted(cells: Cells, name: str) -> pa.Array:
    """Sums of whole numbers, null where no row has one."""
    column = cells.table.column(name)
    known = np.logical_or.reduceat(column.is_valid().to_numpy(), cells.starts)
    return pa.array(cells.sums(column.fill_null(0).to_numpy()), pa.int64(), mask=~known)


def _earliest(cells: Cells) -> IntArray:
    """The first of the rollouts that are earliest, -1 where no time is known."""
    index, started = cells.table.column("earliest").to_numpy(), cells.floats("started")
    sizes = np.diff(np.append(cells.starts, len(index)))
    is_first = started == np.repeat(np.fmin.reduceat(started, cells.starts), sizes)
    never = np.iinfo(np.int64).max
    found = np.minimum.reduceat(np.where(is_first, index, never), cells.starts)
    return np.where(found == never, -1, found)


def _lists(cells: Cells, names: Sequence[str]) -> Mapping[str, pa.Array]:
    if not cells.has(*names):
        return {}
    steps, *values = _ranks(cells) if names == _RANKS else _copies(cells)
    offsets = pa.array(np.append(np.searchsorted(steps, cells.steps), len(steps)), pa.int32())
    return {
        name: pa.ListArray.from_arrays(offsets, column)
        for name, column in zip(names, map(pa.array, values), strict=True)
    }


def _ranks(cells: Cells) -> tuple[IntArray, IntArray, IntArray]:
    """(step, rank, index of its last rollout) of every rank, ordered by step and rank."""
    steps, ranks, last = _flat(cells, _RANKS)
    of, indices = ranks.to_numpy(), last.to_numpy()
    order = np.lexsort((indices, of, steps))
    steps, of, indices = steps[order], of[order], indices[order]
    is_last = np.append((np.diff(steps) != 0) | (np.diff(of) != 0), [True] * min(len(of), 1))
    return steps[is_last], of[is_last], indices[is_last]


def _copies(cells: Cells) -> tuple[IntArray, *tuple[pa.Array, ...]]:
    """Steps of the rollouts that are there twice, and their columns, ordered by step and index."""
    steps, *columns = _flat(cells, _COPIES)
    order = np.lexsort((columns[0].to_numpy(), steps))
    return steps[order], *(column.take(pa.array(order)) for column in columns)


def _flat(cells: Cells, names: Sequence[str]) -> tuple[IntArray, *tuple[pa.Array, ...]]:
    """The step of every entry of some columns of lists, which are of equal length, and the entries."""
    lists = [cells.table.column(name).combine_chunks() for name in names]
    sizes = pc.list_value_length(lists[0]).fill_null(0).to_numpy()
    steps = np.repeat(cells.table.column("step").to_numpy(), sizes)
    return steps, *(pc.list_flatten(column) for column in lists)


@dataclass(frozen=True, slots=True)
class MergedChecks:
    """Checks of some steps, put together of the columns that are asked for. rows: reads the columns that
    there are of those named, of all cells, ordered by step.
    """

    rows: Callable[[Sequence[str]], pa.Table]

    def table(self, columns: Sequence[str]) -> pa.Table:
        """The columns that there are of those named, by step."""
        return merged_checks(Cells.of(self.rows(needed(columns))), columns)
