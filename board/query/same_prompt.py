"""Which rollouts of a run answer a prompt: by the hash of its whole text, the same in every run."""

# pyright: reportUnknownMemberType=false
# pyarrow ships without types.

from __future__ import annotations

from dataclasses import replace

from board.index.segments import PROMPT_KEY
from board.query.open_run import Run
from board.query.selection import selection_of


def prompt_key(run: Run, step: int, index: int) -> int | None:
    """The hash of a rollout's prompt; None where no prompt is recorded. Raises UnreadableError."""
    found = _column(run.whole or run, PROMPT_KEY, step=step, position=index)
    return found[0] if found else None


def steps_of_prompt(run: Run, key: int) -> list[int]:
    """The steps at which it comes, ascending. Raises UnreadableError."""
    return sorted(_column(run, "step", prompt_key=key))


def indices_of_prompt(run: Run, step: int, key: int) -> set[int]:
    """The indices of a step's rollouts that answer it. Raises UnreadableError."""
    return {*_column(run, "position", step=step, prompt_key=key)}


def _column(run: Run, name: str, **wanted: int) -> list[int]:
    """The different values of a column of the rollouts that have the wanted values."""
    selection = selection_of(run)
    if PROMPT_KEY not in selection.rows.names:
        return []
    terms = " AND ".join(f"{column} = ${column}" for column in wanted)
    table = replace(selection, parameters=wanted).table(f"""
        SELECT DISTINCT {name} AS value FROM {selection.view}
        WHERE {selection.condition} AND {terms} AND {name} IS NOT NULL
    """)
    return table["value"].to_pylist()
