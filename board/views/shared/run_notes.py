"""The note on a run: a field for it, and the line that pages show of it."""

from __future__ import annotations

from typing import Final

import streamlit as st

from board.errors import ChoiceError
from board.index.discovery.run_info import RunInfo, digest
from board.index.run_notes import LONGEST, ChangedNoteError, Note, read_note, write_note
from board.query.labels.matching import usual_author
from board.views.shared.text import plain

_REFUSED: Final = "_note_refused"
"""Session key of the run whose note could not be written, what was to be written, and why not."""
_IN_HEADER: Final = 40


def show(info: RunInfo, *, in_words: bool) -> None:
    """The note, with all of it on hover: its beginning, or a sign for it; nothing where there is none."""
    text = read_note(info).text
    if not text:
        return
    begin = f" {plain(text, _IN_HEADER)}" if in_words else ""
    st.caption(f":material/sticky_note_2:{begin}", help=plain(text, LONGEST), width="content")


def field(info: RunInfo, where: str) -> None:
    """A field for the note on a run. where: tells the fields of pages apart."""
    note, run = read_note(info), _named(info)
    key = f"_note_{where}_{digest(f'{run}{note.time}'.encode('utf-8', 'replace'))}"
    st.text_input(
        "Note on this run",
        value=note.text,
        key=key,
        max_chars=LONGEST,
        placeholder="what it was for, what came of it",
        help="For everybody who opens this folder. Press Enter to save; empty: no note.",
        on_change=lambda: _save(info, str(st.session_state.get(key) or ""), note),
    )
    if note.text:
        st.caption(f"written by {plain(note.author)}")
    refused: tuple[str, str, str] | None = st.session_state.get(_REFUSED)
    if refused is None or refused[0] != run:
        return
    _, text, reason = refused
    st.warning(f"{plain(reason, 700)} Not saved: {plain(repr(text), 700)}", icon=":material/error:")
    with st.container(horizontal=True):
        st.button("Save it", key=f"{key}_over", on_click=_save, args=(info, text, note))
        st.button("Leave it", key=f"{key}_leave", on_click=_forget)


def _save(info: RunInfo, text: str, over: Note) -> None:
    _forget()
    try:
        write_note(info, text, usual_author(), over=over.text)
    except ChangedNoteError as error:
        reason = f"{error.now.author} has changed this note meanwhile."
        st.session_state[_REFUSED] = (_named(info), text, reason)
    except ChoiceError as error:
        st.session_state[_REFUSED] = (_named(info), text, str(error))


def _forget() -> None:
    st.session_state.pop(_REFUSED, None)


def _named(info: RunInfo) -> str:
    return f"{info.path}\n{info.only}\n{info.part}"
