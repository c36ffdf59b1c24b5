"""The table of runs as it is exported: the runs and columns that are shown, in their order."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from board.components.run_table import Cell, RunColumn, RunRow
from board.export.run_pages import RunsTable
from board.views.shared import state
from board.views.shared.text import ago

_FILTERS: Final = ("state", "finding", "format")


def exported_table(
    rows: Sequence[RunRow], visible: Sequence[int], columns: Sequence[RunColumn], behind: float
) -> RunsTable:
    """visible: places of the rows that pass search and filters; columns: the name is the first. Runs that
    are folded on the page have a row each. behind: seconds since the oldest of the numbers was read whose
    log has grown since; 0 where there is none.
    """
    sort = str(state.get("runs_sort"))
    listed = sorted((rows[place] for place in visible), key=lambda row: _sort_key(row, sort))
    if state.get("runs_desc"):
        missing = [row for row in listed if _is_missing(row, sort)]
        listed = [row for row in reversed(listed) if not _is_missing(row, sort)] + missing
    heads = [
        column.label if not column.group else f"{column.group} {column.label}" for column in columns
    ]
    return RunsTable(
        heads,
        [[row.label, *(_text(row.cells.get(one.name)) for one in columns[1:])] for row in listed],
        [column.kind in ("number", "line") for column in columns],
        len(rows),
        _chosen(),
        [row.label for row in listed if row.waits],
        _as_of(behind),
    )


def _as_of(behind: float) -> str:
    """When the page was drawn, whose numbers the file has, also where it is made much later."""
    older = f"; of logs that have grown since they were read, up to {ago(behind)} older"
    return f"Numbers as of {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC{older if behind >= 1 else ''}."


def _text(cell: Cell | None) -> str:
    """What a cell says, with the change beside a mean and of how many rollouts it is."""
    if cell is None:
        return ""
    age = f"{ago(time.time() - cell['at'])} ago" if "at" in cell else ""
    count = f"(n = {cell['n']:,})" if "n" in cell else ""
    return " ".join(filter(None, (cell.get("text", ""), cell.get("note", ""), count, age)))


def _is_missing(row: RunRow, sort: str) -> bool:
    return row.cells.get(sort, {}).get("sort") is None and sort != "name"


def _sort_key(row: RunRow, sort: str) -> tuple[bool, bool, float, str]:
    value = row.label if sort == "name" else row.cells.get(sort, {}).get("sort")
    is_text = isinstance(value, str)
    number = 0.0 if value is None or is_text else float(value)
    return value is None, is_text, number, str(value).lower() if is_text else ""


def _chosen() -> str:
    """By what the runs were searched and filtered."""
    search = str(state.get("runs_search")).strip()
    chosen = [f"search: {search}"] if search else []
    filters = {name: state.get(f"runs_{name}") for name in _FILTERS}
    chosen += [f"{name}: {', '.join(values)}" for name, values in filters.items() if values]
    return "; ".join(chosen)
