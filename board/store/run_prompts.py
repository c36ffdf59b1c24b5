"""The prompts of a run and how they went, from its index alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from board.core.prompts import Prompts, Visits, prompts_of, visits_of
from board.store.run import Run
from board.store.run_groups import numbers, right_column, rightness

IntArray = npt.NDArray[np.int64]
_LENGTHS: Final = ("response_tokens", "response_chars")


@dataclass(frozen=True, slots=True)
class RunPrompts:
    """codes: [n] the prompt of each rollout, ordered by step and index, -1 where none is recorded.

    texts: the beginning of each prompt, by code. steps, indices: [n]. judged: prompts of which it is
    known whether rollouts are right; scored: those with rewards, their "solve rates" being mean rewards.
    length: the column of lengths, None without one. right_by: the column that says what is right; None:
    the highest reward.
    """

    codes: IntArray
    texts: tuple[str, ...]
    steps: IntArray
    indices: IntArray
    visits: Visits
    judged: Prompts
    scored: Prompts
    length: str | None
    right_by: str | None

    def rows(self, code: int) -> IntArray:
        """Where the rollouts of a prompt stand."""
        return np.flatnonzero(self.codes == code)


def run_prompts(run: Run) -> RunPrompts | None:
    """The prompts of all steps; None where the run has no prompt or no reward.

    Prompts are the same when what the index keeps of them is: their beginning, and their number of
    tokens where that is recorded.
    """
    if "prompt" not in run.columns or "reward" not in run.columns:
        return None
    part = right_column(run)
    length = next((name for name in _LENGTHS if name in run.columns), None)
    table = run.chosen(["prompt", "prompt_tokens", "reward", *([part] if part else ())])
    codes, texts = _codes(table)
    steps = table["step"].to_numpy(np.int64)
    visits = visits_of(steps, codes, numbers(table, "reward"), rightness(run, table))
    return RunPrompts(
        codes,
        texts,
        steps,
        table["index"].to_numpy(np.int64),
        visits,
        prompts_of(visits),
        prompts_of(replace(visits, solve_rate=visits.rewards)),
        length,
        part,
    )


def _codes(table: pd.DataFrame) -> tuple[IntArray, tuple[str, ...]]:
    """A code per rollout in the order in which prompts come, and the prompts' texts."""
    codes, unique = pd.factorize(table["prompt"])
    codes = codes.astype(np.int64)
    if "prompt_tokens" not in table or not len(unique):
        return codes, tuple(str(text) for text in unique)
    tokens = np.nan_to_num(numbers(table, "prompt_tokens"), nan=-1.0)
    keys = np.where(
        codes < 0, -1, codes * (int(tokens.max(initial=0)) + 2) + tokens.astype(np.int64) + 1
    )
    both, distinct = pd.factorize(np.where(keys < 0, np.nan, keys))
    texts = unique[(distinct.astype(np.int64)) // (int(tokens.max(initial=0)) + 2)]
    return both.astype(np.int64), tuple(str(text) for text in texts)
