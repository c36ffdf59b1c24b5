"""A run as if it held the rollouts of some environments alone."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
# pyarrow ships without types, and makes its compute functions when it is imported.

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from board.store import env_parts, splits, step_parts
from board.store.narrowed_run import GROUPED, NarrowedRun, averaged, kept_of, step_columns
from board.store.picked import Keyed, Source, is_at, is_one_of, keyed, rows_at, steps_in
from board.store.run import Run
from board.store.step_store import tidied
from board.store.tally import IntArray


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
        table = self.whole.part(kind, ("step", "env"))
        if table is not None:
            own = is_one_of(table, "env", self.names)
            if steps is not None:
                own &= is_at(steps_in(table), steps)
            yield keyed(kind, own, steps_in(table))

    def _checks(self) -> Iterator[Keyed]:
        table = self.whole.part("checks", ("step",))
        if table is not None:
            yield rows_at("checks", table, self.pure)
        yield from self._own_rows(env_parts.kind_of_env("checks"), self.kept - self.pure)
        if rest := self.counts.keys() - self.kept:
            yield from self._made_of("checks", rest)

    def _sets(self, kind: str, key: str) -> Iterator[Keyed]:
        """Groups or prompts: those of these environments alone, and what is kept of the mixed ones.

        Mixed ones that have rollouts of several of the environments are made anew, with their steps.
        key: tells them apart within a step. Groups are in the order of their places in it.
        """
        table = self.whole.part(kind, ("step", "env"))
        if table is None:
            return
        steps, mixed_kind = steps_in(table), env_parts.kind_of_env(kind)
        own = is_one_of(table, "env", self.names) | is_at(steps, self.pure)
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
        for rows in self.pieces(columns):
            own = _at_steps(rows, steps)
            if len(own):
                made.append(step_parts.table_of(kind, own, self.metrics, self.same))
        table = step_parts.loaded(made)
        if table is not None:
            of_row = steps_in(table)
            yield Source(table, np.arange(len(of_row))), (of_row,)


def _at_steps(rows: pd.DataFrame, steps: Set[int]) -> pd.DataFrame:
    """The rows of these steps, with labels that count from 0."""
    return rows[rows["step"].isin(steps)].reset_index(drop=True)


def _twice(steps: IntArray, keys: IntArray) -> frozenset[int]:
    """Steps at which a key comes more than once."""
    order = np.lexsort((keys, steps))
    steps, keys = steps[order], keys[order]
    again = (steps[1:] == steps[:-1]) & (keys[1:] == keys[:-1])
    return frozenset(steps[1:][again].tolist())


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
        held = run.pieces((*GROUPED, *run.metrics), {"env": names})
        tables.append(averaged(run, (_at_steps(rows, rest) for rows in held)))
    table = tidied(pd.concat(tables, ignore_index=True), run.metrics)
    return EnvsRun(**kept_of(run, table, counts), whole=run, names=names, kept=kept, pure=pure)


def _counts_of(run: Run, names: Sequence[str]) -> tuple[dict[int, int], frozenset[int]]:
    """Rollouts of these environments by step, and the steps that have rollouts of one of them alone."""
    table = run.part("envs", ("step", "env", "rollouts"))
    if table is None:
        return {}, frozenset()
    own = table.filter(pa.array(is_one_of(table, "env", names)))
    steps, of_row = np.unique(steps_in(own), return_inverse=True)
    counts = np.bincount(of_row, weights=own.column("rollouts").to_numpy()).astype(np.int64)
    single = steps[np.bincount(of_row) == 1]
    return dict(zip(steps.tolist(), counts.tolist(), strict=True)), frozenset(single.tolist())


def _steps_of_envs(
    run: Run, names: Sequence[str], wanted: frozenset[int]
) -> tuple[pd.DataFrame, frozenset[int]]:
    """What is kept of the tables of these steps, each of which has one of the environments, and of
    which of them.
    """
    kept = run.part(env_parts.STEPS, ("env", *step_columns(run))) if wanted else None
    if kept is None:
        return pd.DataFrame({"step": np.zeros(0, np.int64)}), frozenset()
    own = is_one_of(kept, "env", names) & is_at(steps_in(kept), wanted)
    table = kept.filter(pa.array(own)).drop_columns(["env"]).to_pandas()
    return table, frozenset(table["step"].tolist())
