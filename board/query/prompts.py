"""Prompts over the steps of a run. Two are the same where all of their text is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from board.core.metrics.kl import FloatArray
from board.formats.texts import CUT_SIGN
from board.index.segments import PROMPT_KEY
from board.query.correctness import counts_of_right, right_column
from board.query.rollouts import texts_at
from board.query.run import Run
from board.query.selection import Selection

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

_LENGTHS: Final = ("response_tokens", "response_chars")
_LONGEST_PROMPT: Final = 64 << 10
"""Bytes."""
_ROUNDING: Final = 1e-12
_KEY_BITS: Final = 64


@dataclass(frozen=True, slots=True)
class PromptRollouts:
    """All rollouts of one prompt, [n] each, ordered by step and then by index; NaN: not recorded."""

    steps: IntArray
    indices: IntArray
    rewards: FloatArray
    lengths: FloatArray


@dataclass(frozen=True)
class RunPrompts:
    """Arrays [prompts], in the order in which they first come.

    keys: a hash of the prompt, the same in every run. steps: at how many it comes; judged: at how many
    of these it is known whether a rollout is right. never_solved: two or more, nothing right at any.
    newly_solved: nothing right at the first, something at the last. lost_again: nothing right at the
    last, something before. volatility: standard deviation (n - 1) of the mean rewards of its steps, NaN
    for one step.

    length: the column of lengths, None without one. right_by: the column that says what is right; None:
    the highest reward.
    """

    run: Run
    keys: IntArray
    steps: IntArray
    judged: IntArray
    never_solved: BoolArray
    newly_solved: BoolArray
    lost_again: BoolArray
    volatility: FloatArray
    length: str | None
    right_by: str | None

    def table(self, keys: Sequence[int]) -> pd.DataFrame:
        """A row for each of these prompts, in their order.

        Columns: key, prompt (of more than 64 kB the beginning), rewards (mean of each step, NaN where
        none is recorded), first_rate and last_rate (share of right rollouts at the first and last step
        that is judged), and rollouts. Raises UnreadableError.
        """
        selection = self.run.selection
        asked = replace(selection, parameters={"keys": [*keys]})
        table = asked.table(f"""
            {_visits(self.run, selection, "IN (SELECT unnest($keys))")}
            SELECT prompt_key AS key, min(text) AS prompt, list(reward ORDER BY step) AS rewards,
                arg_min(rate, step) AS first_rate, arg_max(rate, step) AS last_rate,
                sum(rollouts) AS rollouts, min(step) AS step, arg_min(position, step) AS position
            FROM visits GROUP BY prompt_key
        """)
        found = table.to_pandas().set_index("key").loc[[*keys]].reset_index()
        is_cut = found["prompt"].fillna("").str.endswith(CUT_SIGN).to_numpy(bool)
        steps, indices = (found.pop(name)[is_cut].tolist() for name in ("step", "position"))
        whole = texts_at(self.run, steps, indices, "prompt", _LONGEST_PROMPT) if steps else []
        begun = found.loc[is_cut, "prompt"].tolist()
        found.loc[is_cut, "prompt"] = [a or b for a, b in zip(whole, begun, strict=True)]
        found["rewards"] = [np.array(values, np.float64) for values in found["rewards"]]
        return found.astype({"prompt": str, "rollouts": np.int64})

    def rollouts(self, key: int) -> PromptRollouts:
        """All rollouts of a prompt. Raises UnreadableError."""
        selection = self.run.selection
        length = selection.column(self.length or _LENGTHS[0])
        table = replace(selection, parameters={"key": key}).table(f"""
            SELECT step, position, CAST({selection.column("reward")} AS DOUBLE) AS reward,
                CAST({length} AS DOUBLE) AS length
            FROM {selection.view} WHERE {selection.condition} AND {selection.column(PROMPT_KEY)} = $key
            ORDER BY step, position
        """)
        return PromptRollouts(*(column.to_numpy() for column in table.columns))


def run_prompts(run: Run) -> RunPrompts | None:
    """The prompts of all steps; None where the run has no prompt or no reward. Raises UnreadableError."""
    if not {"prompt", "reward"} <= {*run.columns} or not run.counts:
        return None
    selection = run.selection
    table = selection.table(f"""
        {_visits(run, selection, "IS NOT NULL")},
        courses AS (
            SELECT prompt_key, count(*) AS steps, count(rate) AS judged,
                arg_min(rate, step) AS first_rate, arg_max(rate, step) AS last_rate,
                max(rate) AS best_rate, stddev_samp(reward) AS spread, avg(reward) AS mean,
                min(first) AS first
            FROM visits GROUP BY prompt_key)
        SELECT prompt_key AS keys, steps, judged,
            coalesce(judged > 1 AND best_rate = 0, false) AS never_solved,
            coalesce(judged > 1 AND first_rate = 0 AND last_rate > 0, false) AS newly_solved,
            coalesce(judged > 1 AND last_rate = 0 AND best_rate > 0, false) AS lost_again,
            -- Equal means of rewards that were summed in another order differ in their last bits.
            CASE WHEN spread < {_ROUNDING} * abs(mean) THEN 0 ELSE spread END AS volatility
        FROM courses ORDER BY first
    """)
    columns = {name: table[name].to_numpy() for name in table.column_names}
    length = next((name for name in _LENGTHS if name in run.columns), None)
    return RunPrompts(run, **columns, length=length, right_by=right_column(run))


def _visits(run: Run, selection: Selection, keys: str) -> str:
    """SQL of `visits`: a row for each step of each prompt whose key is one of these, with the mean reward
    and the share of right rollouts. first: of RunRows.key, which takes less time than a position.
    """
    key = selection.column(PROMPT_KEY)
    reward = f"CAST({selection.column('reward')} AS DOUBLE)"
    score = selection.column(right_column(run) or "reward")
    return f"""
        WITH ends AS (
            SELECT min({score}) AS lowest, max({score}) AS highest
            FROM {selection.view} WHERE {selection.condition}),
        rollouts AS NOT MATERIALIZED (
            SELECT {key} AS prompt_key, step, position, {selection.column("prompt")} AS text,
                {reward} AS reward, {score} AS score, {selection.rows.key} AS place
            FROM {selection.view} AS rollouts WHERE {selection.condition} AND {key} {keys}),
        counts AS NOT MATERIALIZED (
            SELECT prompt_key, step, count(*) AS rollouts, avg(reward) AS reward, min(text) AS text,
                min(position) AS position, min(place) AS first, {counts_of_right(run)}
            FROM rollouts CROSS JOIN ends GROUP BY prompt_key, step),
        visits AS NOT MATERIALIZED (
            SELECT *, "right" / nullif(judged, 0) AS rate FROM counts)"""


def shared_prompts(left: RunPrompts, right: RunPrompts, most: int) -> list[int]:
    """Keys of the first prompts of `left`, at most so many, that `right` has too."""
    return left.keys[np.isin(left.keys, right.keys)][:most].tolist()


def written_key(key: int) -> str:
    """The key of a prompt as links have it: 16 hexadecimal digits."""
    return f"{key % (1 << _KEY_BITS):016x}"


def key_from(written: str) -> int:
    """What written_key gave. Raises ValueError on anything else."""
    if len(written) != _KEY_BITS // 4:
        raise ValueError(f"{written!r} has not 16 digits")
    key = int(written, 16)
    return key - (1 << _KEY_BITS if key >> _KEY_BITS - 1 else 0)
