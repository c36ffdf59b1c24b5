"""Labels of the open rollout: what the reader shows of them, and what the browser sends back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import streamlit as st

from board.components.reader.frame import LabelRow
from board.core.labels.entries import LONGEST_NOTE, last_of
from board.core.labels.names import packaged_names
from board.errors import BoardError, ChoiceError
from board.index.label_files import label_names
from board.query.labels.matching import labels_at, set_label, undo_last, usual_author
from board.query.open_run import Run
from board.views.shared.text import plain

_LONGEST_AUTHOR: Final = 40
_LONGEST_LABEL: Final = 40
_RECEIVED: Final = "_received_labels"
"""Session key of the ids of what the browser sent last: it sends all again until it sees their ids."""
_MOST_RECEIVED: Final = 200
_MOST_AT_ONCE: Final = 100
_LONGEST_ID: Final = 40


def label_row(run: Run, step: int, index: int) -> LabelRow:
    """The row of labels of a rollout."""
    entries = run.labels.entries
    try:
        names = label_names(run.info)
    except ChoiceError as error:
        st.warning(plain(error, 300), icon=":material/label_off:")
        names = packaged_names()
    own = labels_at(run, step, index)
    authors = dict.fromkeys(entry.author for entry in entries)
    return LabelRow(
        names,
        usual_author(),
        own,
        undoable=[name for name in authors if last_of(entries, name) is not None],
        is_sample=bool(own.samples),
        received=[*st.session_state.get(_RECEIVED, [])],
    )


def write(run: Run, sent: Mapping[str, Any]) -> bool:
    """Writes what the browser sent, which may be anything; whether the labels are others now."""
    received: list[str] = st.session_state.setdefault(_RECEIVED, [])
    entries: Any = sent.get("entries")
    new = [
        entry
        for entry in (entries if isinstance(entries, list) else [])
        if isinstance(entry, dict) and entry.get("id") not in received
    ]
    for entry in new[:_MOST_AT_ONCE]:
        received.append(str(entry.get("id"))[:_LONGEST_ID])
        try:
            _write(run, entry)
        except BoardError as error:
            st.toast(plain(error, 300), icon=":material/error:")
    del received[:-_MOST_RECEIVED]
    return bool(new)


def _write(run: Run, sent: Mapping[str, Any]) -> None:
    author = _text(sent, "author", _LONGEST_AUTHOR).strip() or usual_author()
    kind = sent.get("kind")
    if kind == "undo":
        undo_last(run, author)
        return
    step, index = _number(sent, "step"), _number(sent, "index")
    if kind not in ("note", "label", "span"):
        raise ChoiceError("the kind is none of note, label, span and undo")
    value = _text(sent, "value", LONGEST_NOTE if kind == "note" else _LONGEST_LABEL)
    tokens = (_number(sent, "first"), _number(sent, "last")) if kind == "span" else (-1, -1)
    set_label(run, author, step, index, kind, value, tokens=tokens)


def _text(sent: Mapping[str, Any], name: str, longest: int) -> str:
    value = sent.get(name)
    if not isinstance(value, str) or len(value) > longest:
        raise ChoiceError(f"the {name} is no text of at most {longest:,} characters")
    return value


def _number(sent: Mapping[str, Any], name: str) -> int:
    value = sent.get(name)
    if type(value) is not int or not 0 <= value < 2**62:
        raise ChoiceError(f"the {name} is no number")
    return value
