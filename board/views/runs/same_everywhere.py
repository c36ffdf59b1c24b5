"""Columns whose values are all equal: they are said once, above the table, and not drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from board.analysis.run_summary import RunSummary
from board.components.run_table import Cell, RunRow
from board.core.repeated_runs import is_of_the_setup
from board.core.run_differences import are_different, said_once
from board.views.runs.columns import Columns, is_looked_for, prominence, setting_text, short_names
from board.views.shared.text import one_line

_NEVER: Final = frozenset(("name", "changed"))
_SAID: Final = ("text", "sort", "note", "tone", "noteTone", "line", "at")
"""What a reader sees of a cell; its tooltip says over how many rollouts a mean is."""
_MOST_SETTINGS: Final = 4
_LONGEST: Final = 60


def equal_columns(
    names: Sequence[str], rows: Sequence[Mapping[str, Cell]]
) -> dict[str, Cell | None]:
    """Those of the columns that say the same in every row, and what; a cell that is not there is a value
    as others are. None of fewer than two rows.
    """
    if len(rows) < 2:
        return {}
    first = {name: _said(rows[0].get(name)) for name in names}
    return {
        name: rows[0].get(name)
        for name in names
        if all(_said(row.get(name)) == first[name] for row in rows[1:])
    }


def _said(cell: Cell | None) -> tuple[Any, ...] | None:
    return None if cell is None else tuple(cell.get(part) for part in _SAID)


def without_equal(
    columns: Columns, rows: Sequence[RunRow], wanted: Sequence[str], sort: str
) -> tuple[Columns, list[str]]:
    """The columns without those whose values are all equal, and what these would have said, in words.

    wanted: ids of columns that somebody chose, which stay, as does the one that is sorted by. Nothing
    is left out while a row waits for its values.
    """
    if any(row.waits for row in rows):
        return columns, []
    stays = _NEVER | {*wanted, sort}
    equal = equal_columns(
        [name for name in columns.visible if name not in stays], [row.cells for row in rows]
    )
    said = [
        f"{_head(columns, name)} {cell.get('text') or 'not recorded'}"
        for name, cell in equal.items()
        if cell is not None
    ]
    visible = [name for name in columns.visible if name not in equal]
    return columns._replace(visible=visible), [one_line(words, _LONGEST) for words in said]


def _head(columns: Columns, name: str) -> str:
    """What the column is called, without what else its cells say."""
    return columns.by_id[name].label.partition(",")[0]


def shared_settings(summaries: Sequence[RunSummary | None]) -> list[str]:
    """The settings that readers look for, where all runs record the same value, in words."""
    known = [one.settings for one in summaries if one is not None]
    if len(known) < 2 or len(known) < len(summaries):
        return []
    shared = [
        path
        for path in known[0]
        if is_looked_for(path)
        and is_of_the_setup(path)
        and all(path in own for own in known)
        and not are_different(own[path] for own in known)
    ]
    shared = said_once({path: [known[0][path]] for path in sorted(shared, key=prominence)})
    shared = shared[:_MOST_SETTINGS]
    names = short_names(shared)
    return [one_line(f"{names[path]} {setting_text(known[0][path])}", _LONGEST) for path in shared]
