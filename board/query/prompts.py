"""Prompts over the steps of a run, and rollouts to compare one with.

Two prompts are the same where all of their text is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import numpy as np
import pandas as pd

from board.core.arrays import BoolArray, FloatArray, IntArray, divided
from board.core.metrics.exact_test import fisher_p, least_fisher_p
from board.core.metrics.paired import false_discovery_rates
from board.index.segments import PROMPT_KEY
from board.query import groups
from board.query.groups import Judged
from board.query.run import Run

FLAGS: Final = {"never": "never_solved", "lost": "regressed", "new": "newly_solved"}
"""Lists of prompts of which a flag of RunPrompts holds."""
LISTS: Final = ("all", *FLAGS, "volatile")
_LENGTHS: Final = ("response_tokens", "response_chars")
_LONGEST_PROMPT: Final = 64 << 10
"""Bytes."""
_ROUNDING: Final = 1e-12
MOST_FALSE: Final = 0.05
"""False discovery rate among the prompts that are called regressed or newly solved."""
NOT_SOLVED: Final = 0.125
_HALVES: Final = ("earlier_right", "earlier_graded", "later_right", "later_graded")
_KEY_BITS: Final = 64
_PLACE: Final = (
    f"row(coalesce(min(rank), {np.iinfo(np.int64).max}), min(file), min(line), min(part))"
)
"""SQL that orders the prompts of a step as they are logged; the least RunRows.key takes twice as long."""


@dataclass(frozen=True, slots=True)
class PromptRollouts:
    """All rollouts of one prompt, [n] each, ordered by step and then by index; NaN: not recorded."""

    steps: IntArray
    indices: IntArray
    rewards: FloatArray
    lengths: FloatArray


@dataclass(frozen=True)
class RunPrompts:
    """Arrays [prompts], in the order in which they are first logged.

    keys: a hash of the prompt, the same in every run. steps: at how many it comes; graded: at how many
    of these it is known whether a rollout is right. never_solved: two or more, nothing right at any.
    earlier_right of earlier_graded rollouts are right in the first half of the graded steps, later_right
    of later_graded in the second, which has the one in the middle. rate: the least false discovery rate,
    over all prompts with two graded steps whose rollouts are enough to differ beyond chance at all, at
    which the two halves differ; NaN for the others. Rollouts of a prompt count as independent of one
    another, with one chance where nothing changed.
    regressed, improved: the later share is lower, or higher, at a rate of MOST_FALSE or less;
    newly_solved: improved, and at most NOT_SOLVED of the earlier rollouts right. volatility: standard
    deviation (n - 1) of the mean rewards of its steps, NaN for one step.

    length: the column of lengths, None without one. judged: by which rule rollouts are right.
    """

    keys: IntArray
    steps: IntArray
    graded: IntArray
    never_solved: BoolArray
    earlier_right: IntArray
    earlier_graded: IntArray
    later_right: IntArray
    later_graded: IntArray
    rate: FloatArray
    volatility: FloatArray
    length: str | None
    judged: Judged

    @property
    def earlier(self) -> FloatArray:
        """Share of right rollouts in the earlier half; NaN where there is none."""
        return divided(self.earlier_right, self.earlier_graded)

    @property
    def later(self) -> FloatArray:
        """Share of right rollouts in the later half; NaN where there is none."""
        return divided(self.later_right, self.later_graded)

    @property
    def regressed(self) -> BoolArray:
        """Whether it was solved more often before."""
        return (self.rate <= MOST_FALSE) & (self.later < self.earlier)

    def listed(self, which: str) -> IntArray:
        """Places of the prompts of one of LISTS, in its order."""
        if which == "all":
            return np.arange(len(self.keys))
        if which == "volatile":
            chosen, largest_first = np.isfinite(self.volatility), self.volatility
        else:
            chosen = getattr(self, FLAGS[which])
            largest_first = self.graded if which == "never" else -self.rate
        places = np.flatnonzero(chosen)
        return places[np.argsort(-largest_first[places], kind="stable")]

    @property
    def newly_solved(self) -> BoolArray:
        """Whether it is solved more often than before, when it was hardly ever."""
        improved = (self.rate <= MOST_FALSE) & (self.later > self.earlier)
        return improved & (self.earlier <= NOT_SOLVED)


def has_prompts(run: Run) -> bool:
    """Whether it records prompts and rewards."""
    return {"prompt", "reward"} <= {*run.columns} and bool(run.counts)


def run_prompts(run: Run) -> RunPrompts | None:
    """The prompts of all steps; None where the run has no prompt or no reward. Raises UnreadableError."""
    if not has_prompts(run):
        return None
    table = run.table(f"""
        {_visits(run, "IS NOT NULL")},
        halves AS (
            SELECT *, 2 * row_number() OVER known <= count(*) OVER (PARTITION BY prompt_key, graded > 0)
                AS is_earlier
            FROM visits WINDOW known AS (PARTITION BY prompt_key, graded > 0 ORDER BY step)),
        courses AS (
            SELECT prompt_key, count(*) AS steps, count(rate) AS rated,
                max(rate) AS best_rate, stddev_samp(reward) AS spread, avg(reward) AS mean,
                sum("right") FILTER (is_earlier) AS earlier_right,
                sum(graded) FILTER (is_earlier) AS earlier_graded,
                sum("right") FILTER (NOT is_earlier) AS later_right,
                sum(graded) FILTER (NOT is_earlier) AS later_graded,
                min(step) AS first_step, arg_min(place, step) AS place
            FROM halves GROUP BY prompt_key)
        SELECT prompt_key AS keys, steps, rated AS graded,
            coalesce(rated > 1 AND best_rate = 0, false) AS never_solved,
            {", ".join(f"CAST(coalesce({name}, 0) AS BIGINT) AS {name}" for name in _HALVES)},
            -- Equal means of rewards that were summed in another order differ in their last bits.
            CASE WHEN spread < {_ROUNDING} * abs(mean) THEN 0 ELSE spread END AS volatility
        FROM courses ORDER BY first_step, place, keys
    """)
    columns = {name: table[name].to_numpy() for name in table.column_names}
    halves = [columns[name] for name in _HALVES]
    can_differ = (columns["graded"] > 1) & (least_fisher_p(*halves) <= MOST_FALSE)
    p = np.where(can_differ, fisher_p(*halves), np.nan)
    return RunPrompts(
        **columns,
        rate=false_discovery_rates(p),
        length=length_column(run),
        judged=groups.judged_rollouts(run),
    )


def prompt_table(run: Run, keys: Sequence[int]) -> pd.DataFrame:
    """A row for each of these prompts, in their order.

    Columns: key, prompt (of more than 64 kB the beginning), rewards (mean of each step, NaN where
    none is recorded) and rollouts. Raises UnreadableError.
    """
    sql = f"""
        {_visits(run, "IN (SELECT unnest($keys))")}
        SELECT prompt_key AS key, list(reward ORDER BY step) AS rewards,
            CAST(sum(rollouts) AS BIGINT) AS rollouts, min(step) AS first_step
        FROM visits GROUP BY prompt_key ORDER BY list_position($keys, prompt_key)
    """
    frame = run.table(sql, {"keys": [*keys]}).to_pandas()
    first_steps = dict(zip(frame["key"].tolist(), frame.pop("first_step").tolist(), strict=True))
    frame.insert(1, "prompt", pd.Series(_texts(run, first_steps), dtype=str))
    return frame


_COURSE: Final = ("steps", "graded", "earlier", "later", "rate", "never_solved", "regressed")
_OF_PROMPTS: Final = ("prompt_key", "prompt", "rollouts", *_COURSE, "newly_solved", "volatility")


def prompts_frame(run: Run) -> pd.DataFrame:
    """A row for each prompt, as they are first logged: prompt_key (as SQL has it), prompt and rollouts
    of prompt_table, and its course as RunPrompts has it. Without rows where prompts or rewards are not
    recorded. Raises UnreadableError.
    """
    own = run_prompts(run)
    if own is None:
        return pd.DataFrame(columns=[*_OF_PROMPTS])
    table = prompt_table(run, own.keys.tolist())
    columns: dict[str, Any] = {"prompt_key": own.keys}
    columns |= {name: table[name].to_numpy() for name in ("prompt", "rollouts")}
    return pd.DataFrame(columns | {name: getattr(own, name) for name in _OF_PROMPTS[3:]})


def prompt_rollouts(run: Run, key: int) -> PromptRollouts:
    """All rollouts of a prompt. Raises UnreadableError."""
    columns = (run.column("reward"), run.column(length_column(run) or _LENGTHS[0]))
    numbers = ", ".join(f"CAST({column} AS DOUBLE)" for column in columns)
    # Positions of all rollouts of the run would take longer.
    steps = ", ".join(map(str, steps_of_prompt(run, key))) or "NULL"
    sql = f"""
        SELECT step, position, {numbers} FROM {run.view}
        WHERE {run.condition} AND {run.column(PROMPT_KEY)} = $key AND step IN ({steps})
        ORDER BY step, position
    """
    return PromptRollouts(*(column.to_numpy() for column in run.table(sql, {"key": key}).columns))


def prompts_with(run: Run, words: Sequence[str]) -> IntArray:
    """Keys of the prompts in whose text all of these words occur, whatever their case, in no order.

    Raises UnreadableError.
    """
    text = f"lower({run.rows.whole_text('prompt')})"
    matches = " AND ".join(f"contains({text}, $w{n})" for n in range(len(words))) or "true"
    key = run.column(PROMPT_KEY)
    table = run.table(
        f"SELECT DISTINCT {key} AS key FROM {run.view} WHERE {run.condition} AND {matches}",
        {f"w{n}": word.lower() for n, word in enumerate(words)},
    )
    return table["key"].to_numpy()


def length_column(run: Run) -> str | None:
    """The column of the lengths of responses; None where none is recorded."""
    return next((name for name in _LENGTHS if name in run.columns), None)


def _visits(run: Run, keys: str) -> str:
    """SQL of `visits`: a row for each step of each prompt whose key is one of these, with the mean reward
    and the share of right rollouts. place: as of _PLACE.
    """
    key = run.column(PROMPT_KEY)
    rule = groups.rule_of(run)
    return f"""
        WITH rollouts AS NOT MATERIALIZED (
            SELECT {key} AS prompt_key, step, CAST({run.column("reward")} AS DOUBLE) AS reward,
                {groups.score_of(run, rule)} AS score, rank, file, line, part
            FROM {run.view} AS rollouts WHERE {run.condition} AND {key} {keys}),
        counts AS NOT MATERIALIZED (
            SELECT prompt_key, step, count(*) AS rollouts, avg(reward) AS reward,
                {_PLACE} AS place, {groups.RIGHT_COUNTS}
            FROM rollouts CROSS JOIN ({groups.right_bounds(rule)}) GROUP BY prompt_key, step),
        visits AS NOT MATERIALIZED (
            SELECT *, "right" / nullif(graded, 0) AS rate FROM counts)"""


def shared_prompts(left: Run, right: Run, limit: int) -> pd.DataFrame:
    """The first prompts of `left`, at most so many, that `right` has too.

    Columns: key, and prompt (of more than 64 kB the beginning). Raises UnreadableError.
    """
    own, others = _first_steps(left), _first_steps(right)
    shared = {key: step for key, step in own.items() if key in others}
    shared = dict(islice(shared.items(), limit))
    texts = pd.Series(_texts(left, shared), dtype=str)
    return pd.DataFrame({"key": pd.Series([*shared], dtype=np.int64), "prompt": texts})


def _first_steps(run: Run) -> dict[int, int]:
    """By key of a prompt its first step, ordered as in RunPrompts."""
    table = run.table(f"""
        WITH visits AS NOT MATERIALIZED (
            SELECT {run.column(PROMPT_KEY)} AS key, step, {_PLACE} AS place
            FROM {run.view} WHERE {run.condition} AND key IS NOT NULL GROUP BY key, step)
        SELECT key, min(step) AS first_step FROM visits GROUP BY key
        ORDER BY first_step, arg_min(place, step), key
    """)
    return dict(zip(*(column.to_pylist() for column in table.columns), strict=True))


def _texts(run: Run, first_steps: Mapping[int, int]) -> list[str]:
    """The texts of prompts, of more than 64 kB the beginning. first_steps: where each one comes, by key:
    the rollouts of all steps would take longer.
    """
    key, text = run.column(PROMPT_KEY), run.rows.whole_text("prompt")
    steps = ", ".join(map(str, {*first_steps.values()})) or "NULL"
    sql = f"""
        SELECT {key} AS key, coalesce(min({text}) FILTER (strlen({text}) <= {_LONGEST_PROMPT}),
            min({run.column("prompt")}), '') AS text
        FROM {run.view}
        WHERE {run.condition} AND {key} IN (SELECT unnest($keys)) AND step IN ({steps})
        GROUP BY key
    """
    rows = run.table(sql, {"keys": [*first_steps]}).to_pydict()
    texts = dict(zip(rows["key"], rows["text"], strict=True))
    return [texts[key] for key in first_steps]


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
    own = (run.whole or run).where(steps=(step, step))
    table = own.table(f"""
        SELECT {own.column(PROMPT_KEY)} AS key FROM {own.view}
        WHERE {own.condition} AND position = {index} AND key IS NOT NULL
    """)
    return int(table["key"][0].as_py()) if table.num_rows else None


def steps_of_prompt(run: Run, key: int) -> list[int]:
    """The steps at which it comes, ascending. Raises UnreadableError."""
    table = run.table(f"""
        SELECT DISTINCT step FROM {run.view}
        WHERE {run.condition} AND {run.column(PROMPT_KEY)} = {key} ORDER BY step
    """)
    return table["step"].to_numpy().tolist()


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
    at = run.where(steps=(step, step))
    names = ("reward", "advantage", "response_tokens", "response_chars", "group_id", "response")
    columns = {name: at.column(name) for name in names}
    columns |= {n: f"CAST({columns[n]} AS VARCHAR)" for n in ("group_id", "response")}
    searched = f"""lower(concat_ws(' ', '#' || position, {columns["group_id"]}, {columns["reward"]},
        {columns["response"]}))"""
    sql = f"""
        SELECT position AS "index", {", ".join(f"{sql} AS {name}" for name, sql in columns.items())},
            coalesce({columns["group_id"]} = $group_id
                AND {at.column("split")} IS NOT DISTINCT FROM $own_split, false) AS same_group,
            coalesce({at.column(PROMPT_KEY)} = $prompt_key, false) AS same_prompt,
            count(*) OVER () AS total
        FROM {at.view}
        WHERE {at.condition} AND position IS DISTINCT FROM $own_index
            AND list_bool_and([contains({searched}, word) FOR word IN $words])
        ORDER BY same_group DESC, same_prompt DESC, coalesce(group_id, ''), reward DESC NULLS LAST,
            "index"
        LIMIT {limit}
    """
    values: dict[str, Any] = {
        "group_id": None if own.index is None else own.group_id,
        "own_split": own.split,
        "prompt_key": own.prompt_key,
        "own_index": own.index,
        "words": [*words, ""],
    }
    table = at.table(sql, values)
    rows = table.drop_columns(["total"]).to_pandas()
    return rows, table["total"][0].as_py() if len(rows) else 0
