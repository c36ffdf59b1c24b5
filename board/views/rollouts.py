"""Rollouts: the table of a step or of the whole run, filtered and sorted on the server."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import plotly.graph_objects as go
import streamlit as st

from board.charts import step_charts
from board.charts.layout import notes_of
from board.core.metrics import rollout_metric
from board.errors import BoardError
from board.store.expressed import rows_where
from board.store.run import Run
from board.store.steps import base_name
from board.store.table import Filter, meeting, places_by
from board.store.whole_run import FrameRows, Rows, prepare
from board.views import _cached, _headings, _page, _rollout_columns, _sidebar, _state
from board.views._own_curve import FORM
from board.views._text import harmless_cell, one_line, plain

# Rows sent to the browser, so that it stays fluid; sorting and filtering happen before the cut.
_SHOWN_ROWS: Final = 2000
_CUT: Final = 140
_MOST_GROUPS: Final = 2000
_HIDDEN: Final = frozenset({"file", "line", "offset", "size"})
_CHARTS: Final[Mapping[str, tuple[str, Callable[..., go.Figure | None]]]] = {
    "reward": ("Reward by rollout", step_charts.reward_by_rollout),
    "gap": ("Gap to the reference", step_charts.gap_to_reference),
    "distribution": ("Distribution of the reward", step_charts.reward_distribution),
}
# Key of the table that was last shown, and which rollouts stood in it.
_SEEN: Final = "_table_seen"


def _rows_in_scope(run: Run) -> Rows:
    if _state.get("scope") == "run":
        return _cached.whole_rows(run)
    return FrameRows(run.of_step(int(_state.get("step"))))


def _controls(run: Run, rows: Rows) -> None:
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        st.segmented_control(
            "Rollouts of",
            ["step", "run"],
            key="scope",
            required=True,
            format_func=lambda scope: {"step": "this step", "run": "whole run"}[scope],
            persist_state="session",
        )
        st.text_input(
            "Search prompt, response, ground truth",
            key="q",
            placeholder="any part of the whole text",
            icon=":material/search:",
            width=220,
            persist_state="session",
        )
        for key, column in (("finish", "finish_reason"), ("group", "group_id")):
            _category(run, rows, key, column)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        _sorting(run)
        _where_field()
        _range_filters(run)
        _columns(run)
    if _has_unlisted_groups(run):
        st.caption(
            f'Over {_MOST_GROUPS:,} groups: for one of them, type `group_id == "NAME"` as Filter.'
        )


def _category(run: Run, rows: Rows, key: str, column: str) -> None:
    if column == "group_id" and _has_unlisted_groups(run):
        values = sorted(_state.get(key))  # nobody finds one among so many, and each is to be sent
        least = 1
    else:
        recorded = rows[column].dropna().unique() if column in rows else []
        values = sorted(str(value) for value in recorded)
        least = 2
    _state.keep(key, values)
    if len(values) < least:
        return
    label = {"finish": "Finish reason", "group": "Group"}[key]
    st.multiselect(
        label,
        values,
        key=key,
        placeholder="all",
        width=150,
        format_func=one_line,
        persist_state="session",
    )


def _has_unlisted_groups(run: Run) -> bool:
    """Whether there are more groups in scope than are offered to choose from."""
    is_whole = _state.get("scope") == "run"
    return is_whole and "groups" in run.steps and run.steps["groups"].sum() > _MOST_GROUPS


def _sorting(run: Run) -> None:
    columns = [c for c in run.columns if c not in _HIDDEN and c not in ("prompt", "response")]
    _state.ensure("sort", columns, "index")
    st.selectbox(
        "Sort by",
        columns,
        key="sort",
        width=165,
        format_func=_headings.heading,
        help="Sorts all rollouts in scope, not only those in view.",
        persist_state="session",
    )
    st.toggle("Descending", key="desc", persist_state="session")


def _where_field() -> None:
    st.text_input(
        "Filter",
        key="where",
        placeholder="reward < 0.5 and k3_mean > 0.1",
        icon=":material/function:",
        width=250,
        help=plain(f"{FORM} Of prompt and response, the beginnings.", 600),
        persist_state="session",
    )


def _range_filters(run: Run) -> None:
    bounds: dict[str, tuple[float, float]] = {
        name: limits for name, limits in _state.get("range").items() if name in run.metrics
    }
    if len(bounds) != len(_state.get("range")):
        unknown = ", ".join(sorted(set(_state.get("range")) - set(bounds)))
        _state.notice(f"This run has no column {unknown}; that filter is left out.")
        _state.put(range=bounds)
    label = f"Ranges ({len(bounds)})" if bounds else "Ranges"
    with st.popover(label, icon=":material/filter_alt:"):
        names = st.multiselect(
            "Columns",
            run.metrics,
            default=list(bounds),
            key=f"ranges_{_state.pulls()}_{run.info.name}",
            format_func=_headings.heading,
        )
        chosen = {name: _range_of(run, name, bounds.get(name)) for name in names}
        if chosen != bounds:
            _state.put(range=chosen)
            st.rerun()


def _range_of(run: Run, name: str, limits: tuple[float, float] | None) -> tuple[float, float]:
    """Two number fields; empty is unbounded. Rollouts without a value pass no bound."""
    low, high = limits or (float("-inf"), float("inf"))
    stem = base_name(name)
    lowest, highest = run.steps[f"{stem}_q00"].min(), run.steps[f"{stem}_q100"].max()
    st.text(f"{rollout_metric(name).label}: {lowest:.4g} to {highest:.4g}")
    left, right = st.columns(2)
    place = f"{name}_{_state.pulls()}"
    below = left.number_input(
        "at least", value=None if low == float("-inf") else low, key=f"low_{place}", format="%g"
    )
    above = right.number_input(
        "at most", value=None if high == float("inf") else high, key=f"high_{place}", format="%g"
    )
    return (
        float("-inf") if below is None else float(below),
        float("inf") if above is None else float(above),
    )


def _columns(run: Run) -> None:
    with st.popover("Columns", icon=":material/view_column:"):
        offered = [c for c in run.columns if c not in _HIDDEN]
        _state.keep("cols", offered)
        st.multiselect(
            "Columns shown",
            offered,
            key="cols",
            format_func=_headings.heading,
            placeholder="the usual ones",
            help="Empty: of the usual ones those that have room beside each other.",
            persist_state="session",
        )


def _selected(run: Run, rows: Rows) -> npt.NDArray[np.bool_] | None:
    """[rows] which pass every filter; None: all of them."""
    found: list[npt.NDArray[np.bool_]] = []
    text = str(_state.get("q"))
    if text:
        step = None if _state.get("scope") == "run" else int(_state.get("step"))
        found.append(_cached.found(run, step, text).to_numpy(bool))
    where = str(_state.get("where")).strip()
    if where:
        found.append(rows_where(rows, where))
    one_of = {
        column: tuple(_state.get(key))
        for key, column in (("env", "env"), ("finish", "finish_reason"), ("group", "group_id"))
        if column in rows and _state.get(key)
    }
    if one_of or _state.get("range"):
        found.append(meeting(rows, Filter(one_of=one_of, bounds=_state.get("range"))))
    return np.logical_and.reduce(found) if found else None


def _places(
    rows: Rows, selected: npt.NDArray[np.bool_] | None, limit: int | None = None
) -> npt.NDArray[np.intp]:
    """The places of the selected rows in the chosen order."""
    descending = bool(_state.get("desc"))
    return places_by(rows, _state.get("sort"), selected, descending=descending, limit=limit)


def _table(run: Run, rows: Rows, selected: npt.NDArray[np.bool_] | None) -> None:
    columns = _rollout_columns.shown_columns(run)
    names = list(dict.fromkeys(("step", "index", *columns)))
    view = rows.at(_places(rows, selected, _SHOWN_ROWS), names)
    key = f"table_{_table_identity(run, columns)}"
    seen = st.session_state.get(_SEEN)
    st.session_state[_SEEN] = (key, view[["step", "index"]])
    frame = view[columns].copy()
    for name in _rollout_columns.TEXTS:
        if name in frame:
            frame[name] = frame[name].str.slice(0, _CUT)
    event: Any = st.dataframe(
        frame,
        key=key,
        height=min(36 * (len(frame) + 1) + 3, 420),
        hide_index=True,
        on_select="rerun",
        selection_mode="single-cell",
        row_height=36,
        placeholder="–",
        column_config=_rollout_columns.configured(run, view, columns),
    )
    cells = event.selection.cells
    if cells:
        # The click was on the table as it was before the run grew.
        clicked = seen[1] if seen is not None and seen[0] == key else view
        row = clicked.iloc[int(cells[0][0])]
        _state.go("rollout", step=int(row["step"]), index=int(row["index"]), token=None, zoom=None)


def _table_identity(run: Run, columns: list[str]) -> str:
    """Another set of rows is another table to Streamlit; one that only grew keeps its scroll."""
    chosen = [str(run.info.path), run.info.name, columns]
    chosen += [_state.get(key) for key in ("step", "scope", "q", "where", "sort", "desc", "range")]
    chosen += [
        _state.get(key) for key in ("split", "env", "finish", "group", "cap", "pads", "sysend")
    ]
    return hashlib.blake2b(repr(chosen).encode(), digest_size=8).hexdigest()


def _below_table(run: Run, rows: Rows, selected: npt.NDArray[np.bool_] | None) -> None:
    count = len(rows) if selected is None else int(selected.sum())
    cut = f", the first {_SHOWN_ROWS:,} shown" if count > _SHOWN_ROWS else ""
    where = "in the run" if _state.get("scope") == "run" else f"at step {_state.get('step')}"
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.caption(
            f"{count:,} of {len(rows):,} rollouts {where}{cut} · click a row to open the rollout"
        )
        st.space("stretch")
        st.download_button(
            "CSV",
            data=lambda: _csv(run, rows, _places(rows, selected)),
            file_name="rollouts.csv",
            mime="text/csv",
            icon=":material/download:",
            on_click="ignore",
            help="All rollouts that pass the filters, all columns.",
        )


def _csv(run: Run, rows: Rows, places: npt.NDArray[np.intp]) -> bytes:
    columns = [c for c in run.columns if c not in ("offset", "size", "file")]
    frame = rows.at(places, columns)
    return frame.map(harmless_cell).rename(columns=harmless_cell).to_csv(index=False).encode()


def _charts(run: Run) -> None:
    """One chart of the step at a time: each costs the browser a fifth of a second at a step change."""
    rows = run.of_step(int(_state.get("step")))
    offered = [name for name in _CHARTS if name != "gap" or "reward_gap" in rows]
    if "reward" not in rows or rows["reward"].isna().all():
        st.caption("No reward is recorded at this step, so there is nothing to draw of it.")
        return
    _state.ensure("chart", offered, offered[0])
    with st.container(border=True):
        st.segmented_control(
            "Rollouts of this step",
            offered,
            key="chart",
            required=True,
            format_func=lambda name: _CHARTS[name][0],
            label_visibility="collapsed",
            persist_state="session",
        )
        title, draw = _CHARTS[_state.get("chart")]
        figure = draw(rows, dark=_page.dark())
        if figure is None:
            st.caption(f"{title}: nothing of it is recorded at this step.")
            return
        _page.clickable(figure, key=f"step_{title}", field="customdata", on_pick=_open_rollout)
        for note in notes_of(figure):
            st.caption(plain(note))


def _open_rollout(index: int) -> None:
    _state.go("rollout", index=index, token=None, zoom=None)


def _render() -> None:
    run = _sidebar.current()
    _page.header(run)
    scope = _rows_in_scope(run)
    _controls(run, scope)
    try:
        selected = _selected(run, scope)
    except BoardError as error:
        st.error(plain(error, 400))
        return
    if len(scope) == 0 or (selected is not None and not selected.any()):
        st.info("No rollout passes the search and the filters.", icon=":material/filter_alt_off:")
        st.button("Clear search and filters", on_click=_clear)
    else:
        _table(run, scope, selected)
    _below_table(run, scope, selected)
    _charts(run)
    if _state.get("scope") == "step":
        prepare(run)  # of "whole run" the order of the rollouts is what takes longest


def _clear() -> None:
    _state.forget("q", "where", "env", "finish", "group", "range")


_render()
