"""A run as if it held the rollouts of some environments alone."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false
# pyarrow ships without types.

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa

from board.store import step_parts
from board.store.run import Run
from board.store.step_store import tidied
from board.store.steps import base_name, steps_table
from board.store.tally import IntArray

_GROUPED: Final = ("env", "rank", "group_id", "reward")


@dataclass(frozen=True, slots=True, kw_only=True)
class NarrowedRun(Run):
    """The rollouts of `envs` of the run `whole`; steps without any of them are absent.

    Rollouts keep the index that they have within the whole step, and `row` finds every one of those.
    """

    whole: Run
    envs: tuple[str, ...]

    @property
    def rollouts(self) -> pd.DataFrame:
        """Those of `Run.rollouts`."""
        return self._own(self.whole.rollouts)

    def of_step(self, step: int) -> pd.DataFrame:
        """Those of `Run.of_step`."""
        return self._own(self.whole.of_step(step))

    def chosen(self, columns: Sequence[str]) -> pd.DataFrame:
        """Those of `Run.chosen`; the row labels count from 0."""
        found = self._own(self.whole.chosen((*columns, "env"))).reset_index(drop=True)
        return found if "env" in columns else found.drop(columns="env")

    def pieces(
        self, columns: Sequence[str], only: Mapping[str, Sequence[str]] | None = None
    ) -> Iterator[pd.DataFrame]:
        """Those of `Run.pieces`; the row labels of each count from 0."""
        for rows in self.whole.pieces((*columns, "env"), {**(only or {}), "env": self.envs}):
            found = rows.reset_index(drop=True)
            yield found if "env" in columns else found.drop(columns="env")

    def rows_of(self, step: int, columns: Sequence[str]) -> pd.DataFrame:
        """Those of `Run.rows_of`."""
        found = self._own(self.whole.rows_of(step, (*columns, "env")))
        return found if "env" in columns else found.drop(columns="env")

    def part(self, kind: str, columns: Sequence[str]) -> pa.Table | None:
        """As `Run.part`, made of these rollouts at the first call."""
        with self._loaded.lock:
            if self._loaded.parts is None:
                self._loaded.parts = self._made_parts()
        table = self._loaded.parts.get(kind)
        if table is None:
            return None
        return table.select([c for c in dict.fromkeys(columns) if c in table.column_names])

    def part_rows(self, kind: str, columns: Sequence[str], places: IntArray) -> pa.Table:
        """As `Run.part_rows`."""
        table = self.part(kind, columns)
        assert table is not None, "places are of rows that there are"
        return table.take(pa.array(places))

    def _made_parts(self) -> dict[str, pa.Table | None]:
        def same(steps: Sequence[int]) -> pd.DataFrame:
            rows = [self.rows_of(step, step_parts.SAME) for step in steps]
            return pd.concat(rows, ignore_index=True)

        columns = (*dict.fromkeys((*self.metrics, *step_parts.COLUMNS)),)
        made: dict[str, list[pa.Table]] = {}
        for rows in self.pieces(columns):
            for kind, table in step_parts.parts_of(rows, self.metrics, same).items():
                made.setdefault(kind, []).append(table)
        return {kind: step_parts.loaded(tables) for kind, tables in made.items()}

    @property
    def version(self) -> str:
        """Another one for other environments, too."""
        return f"{self.whole.version} env {self.envs!r}"

    def total(self, column: str) -> float:
        """Sum of a column over these rollouts."""
        found = self.chosen((column,))
        return float(found[column].sum()) if column in found else 0.0

    def row(self, step: int, index: int, columns: Sequence[str] | None = None) -> pd.Series[Any]:
        """As `Run.row`."""
        return self.whole.row(step, index, columns)

    def _own(self, rows: pd.DataFrame) -> pd.DataFrame:
        return rows[rows["env"].isin(self.envs)]


def narrowed(run: Run, envs: Sequence[str]) -> Run:
    """The run with the rollouts of these environments alone; the run itself without a name.

    Its steps are counted and averaged anew from the columns of the metrics. A run that has none of the
    environments has no steps then.
    """
    if not envs or "env" not in run.columns:
        return run
    counts: dict[int, int] = {}
    tables: list[pd.DataFrame] = []
    for rows in run.pieces((*_GROUPED, *run.metrics), {"env": envs}):
        table = steps_table(rows, run.metrics)
        counts |= dict(zip(table["step"].tolist(), table["rollouts"].tolist(), strict=True))
        tables.append(table)
    none = pd.DataFrame({"step": np.array([], np.int64)})
    steps = tidied(pd.concat(tables or [none], ignore_index=True), run.metrics)
    metrics = tuple(name for name in run.metrics if f"{base_name(name)}_n" in steps)
    kept = {one.name: getattr(run, one.name) for one in fields(Run) if not one.name.startswith("_")}
    kept |= {
        "steps": _with_complete(run, steps),
        "counts": counts,
        "metrics": metrics,
        "columns": tuple(c for c in run.columns if c in metrics or c not in run.metrics),
    }
    return NarrowedRun(**kept, whole=run, envs=tuple(envs))


def _with_complete(run: Run, steps: pd.DataFrame) -> pd.DataFrame:
    if "complete" not in run.steps:
        return steps
    known = dict(zip(run.steps["step"], run.steps["complete"], strict=True))
    complete = [known.get(step) for step in steps["step"].tolist()]
    return steps.assign(complete=pd.Series(complete, dtype=object))
