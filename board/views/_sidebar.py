"""What is chosen on every page: the folder, the run, the step, and how logs are read."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import streamlit as st

from board.core.options import ReadOptions
from board.core.problems import count_of
from board.errors import BoardError
from board.store import splits
from board.store.discovery import (
    JOINED,
    Discovery,
    Location,
    RunInfo,
    is_remote,
    location_below,
    location_of,
    resolve_inside,
)
from board.store.log_file import LogFile
from board.store.narrowed import NarrowedRun
from board.store.run import OpenOptions, Run
from board.views import _cached, _state
from board.views._text import ago, one_line, plain, size

BUNDLED: Final = Path(__file__).parents[2] / "rollout_samples"
_LIVE_SECONDS: Final = 2.0
_RUN: Final = "_run"
_FOUND: Final = "_found"
_SEEN: Final = "_building_seen"
_MOST_NAMED: Final = 3
_MOST_SPLITS: Final = 4
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
        _watch_building(info, options)
    # While an index is made there are rollouts before there are means of a step.
    if run.rollout_count == 0 or not len(run.steps):
        _show_empty_run(run)
        return False
    with st.sidebar:
        steps = st.container()
        _choose_split(run)
        with steps:
            _choose_step(current())
        _choose_environments(current())
        _live_toggle(info, root)
        _summary(run)
    return True


def _chosen_root() -> Location:
    root, wanted = start_root(), str(_state.get("root")).strip()
    if not wanted:
        return root
    if os.environ.get("ROLLOUT_BOARD_ALLOW_ANY_PATH") == "1":
        return location_below(root, wanted)
    return resolve_inside(root, wanted)


def _first_rollout() -> None:
    """Another run or step: its index and pinned token are of what was shown before."""
    _state.put(index=0, token=None, zoom=None)


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
            on_change=_first_rollout,
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
            _first_rollout()

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


def _choose_step(run: Run) -> None:
    steps = [int(step) for step in run.steps["step"]]
    chosen = _state.ensure("step", steps, steps[-1])
    st.selectbox(
        "Step",
        steps,
        key="step",
        help="Type to jump.",
        on_change=_first_rollout,
        persist_state="session",
    )
    place = steps.index(chosen)
    moves = (
        ("first_page", "First step", 0, None),
        ("chevron_left", "Previous step", place - 1, "Left"),
        ("chevron_right", "Next step", place + 1, "Right"),
        ("last_page", "Last step", len(steps) - 1, None),
    )
    with st.container(horizontal=True, gap="xsmall"):
        for icon, text, target, shortcut in moves:
            st.button(
                "",
                icon=f":material/{icon}:",
                help=text,
                key=f"step_{icon}",
                shortcut=shortcut,
                disabled=target == place or not 0 <= target < len(steps),
                on_click=_state.put,
                kwargs={
                    "step": steps[min(max(target, 0), len(steps) - 1)],
                    "index": 0,
                    "token": None,
                    "zoom": None,
                },
            )


def _choose_split(run: Run) -> None:
    """Which rollouts numbers are of, where the log has those of several splits."""
    held = _cached.split_counts(run)
    names = [*held]
    if _state.get("split") in map(splits.written, names[:1]):
        _state.put(split="")
    offered = ["", *map(splits.written, names[1:]), splits.ALL]
    chosen = _state.ensure("split", offered, "")
    if len(names) < 2:
        return
    are_few = len(names) <= _MOST_SPLITS
    escaped = plain if are_few else one_line  # buttons render Markdown, menus do not

    def label(written: str) -> str:
        name = splits.meant(written) if written else names[0]
        return "all splits" if name is None else escaped(name, 40)

    help_text = (
        "Curves, tables, groups and findings are of these rollouts alone; those that name no split are "
        "training's. Log health is of the whole log."
    )
    if are_few:
        st.segmented_control(
            "Split",
            offered,
            key="split",
            required=True,
            format_func=label,
            help=help_text,
            on_change=_first_rollout,
            persist_state="session",
        )
    else:
        st.selectbox(
            "Split",
            offered,
            key="split",
            format_func=label,
            help=help_text,
            on_change=_first_rollout,
            persist_state="session",
        )
    st.caption(_set_aside(held, splits.meant(chosen) if chosen else names[0]))


def _set_aside(held: Mapping[str, int], shown: str | None) -> str:
    """What of other splits the numbers leave out, or mix."""
    if shown is None:
        return f":material/warning: numbers mix {plain(' and '.join(held), 80)} rollouts"
    others = {name: count for name, count in held.items() if name != shown}
    told = ", ".join(f"{count:,} {name}" for name, count in others.items())
    return f":material/visibility_off: set aside: {plain(told, 80)} rollouts; choose them above"


def _choose_environments(run: Run) -> None:
    names = _cached.environments(run)
    _state.keep("env", names)
    if len(names) > 1:
        st.multiselect(
            "Environments",
            names,
            key="env",
            placeholder="all",
            format_func=one_line,
            help="Curves, tables and tokens are of these alone; Findings, Log health and a rollout's own "
            "page are of all of them.",
            persist_state="session",
        )


def _live_toggle(info: RunInfo, root: str) -> None:
    st.toggle(
        "Live",
        key="live",
        help=f"Looks every {_LIVE_SECONDS:g} s whether the log grew, and reads it again if so.",
        persist_state="session",
    )
    if _state.get("live"):
        _watch(info, root)


@st.fragment(run_every=_LIVE_SECONDS)
def _watch(info: RunInfo, root: str) -> None:
    """Reruns the page when the size or the time of a log file, or the set of files, has changed."""
    if not is_remote(info) and any(_has_changed(file) for file in info.files):
        _cached.discovered.clear()
        st.rerun()
    # Files that are new are found as often as the cache looks, every few seconds; what a store holds
    # is told by its listing.
    try:
        found = {run.name: run.files for run in _cached.discovered(root).runs}
    except BoardError as error:
        st.caption(f":material/cloud_off: The log can't be followed now. {plain(error, 400)}")
        return
    if found.get(info.name) != info.files:
        st.rerun()


@st.fragment(run_every=_LIVE_SECONDS)
def _watch_building(info: RunInfo, options: OpenOptions) -> None:
    """Reruns the page while the index is made, so that it shows what was read meanwhile."""
    begun = st.session_state.get(_SEEN)
    st.session_state[_SEEN] = begun is None
    if begun is not None or not _cached.is_building(info, options):
        st.session_state.pop(_SEEN)
        st.rerun()


def _has_changed(file: LogFile) -> bool:
    try:
        found = file.path.stat()
    except OSError:
        return True
    return (found.st_size, found.st_mtime_ns) != (file.size, file.mtime_ns)


def _summary(run: Run) -> None:
    updated = ago(max(time.time() - run.info.mtime, 0.0))
    st.caption(
        f"{plain(size(run.info.bytes))} · {run.rollout_count:,} rollouts · {len(run.steps):,} steps"
        f"  \nchanged {updated} ago"
    )
    if run.missing_ranks:
        st.caption(f":material/hourglass_top: {plain(_growing(run), 300)}")
    behind = run.info.bytes - run.done
    if behind:
        share = run.done / run.info.bytes
        st.progress(share, text=f"{plain(size(behind))} of the log not read yet")
    lost, partial = count_of(run.problems, "lost"), count_of(run.problems, "partial")
    told = [
        (lost, "lines not used", "error"),
        (partial, "values left out", "warning"),
        (run.superseded, "rollouts superseded by a resume", "restart_alt"),
        (run.repeated, "repeats of rollouts, shown once", "content_copy"),
        (_alone(run), "rows that no other log tells of", "link_off"),
        (run.over_cap, "rollouts beyond the cap", "filter_alt"),
        (_padding(run), "padding tokens left out", "space_bar"),
    ]
    lines = [f":material/{icon}: {count:,} {text}" for count, text, icon in told if count]
    if lines:
        st.caption("  \n".join(lines))
        st.page_link(
            _state.VIEWS / "health.py",
            label="What and where",
            icon=":material/arrow_forward:",
            query_params=_state.encoded(),
        )


def _growing(run: Run) -> str:
    """The newest steps that are still written, with the ranks that have not ended them."""
    steps = sorted(run.missing_ranks, reverse=True)
    told = [f"{step} (rank {_listed(run.missing_ranks[step])})" for step in steps[:_MOST_NAMED]]
    more = f" and {len(steps) - _MOST_NAMED} more" if len(steps) > _MOST_NAMED else ""
    return f"still growing: step {', '.join(told)}{more}"


def _listed(ranks: tuple[int, ...]) -> str:
    more = ", …" if len(ranks) > _MOST_NAMED else ""
    return ", ".join(map(str, ranks[:_MOST_NAMED])) + more


def _alone(run: Run) -> int:
    """Rows of each log that could have been joined with one of another, and were not."""
    return sum(max(join.rollouts - join.joined, 0) + join.rows - join.joined for join in run.joins)


def _padding(run: Run) -> int:
    return int(run.total("pad_tokens"))


def _show_nothing(message: str) -> None:
    st.error(plain(message, 600), icon=":material/folder_off:")
    st.caption(
        "Change the log folder in the sidebar, or leave it empty to go back to where you began."
    )


def _show_no_runs(found: Discovery) -> None:
    st.info(
        f"No rollout log was found under {plain(found.root)}. A run is a folder with .jsonl files of "
        "the formats named in the README.",
        icon=":material/search_off:",
    )
    if found.left_out:
        st.caption("These files were looked at and left out:")
        rows = [{"file": p.path, "why": p.reason, "what to do": p.hint} for p in found.left_out]
        st.dataframe(rows, hide_index=True)


def _show_empty_run(run: Run) -> None:
    st.warning(
        f"{plain(run.info.name)} holds no usable rollout yet.", icon=":material/hourglass_empty:"
    )
    rows = [
        {"where": p.where, "why": p.reason, "what to do": p.hint, "lines": p.count}
        for p in run.problems
    ]
    if rows:
        st.dataframe(rows, hide_index=True)
