"""What is chosen on every page: the run, the step, the part of the run, and the folder of logs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import streamlit as st

from board.errors import BoardError, NotFoundError
from board.index.discovery.discovered_runs import (
    JOINED,
    Discovery,
    Location,
    RunInfo,
    location_below,
    location_of,
    resolve_inside,
)
from board.query import splits
from board.query.open_run import Run
from board.views.frame import live, run_summary, waiting
from board.views.shared import cache, opened_runs, part_of_run, run_settings, state, step_choice
from board.views.shared.text import one_line, plain, size

BUNDLED: Final = Path(__file__).parents[3] / "rollout_samples"
_RUN: Final = "_run"
_FOUND: Final = "_found"
# Splits drawn beside training's: more points can't be told apart.
_MOST_BESIDE: Final = 3


def start_root() -> Location:
    """The folder the server was started on; it never shows anything outside of it."""
    return location_of(os.environ.get("ROLLOUT_BOARD_ROOT") or str(BUNDLED))


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
    """Where training's split is shown, the others beside it, of the chosen environments."""
    held = [*cache.split_counts(whole())]
    if len(held) < 2 or state.get("split") or not splits.is_training(held[0]):
        return ()
    envs = tuple(state.get("env"))
    found = (cache.of_split(whole(), splits.written(name)) for name in held[1 : _MOST_BESIDE + 1])
    runs = (cache.of_environments(run, envs) for run in found if run is not None)
    return tuple(run for run in runs if run.whole is not None and run.rollout_count)


def neighbours() -> tuple[RunInfo, ...]:
    """All runs of the chosen folder, the current one among them."""
    return tuple(st.session_state[_FOUND])


def render() -> bool:
    """Draws the sidebar and opens the chosen run. False when there is nothing to show a page of."""
    with st.sidebar:
        st.markdown("### :material/stacked_line_chart: Rollout Board")
    try:
        root = str(_chosen_root())
        found = opened_runs.discovered(root)
    except NotFoundError as error:
        if state.get("root") or not isinstance(start_root(), Path):
            _show_nothing(str(error))
        else:
            waiting.for_first_file(start_root(), is_missing=True)
        return False
    except BoardError as error:
        _show_nothing(str(error))
        return False
    if not found.runs:
        waiting.for_first_file(found.root, found.left_out)
        return False
    info = _choose_run(found)
    _choose_source(found, info)
    options = run_settings.options()
    st.session_state[_FOUND] = found.runs
    run = opened_runs.opened(info, options)
    st.session_state[_RUN] = run
    if opened_runs.is_building(info, options):
        live.watch_building(info, options)
    # While an index is made there are rollouts before there are means of a step.
    if run.rollout_count == 0 or not len(run.steps):
        if opened_runs.is_building(info, options):
            _show_reading(run)
        else:
            waiting.for_first_rollout(info, root, run.problems)
        return False
    with st.sidebar:
        live.toggle(info, root)
        steps = st.container()
        part_of_run.choose_split(run)
        with steps:
            step_choice.choose(current())
        part_of_run.choose_environments(current())
        run_summary.show(run)
    return True


def choose_folder() -> None:
    """A field for another folder of logs, at the end of the sidebar."""
    with (
        st.sidebar,
        st.popover("Open another folder", icon=":material/folder_open:", type="tertiary"),
    ):
        st.text_input(
            "Log folder",
            key="root",
            placeholder=str(start_root()),
            help="A folder of runs inside the folder that the server was started on.",
            persist_state="session",
        )


def _chosen_root() -> Location:
    root, wanted = start_root(), str(state.get("root")).strip()
    if not wanted:
        return root
    if os.environ.get("ROLLOUT_BOARD_ALLOW_ANY_PATH") == "1":
        return location_below(root, wanted)
    return resolve_inside(root, wanted)


def _choose_run(found: Discovery) -> RunInfo:
    names = [run.name for run in found.runs]
    state.ensure("run", names, names[0])
    by_name = {run.name: run for run in found.runs}

    with st.sidebar:
        name = st.selectbox(
            "Run",
            names,
            key="run",
            format_func=lambda name: one_line(name, 200),
            on_change=part_of_run.first_rollout,
            persist_state="session",
        )
    return by_name[name or names[0]]


def _choose_source(found: Discovery, info: RunInfo) -> None:
    """Which of several logs of one folder is shown: all of them joined, or one alone."""
    runs = {run.source: run for run in found.runs if run.path == info.path and not run.only}
    if len(runs) < 2:
        return
    ordered = sorted(runs, key=lambda source: (source != JOINED, source))
    # Not a choice of its own: it is the run that is chosen, whichever way.
    key = f"_source_{info.name}"

    def choose() -> None:
        source = st.session_state[key]
        if source is not None:
            state.put(run=runs[source].name)
            part_of_run.first_rollout()

    with st.sidebar:
        st.segmented_control(
            "Source",
            ordered,
            default=info.source,
            key=key,
            required=True,
            format_func=lambda source: one_line(runs[source].label),
            help="The folder holds logs of several formats. Joined: one rollout with what all of them "
            "say of it; the others: one log alone.",
            on_change=choose,
        )


def _show_nothing(message: str) -> None:
    st.error(plain(message, 600), icon=":material/folder_off:")
    st.caption(
        "Choose another folder in the sidebar, or leave the field empty to return to the first one."
    )


def _show_reading(run: Run) -> None:
    name, done, whole = plain(run.info.name), run.done, run.info.bytes
    read = f"{plain(size(done))} of {plain(size(whole))}"
    st.progress(done / whole, text=f"Reading {name}: {read}. It is shown as far as it was read.")
