"""What is chosen on every page: the folder, the run, the step, and how logs are read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import streamlit as st

from board.core.options import ReadOptions
from board.errors import BoardError
from board.store import splits
from board.store.discovery import (
    JOINED,
    Discovery,
    Location,
    RunInfo,
    location_below,
    location_of,
    resolve_inside,
)
from board.store.narrowed import NarrowedRun
from board.store.run import OpenOptions, Run
from board.views import _cached, _live, _part_of_run, _problems, _run_summary, _state, _step_choice
from board.views._text import one_line, plain, size

BUNDLED: Final = Path(__file__).parents[2] / "rollout_samples"
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
    return _cached.of_split(whole(), str(_state.get("split"))) or whole()


def narrowed() -> Run:
    """The current run with the rollouts of the chosen environments alone, on pages of means."""
    return _cached.narrowed(current(), tuple(_state.get("env")))


def evaluations() -> tuple[NarrowedRun, ...]:
    """Where training's split is shown, the others beside it, of the chosen environments."""
    held = [*_cached.split_counts(whole())]
    if len(held) < 2 or _state.get("split") or not splits.is_training(held[0]):
        return ()
    envs = tuple(_state.get("env"))
    found = (_cached.of_split(whole(), splits.written(name)) for name in held[1 : _MOST_BESIDE + 1])
    runs = (_cached.narrowed(run, envs) for run in found if run is not None)
    return tuple(run for run in runs if isinstance(run, NarrowedRun) and run.rollout_count)


def neighbours() -> tuple[RunInfo, ...]:
    """All runs of the chosen folder, the current one among them."""
    return tuple(st.session_state[_FOUND])


def render() -> bool:
    """Draws the sidebar and opens the chosen run. False when there is nothing to show a page of."""
    with st.sidebar:
        st.markdown("### :material/stacked_line_chart: Rollout Board")
        st.text_input(
            "Log folder",
            key="root",
            placeholder=str(start_root()),
            help="A folder of runs, below the folder the server was started on.",
            persist_state="session",
        )
    try:
        root = str(_chosen_root())
        found = _cached.discovered(root)
    except BoardError as error:
        _show_nothing(str(error))
        return False
    if not found.runs:
        _show_no_runs(found)
        return False
    info = _choose_run(found)
    _choose_source(found, info)
    options = _choose_options()
    st.session_state[_FOUND] = found.runs
    run = _cached.run(info, options)
    st.session_state[_RUN] = run
    if _cached.is_building(info, options):
        _live.watch_building(info, options)
    # While an index is made there are rollouts before there are means of a step.
    if run.rollout_count == 0 or not len(run.steps):
        _show_empty_run(run, is_building=_cached.is_building(info, options))
        return False
    with st.sidebar:
        steps = st.container()
        _part_of_run.choose_split(run)
        with steps:
            _step_choice.choose(current())
        _part_of_run.choose_environments(current())
        _live.toggle(info, root)
        _run_summary.show(run)
    return True


def _chosen_root() -> Location:
    root, wanted = start_root(), str(_state.get("root")).strip()
    if not wanted:
        return root
    if os.environ.get("ROLLOUT_BOARD_ALLOW_ANY_PATH") == "1":
        return location_below(root, wanted)
    return resolve_inside(root, wanted)


def _choose_run(found: Discovery) -> RunInfo:
    names = [run.name for run in found.runs]
    _state.ensure("run", names, names[0])
    by_name = {run.name: run for run in found.runs}

    def label(name: str) -> str:
        # Nothing that changes while a run grows: to Streamlit another label is another choice.
        return f"{one_line(name)} · {', '.join(by_name[name].formats)}"

    with st.sidebar:
        name = st.selectbox(
            "Run",
            names,
            key="run",
            format_func=label,
            help="Newest first. Type to search.",
            on_change=_part_of_run.first_rollout,
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
            _state.put(run=runs[source].name)
            _part_of_run.first_rollout()

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


def _choose_options() -> OpenOptions:
    with st.sidebar, st.popover("Reading options", icon=":material/tune:", width="stretch"):
        st.text_input(
            "Padding tokens",
            key="pads",
            help="Pieces, separated by commas, that are left out at both ends of a response together "
            "with their values, so that they add neither length nor KL. Empty: nothing is left out.",
            persist_state="session",
        )
        st.text_input(
            "System prompt ends with",
            key="sysend",
            placeholder="nothing is left out",
            help="The prompt is shown from after the first place where this text stands.",
            persist_state="session",
        )
        st.number_input(
            "Rollouts a step, at most",
            min_value=0,
            max_value=_state.LARGEST_COUNT,
            key="cap",
            help="0: all. The first so many of each step are kept, in tables and in curves.",
            persist_state="session",
        )
    pads = tuple(part.strip() for part in str(_state.get("pads")).split(",") if part.strip())
    read = ReadOptions(pads, str(_state.get("sysend")))
    return OpenOptions(read, max(int(_state.get("cap") or 0), 0) or None)


def _show_nothing(message: str) -> None:
    st.error(plain(message, 600), icon=":material/folder_off:")
    st.caption(
        "Change the log folder in the sidebar, or leave it empty to go back to where you began."
    )


def _show_no_runs(found: Discovery) -> None:
    st.info(
        f"No rollout log was found under {plain(found.root)}. A run is a folder with files of one of "
        "the formats that docs/formats.md names; `rollout-board sniff PATH` says why a file is none.",
        icon=":material/search_off:",
    )
    if found.left_out:
        st.caption("These files were looked at and left out:")
        _problems.table(found.left_out)


def _show_empty_run(run: Run, *, is_building: bool) -> None:
    if is_building:
        name, done, whole = plain(run.info.name), run.done, run.info.bytes
        read = f"{plain(size(done))} of {plain(size(whole))}"
        st.progress(
            done / whole, text=f"Reading {name}: {read}. It is shown as far as it was read."
        )
        return
    st.warning(
        f"{plain(run.info.name)} holds no usable rollout yet.", icon=":material/hourglass_empty:"
    )
    if run.problems:
        _problems.table(run.problems)
