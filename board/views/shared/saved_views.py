"""Saved views: filter, columns and order of a page under a name, for everybody who opens the folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, urlencode

import streamlit as st

from board.errors import ChoiceError
from board.index.discovery.run_info import RunInfo
from board.index.saved_views import LONGEST_NAME, read_views, tidied, write_views
from board.views.shared import state
from board.views.shared.text import one_line, plain

_RUNS: Final = tuple(name for name in state.CHOICES if name.startswith("runs_"))
CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "rollouts": (
        *("rollouts_scope", "rollouts_columns", "where", "q", "finish", "group", "range"),
        *("env", "split", "sort", "desc"),
    ),
    "runs": tuple(name for name in _RUNS if name != "runs_ticked"),
}
"""What a view of a page holds, by the page."""
_STARTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "rollouts": {"rollouts_view": "list", "page": 0, **state.NO_ROLLOUT},
    "runs": {},
}
"""Where a view begins, which is not of it."""
_NAME: Final = "_view_name"
_RENAMED: Final = "_view_renamed"
_NEW_NAME: Final = "_view_new_name"
_ERROR: Final = "_view_error"
_DELETED: Final = "_view_deleted"
_LONGEST_HELP: Final = 300


class _Page(NamedTuple):
    info: RunInfo
    page: str


def offer(page: str, info: RunInfo) -> None:
    """A button with the saved views of a page, to be chosen, renamed and deleted; and to save another.

    info: of a run of the folder whose views they are.
    """
    with st.popover(
        "Views", icon=":material/bookmark:", key=f"views_{page}", on_change="rerun"
    ) as at:
        if not at.open:
            for key in (_RENAMED, _ERROR, _DELETED):
                st.session_state.pop(key, None)
            return
        _show(_Page(info, page))


def query_of(page: str) -> str:
    """What is chosen now on a page, as a view has it."""
    chosen = state.encoded()
    return urlencode({name: chosen[name] for name in CHOICES[page] if name in chosen})


def changes_of(page: str, query: str) -> tuple[dict[str, Any], list[str]]:
    """The choices that a view makes, those that it does not name as they are by default; and the names of
    those that can't be read.
    """
    changes: dict[str, Any] = {name: state.CHOICES[name].default for name in CHOICES[page]}
    unread: list[str] = []
    for name, text in parse_qsl(query, keep_blank_values=True):
        try:
            if name in changes:
                changes[name] = state.CHOICES[name].parse(text)
                continue
        except ValueError:
            pass
        unread.append(name)
    return {**changes, **_STARTS[page]}, unread


def _show(at: _Page) -> None:
    views, now = read_views(at.info.root, at.page), query_of(at.page)
    if error := st.session_state.get(_ERROR):
        st.error(plain(error, 300), icon=":material/error:")
    if deleted := st.session_state.get(_DELETED):
        with st.container(horizontal=True, vertical_alignment="center"):
            st.caption(f"Deleted {plain(deleted[0])}.", width="stretch")
            st.button("Undo", key="_view_undo", on_click=_undo, args=(at, *deleted))
    for place, (name, query) in enumerate(views.items()):
        if st.session_state.get(_RENAMED) == name:
            _rename_field(at, name, query)
        else:
            _show_view(at, place, name, query, is_now=query == now)
    if not views:
        st.caption("No view is saved yet.")
    with (
        st.form("_view_form", border=False),
        st.container(horizontal=True, vertical_alignment="bottom"),
    ):
        # Without a limit and a placeholder: the hint that Enter saves lies over them.
        st.text_input("Save what is shown now as", key=_NAME)
        st.form_submit_button("Save view", on_click=_save, args=(at, now))
    st.caption("Filter, columns and order, for everybody who opens this folder.")


def _show_view(at: _Page, place: int, name: str, query: str, *, is_now: bool) -> None:
    changes, unread = changes_of(at.page, query)
    about = "; ".join(f"{key} = {text}" for key, text in parse_qsl(query)) or "as the page begins"
    if unread:
        about = f"{about}. Left out, as this version can't read it: {', '.join(unread)}"
    row = st.container(horizontal=True, vertical_alignment="center", gap="xsmall")
    with row:
        # A link to the page that is open would leave the browser's address as it was.
        is_chosen = st.button(
            plain(name),
            key=f"_view_open_{place}",
            icon=":material/check:" if is_now else ":material/bookmark:",
            help=plain(one_line(about, _LONGEST_HELP), 2 * _LONGEST_HELP),
            width="stretch",
            type="tertiary",
        )
        look: dict[str, Any] = {"type": "tertiary", "width": "content"}
        st.button(
            "",
            key=f"_view_rename_{place}",
            icon=":material/edit:",
            help=f"Rename {plain(name)}",
            on_click=_begin_to_rename,
            args=(name,),
            **look,
        )
        st.button(
            "",
            key=f"_view_delete_{place}",
            icon=":material/delete:",
            help=f"Delete {plain(name)}",
            on_click=_delete,
            args=(at, name, query),
            **look,
        )
    if is_chosen:
        state.go(at.page, **changes)


def _rename_field(at: _Page, name: str, query: str) -> None:
    st.text_input(
        "New name",
        value=name,
        key=_NEW_NAME,
        max_chars=LONGEST_NAME,
        on_change=_rename,
        args=(at, name, query),
    )


def _begin_to_rename(name: str) -> None:
    st.session_state[_RENAMED] = name
    st.session_state.pop(_NEW_NAME, None)


def _rename(at: _Page, name: str, query: str) -> None:
    new = tidied(str(st.session_state.get(_NEW_NAME) or ""))
    st.session_state.pop(_RENAMED, None)
    if new not in ("", name):
        _write(at, {name: None, new: query}, new=new)


def _delete(at: _Page, name: str, query: str) -> None:
    if _write(at, {name: None}):
        st.session_state[_DELETED] = (name, query)


def _undo(at: _Page, name: str, query: str) -> None:
    _write(at, {name: query})


def _save(at: _Page, query: str) -> None:
    if _write(at, {tidied(str(st.session_state.get(_NAME) or "")): query}):
        st.session_state[_NAME] = ""


def _write(at: _Page, changes: Mapping[str, str | None], *, new: str = "") -> bool:
    """Whether the views were changed; why not is said in the list."""
    st.session_state.pop(_DELETED, None)
    st.session_state.pop(_ERROR, None)
    try:
        write_views(at.info.root, at.page, changes, new=new)
    except ChoiceError as error:
        st.session_state[_ERROR] = str(error)
        return False
    return True
