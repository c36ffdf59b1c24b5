"""Notes on the page of all runs: below their names, and a field for the note on one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import streamlit as st

from board.components.run_table import Cell, RunRow
from board.index.discovery.run_info import RunInfo
from board.index.run_notes import Note, read_note
from board.views.shared import run_notes, state
from board.views.shared.text import distinct_options, one_line

CELL: Final = "note"
"""The cell that is drawn below a run's name: it has no column, which most runs would leave empty."""
_LONGEST: Final = 300


def with_notes(infos: Sequence[RunInfo], rows: Sequence[RunRow]) -> list[RunRow]:
    """The rows with the notes on their runs."""
    notes = (read_note(info) for info in infos)
    return [
        replace(row, cells={**row.cells, CELL: _cell(note)}) if note.text else row
        for row, note in zip(rows, notes, strict=True)
    ]


def _cell(note: Note) -> Cell:
    text = one_line(note.text, _LONGEST)
    return {"text": text, "help": f"{text} ({note.author})"}


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
            format_func=distinct_options(list(by_name)),
            placeholder="choose a run",
            width=360,
        )
        if name is not None:
            run_notes.field(by_name[name], "runs")
