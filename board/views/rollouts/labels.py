"""Labels of the open rollout: what the reader shows of them, and what the browser sends back."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from typing import Any, Final

import streamlit as st

from board.components.reader.frame import LabelRow
from board.core.labels.entries import LONGEST_NOTE, last_of
from board.core.labels.names import packaged_names
from board.errors import BoardError, ChoiceError, NotFoundError
from board.index.label_files import label_names
from board.query.labels.matching import (
    labels_at,
    set_label,
    undo_last,
    usual_author,
    with_labels,
)
from board.query.open_run import Run
from board.views.frame import sidebar
from board.views.shared import opened_runs, run_options, state
from board.views.shared.text import plain

_LONGEST_AUTHOR: Final = 40
_LONGEST_LABEL: Final = 40
_RECEIVED: Final = "_received_labels"
"""Session key: of what the browser sent last, which it sends until it sees the ids, the id and why it
could not be stored, "" for what was."""
_ORDER: Final = "_labels_order"
"""Session key: of the lock of whoever stores labels."""
_NEW_SESSION: Final = threading.Lock()
_MOST_RECEIVED: Final = 500
_MOST_AT_ONCE: Final = 100
_ID: Final = re.compile("[0-9a-f]{16}")


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
        run=run.info.name,
        root=str(state.get("root")),
        received=received_ids(),
    )


def received_ids() -> list[str]:
    """Ids of what the browser sent last, stored or refused."""
    return [*st.session_state.get(_RECEIVED, {})]


def answered() -> dict[str, str]:
    """These ids, each with why it could not be stored, "" where it was."""
    return dict(st.session_state.get(_RECEIVED, {}))


def receive(sent: Any) -> None:
    """Stores labels that the browser sent, which may be anything, before the page is drawn again. Each is
    stored once, however often it is sent, and in the order in which they were given: what is undone is
    the last one. So a run of the script waits for the one before it, which may still store one.
    """
    with _NEW_SESSION:
        order: threading.Lock = st.session_state.setdefault(_ORDER, threading.Lock())
    with order:
        _store(sent)


def _store(sent: Any) -> None:
    received: dict[str, str] = st.session_state.setdefault(_RECEIVED, {})
    for entry in (sent if isinstance(sent, list) else [])[:_MOST_AT_ONCE]:
        if not isinstance(entry, Mapping) or not _ID.fullmatch(str(entry.get("id"))):
            continue
        if entry["id"] not in received:
            received[entry["id"]] = ""
            try:
                _write(entry)
            except BoardError as error:
                received[entry["id"]] = str(error)[:300]
            except BaseException:  # the run was ended before the label was stored
                del received[entry["id"]]
                raise
    for name in [*received][:-_MOST_RECEIVED]:
        del received[name]


def _write(sent: Mapping[str, Any]) -> None:
    """Raises BoardError where it can't be stored."""
    kind, name = sent.get("kind"), str(sent["id"])
    if kind not in ("note", "label", "span", "undo"):
        raise ChoiceError("the kind is none of note, label, span and undo")
    run = _run_of(sent)
    if any(entry.id == name for entry in run.labels.entries):
        return  # by a page that was loaded again before it heard of it
    author = _text(sent, "author", _LONGEST_AUTHOR).strip() or usual_author()
    if kind == "undo":
        undo_last(run, author, entry_id=name)
        return
    step, index = _number(sent, "step"), _number(sent, "index")
    value = _text(sent, "value", LONGEST_NOTE if kind == "note" else _LONGEST_LABEL)
    if kind == "label" and labels_at(run, step, index).label_of(author) == value:
        value = ""  # the same label again removes it
    tokens = (_number(sent, "first"), _number(sent, "last")) if kind == "span" else (-1, -1)
    set_label(run, author, step, index, kind, value, tokens=tokens, entry_id=name)


def _run_of(sent: Mapping[str, Any]) -> Run:
    """The run that the labels are of, with those that its file has now; it may not be open any more."""
    name = sent.get("run")
    folder = opened_runs.discovered(sidebar.root_of(str(sent.get("root") or "")))
    info = next((info for info in folder.runs if info.name == name), None)
    if info is None:
        raise NotFoundError("the run of the label is not in this folder any more")
    return with_labels(opened_runs.opened(info, run_options.read_options()))


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
