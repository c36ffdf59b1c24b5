"""Notes on the page of all runs: their column, and a field for the note on one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import streamlit as st

from board.components.run_table import Cell, RunColumn, RunRow
from board.index.discovery.run_info import RunInfo
from board.index.run_notes import Note, read_note
from board.views.runs.columns import Columns
from board.views.shared import run_notes, state
from board.views.shared.text import one_line

_COLUMN: Final = RunColumn("note", "note", "What somebody wrote about the run", 110, "text")
_LONGEST: Final = 300


def with_notes(
    infos: Sequence[RunInfo], rows: Sequence[RunRow], columns: Columns, wanted: Sequence[str]
) -> tuple[Sequence[RunRow], Columns]:
    """The rows and columns with the notes, whose column follows the name where there is a note at all.
    wanted: ids of columns that somebody chose.
    """
    notes = [read_note(info) for info in infos]
    visible = [*columns.visible]
    if any(note.text for note in notes):
        rows = [
            replace(row, cells={**row.cells, _COLUMN.name: _cell(note)})
            for row, note in zip(rows, notes, strict=True)
        ]
        if not wanted or _COLUMN.name in wanted:
            visible.insert(1, _COLUMN.name)
    name, *others = columns.by_id.items()
    by_id = dict((name, (_COLUMN.name, _COLUMN), *others))
    return rows, columns._replace(by_id=by_id, visible=visible)


def _cell(note: Note) -> Cell:
    text = one_line(note.text, _LONGEST)
    about = f"{text} ({note.author})" if text else ""
    return {"text": text, "sort": text.casefold() or None, "help": about}


def offer(infos: Sequence[RunInfo]) -> None:
    """A button for the note on a run: the first one that is ticked, or the one that was open last."""
    with st.popover(
        "Note", icon=":material/sticky_note_2:", key="runs_note", on_change="rerun"
    ) as at:
        if not at.open:
            return
        by_name = {info.name: info for info in infos}
        first = next(
            (name for name in (*state.get("runs_ticked"), state.get("run")) if name in by_name),
            None,
        )
        name = st.selectbox(
            "Run",
            [*by_name],
            index=None if first is None else [*by_name].index(first),
            format_func=lambda name: one_line(name, 200),
            placeholder="choose a run",
            width=360,
        )
        if name is not None:
            run_notes.field(by_name[name], "runs")
