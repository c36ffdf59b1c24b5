"""The prompts of a run and how they went, from its index alone."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportUnknownParameterType=false, reportAttributeAccessIssue=false
# pyarrow ships without types.

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from board.core.group_sums import groups_from
from board.core.kl import FloatArray
from board.core.prompts import Prompts, Visits, prompts_of, visits_from
from board.store.run import Run
from board.store.run_groups import right_column
from board.store.step_parts import LENGTHS, sums_columns, sums_from

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PromptRollouts:
    """All rollouts of one prompt, [n] each, ordered by step and then by index."""

    steps: IntArray
    indices: IntArray
    rewards: FloatArray
    lengths: FloatArray


@dataclass(frozen=True, slots=True)
class RunPrompts:
    """Prompts by code, in the order in which they come. text_keys: [prompts] equal for equal beginnings,
    in every run; keys: also told apart by the number of tokens.

    judged: prompts of which it is known whether rollouts are right; scored: those with rewards, their
    "solve rates" being mean rewards. length: the column of lengths, None without one. right_by: the
    column that says what is right; None: the highest reward. first: [prompts] its first entry in what is
    kept of prompts.
    """

    run: Run
    text_keys: IntArray
    keys: IntArray
    first: IntArray
    visits: Visits
    judged: Prompts
    scored: Prompts
    length: str | None
    right_by: str | None

    def texts(self, codes: Sequence[int]) -> list[str]:
        """The beginnings of these prompts."""
        table = self.run.part("prompts", ("step", "text"))
        assert table is not None, "there are prompts"
        places = pa.array(self.first[np.asarray(codes, np.int64)])
        return table.column("text").take(places).to_pylist()

    def rollouts(self, code: int) -> PromptRollouts:
        """All rollouts of a prompt."""
        names = ("index", "reward", *((self.length,) if self.length else ()))
        table = self.run.part("prompts", ("step", "key", "member", *(f"of:{n}" for n in names)))
        assert table is not None, "there are prompts"
        is_own = pc.and_(table.column("member"), pc.equal(table.column("key"), self.keys[code]))
        own = table.filter(is_own)
        sizes = pc.list_value_length(own.column("of:index")).to_numpy()
        steps = np.repeat(own.column("step").to_numpy(), sizes)
        flat = [_flat(own, f"of:{name}", len(steps)) for name in names]
        lengths = flat[2] if self.length else np.full(len(steps), np.nan)
        return PromptRollouts(steps, flat[0].astype(np.int64), flat[1], lengths)


def _flat(table: pa.Table, name: str, count: int) -> FloatArray:
    """[count] the lists of a column one after the other; NaN for those of steps without the column."""
    if name not in table.column_names:
        return np.full(count, np.nan)
    column = table.column(name)
    if column.null_count:
        sizes = pc.list_value_length(table.column("of:index")).to_numpy()
        found = np.full(count, np.nan)
        found[np.repeat(column.is_valid().to_numpy(), sizes)] = pc.list_flatten(column).to_numpy()
        return found
    return pc.list_flatten(column).to_numpy().astype(np.float64)


def run_prompts(run: Run) -> RunPrompts | None:
    """The prompts of all steps; None where the run has no prompt or no reward.

    Prompts are the same when what the index keeps of them is: their beginning, and their number of
    tokens where that is recorded.
    """
    if "prompt" not in run.columns or "reward" not in run.columns:
        return None
    part = right_column(run)
    table = run.part("prompts", (*sums_columns(part), "key", "text_key"))
    if table is None:
        return None
    member = table.column("member").to_numpy()
    codes, keys = pd.factorize(table.column("key").to_numpy()[member])
    of_rows = np.full(len(member), -1, np.int64)
    of_rows[member] = codes
    visits = visits_from(groups_from(sums_from(table, of_rows, part), part))
    is_first = np.diff(np.maximum.accumulate(codes), prepend=-1) > 0
    first = np.flatnonzero(member)[is_first]
    return RunPrompts(
        run,
        table.column("text_key").to_numpy()[first],
        np.asarray(keys, np.int64),
        first,
        visits,
        prompts_of(visits),
        prompts_of(replace(visits, solve_rate=visits.rewards)),
        next((name for name in LENGTHS if name in run.columns), None),
        part,
    )
