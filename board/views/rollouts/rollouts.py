"""Rollouts: the list of a step or of the whole run, and beside it the rollout that is open."""

from __future__ import annotations

from typing import Final

import streamlit as st

from board.query.open_run import Run
from board.views.frame import sidebar
from board.views.rollouts import (
    export_files,
    filter_field,
    list_columns,
    next_rollout,
    reader,
    rollout_charts,
    rollout_list,
    words,
)
from board.views.rollouts.rollout_list import Address, Listed
from board.views.shared import page_parts, part_of_run, state, table_headings

_VIEWS: Final = {"list": "List", "words": "Words over the run"}
_SCOPES: Final = {"step": "This step", "last": "Last 10 steps", "run": "Whole run"}
# The list is as wide as its script says, the reader has the rest; closed, the list has the page.
_BESIDE: Final = """<style>
.st-key-rollouts_work { flex-wrap: nowrap; align-items: flex-start; gap: 12px; }
.st-key-rollouts_work > :has(> .st-key-rollouts_list) {
  flex: 0 0 var(--rollout-list-width, 292px);
  width: auto;
  min-width: 0;
}
[data-rollout-list="hidden"] .st-key-rollouts_work > :has(> .st-key-rollouts_list) {
  flex-basis: 30px;
}
.st-key-rollouts_work > :has(> .st-key-rollouts_reader) { flex: 1 1 0; min-width: 0; }
</style>"""
_ALONE: Final = "<style>.st-key-rollouts_list { flex: 1 1 auto; min-width: 0; }</style>"


def _choose_view() -> str:
    """The list, or the search for words over the run."""
    st.segmented_control(
        "Show",
        list(_VIEWS),
        key="view",
        required=True,
        format_func=_VIEWS.__getitem__,
        label_visibility="collapsed",
        persist_state="session",
    )
    return str(state.get("view"))


def _choose_scope() -> None:
    st.segmented_control(
        "Rollouts of",
        list(_SCOPES),
        key="scope",
        required=True,
        format_func=_SCOPES.__getitem__,
        label_visibility="collapsed",
        on_change=state.put,
        kwargs={"page": 0},
        persist_state="session",
    )


def _columns(run: Run) -> None:
    offered = [c for c in run.columns if c not in list_columns.HIDDEN]
    state.keep("cols", offered)
    with st.popover("Columns", icon=":material/view_column:"):
        st.multiselect(
            "Columns shown",
            offered,
            key="cols",
            format_func=table_headings.heading,
            placeholder="the usual ones",
            help="Empty: the usual columns, as many as fit.",
            persist_state="session",
        )


def _opened(run: Run, listed: Listed) -> Address | None:
    """The open rollout; after a change of the step the first one of the list there."""
    if part_of_run.opens_first() and len(listed):
        step = int(state.get("step"))
        addresses = rollout_list.page_of(run, listed).addresses
        first = next((one.index for one in addresses if one.step == step), None)
        state.put(index=first)
    at = rollout_list.opened()
    if at is None or 0 <= at.index < sidebar.whole().counts.get(at.step, 0):
        return at
    state.ensure("index", [None], None)
    return None


def _work(run: Run, listed: Listed) -> None:
    at = _opened(run, listed)
    st.html(_ALONE if at is None else _BESIDE)
    with st.container(key="rollouts_work", horizontal=True):
        with st.container(key="rollouts_list"):
            page = rollout_list.page_of(run, listed)
            if len(listed):
                rollout_list.show(run, page, prefix=next_rollout.prefix(run))
            else:
                _nothing_listed()
        if at is not None:
            with st.container(key="rollouts_reader"):
                reader.show(run, at.step, at.index)
    if at is None:
        rollout_charts.show(run, listed)
    else:
        next_rollout.send(run, page, at)


def _nothing_listed() -> None:
    st.info("No rollout passes the filter.", icon=":material/filter_alt_off:")
    st.button("Clear the filter", on_click=filter_field.clear)


def _render() -> None:
    title = page_parts.header(sidebar.current())
    with title:
        st.space("stretch")
        view = _choose_view()
    if view == "words":
        words.show(sidebar.narrowed())
        return
    run = sidebar.current()
    with title:
        _choose_scope()
        _columns(run)
        export = st.container(width="content")
    listed = rollout_list.listed(run)
    with export:
        export_files.show(run, listed)
    _work(run, listed)


_render()
