"""Rollouts to compare one with: those that answer its whole prompt, and others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from board.index.segments import PROMPT_KEY
from board.query.open_run import Run


def prompt_key(run: Run, step: int, index: int) -> int | None:
    """The hash of a rollout's prompt; None where no prompt is recorded. Raises UnreadableError."""
    found = _column(run.whole or run, PROMPT_KEY, step=step, position=index)
    return found[0] if found else None


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
    return table["value"].to_pylist()
