"""A run as if it held the rollouts of some environments alone."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
# pyarrow ships without types, and makes its compute functions when it is imported.

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from board.core.records import FloatArray
from board.store import env_parts, splits, step_parts
from board.store.merged_envs import (
    MERGED,
    OF_GROUPS,
    Cells,
    MergedChecks,
    merged_steps,
    rank_counts,
)
from board.store.narrowed_run import GROUPED, NarrowedRun, averaged, kept_of, step_columns
from board.store.picked import Keyed, Source, is_at, is_one_of, keyed, rows_at, steps_in
from board.store.run import Run
from board.store.step_parts import by_step
from board.store.step_store import tidied
from board.store.steps import QUANTILES, base_name, quantiles_table
from board.store.table_files import StepRange
from board.store.tally import IntArray

_BETWEEN: Final = tuple(f"_{suffix}" for suffix, q in QUANTILES.items() if 0 < q < 1)
_AT_ONCE: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvsRun(NarrowedRun):
    """The rollouts of some environments.

    kept: the steps of which the index keeps what they have of it. pure: those of them that hold no
    other rollouts. several: those of the others that hold rollouts of several of the environments: in
    their table of steps the quantiles between the smallest and the largest value are missing.
    """

    names: tuple[str, ...]
    kept: frozenset[int]
    pure: frozenset[int]
    several: frozenset[int]

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

    def steps_with_quantiles(self, metrics: Collection[str] | None = None) -> pd.DataFrame:
        """As `Run.steps_with_quantiles`: rollouts are read where several environments have some."""
        if not self.several:
            return self.steps
        kept = self._loaded
        with kept.lock:
            table = self.steps if kept.steps is None else kept.steps
            wanted = self.metrics if metrics is None else [m for m in self.metrics if m in metrics]
            missing = [metric for metric in wanted if metric not in kept.with_quantiles]
            if missing:
                table = kept.steps = self._with_quantiles(table, missing)
                kept.with_quantiles |= {*missing}
            return table

    def _with_quantiles(self, steps: pd.DataFrame, metrics: Sequence[str]) -> pd.DataFrame:
        def of(within: StepRange) -> pd.DataFrame:
            return self._quantiles_of(within, metrics)

        with ThreadPoolExecutor(_AT_ONCE) as threads:
            made = pd.concat(threads.map(of, self.shown.step_ranges()))
        places = np.searchsorted(steps["step"], made["step"])
        table = steps.copy()
        for column in table.columns.intersection(made.columns):
            if str(column).endswith(_BETWEEN):
                values = table[column].to_numpy(np.float64, copy=True)
                values[places] = made[column]
                table[column] = values
        return table

    def _quantiles_of(self, steps: StepRange, metrics: Sequence[str]) -> pd.DataFrame:
        """The quantiles at those of these steps of which they are missing."""
        held = [step for step in self.several if steps[0] <= step <= steps[1]]
        if not held:
            return pd.DataFrame({"step": np.zeros(0, np.int64)})
        rows = self.unordered((min(held), max(held)), metrics)
        return quantiles_table(_at_steps(rows, {*held}), metrics)

    def _sources(self, kind: str) -> Iterator[Keyed]:
        if kind == "envs":
            yield from self._own_rows(kind)
        elif kind in ("groups", "prompts"):
            yield from self._sets(kind, "place" if kind == "groups" else "key")
        elif kind == "checks":
            yield from self._checks()
        elif kind == splits.COUNTS and "split" in self.columns:
            table = splits.counted(self.chosen(("split",)))
            yield keyed(table, np.ones(table.num_rows, bool), steps_in(table))

    def _own_rows(self, kind: str, steps: Set[int] | None = None) -> Iterator[Keyed]:
        """Rows that name one of the environments; steps: of these, None: of all."""
        table = self.whole.part(kind, ("step",))
        if table is not None:
            places, of_row = self.whole.part_places(kind, "env", self.names), steps_in(table)
            if steps is not None:
                places = places[is_at(of_row[places], steps)]
            yield Source(kind, places), (of_row[places],)

    def _checks(self) -> Iterator[Keyed]:
        table = self.whole.part("checks", ("step",))
        if table is not None:
            yield rows_at("checks", table, self.pure)
        single = self.kept - self.pure - self.several
        if single:
            yield from self._own_rows(env_parts.kind_of_env("checks"), single)
        if self.several:
            steps = np.sort(np.fromiter(self.several, np.int64, len(self.several)))
            yield Source(MergedChecks(self._several_checks), np.arange(len(steps))), (steps,)
        if rest := self.counts.keys() - self.kept:
            yield from self._made_of("checks", rest)

    def _several_checks(self, columns: Sequence[str]) -> pa.Table:
        """The checks of each environment, of steps with several of them."""
        found = _own_at(
            self.whole, env_parts.kind_of_env("checks"), self.names, self.several, columns
        )
        assert found is not None, "they are stored with the step tables"
        return found

    def _sets(self, kind: str, key: str) -> Iterator[Keyed]:
        """Groups or prompts: those of these environments alone, and what is kept of the mixed ones.

        Mixed ones that have rollouts of several of the environments are made anew, with their steps.
        key: tells them apart within a step. Groups are in the order of their places in it.
        """
        table = self.whole.part(kind, ("step",))
        if table is None:
            return
        steps, mixed_kind = steps_in(table), env_parts.kind_of_env(kind)
        own = is_at(steps, self.pure)
        own[self.whole.part_places(kind, "env", self.names)] = True
        mixed = self.whole.part(mixed_kind, ("step", "env", key))
        if mixed is None:
            yield keyed(kind, own, steps)
            return
        of_mixed, keys = steps_in(mixed), mixed.column(key).to_numpy()
        own_mixed = is_one_of(mixed, "env", self.names) & ~is_at(of_mixed, self.pure)
        anew = _twice(of_mixed[own_mixed], keys[own_mixed])
        own &= ~is_at(steps, anew)
        own_mixed &= ~is_at(of_mixed, anew)
        among = np.arange(len(steps)) - np.searchsorted(steps, steps)
        has_places = kind == "groups"
        yield keyed(kind, own, steps, *((among,) if has_places else ()))
        yield keyed(mixed_kind, own_mixed, of_mixed, *((keys,) if has_places else ()))
        for source, (of_row,) in self._made_of(kind, anew) if anew else ():
            places = np.arange(len(of_row)) - np.searchsorted(of_row, of_row)
            yield source, (of_row, *((places,) if has_places else ()))

    def _made_of(self, kind: str, steps: Set[int]) -> Iterator[tuple[Source, tuple[IntArray]]]:
        """Rows of a kind made of the rollouts of these steps."""
        columns = (*dict.fromkeys((*self.metrics, *step_parts.COLUMNS)),)
        if kind != "prompts":
            columns = tuple(name for name in columns if name != "prompt")
        made: list[pa.Table] = []
        for rows in self.pieces(columns, steps=steps):
            own = _at_steps(rows, steps)
            if len(own):
                made.append(self._table_of(kind, own))
        table = step_parts.loaded(made)
        if table is not None:
            of_row = steps_in(table)
            yield Source(table, np.arange(len(of_row))), (of_row,)

    def _table_of(self, kind: str, rows: pd.DataFrame) -> pa.Table:
        checks = self.whole.part("checks", ("step", "spread")) if kind == "checks" else None
        spread = step_parts.spread_of(rows["step"].to_numpy(np.int64), checks)
        return step_parts.table_of(kind, rows, self.metrics, self.same, spread)


def _own_at(
    run: Run, kind: str, names: Sequence[str], steps: Set[int], columns: Sequence[str]
) -> pa.Table | None:
    """Rows of a kind of part that name one of the environments, of these steps, by step, with step; None
    where there is none.
    """
    places = run.part_places(kind, "env", names)
    if not len(places):
        return None
    table = by_step(run.part_rows(kind, ("step", *columns), places))
    own = is_at(steps_in(table), steps)
    return table if own.all() else table.filter(pa.array(own))


def _at_steps(rows: pd.DataFrame, steps: Set[int]) -> pd.DataFrame:
    """The rows of these steps, with labels that count from 0."""
    own = rows["step"].isin(steps)
    return (rows if own.all() else rows[own]).reset_index(drop=True)


def _twice(steps: IntArray, keys: IntArray) -> frozenset[int]:
    """Steps at which a key comes more than once."""
    order = np.lexsort((keys, steps))
    steps, keys = steps[order], keys[order]
    again = (steps[1:] == steps[:-1]) & (keys[1:] == keys[:-1])
    return frozenset(steps[1:][again].tolist())


def narrowed(run: Run, envs: Sequence[str]) -> Run:
    """The run with the rollouts of these environments alone; the run itself without a name.

    Steps are as the index keeps them, put together where several of the environments have rollouts;
    where it does not keep all of these, rollouts are read. A run that has none of the environments has
    no steps then.
    """
    names = tuple(dict.fromkeys(envs))
    if not names or "env" not in run.columns:
        return run
    counts, present = _counts_of(run, names)
    pure = frozenset(step for step, count in counts.items() if run.counts[step] == count)
    kept = _kept_steps(run, names, {step: n for step, n in present.items() if step not in pure})
    whole = run.steps.drop(columns="complete", errors="ignore")
    tables = [whole[whole["step"].isin(pure)], kept.single, kept.several]
    known = pure.union(*(table["step"].tolist() for table in (kept.single, kept.several)))
    if rest := counts.keys() - known:
        held = run.pieces((*GROUPED, *run.metrics), {"env": names}, rest)
        tables.append(averaged(run, (_at_steps(rows, rest) for rows in held)))
    held = [table for table in tables if len(table)] or tables[:1]
    table = tidied(pd.concat(held, ignore_index=True), run.metrics)
    several = frozenset(kept.several["step"].tolist())
    return EnvsRun(
        **kept_of(run, table, counts),
        whole=run,
        names=names,
        kept=known,
        pure=pure,
        several=several,
    )


def _counts_of(run: Run, names: Sequence[str]) -> tuple[dict[int, int], dict[int, int]]:
    """By step the rollouts of these environments, and how many of the environments have one."""
    table = run.part("envs", ("step", "rollouts"))
    if table is None:
        return {}, {}
    own = table.take(pa.array(run.part_places("envs", "env", names)))
    steps, of_row = np.unique(steps_in(own), return_inverse=True)
    counts = np.bincount(of_row, weights=own.column("rollouts").to_numpy()).astype(np.int64)
    envs = np.bincount(of_row)
    return (
        dict(zip(steps.tolist(), counts.tolist(), strict=True)),
        dict(zip(steps.tolist(), envs.tolist(), strict=True)),
    )


@dataclass(frozen=True, slots=True)
class _KeptSteps:
    """What is kept of the tables of steps with rollouts of one of some environments, and of several."""

    single: pd.DataFrame
    several: pd.DataFrame


def _kept_steps(run: Run, names: Sequence[str], envs: Mapping[int, int]) -> _KeptSteps:
    """envs: by step of which what is kept of them is wanted, how many of the environments have a
    rollout. Steps of which one of these is not kept are left out, and those with a group of several.
    """
    none = pd.DataFrame({"step": np.zeros(0, np.int64)})
    columns = step_columns(run) if 1 in envs.values() else _merged_columns(run)
    found = _own_at(run, env_parts.STEPS, names, envs.keys(), columns) if envs else None
    if found is None or not found.num_rows:
        return _KeptSteps(none, none)
    of_row = steps_in(found)
    steps, counts = np.unique(of_row, return_counts=True)
    wanted = np.array([envs[step] for step in steps.tolist()])
    several = steps[(counts == wanted) & (counts > 1)]
    several = several[~is_at(several, _torn(run, names))] if len(several) else several
    single = found.filter(pa.array(np.isin(of_row, steps[(counts == wanted) & (counts == 1)])))
    if not len(several):
        return _KeptSteps(single.to_pandas(), none)
    cells = Cells.of(found.filter(pa.array(np.isin(of_row, several))))
    merged = merged_steps(cells, run.metrics)
    if "ranks" in found.column_names:
        merged["ranks"] = _ranks(run, names, cells)
    return _KeptSteps(single.to_pandas(), merged)


def _merged_columns(run: Run) -> tuple[str, ...]:
    of_metrics = (f"{base_name(name)}_{suffix}" for name in run.metrics for suffix in MERGED)
    return ("rollouts", *of_metrics, "ranks", *OF_GROUPS)


def _torn(run: Run, names: Sequence[str]) -> frozenset[int]:
    """Steps at which a group has rollouts of several of these environments."""
    mixed = run.part(env_parts.kind_of_env("groups"), ("step", "env", "place"))
    if mixed is None:
        return frozenset()
    own = mixed.filter(pa.array(is_one_of(mixed, "env", names)))
    return _twice(steps_in(own), own.column("place").to_numpy())


def _ranks(run: Run, names: Sequence[str], cells: Cells) -> IntArray | FloatArray:
    """[steps] how many ranks have rollouts of these environments: all that there are where those of one
    environment are as many. cells: of tables of steps.
    """
    most = cells.reduced(np.fmax, "ranks")
    every = run.steps["ranks"].to_numpy()[np.searchsorted(run.steps["step"], cells.steps)]
    if (most == every).all():
        return every
    kind, steps = env_parts.kind_of_env("checks"), frozenset(cells.steps.tolist())
    checks = _own_at(run, kind, names, steps, ("ranks", "rank_last"))
    return most if checks is None else rank_counts(Cells.of(checks))
