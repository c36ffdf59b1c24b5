"""What is kept of each environment at the steps that have rollouts of several, as of splits.

Groups and prompts name the environment that all their rollouts have; only of those that have several
something is kept besides, and of steps the table of steps and what rules ask.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false
# pyarrow ships without types.

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from board.core.group_sums import group_order
from board.store import group_ids, step_parts
from board.store.steps import steps_table
from board.store.tally import IntArray

STEPS: Final = "env_steps"
"""The kind of part that has the table of steps of each environment, of steps with several."""

_MOST: Final = 64
_EACH: Final = 16
_FEW: Final = 256
"""Kept of a piece of an index are the largest environments, at most _MOST, and as many as have _FEW steps
together, or one for every _EACH of the piece's rollouts and _MOST more, for the last step of a log is
seldom whole: what is kept of a step takes as much as five rollouts. Where one is not kept, its rollouts
are read."""
_OF_STEPS: Final = ("index", "rank", *group_ids.COLUMNS, "env", *step_parts.CHECKED)


def kind_of_env(kind: str) -> str:
    """The kind of part that has, of each environment, what `kind` has of mixed sets or steps."""
    return f"env_{kind}"


@dataclass(frozen=True, slots=True)
class _Cells:
    """Rollouts by step and environment. steps: [S]. codes: [rollouts] numbers of cells, ascending by
    step and then by environment, -1 without one.
    """

    rows: pd.DataFrame
    steps: IntArray
    codes: IntArray
    width: int

    @classmethod
    def of(cls, rows: pd.DataFrame) -> _Cells:
        """rows: with step and env."""
        steps, of_step = np.unique(rows["step"].to_numpy(np.int64), return_inverse=True)
        envs, width = step_parts.category(rows, "env"), len(rows["env"].cat.categories)
        return cls(rows, steps, np.where(envs < 0, -1, of_step * width + envs), width)

    def kept(self) -> npt.NDArray[np.bool_]:
        """[rollouts] which are of a step with several environments, and of one that is kept."""
        envs, of_step = step_parts.category(self.rows, "env"), self.rows["step"].to_numpy(np.int64)
        starts = np.searchsorted(of_step, self.steps)
        several = np.minimum.reduceat(envs, starts) != np.maximum.reduceat(envs, starts)
        wanted = (envs >= 0) & several[np.searchsorted(self.steps, of_step)]
        sizes = np.bincount(envs[wanted], minlength=self.width)
        cells = np.bincount(np.unique(self.codes[wanted]) % self.width, minlength=self.width)
        order = np.argsort(-sizes, kind="stable")
        fits = np.cumsum(cells[order]) <= max(_FEW, len(envs) // _EACH + _MOST)
        largest = np.zeros(self.width, bool)
        largest[order[:_MOST][fits[:_MOST]]] = True
        return wanted & largest[envs]

    def taken(
        self, places: IntArray, columns: Sequence[str] | None = None
    ) -> tuple[pd.DataFrame, IntArray]:
        """The rollouts at these places, by cell, with its number as their step, and these numbers."""
        order = places[np.argsort(self.codes[places], kind="stable")]
        held = self.rows if columns is None else self.rows[[c for c in columns if c in self.rows]]
        codes = self.codes[order]
        return held.take(order).assign(step=codes).reset_index(drop=True), codes

    def told(self, table: pa.Table) -> pa.Table:
        """The table of cells as one of steps and environments."""
        cells = table.column("step").to_numpy()
        place = table.column_names.index("step")
        steps = pa.array(self.steps[cells // self.width])
        named = table.set_column(place, "step", steps)
        envs = step_parts.env_names(self.rows, cells % self.width)
        if "env" in named.column_names:
            named = named.drop_columns(["env"])
        return named.append_column("env", envs)


def kept_of(
    rows: pd.DataFrame, metrics: Sequence[str], same: step_parts.RowsOf
) -> dict[str, pa.Table]:
    """By kind what is kept of some steps: step_parts.parts_of, and what is of environments.

    rows: all their rollouts, ordered by step and index, with a column `env` where the log has one.
    """
    found = step_parts.parts_of(rows, metrics, same)
    if "env" not in rows or rows.empty:
        return found.tables
    cells = _Cells.of(rows)
    made = found.tables | _of_steps(cells, metrics, found)
    for kind, mixed in found.mixed.items():
        own = mixed[cells.codes[mixed] >= 0]
        if len(own):
            made[kind_of_env(kind)] = cells.told(_of_sets(cells, kind, own, metrics))
    return made


def _of_steps(
    cells: _Cells, metrics: Sequence[str], whole: step_parts.StepParts
) -> dict[str, pa.Table]:
    """whole: what is kept of all rollouts of these steps."""
    places = np.flatnonzero(cells.kept())
    if not len(places):
        return {}
    own, codes = cells.taken(places, (*dict.fromkeys(("step", *_OF_STEPS, *metrics)),))
    table = steps_table(own, metrics)
    steps = pa.table({str(column): table[column].to_numpy() for column in table.columns})
    groups, judged = group_ids.group_codes(own), step_parts.judged_of(own, metrics)
    copies = whole.copies
    if len(copies):
        of = cells.rows.reset_index(drop=True)[["step", "index"]].assign(cell=cells.codes)
        copies = copies.merge(of[cells.kept()], on=["step", "index"]).sort_values(
            "cell", kind="stable", ignore_index=True
        )
        copies = copies.assign(step=copies["cell"])
    spread = step_parts.spread_of(cells.steps[codes // cells.width], whole.tables["checks"])
    checks = step_parts.checks_table(own, codes, groups, judged, copies, spread)
    return {STEPS: cells.told(steps), kind_of_env("checks"): cells.told(checks)}


def _of_sets(cells: _Cells, kind: str, places: IntArray, metrics: Sequence[str]) -> pa.Table:
    """Groups or prompts of cells. Groups have their place among all of their step as well."""
    own, codes = cells.taken(places)
    judged = step_parts.judged_of(own, metrics)
    if kind == "prompts":
        return step_parts.prompts_table(own, codes, judged)[0]
    groups = group_ids.group_codes(own)
    table = step_parts.groups_table(own, codes, groups, judged)[0]
    order, starts = group_order(codes, groups)
    first = order[starts]
    among = _places(cells.rows, cells.steps[codes[first] // cells.width], groups[first])
    return table.append_column("place", pa.array(among))


def _places(rows: pd.DataFrame, steps: IntArray, codes: IntArray) -> IntArray:
    """[n] the place of a group, by step and code, among those of its step."""
    every, of = rows["step"].to_numpy(np.int64), group_ids.group_codes(rows)
    order, starts = group_order(every, of)
    held, width = every[order[starts]], int(of.max(initial=0)) + 2
    low = int(held.min(initial=0))
    keys = (held - low) * width + of[order[starts]] + 1
    found = np.searchsorted(keys, (steps - low) * width + codes + 1)
    return found - np.searchsorted(held, steps)
