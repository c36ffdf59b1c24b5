"""Responses and rewards that a log may hold under other names than those that were read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from board.core.problems import Problem
from board.formats.generic import OTHER_RESPONSES, OTHER_REWARDS
from board.query.run_rows import RunRows

_HINT: Final = "if it is the {}, say so in a mapping file (docs/own_format.md)"


def unread_fields(rows: RunRows, path: str) -> Iterator[Problem]:
    """Notes on columns of such names, of a run in which no response, or no reward, was read.

    path: of the problems. Raises BrokenIndexError.
    """
    columns = {column.name: column for column in rows.columns}
    if not columns.keys() & {"response", "response_tokens"}:
        names = [n for n in OTHER_RESPONSES if n in columns and columns[n].texts]
        yield from _notes(rows, path, "response", names)
    if "reward" not in columns:
        names = [n for n in OTHER_REWARDS if n in columns and columns[n].numbers]
        yield from _notes(rows, path, "reward", names)


def _notes(rows: RunRows, path: str, field: str, names: list[str]) -> Iterator[Problem]:
    for name in names:
        count = rows.table(f"SELECT count({rows.value(name)}) AS n FROM {rows.view()}")["n"][0]
        reason = f"{name} is not read as the {field}, and no other {field} is there"
        yield Problem(path, None, name, reason, _HINT.format(field), "note", count.as_py())
