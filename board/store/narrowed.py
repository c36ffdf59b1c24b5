"""A run as if it held the rollouts of some environments, or of one split, alone."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
# pyarrow ships without types, and makes its compute functions when it is imported.

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from board.errors import ChoiceError
from board.store import env_parts, splits, step_parts
from board.store.picked import Picked, Source, picked
from board.store.run import Run
from board.store.step_store import tidied
from board.store.steps import base_name, steps_table
from board.store.tally import IntArray

Keyed = tuple[Source, tuple[IntArray, ...]]
"""Rows of a part, and the keys by which they are ordered, their steps first."""
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
        """As `Run.part`: what the whole run keeps of these rollouts, and else made of them."""
        picked = self._picked_of(kind)
        if picked is not None:
            return picked.table(self.whole, columns)
        return _selected(self._made().get(kind), columns)

    def part_rows(self, kind: str, columns: Sequence[str], places: IntArray) -> pa.Table:
        """As `Run.part_rows`."""
        picked = self._picked_of(kind)
        if picked is not None:
            return picked.rows(self.whole, columns, places)
        table = _selected(self._made().get(kind), columns)
        assert table is not None, "places are of rows that there are"
        return table.take(pa.array(places))

    def _picked_of(self, kind: str) -> Picked | None:
        with self._loaded.lock:
            kept = self._loaded.picked
            if kind not in kept:
                found = self._sources(kind)
                if found is None:
                    return None
                kept[kind] = picked(found)
            return kept[kind]

    @abstractmethod
    def _sources(self, kind: str) -> Iterable[Keyed] | None:
        """Where the rows of a kind of part are, with their keys; None: they are to be made."""

    def _made(self) -> dict[str, pa.Table | None]:
        """By kind what is kept of the rollouts of `_read_steps`, made of these at the first call."""
        with self._loaded.lock:
            if self._loaded.parts is None:
                self._loaded.parts = self._made_parts()
            return self._loaded.parts

    @property
    def _read_steps(self) -> frozenset[int] | None:
        """The steps of which rollouts are read where the index does not keep enough; None: all."""
        return None

    def _made_parts(self) -> dict[str, pa.Table | None]:
        def same(steps: Sequence[int]) -> pd.DataFrame:
            rows = [self.rows_of(step, step_parts.SAME) for step in steps]
            return pd.concat(rows, ignore_index=True)

        columns = (*dict.fromkeys((*self.metrics, *step_parts.COLUMNS, "split")),)
        made: dict[str, list[pa.Table]] = {}
        for rows in self.pieces(columns):
            own = _at_steps(rows, self._read_steps)
            for kind, table in splits.kept_of(own, self.metrics, same).items():
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
    """The rollouts of some environments.

    kept: the steps of which the index keeps what they have of it. pure: those of them that hold no
    other rollouts.
    """

    names: tuple[str, ...]
    kept: frozenset[int]
    pure: frozenset[int]

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

    @property
    def _read_steps(self) -> frozenset[int] | None:
        return frozenset(self.counts) - self.kept

    def _sources(self, kind: str) -> Iterable[Keyed] | None:
        if kind == "envs":
            return self._own_rows(kind)
        if kind in ("groups", "prompts"):
            return self._sets(kind, "place" if kind == "groups" else "key")
        return self._checks() if kind == "checks" else None

    def _own_rows(self, kind: str) -> Iterator[Keyed]:
        table = self.whole.part(kind, ("step", "env"))
        if table is not None:
            places = np.flatnonzero(_is_one_of(table, self.names))
            yield Source(kind, places), (_steps(table)[places],)

    def _checks(self) -> Iterator[Keyed]:
        table = self.whole.part("checks", ("step",))
        if table is not None:
            yield _at("checks", table, self.pure)
        mixed = self.whole.part(env_parts.kind_of_env("checks"), ("step", "env"))
        if mixed is not None:
            own = _is_one_of(mixed, self.names) & _is_at(_steps(mixed), self.kept - self.pure)
            places = np.flatnonzero(own)
            yield Source(env_parts.kind_of_env("checks"), places), (_steps(mixed)[places],)
        if self._read_steps:
            yield from self._of_made("checks", self._read_steps)

    def _sets(self, kind: str, key: str) -> Iterator[Keyed]:
        """Groups or prompts: those of these environments alone, and what is kept of the mixed ones.

        Mixed ones that have rollouts of several of the environments are made anew, with their steps.
        """
        table = self.whole.part(kind, ("step", "env"))
        if table is None:
            return
        steps, mixed_kind = _steps(table), env_parts.kind_of_env(kind)
        own = _is_one_of(table, self.names) | _is_at(steps, self.pure)
        mixed = self.whole.part(mixed_kind, ("step", "env", key))
        if mixed is None:
            yield _keyed(kind, own, steps)
            return
        mixed_steps, keys = _steps(mixed), mixed.column(key).to_numpy()
        of_mixed = _is_one_of(mixed, self.names) & ~_is_at(mixed_steps, self.pure)
        anew = _twice(mixed_steps[of_mixed], keys[of_mixed])
        own &= ~_is_at(steps, anew)
        of_mixed &= ~_is_at(mixed_steps, anew)
        if kind == "prompts":
            yield _keyed(kind, own, steps)
            yield _keyed(mixed_kind, of_mixed, mixed_steps)
            if anew:
                yield from self._of_made(kind, anew)
            return
        among = np.arange(len(steps)) - np.searchsorted(steps, steps)
        yield _keyed(kind, own, steps, among)
        yield _keyed(mixed_kind, of_mixed, mixed_steps, keys)
        for source, (held,) in self._of_made(kind, anew) if anew else ():
            yield source, (held, np.arange(len(held)))

    def _of_made(
        self, kind: str, steps: frozenset[int]
    ) -> Iterator[tuple[Source, tuple[IntArray]]]:
        table = self._made().get(kind)
        if table is not None:
            places = np.flatnonzero(_is_at(_steps(table), steps))
            yield Source(table, places), (_steps(table)[places],)


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

    def _sources(self, kind: str) -> Iterable[Keyed] | None:
        return None if self.mixed is None else self._kept_rows(kind, self.mixed)

    def _kept_rows(self, kind: str, mixed: frozenset[int]) -> Iterator[Keyed]:
        """Of mixed steps what is kept of the split, of the others what is kept of all."""
        if kind != splits.COUNTS:
            pure = self.whole.part(kind, ("step",))
            if pure is not None:
                yield _at(kind, pure, self.counts.keys() - mixed)
            kind = splits.kind_of_split(kind)
        table = self.whole.part(kind, ("step", "split"))
        if table is not None:
            places = np.flatnonzero(_equals(table, "split", self.name))
            yield Source(kind, places), (_steps(table)[places],)


def _at(kind: str, table: pa.Table, steps: Set[int]) -> Keyed:
    return _keyed(kind, _is_at(_steps(table), steps), _steps(table))


def _keyed(kind: str, own: npt.NDArray[np.bool_], *keys: IntArray) -> Keyed:
    places = np.flatnonzero(own)
    return Source(kind, places), tuple(key[places] for key in keys)


def _steps(table: pa.Table) -> IntArray:
    return table.column("step").to_numpy()


def _is_at(steps: IntArray, wanted: Set[int]) -> npt.NDArray[np.bool_]:
    if not wanted:
        return np.zeros(len(steps), bool)
    return np.isin(steps, np.fromiter(wanted, np.int64, len(wanted)))


def _is_one_of(table: pa.Table, names: Sequence[str]) -> npt.NDArray[np.bool_]:
    if "env" not in table.column_names:
        return np.zeros(table.num_rows, bool)
    return pc.is_in(table.column("env"), pa.array(names, pa.string())).to_numpy()


def _equals(table: pa.Table, column: str, text: str) -> npt.NDArray[np.bool_]:
    return pc.fill_null(pc.equal(table.column(column), text), False).to_numpy()


def _twice(steps: IntArray, keys: IntArray) -> frozenset[int]:
    """Steps at which a key comes more than once."""
    order = np.lexsort((keys, steps))
    steps, keys = steps[order], keys[order]
    again = (steps[1:] == steps[:-1]) & (keys[1:] == keys[:-1])
    return frozenset(steps[1:][again].tolist())


def _at_steps(rows: pd.DataFrame, steps: frozenset[int] | None) -> pd.DataFrame:
    """The rows of these steps, with labels that count from 0; None: all."""
    return rows if steps is None else rows[rows["step"].isin(steps)].reset_index(drop=True)


def _selected(table: pa.Table | None, columns: Sequence[str]) -> pa.Table | None:
    if table is None:
        return None
    return table.select([c for c in dict.fromkeys(columns) if c in table.column_names])


def narrowed(run: Run, envs: Sequence[str]) -> Run:
    """The run with the rollouts of these environments alone; the run itself without a name.

    Steps are as the index keeps them of one environment; of those with several of the chosen ones, and
    others, rollouts are read. A run that has none of the environments has no steps then.
    """
    names = tuple(dict.fromkeys(envs))
    if not names or "env" not in run.columns:
        return run
    counts, single = _counts_of(run, names)
    pure = frozenset(step for step, count in counts.items() if run.counts[step] == count)
    steps, kept = _steps_of_envs(run, names, single - pure)
    whole = run.steps.drop(columns="complete", errors="ignore")
    tables = [whole[whole["step"].isin(pure)], steps]
    kept |= pure
    if rest := counts.keys() - kept:
        held = run.pieces((*_GROUPED, *run.metrics), {"env": names})
        tables.append(_averaged(run, (_at_steps(rows, frozenset(rest)) for rows in held)))
    table = tidied(pd.concat(tables, ignore_index=True), run.metrics)
    return EnvsRun(**_kept(run, table, counts), whole=run, names=names, kept=kept, pure=pure)


def _counts_of(run: Run, names: Sequence[str]) -> tuple[dict[int, int], frozenset[int]]:
    """Rollouts of these environments by step, and the steps that have rollouts of one of them alone."""
    table = run.part("envs", ("step", "env", "rollouts"))
    if table is None:
        return {}, frozenset()
    own = table.filter(pa.array(_is_one_of(table, names)))
    steps, of_row = np.unique(_steps(own), return_inverse=True)
    counts = np.bincount(of_row, weights=own.column("rollouts").to_numpy()).astype(np.int64)
    single = steps[np.bincount(of_row) == 1]
    return dict(zip(steps.tolist(), counts.tolist(), strict=True)), frozenset(single.tolist())


def _steps_of_envs(
    run: Run, names: Sequence[str], wanted: frozenset[int]
) -> tuple[pd.DataFrame, frozenset[int]]:
    """What is kept of the tables of these steps, each of which has one of the environments, and of
    which of them.
    """
    kept = run.part(env_parts.STEPS, ("env", *_step_columns(run))) if wanted else None
    if kept is None:
        return pd.DataFrame({"step": np.zeros(0, np.int64)}), frozenset()
    own = _is_one_of(kept, names) & _is_at(_steps(kept), wanted)
    table = kept.filter(pa.array(own)).drop_columns(["env"]).to_pandas()
    return table, frozenset(table["step"].tolist())


def splits_of(run: Run) -> dict[str, dict[int, int]]:
    """By split, that of training first, how many rollouts the run has at each step.

    Rollouts that name none are training's.
    """
    if "split" not in run.columns:
        return {splits.TRAIN: dict(run.counts)} if run.counts else {}
    if isinstance(run, EnvsRun):
        every = {name: of_split(run.whole, name) for name in splits_of(run.whole)}
        held = {name: dict(narrowed(own, run.names).counts) for name, own in every.items()}
        found = {name: counts for name, counts in held.items() if counts}
        return {name: found[name] for name in splits.in_order(found)}
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
    if isinstance(run, EnvsRun):
        return narrowed(of_split(run.whole, name), run.names)
    counts = found.get(name, {})
    mixed = frozenset(step for step, count in counts.items() if run.counts[step] != count)
    kept = _kept_steps(run, name, counts, mixed)
    if kept is None:
        pieces = run.pieces((*_GROUPED, *run.metrics))
        own = (rows[splits.of_rows(rows["split"], name)] for rows in pieces)
        steps = _averaged(run, own)
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
        own = (
            None
            if kept is None
            else kept.filter(_equals(kept, "split", name)).drop_columns("split")
        )
        if own is None or not mixed <= {*own.column("step").to_pylist()}:
            return None
        tables.append(own.to_pandas())
    return tidied(pd.concat(tables, ignore_index=True), run.metrics)


def _step_columns(run: Run) -> tuple[str, ...]:
    return (*dict.fromkeys((*run.steps.columns, "ranks", "groups", "zero_std_group_fraction")),)


def _averaged(run: Run, pieces: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """The table of steps of these rollouts, whole steps at a time."""
    tables = [steps_table(rows, run.metrics) for rows in pieces if len(rows)]
    none = pd.DataFrame({"step": np.array([], np.int64)})
    return tidied(pd.concat(tables or [none], ignore_index=True), run.metrics)


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
