"""The part of a run that pages show, chosen in the sidebar: split and environments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import streamlit as st

from board.query import splits
from board.query.open_run import Run
from board.views.shared import cache, state
from board.views.shared.text import one_line, plain

_MOST_SPLITS: Final = 4
_OPENS_FIRST: Final = "_opens_first"


def first_rollout() -> None:
    """Another run or step: its index and pinned token are of what was shown before. Where a rollout is
    open, the first one of the new list is opened in its place.
    """
    if state.get("index") is not None:
        st.session_state[_OPENS_FIRST] = state.pulls()
    state.put(index=None, token=None, zoom=None, page=0)


def opens_first() -> bool:
    """Whether the first rollout of the list is to be opened; True once. A link that was followed since
    says itself what is open.
    """
    return st.session_state.pop(_OPENS_FIRST, None) == state.pulls()


def choose_split(run: Run) -> None:
    """Which rollouts numbers are of, where the log has those of several splits."""
    held = cache.split_counts(run)
    names = [*held]
    if state.get("split") in map(splits.written, names[:1]):
        state.put(split="")
    offered = ["", *map(splits.written, names[1:]), splits.ALL]
    chosen = state.ensure("split", offered, "")
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
            on_change=first_rollout,
            persist_state="session",
        )
    else:
        st.selectbox(
            "Split",
            offered,
            key="split",
            format_func=label,
            help=help_text,
            on_change=first_rollout,
            persist_state="session",
        )
    st.caption(_set_aside(held, splits.meant(chosen) if chosen else names[0]))


def _set_aside(held: Mapping[str, int], shown: str | None) -> str:
    """What of other splits the numbers leave out, or mix."""
    if shown is None:
        return f":material/warning: numbers mix {plain(' and '.join(held), 80)} rollouts"
    others = {name: count for name, count in held.items() if name != shown}
    told = ", ".join(f"{count:,} {name}" for name, count in others.items())
    noun = "rollout" if sum(others.values()) == 1 else "rollouts"
    return f":material/visibility_off: not shown: {plain(told, 80)} {noun}; choose them above"


def choose_environments(run: Run) -> None:
    """The environments that means are of; offered where the log names several."""
    names = cache.environments_of(run)
    state.keep("env", names)
    if len(names) > 1:
        st.multiselect(
            "Environments",
            names,
            key="env",
            placeholder="all",
            format_func=one_line,
            help="Curves, tables and tokens use these environments only; Findings, Log health and an "
            "open rollout use all of them.",
            persist_state="session",
        )
