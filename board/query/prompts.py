"""Prompts over the steps of a run, and rollouts to compare one with.

Two prompts are the same where all of their text is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from board.core.metrics.kl import FloatArray
from board.index.reading.record_row import CUT_SIGN
from board.index.segments import PROMPT_KEY
from board.query.groups import counts_of_right, right_column
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

    keys: a hash of the prompt, the same in every run. steps: at how many it comes; graded: at how many
    of these it is known whether a rollout is right. never_solved: two or more, nothing right at any.
    newly_solved: nothing right at the first, something at the last. lost_again: nothing right at the
    last, something before. volatility: standard deviation (n - 1) of the mean rewards of its steps, NaN
    for one step.

    length: the column of lengths, None without one. right_by: the column that says what is right; None:
    the highest reward.
    """

    keys: IntArray
    steps: IntArray
    graded: IntArray
    never_solved: BoolArray
    newly_solved: BoolArray
    lost_again: BoolArray
    volatility: FloatArray
    length: str | None
    right_by: str | None


def has_prompts(run: Run) -> bool:
    """Whether it records prompts and rewards."""
    return {"prompt", "reward"} <= {*run.columns} and bool(run.counts)


def run_prompts(run: Run) -> RunPrompts | None:
    """The prompts of all steps; None where the run has no prompt or no reward. Raises UnreadableError."""
    if not has_prompts(run):
        return None
    selection = run.selection
    table = selection.table(f"""
        {_visits(run, selection, "IS NOT NULL")},
        courses AS (
            SELECT prompt_key, count(*) AS steps, count(rate) AS graded,
                arg_min(rate, step) AS first_rate, arg_max(rate, step) AS last_rate,
                max(rate) AS best_rate, stddev_samp(reward) AS spread, avg(reward) AS mean,
                min(first) AS first
            FROM visits GROUP BY prompt_key)
        SELECT prompt_key AS keys, steps, graded,
            coalesce(graded > 1 AND best_rate = 0, false) AS never_solved,
            coalesce(graded > 1 AND first_rate = 0 AND last_rate > 0, false) AS newly_solved,
            coalesce(graded > 1 AND last_rate = 0 AND best_rate > 0, false) AS lost_again,
            -- Equal means of rewards that were summed in another order differ in their last bits.
            CASE WHEN spread < {_ROUNDING} * abs(mean) THEN 0 ELSE spread END AS volatility
        FROM courses ORDER BY first
    """)
    columns = {name: table[name].to_numpy() for name in table.column_names}
    return RunPrompts(**columns, length=length_column(run), right_by=right_column(run))


def prompt_table(run: Run, keys: Sequence[int]) -> pd.DataFrame:
    """A row for each of these prompts, in their order.

    Columns: key, prompt (of more than 64 kB the beginning), rewards (mean of each step, NaN where
    none is recorded), first_rate and last_rate (share of right rollouts at the first and last step
    that is graded), and rollouts. Raises UnreadableError.
    """
    selection = run.selection
    asked = replace(selection, parameters={"keys": [*keys]})
    table = asked.table(f"""
        {_visits(run, selection, "IN (SELECT unnest($keys))")}
        SELECT prompt_key AS key, min(text) AS prompt, list(reward ORDER BY step) AS rewards,
            arg_min(rate, step) AS first_rate, arg_max(rate, step) AS last_rate,
            sum(rollouts) AS rollouts
        FROM visits GROUP BY prompt_key
    """)
    frame = table.to_pandas().set_index("key").loc[[*keys]].reset_index()
    frame["prompt"] = _texts(run, frame["key"].tolist(), frame["prompt"].tolist())
    rewards = [np.array(values, np.float64) for values in frame["rewards"]]
    frame["rewards"] = pd.Series(rewards, dtype=object)
    return frame.astype({"prompt": str, "rollouts": np.int64})


def prompt_rollouts(run: Run, key: int) -> PromptRollouts:
    """All rollouts of a prompt. Raises UnreadableError."""
    selection = run.selection
    numbers = {
        "reward": selection.column("reward"),
        "length": selection.column(length_column(run) or _LENGTHS[0]),
    }
    columns = ", ".join(f"CAST({sql} AS DOUBLE) AS {name}" for name, sql in numbers.items())
    table = _of_prompts(run, [key], f"step, position, {columns}", "ORDER BY step, position")
    return PromptRollouts(*(column.to_numpy() for column in table.columns))


def length_column(run: Run) -> str | None:
    """The column of the lengths of responses; None where none is recorded."""
    return next((name for name in _LENGTHS if name in run.columns), None)


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
            SELECT {key} AS prompt_key, step, {selection.column("prompt")} AS text,
                {reward} AS reward, {score} AS score, {selection.rows.key} AS place
            FROM {selection.view} AS rollouts WHERE {selection.condition} AND {key} {keys}),
        counts AS NOT MATERIALIZED (
            SELECT prompt_key, step, count(*) AS rollouts, avg(reward) AS reward, min(text) AS text,
                min(place) AS first, {counts_of_right(run)}
            FROM rollouts CROSS JOIN ends GROUP BY prompt_key, step),
        visits AS NOT MATERIALIZED (
            SELECT *, "right" / nullif(graded, 0) AS rate FROM counts)"""


def shared_prompts(left: Run, right: Run, limit: int) -> pd.DataFrame:
    """The first prompts of `left`, at most so many, that `right` has too.

    Columns: key, and prompt (of more than 64 kB the beginning). Raises UnreadableError.
    """
    own, others = _keys(left), _keys(right)
    keys = own[np.isin(own, others)][:limit].tolist()
    selection = left.selection
    table = replace(selection, parameters={"keys": keys}).table(f"""
        SELECT {selection.column(PROMPT_KEY)} AS key, min({selection.column("prompt")}) AS prompt
        FROM {selection.view} WHERE {selection.condition} AND key IN (SELECT unnest($keys)) GROUP BY key
    """)
    frame = table.to_pandas().set_index("key").loc[keys].reset_index()
    return frame.assign(prompt=_texts(left, keys, frame["prompt"].tolist()))


def _keys(run: Run) -> IntArray:
    """The keys of a run's prompts, in the order in which they first come."""
    selection = run.selection
    table = selection.table(f"""
        SELECT {selection.column(PROMPT_KEY)} AS key FROM {selection.view}
        WHERE {selection.condition} AND key IS NOT NULL
        GROUP BY key ORDER BY min({selection.rows.key})
    """)
    return table["key"].to_numpy()


def _texts(run: Run, keys: Sequence[int], previews: Sequence[str | None]) -> list[str]:
    """The texts of prompts, of more than 64 kB the beginning. previews: what the index has of them."""
    texts = [preview or "" for preview in previews]
    cut = {key: row for row, key in enumerate(keys) if texts[row].endswith(CUT_SIGN)}
    if cut:
        columns = "min(step) AS step, arg_min(position, step) AS position"
        table = _of_prompts(run, [*cut], f"prompt_key, {columns}", "GROUP BY prompt_key")
        prompts, steps, positions = (table[n].to_numpy().tolist() for n in table.column_names)
        whole = texts_at(run, steps, positions, "prompt", _LONGEST_PROMPT)
        for key, text in zip(prompts, whole, strict=True):
            texts[cut[key]] = text or texts[cut[key]]
    return texts


def _of_prompts(run: Run, keys: Sequence[int], columns: str, end: str) -> pa.Table:
    """Columns of the rollouts of prompts, with their positions. end: what follows the condition.

    The steps of the prompts are looked up first: positions of all rollouts of the run would take longer.
    """
    selection = replace(run.selection, parameters={"keys": [*keys]})
    of_prompts = f"""
        FROM {selection.view} WHERE {selection.condition}
            AND {selection.column(PROMPT_KEY)} IN (SELECT unnest($keys))"""
    steps = selection.table(f"SELECT DISTINCT step {of_prompts}")["step"].to_pylist()
    own = f"step IN ({', '.join(map(str, steps))})" if steps else "false"
    return selection.table(f"SELECT {columns} {of_prompts} AND {own} {end}")


def written_key(key: int) -> str:
    """The key of a prompt as links have it: 16 hexadecimal digits."""
    return f"{key % (1 << _KEY_BITS):016x}"


def key_from(written: str) -> int:
    """What written_key gave. Raises ValueError on anything else."""
    if len(written) != _KEY_BITS // 4:
        raise ValueError(f"{written!r} has not 16 digits")
    key = int(written, 16)
    return key - (1 << _KEY_BITS if key >> _KEY_BITS - 1 else 0)


def prompt_key(run: Run, step: int, index: int) -> int | None:
    """The hash of a rollout's prompt; None where no prompt is recorded. Raises UnreadableError."""
    keys = _column(run.whole or run, PROMPT_KEY, step=step, position=index)
    return keys[0] if keys else None


def steps_of_prompt(run: Run, key: int) -> list[int]:
    """The steps at which it comes, ascending. Raises UnreadableError."""
    return sorted(_column(run, "step", prompt_key=key))


@dataclass(frozen=True, slots=True)
class Compared:
    """A rollout for which others are listed. index: None where it is of another step or run, so that no
    group is the same. prompt_key: None where no prompt is recorded.
    """

    prompt_key: int | None
    index: int | None = None
    group_id: str | None = None
    split: str | None = None


def comparable_rollouts(
    run: Run, step: int, own: Compared, words: Sequence[str], limit: int
) -> tuple[pd.DataFrame, int]:
    """The first rollouts of a step, at most `limit`, and how many there are. Raises UnreadableError.

    Those of the same group come first, then those of the same prompt, then the others by group; within
    each the best reward first. words: in lower case, all of which occur in a rollout's index, group,
    reward or the beginning of its response. Columns: index, reward, advantage, response_tokens,
    response_chars, group_id, response, same_group, same_prompt.
    """
    selection = run.selection
    names = ("reward", "advantage", "response_tokens", "response_chars", "group_id", "response")
    columns = {name: selection.column(name) for name in names}
    columns |= {n: f"CAST({columns[n]} AS VARCHAR)" for n in ("group_id", "response")}
    key = PROMPT_KEY if PROMPT_KEY in selection.rows.names else "NULL"
    is_same = (
        f"coalesce({key} = {own.prompt_key}, false)" if own.prompt_key is not None else "false"
    )
    values: dict[str, Any] = {f"word_{number}": word for number, word in enumerate(words)}
    same_group = "false"
    if own.index is not None and own.group_id is not None:
        values |= {"group": own.group_id, "own_split": own.split}
        same_group = f"""coalesce({columns["group_id"]} = $group, false)
            AND {selection.column("split")} IS NOT DISTINCT FROM $own_split"""
    searched = f"""lower(concat_ws(' ', '#' || position, {columns["group_id"]}, {columns["reward"]},
        {columns["response"]}))"""
    terms = [selection.condition, f"step = {step}"]
    terms += [f"contains({searched}, $word_{number})" for number in range(len(words))]
    if own.index is not None:
        terms.append(f"position <> {own.index}")
    table = replace(selection, parameters=values).table(f"""
        SELECT position AS "index", {", ".join(f"{sql} AS {name}" for name, sql in columns.items())},
            {same_group} AS same_group, {is_same} AS same_prompt,
            count(*) OVER () AS total
        FROM {selection.view}
        WHERE {" AND ".join(terms)}
        ORDER BY same_group DESC, same_prompt DESC, coalesce(group_id, ''), reward DESC NULLS LAST,
            "index"
        LIMIT {limit}
    """)
    rows = table.drop_columns(["total"]).to_pandas()
    return rows, table["total"][0].as_py() if len(rows) else 0


def _column(run: Run, name: str, **wanted: int) -> list[int]:
    """The different values of a column of the rollouts that have the wanted values."""
    selection = run.selection
    if PROMPT_KEY not in selection.names:
        return []
    terms = " AND ".join(f"{column} = ${column}" for column in wanted)
    steps = (wanted["step"], wanted["step"]) if "step" in wanted else None
    selection = replace(selection, parameters=wanted, steps=steps)
    table = selection.table(f"""
        SELECT DISTINCT {name} AS value FROM {selection.view}
        WHERE {selection.condition} AND {terms} AND {name} IS NOT NULL
    """)
    return table["value"].to_numpy().tolist()
