"""What is chosen on every page: the run, the step, the part of the run, and the folder of logs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import streamlit as st

from board.core.problems import Problem, count_of
from board.errors import BoardError, NotFoundError
from board.index.discovery import discovered_runs
from board.index.discovery.discovered_runs import Discovery, Location, RunInfo
from board.index.discovery.run_info import JOINED
from board.index.dropped_files import is_dropped
from board.query import rollouts, splits
from board.query.open_run import Run
from board.query.outlines import is_outline
from board.views.frame import dropped_files, live
from board.views.shared import cache, opened_runs, run_options, state, step_choice
from board.views.shared.text import counted, distinct_options, plain, size

BUNDLED: Final = Path(__file__).parents[3] / "rollout_samples"
_RUN: Final = "_run"
_RUNS: Final = "_runs"
_LINKED: Final = "_linked_pages"
_MOST_EVALUATIONS: Final = 3
"""Splits that are drawn with training's: more points can't be told apart."""
_MOST_RANKS: Final = 3


def start_root() -> Location:
    """The folder the server was started on; it never shows anything outside of it."""
    return discovered_runs.location_of(os.environ.get("ROLLOUT_BOARD_ROOT") or str(BUNDLED))


def whole() -> Run:
    """The run that was opened for this run of the script, with the rollouts of all splits."""
    return st.session_state[_RUN]


def current() -> Run:
    """That run with the rollouts of the chosen split alone: training's unless told otherwise."""
    return cache.of_split(whole(), str(state.get("split"))) or whole()


def narrowed() -> Run:
    """The current run with the rollouts of the chosen environments alone, on pages of means."""
    return cache.of_environments(current(), tuple(state.get("env")))


def evaluations() -> tuple[Run, ...]:
    """Where training's split is shown, the others that are drawn with it, of the chosen environments."""
    first, *others = cache.split_counts(whole()) or [""]
    if not others or state.get("split") or not splits.is_training(first):
        return ()
    envs = tuple(state.get("env"))
    names = map(splits.written, others[:_MOST_EVALUATIONS])
    of_names = (cache.of_split(whole(), name) for name in names)
    runs = (cache.of_environments(run, envs) for run in of_names if run is not None)
    return tuple(run for run in runs if run.whole is not None and run.rollout_count)


def neighbours() -> tuple[RunInfo, ...]:
    """All runs of the chosen folder, the current one among them."""
    return tuple(st.session_state[_RUNS])


def link_pages(**place: Any) -> None:
    """Where the links to pages lead that are of one run, from a page that is of all of them."""
    st.session_state[_LINKED] = place


def linked() -> Mapping[str, Any]:
    """The place of the last call of link_pages, while its run is there."""
    place = st.session_state.get(_LINKED, {})
    return place if any(info.name == place.get("run") for info in neighbours()) else {}


def left_out() -> tuple[Problem, ...]:
    """Return what of the chosen folder can not be read, with the reason; nothing without a folder."""
    try:
        problems = opened_runs.discovered(chosen_root()).left_out
    except BoardError:
        return ()
    return tuple(problem for problem in problems if problem.severity == "lost")


def discovered() -> tuple[RunInfo, ...]:
    """The runs of the chosen folder as they are now; none where it can't be listed."""
    try:
        return opened_runs.discovered(chosen_root()).runs
    except BoardError:
        return ()


def find_runs() -> Discovery | None:
    """Draws the head of the sidebar and finds the runs. None when there is nothing to show a page of."""
    st.session_state[_RUNS] = ()
    with st.sidebar:
        st.markdown("### :material/stacked_line_chart: Rollout Board")
    try:
        folder = opened_runs.discovered(chosen_root())
    except BoardError as error:
        is_start = not state.get("root") and isinstance(start_root(), Path)
        if isinstance(error, NotFoundError) and is_start:
            live.wait_for_first_file(start_root(), is_missing=True)
            return None
        st.error(plain(error, 600), icon=":material/folder_off:")
        words = "Choose another folder in the sidebar, or leave the field empty to return"
        st.caption(f"{words} to the first one.")
        return None
    if not folder.runs:
        live.wait_for_first_file(folder.root, folder.left_out)
        return None
    st.session_state[_RUNS] = folder.runs
    return folder


def open_run(folder: Discovery) -> bool:
    """Draws the rest of the sidebar and opens the chosen run. False when it has nothing to show yet."""
    root = chosen_root()
    info = _choose_run(folder)
    _choose_source(folder, info)
    options = run_options.read_options()
    run = st.session_state[_RUN] = opened_runs.opened(info, options)
    is_building = opened_runs.is_building(info, options)
    if is_building:
        live.watch_building(info, options)
    if is_outline(run):
        live.say_progress(opened_runs.read_so_far(run))
    # While an index is made there are rollouts before there are means of a step.
    if run.rollout_count == 0 or not len(run.counts):
        if is_building:
            read = f"{plain(size(run.done))} of {plain(size(info.bytes))}"
            text = f"Reading {plain(info.name)}: {read}. It is shown as far as it was read."
            st.progress(run.done / info.bytes, text=text)
        else:
            live.wait_for_first_rollout(info, root, run.problems)
        return False
    with st.sidebar:
        live.toggle(run, root)
        steps = st.container()
        run_options.choose_split(run)
        with steps:
            step_choice.choose(current())
        run_options.choose_environments(current())
        _summary(run)
    return True


def choose_folder() -> None:
    """Fields for another folder of logs, and for files, at the end of the sidebar."""
    icon = ":material/folder_open:"
    with st.sidebar, st.popover("Open a folder or files", icon=icon, type="tertiary"):
        st.text_input(
            "Log folder",
            **state.bound("root"),
            placeholder=str(start_root()),
            help="A folder of runs inside the folder that the server was started on.",
        )
        dropped_files.choose_files()


def chosen_root() -> str:
    """The folder whose runs are shown. Raises BoardError."""
    return root_of(str(state.get("root")))


def root_of(text: str) -> str:
    """The folder that a text names as the choice of the root does. Raises BoardError."""
    root, wanted = start_root(), text.strip()
    if not wanted:
        return str(root)
    if os.environ.get("ROLLOUT_BOARD_ALLOW_ANY_PATH") == "1":
        return str(discovered_runs.location_below(root, wanted))
    if is_dropped(wanted):
        return wanted
    return str(discovered_runs.resolve_inside(root, wanted))


def _choose_run(folder: Discovery) -> RunInfo:
    by_name = {run.name: run for run in folder.runs}
    names = [*by_name]
    state.ensure("run", names, names[0])
    with st.sidebar:
        name = st.selectbox(
            "Run :gray[:small[· type to search]]" if len(names) > 1 else "Run",
            names,
            **state.bound("run"),
            format_func=distinct_options(names, limit=200),
            on_change=step_choice.first_rollout,
        )
    return by_name[name or names[0]]


def _choose_source(folder: Discovery, info: RunInfo) -> None:
    """Which of several logs of one folder is shown: all of them joined, or one alone."""
    runs = {run.source: run for run in folder.runs if run.path == info.path and not run.only}
    if len(runs) < 2:
        return
    # Not a choice of its own: it is the run that is chosen, whichever way.
    key = f"_source_{info.name}"
    labels = distinct_options(runs, lambda source: runs[source].label)

    def choose() -> None:
        source = st.session_state[key]
        if source is not None:
            state.put(run=runs[source].name)
            step_choice.first_rollout()

    with st.sidebar:
        st.segmented_control(
            "Source",
            sorted(runs, key=lambda source: (source != JOINED, source)),
            default=info.source,
            key=key,
            required=True,
            format_func=lambda source: plain(labels(source)),
            help="The folder holds logs of several formats. Joined: one rollout with what all of them "
            "say of it; the others: one log alone.",
            on_change=choose,
        )


def _summary(run: Run) -> None:
    """The open run: its size, ranks that stopped, and what was left out with where to read why."""
    counts = counted(run.rollout_count, "rollout"), counted(len(run.counts), "step")
    st.caption(" · ".join((plain(size(run.info.bytes)), *counts)))
    for icon, text in _unfinished(run):
        st.caption(f":material/{icon}: {plain(text, 300)}")
    unread = run.info.bytes - run.done
    if unread:
        share = run.done / run.info.bytes
        st.progress(share, text=f"{plain(size(unread))} of the log not read yet")
    files = [problem for problem in run.problems if problem.is_of_file]
    values = count_of(run.problems, "partial") - count_of(files, "partial")
    # Rows of each log that could have been joined with one of another, and were not.
    unmatched = sum(
        max(j.rollouts - j.joined, 0) + j.rows - j.joined for j in run.rows.joins.counts
    )
    left_out = [
        (count_of(run.problems, "lost"), "line", "not used", "error"),
        (values, "value", "left out", "warning"),
        (len(files), "file", "in the folder that can't be used", "description"),
        (
            run.superseded,
            "rollout",
            f"superseded by {run.rows.files.written_again_by}",
            "restart_alt",
        ),
        (run.repeated, "repeat", "of rollouts, shown once", "content_copy"),
        (unmatched, "row", "without a match in another log", "link_off"),
        (run.over_cap, "rollout", "beyond the cap", "filter_alt"),
        (int(rollouts.total(run, "pad_tokens")), "padding token", "left out", "space_bar"),
    ]
    known = [(icon, counted(count, noun), text) for count, noun, text, icon in left_out if count]
    if known:
        st.caption("  \n".join(f":material/{icon}: {count} {text}" for icon, count, text in known))
        state.link("findings", "What and where", findings_part="health")


def _unfinished(run: Run) -> Iterator[tuple[str, str]]:
    """Ranks that have ended no step since one that others ended, and the step that is being written."""
    if not run.missing_ranks:
        return
    newest = max(run.missing_ranks)
    silent = silent_ranks(run.missing_ranks, run.counts)
    for first in sorted({*silent.values()}):
        ranks = [rank for rank, since in silent.items() if since == first]
        yield "warning", f"{_ranks(ranks)} silent since step {first}"
    writing = [rank for rank in run.missing_ranks[newest] if rank not in silent]
    if writing:
        yield "hourglass_top", f"step {newest} not ended yet by {_ranks(writing).lower()}"


def silent_ranks(missing: Mapping[int, Sequence[int]], steps: Iterable[int]) -> dict[int, int]:
    """Rank -> the last step it ended, or the first step where it ended none, of the ranks that have ended
    none of the later steps. The newest step does not count: it may still be written. missing: by step,
    the ranks that have not ended it. steps: all that the log holds.
    """
    ordered = sorted(steps)
    absent = {*missing.get(ordered[-1], ())}
    last_ended: dict[int, int] = {}
    for before, step in reversed([*zip([ordered[0], *ordered], ordered[:-1], strict=False)]):
        absent &= {*missing.get(step, ())}
        last_ended |= dict.fromkeys(absent, before)
    return last_ended


def _ranks(ranks: Sequence[int]) -> str:
    named = ", ".join(map(str, ranks[:_MOST_RANKS])) + (", …" if len(ranks) > _MOST_RANKS else "")
    return f"Rank{'s' if len(ranks) > 1 else ''} {named}"
