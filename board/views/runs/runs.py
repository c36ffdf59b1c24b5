"""Runs: all runs of the folder in one table, to be sorted, searched, ticked, compared and opened."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import streamlit as st

from board.analysis.reviewed_findings import read_reviewed
from board.analysis.run_summary import MOST_SETTINGS, RunSummary
from board.charts.palette import category, colour
from board.components.run_table import (
    MOST_TICKED,
    Asked,
    RunColumn,
    RunRow,
    TableContent,
    run_filters,
    run_table,
)
from board.core.run_differences import differences
from board.export.file_names import FileOf
from board.export.run_pages import runs_page
from board.index.discovery.discovered_runs import RunInfo
from board.index.summary_cache import SummaryCache
from board.query.open_run import OpenOptions, reader_titles
from board.views.frame import sidebar
from board.views.runs import notes
from board.views.runs.columns import Columns, choose_columns, prominence, short_names
from board.views.runs.exported import exported_table
from board.views.runs.filters import example, filter_groups, passing, search
from board.views.runs.folding import folded, together
from board.views.runs.rows import row_of
from board.views.runs.same_everywhere import shared_settings, without_equal
from board.views.runs.summaries import MADE_BY, MOST_BEHIND_SECONDS, Known, RunSummaries
from board.views.shared import (
    cache,
    opened_runs,
    page_export,
    page_parts,
    run_options,
    saved_views,
    state,
    step_choice,
)
from board.views.shared.text import ago, counted, distinct_options, one_line, plain, size

# Between looks for new and grown runs: while summaries are made, a run is live, and else.
_MOST_LEFT_OUT: Final = 3  # files and folders that are named; `rollout-board check` names all
_FILLING_SECONDS: Final = 1.5
_LIVE_SECONDS: Final = 5.0
_QUIET_SECONDS: Final = 15.0
_BEHIND: Final = (
    f"A run whose log grew is read again after 5 to {MOST_BEHIND_SECONDS:g} s, the later the longer that "
    "takes; meanwhile the table has the numbers of before. A page of the run itself has those of now."
)
_VERSION: Final = "_runs_version"
_MOST_DIFFERENCES: Final = 4


class _Table(NamedTuple):
    """All runs with their rows, in the order of discovery; summaries: None where there is none yet.

    equal: in words what all runs have in common, of columns that are left out for it and of settings.
    """

    infos: Sequence[RunInfo]
    rows: Sequence[RunRow]
    summaries: Sequence[RunSummary | None]
    columns: Columns
    equal: Sequence[str]


@st.cache_resource(max_entries=8, show_spinner=False, hash_funcs={OpenOptions: repr})
def _store(root: str, options: OpenOptions) -> RunSummaries:
    """The summaries of the runs of a folder. root: only tells folders apart."""
    named = os.environ.get("ROLLOUT_BOARD_THRESHOLDS")
    return RunSummaries(options, Path(named) if named else None, SummaryCache(MADE_BY))


def _table(infos: Sequence[RunInfo], store: RunSummaries) -> _Table:
    known = [_known(info, store) for info in infos]
    summaries = [None if one is None else one.summary for one in known]
    wanted, sort = state.get("runs_columns"), str(state.get("runs_sort"))
    columns = choose_columns(
        [one.settings for one in summaries if one is not None],
        {reader_titles(info) for info in infos},
        wanted,
        sort,
        dark=page_parts.dark(),
    )
    now = time.time()
    rows = [
        row_of(info, one, store, columns.settings, now)
        for info, one in zip(infos, known, strict=True)
    ]
    columns, equal = without_equal(columns, rows, wanted, sort)
    rows = notes.with_notes(infos, rows)
    return _Table(infos, rows, summaries, columns, [*equal, *shared_settings(summaries)])


def _known(info: RunInfo, store: RunSummaries) -> Known | None:
    """What is known of a run, without its muted findings."""
    known = store.known(info)
    if known is None or known.summary is None or not known.summary.findings:
        return known
    muted = read_reviewed(info).muted
    return replace(known, summary=known.summary.without(muted)) if muted else known


def _choose_columns(table: _Table) -> None:
    columns = table.columns.by_id
    names = [name for name in columns if name != "name"]
    # Settings that nobody records any more stay chosen until the others are read.
    absent = [name for name in state.get("runs_columns") if name not in names]
    with st.popover("Columns", icon=":material/view_column:", key="runs_menu"):
        st.multiselect(
            "Columns",
            [*names, *absent],
            **state.bound("runs_columns"),
            placeholder="the usual ones, and settings that differ",
            width=360,
            format_func=distinct_options(
                [*names, *absent],
                lambda name: columns[name].label if name in columns else name,
            ),
        )


def _choose_folding(table: _Table) -> None:
    """A switch, where there is something to fold."""
    if together(range(len(table.rows)), table.rows, table.summaries):
        st.toggle(
            "Fold seeds",
            **state.bound("runs_fold"),
            help="Runs whose settings are equal, but for the seed and the run's own name and folders, "
            "are one row: means over the runs, ± 95 % by Student's t from three runs on.",
        )


def _differ(table: _Table, ticked: Sequence[str]) -> str:
    """In which settings the ticked runs differ: words, and on a second line the names."""
    if len(ticked) < 2:
        return ""
    own = {
        info.name: summary
        for info, summary in zip(table.infos, table.summaries, strict=True)
        if info.name in ticked and summary is not None
    }
    if len(own) < len(ticked):
        return f"settings of {counted(len(ticked) - len(own), 'run')} not read\n"
    settings = {name: summary.settings for name, summary in own.items()}
    if without := sum(not recorded for recorded in settings.values()):
        return f"settings of {counted(without, 'run')} not recorded\n"
    differing = differences(settings)
    paths = [path for path, values in differing.items() if len(values) == len(own)]
    if not paths and any(summary.has_more_settings for summary in own.values()):
        return f"none of the first {MOST_SETTINGS} settings differs; Compare reads all\n"
    if not paths:
        return (
            "other settings are recorded of each\n"
            if differing
            else "no recorded setting differs\n"
        )
    names = [*short_names(sorted(paths, key=prominence)).values()]
    more = f" and {len(names) - _MOST_DIFFERENCES} more" if len(names) > _MOST_DIFFERENCES else ""
    return f"differ in\n{one_line(', '.join(names[:_MOST_DIFFERENCES]) + more, 200)}"


def _found(table: _Table) -> tuple[Sequence[int], str]:
    """The places of the rows that are found and pass the filters; why a search can't be understood."""
    text = str(state.get("runs_search"))
    matches = search(table.rows, table.summaries, text, table.columns.by_id)
    return passing(matches.places, table.rows, table.summaries), matches.refused


def _drawn(table: _Table) -> Sequence[RunColumn]:
    return [table.columns.by_id[name] for name in table.columns.visible]


def _show(table: _Table, visible: Sequence[int], refused: str) -> Asked | None:
    """Draws the rows of these places. refused: why a search can't be understood."""
    sort, columns = str(state.get("runs_sort")), table.columns
    ticked = state.keep("runs_ticked", {info.name for info in table.infos})[:MOST_TICKED]
    is_folded = bool(state.get("runs_fold"))
    drawn = _drawn(table)
    content = TableContent(
        columns=drawn,
        rows=table.rows,
        visible=visible,
        sort=sort if sort in columns.visible else "changed",
        descending=bool(state.get("runs_desc")),
        ticked=ticked,
        colours=[
            colour(category(place)[0], dark=page_parts.dark()) for place in range(MOST_TICKED)
        ],
        differ=_differ(table, ticked),
        search=str(state.get("runs_search")).strip(),
        example=example(drawn, table.summaries),
        refused=refused,
        parameters=[*state.CHOICES],
        groups=folded(visible, table.rows, table.summaries, columns.settings) if is_folded else (),
    )
    return run_table(content, key="run-table")


def _follow_asked(asked: Asked, infos: Sequence[RunInfo]) -> None:
    """Opens what was clicked, or compares what is ticked."""
    known = {info.name: info for info in infos}
    names = [name for name in asked.runs if name in known]
    if names and asked.page in ("overview", "findings"):
        _open(known[names[0]], asked.page)
    if len(names) > 1 and asked.page == "compare":
        others = {"compare_runs": names[1:], "compare_pair": [], "compare_shifts": {}}
        _open(known[names[0]], "compare", **others)


def _open(info: RunInfo, page: str, **changes: Any) -> None:
    """Opens a page on a run, at its newest step. A page that had to find the step itself would write it
    into the URL as one more entry of the browser's history, and Back would lead to the first.
    """
    run = opened_runs.opened(info, run_options.read_options())
    steps = [*(cache.of_split(run, "") or run).counts]
    step = steps[-1] if steps else None
    step_choice.lead_to_newest(info.name, step)
    state.go(page, run=info.name, step=step, split="", env=[], **state.NO_ROLLOUT, **changes)


def _link_pages(table: _Table) -> None:
    """Has the links to the other pages lead to the run that was open last, else to the newest."""
    places = {info.name: n for n, info in enumerate(table.infos)}
    n = places.get(str(state.get("run")), 0)
    summary, is_chosen = table.summaries[n], table.infos[n].name == state.get("run")
    step = state.get("step") if is_chosen else None
    if step is None and summary is not None and summary.window:
        step = summary.window[1]
        step_choice.lead_to_newest(table.infos[n].name, step)
    sidebar.link_pages(run=table.infos[n].name, step=step)


def _sidebar(table: _Table) -> None:
    with st.sidebar:
        names = [info.name for info in table.infos]
        name = st.selectbox(
            "Run",
            names,
            index=None,
            key="_run_to_open",
            placeholder="Open a run by name",
            format_func=distinct_options(names, limit=200),
        )
        run_filters(filter_groups(table.rows, table.summaries), [*state.CHOICES], key="run-filters")
        rollouts = sum(one.rollouts for one in table.summaries if one is not None)
        whole = size(sum(info.bytes for info in table.infos))
        newest = ago(max(time.time() - max(info.mtime for info in table.infos), 0.0))
        st.caption(
            f"{plain(whole)} · {counted(len(names), 'run')} · {counted(rollouts, 'rollout')}  \n"
            f"newest change {newest} ago"
        )
    if name is not None:
        _open(table.infos[names.index(name)], "overview")


def _watch(table: _Table, store: RunSummaries) -> None:
    """How far it has come, and the page again where something is new; asked every few seconds."""

    def look() -> None:
        runs = sidebar.discovered()
        store.follow(runs or table.infos)
        if runs != tuple(table.infos) or store.version != st.session_state.get(_VERSION):
            st.rerun()
        if waiting := store.waiting:
            done, total = len(runs) - waiting, len(runs)
            with st.container(horizontal=True, vertical_alignment="center", gap="small"):
                st.progress(done / total, width=110)
                st.caption(f"indexed {done:,} of {total:,}, newest first", width="content")
        elif live:
            behind = store.behind(live)
            words = (
                f"live numbers as of {ago(behind)} ago" if behind >= 1 else "live numbers as of now"
            )
            st.caption(words, width="content", help=_BEHIND)

    live = [info for info, row in zip(table.infos, table.rows, strict=True) if row.state == "live"]
    pause = _FILLING_SECONDS if store.waiting else _LIVE_SECONDS if live else _QUIET_SECONDS
    st.fragment(look, run_every=pause)()


def _render() -> None:
    infos = sidebar.neighbours()
    store = _store(sidebar.chosen_root(), run_options.read_options())
    store.follow(infos)
    st.session_state[_VERSION] = store.version
    table = _table(infos, store)
    _link_pages(table)
    _sidebar(table)
    visible, refused = _found(table)
    row = st.container(key="title", horizontal=True, vertical_alignment="center", gap="small")
    with row:
        count = (
            f"{len(infos):,}"
            if len(visible) == len(infos)
            else f"{len(visible):,} of {len(infos):,}"
        )
        st.subheader(f"Runs :gray[{count}]", anchor=False, width="content")
        st.space("stretch")
        with st.container(key="runs_progress", width="content"):
            _watch(table, store)
        _choose_folding(table)
        _choose_columns(table)
        notes.offer(infos)
        saved_views.offer("runs", infos[0])
        page_export.place()
    folder = sidebar.chosen_root().rstrip("/").rpartition("/")[2]
    behind = store.behind([infos[place] for place in visible])
    exported = exported_table(table.rows, visible, _drawn(table), behind)
    page_export.offer(FileOf(folder, "runs"), partial(runs_page, exported, folder))
    if table.equal:
        st.caption(plain(f"All runs: {' · '.join(table.equal)}", 400))
    asked = _show(table, visible, refused)
    if lost := sidebar.left_out():
        names = [f"{problem.path}: {problem.reason}" for problem in lost[:_MOST_LEFT_OUT]]
        more = [f"and {len(lost) - len(names):,} more"] if len(lost) > len(names) else []
        st.caption(plain(f"Left out: {'; '.join((*names, *more))}", 900))
    if asked:
        _follow_asked(asked, infos)


_render()
