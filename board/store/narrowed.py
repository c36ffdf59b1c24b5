"""A run as if it held the rollouts of some environments, or of one split, alone."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
# pyarrow ships without types, and makes its compute functions when it is imported.

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from board.errors import ChoiceError
from board.store import splits, step_parts
from board.store.run import Run
from board.store.step_store import tidied
from board.store.steps import base_name, steps_table
from board.store.tally import IntArray

_GROUPED: Final = ("env", "split", "rank", "group_id", "reward")


@dataclass(frozen=True, slots=True, kw_only=True)
class NarrowedRun(Run):
    """Some rollouts of the run `whole`, told by one column; steps without any of them are absent.

    Rollouts keep the index that they have within the whole step, and `row` finds every one of those.
    """

    whole: Run

    @property
    @abstractmethod
    def column(self) -> str:
        """The column that tells which rollouts are held."""

    @abstractmethod
    def holds(self, values: pd.Series[Any]) -> npt.NDArray[np.bool_]:
        """[rows] which are held, by what they have in the column."""

    @property
    @abstractmethod
    def only(self) -> Mapping[str, Sequence[str]]:
        """As `Run.pieces` takes it: what leaves other rollouts unread; empty: all are read."""

    @property
    def envs(self) -> tuple[str, ...]:
        """The environments that it is narrowed to; none: all."""
        return self.whole.envs if isinstance(self.whole, NarrowedRun) else ()

    @property
    def split(self) -> str | None:
        """The split that it is narrowed to; None: all."""
        return self.whole.split if isinstance(self.whole, NarrowedRun) else None

    @property
    def rollouts(self) -> pd.DataFrame:
        """Those of `Run.rollouts`."""
        with self._loaded.lock:
            if self._loaded.rollouts is None:
                self._loaded.rollouts = self._own(self.whole.rollouts)
            return self._loaded.rollouts

    def of_step(self, step: int) -> pd.DataFrame:
        """Those of `Run.of_step`."""
        return self._own(self.whole.of_step(step))

    def chosen(self, columns: Sequence[str]) -> pd.DataFrame:
        """Those of `Run.chosen`; the row labels count from 0."""
        return self._without(self.whole.chosen((*columns, self.column)), columns).reset_index(
            drop=True
        )

    def pieces(
        self, columns: Sequence[str], only: Mapping[str, Sequence[str]] | None = None
    ) -> Iterator[pd.DataFrame]:
        """Those of `Run.pieces`; the row labels of each count from 0."""
        wanted = {**(only or {}), **self.only}
        for rows in self.whole.pieces((*columns, self.column), wanted):
            yield self._without(rows, columns).reset_index(drop=True)

    def rows_of(self, step: int, columns: Sequence[str]) -> pd.DataFrame:
        """Those of `Run.rows_of`."""
        return self._without(self.whole.rows_of(step, (*columns, self.column)), columns)

    def _without(self, rows: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
        found = self._own(rows)
        return found if self.column in columns else found.drop(columns=self.column, errors="ignore")

    def _own(self, rows: pd.DataFrame) -> pd.DataFrame:
        held = self.holds(rows[self.column]) if self.column in rows else np.zeros(len(rows), bool)
        return rows[held]

    def part(self, kind: str, columns: Sequence[str]) -> pa.Table | None:
        """As `Run.part`, made of these rollouts at the first call."""
        with self._loaded.lock:
            if self._loaded.parts is None:
                self._loaded.parts = self._made_parts()
        return _selected(self._loaded.parts.get(kind), columns)

    def part_rows(self, kind: str, columns: Sequence[str], places: IntArray) -> pa.Table:
        """As `Run.part_rows`."""
        table = self.part(kind, columns)
        assert table is not None, "places are of rows that there are"
        return table.take(pa.array(places))

    def _made_parts(self) -> dict[str, pa.Table | None]:
        def same(steps: Sequence[int]) -> pd.DataFrame:
            rows = [self.rows_of(step, step_parts.SAME) for step in steps]
            return pd.concat(rows, ignore_index=True)

        columns = (*dict.fromkeys((*self.metrics, *step_parts.COLUMNS, "split")),)
        made: dict[str, list[pa.Table]] = {}
        for rows in self.pieces(columns):
            for kind, table in splits.kept_of(rows, self.metrics, same).items():
                made.setdefault(kind, []).append(table)
        return {kind: step_parts.loaded(tables) for kind, tables in made.items()}

    def total(self, column: str) -> float:
        """Sum of a column over these rollouts."""
        found = self.chosen((column,))
        return float(found[column].sum()) if column in found else 0.0

    def row(self, step: int, index: int, columns: Sequence[str] | None = None) -> pd.Series[Any]:
        """As `Run.row`."""
        return self.whole.row(step, index, columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvsRun(NarrowedRun):
    """The rollouts of some environments."""

    names: tuple[str, ...]

    @property
    def column(self) -> str:
        """Env."""
        return "env"

    @property
    def only(self) -> Mapping[str, Sequence[str]]:
        """As NarrowedRun.only."""
        return {"env": self.names}

    @property
    def envs(self) -> tuple[str, ...]:
        """As NarrowedRun.envs."""
        return self.names

    def holds(self, values: pd.Series[Any]) -> npt.NDArray[np.bool_]:
        """As NarrowedRun.holds."""
        return values.isin(self.names).to_numpy()

    @property
    def version(self) -> str:
        """Another one for other environments, too."""
        return f"{self.whole.version} env {self.names!r}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitRun(NarrowedRun):
    """The rollouts of one split. mixed: the steps of these that hold rollouts of other splits, too, where
    the index keeps what they have of it; None: it does not, and rollouts are read.
    """

    name: str
    mixed: frozenset[int] | None

    @property
    def column(self) -> str:
        """Split."""
        return "split"

    @property
    def only(self) -> Mapping[str, Sequence[str]]:
        """As NarrowedRun.only. Rollouts that name no split are training's: these must be looked at."""
        return {} if self.name == splits.TRAIN else {"split": (self.name,)}

    @property
    def split(self) -> str:
        """As NarrowedRun.split."""
        return self.name

    def holds(self, values: pd.Series[Any]) -> npt.NDArray[np.bool_]:
        """As NarrowedRun.holds."""
        return splits.of_rows(values, self.name)

    @property
    def version(self) -> str:
        """Another one for another split, too."""
        return f"{self.whole.version} split {self.name!r}"

    def part(self, kind: str, columns: Sequence[str]) -> pa.Table | None:
        """As `Run.part`: of mixed steps what is kept of the split, of the others what is kept of all."""
        if self.mixed is None:
            return NarrowedRun.part(self, kind, columns)
        wanted = (*columns, "step", "split")
        if kind == splits.COUNTS:
            whole = self.whole.part(kind, wanted)
            return None if whole is None else _selected(_of_name(whole, self.name), columns)
        pure = self.whole.part(kind, wanted)
        mixed = self.whole.part(splits.kind_of_split(kind), wanted)
        unmixed = pa.array([step for step in self.counts if step not in self.mixed], pa.int64())
        parts = [] if pure is None else [_at(pure, unmixed)]
        parts += [] if mixed is None else [_of_name(mixed, self.name)]
        return _selected(step_parts.loaded(parts), columns)


def _at(table: pa.Table, steps: pa.Array) -> pa.Table:
    return table.filter(pc.is_in(table.column("step"), steps))


def _of_name(table: pa.Table, name: str) -> pa.Table:
    return table.filter(pc.equal(table.column("split"), name))


def _selected(table: pa.Table | None, columns: Sequence[str]) -> pa.Table | None:
    if table is None:
        return None
    return table.select([c for c in dict.fromkeys(columns) if c in table.column_names])


def narrowed(run: Run, envs: Sequence[str]) -> Run:
    """The run with the rollouts of these environments alone; the run itself without a name.

    Its steps are counted and averaged anew from the columns of the metrics. A run that has none of the
    environments has no steps then.
    """
    if not envs or "env" not in run.columns:
        return run
    held = run.pieces((*_GROUPED, *run.metrics), {"env": envs})
    return EnvsRun(**_kept(run, *_averaged(run, held)), whole=run, names=tuple(envs))


def splits_of(run: Run) -> dict[str, dict[int, int]]:
    """By split, that of training first, how many rollouts the run has at each step.

    Rollouts that name none are training's.
    """
    if "split" not in run.columns:
        return {splits.TRAIN: dict(run.counts)} if run.counts else {}
    counts = run.part(splits.COUNTS, ("step", "split", "rollouts"))
    if counts is None:  # an index of before splits were counted
        rows = run.chosen(("split",))
        if "split" not in rows:
            return {splits.TRAIN: dict(run.counts)} if run.counts else {}
        counts = splits.counted(rows)
    return splits.by_name(counts, run.counts)


def of_split(run: Run, name: str) -> Run:
    """The run with the rollouts of one split alone; the run itself where it holds no other.

    What the index keeps of each split is used, so that not a rollout is read. A run without the split
    has no steps then.
    """
    found = splits_of(run)
    if {*found} <= {name}:
        return run
    counts = found.get(name, {})
    mixed = frozenset(step for step, count in counts.items() if run.counts[step] != count)
    kept = _kept_steps(run, name, counts, mixed)
    if kept is None:
        pieces = run.pieces((*_GROUPED, *run.metrics))
        own = (rows[splits.of_rows(rows["split"], name)] for rows in pieces)
        steps = _averaged(run, own)[0]
    else:
        steps = kept
    return SplitRun(
        **_kept(run, steps, counts),
        whole=run,
        name=name,
        mixed=None if kept is None else mixed,
    )


def shown_split(run: Run, written: str = "") -> Run:
    """The run as it is shown of a split as users write it (splits.written): the one of training where
    none is written, and all of them together for `all`. Raises ChoiceError for one it does not have.
    """
    if written == splits.ALL:
        return run
    held = splits_of(run)
    name = splits.meant(written) if written else next(iter(held), None)
    if name is None:
        return run
    if name not in held:
        names = ", ".join(map(splits.written, held)) or "none"
        raise ChoiceError(
            f"{run.info.name} has no split {name!r}; it has {names}, and {splits.ALL} is all of them"
        )
    return of_split(run, name)


def _kept_steps(
    run: Run, name: str, counts: Mapping[int, int], mixed: frozenset[int]
) -> pd.DataFrame | None:
    """The table of steps of a split as far as the index has it; None where it lacks some."""
    whole = run.steps.drop(columns="complete", errors="ignore")
    pure = whole[whole["step"].isin([step for step in counts if step not in mixed])]
    tables = [pure]
    if mixed:
        kept = run.part(splits.STEPS, ("split", *_step_columns(run)))
        own = None if kept is None else _of_name(kept, name).drop_columns(["split"])
        if own is None or not mixed <= {*own.column("step").to_pylist()}:
            return None
        tables.append(own.to_pandas())
    return tidied(pd.concat(tables, ignore_index=True), run.metrics)


def _step_columns(run: Run) -> tuple[str, ...]:
    return (*dict.fromkeys((*run.steps.columns, "ranks", "groups", "zero_std_group_fraction")),)


def _averaged(run: Run, pieces: Iterable[pd.DataFrame]) -> tuple[pd.DataFrame, dict[int, int]]:
    """The table of steps of these rollouts, whole steps at a time, and how many each step has."""
    counts: dict[int, int] = {}
    tables = [pd.DataFrame({"step": np.array([], np.int64)})]
    for rows in pieces:
        table = steps_table(rows, run.metrics)
        counts |= dict(zip(table["step"].tolist(), table["rollouts"].tolist(), strict=True))
        tables.append(table)
    held = tables[1:] or tables
    return tidied(pd.concat(held, ignore_index=True), run.metrics), counts


def _kept(run: Run, steps: pd.DataFrame, counts: Mapping[int, int]) -> dict[str, Any]:
    """What a narrowed run has of the whole one, and its own steps."""
    metrics = tuple(name for name in run.metrics if f"{base_name(name)}_n" in steps)
    kept = {one.name: getattr(run, one.name) for one in fields(Run) if not one.name.startswith("_")}
    return kept | {
        "steps": _with_complete(run, steps),
        "counts": dict(counts),
        "metrics": metrics,
        "columns": tuple(c for c in run.columns if c in metrics or c not in run.metrics),
    }


def _with_complete(run: Run, steps: pd.DataFrame) -> pd.DataFrame:
    if "complete" not in run.steps:
        return steps
    known = dict(zip(run.steps["step"], run.steps["complete"], strict=True))
    complete = [known.get(step) for step in steps["step"].tolist()]
    return steps.assign(complete=pd.Series(complete, dtype=object))
