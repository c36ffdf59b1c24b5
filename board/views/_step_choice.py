"""The step that pages are of: chosen from a list, or typed where a list would be too long to use."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

import streamlit as st

from board.store.run import Run
from board.views import _part_of_run, _state

MOST_LISTED: Final = 400
"""Streamlit sends every entry of a menu with the page and makes an element of it in the browser."""
_TYPED: Final = "_step_typed"


def choose(run: Run) -> None:
    """A field for the step, with buttons and keys to its neighbours."""
    steps = [int(step) for step in run.steps["step"]]
    chosen = _state.ensure("step", steps, steps[-1])
    if len(steps) > MOST_LISTED:
        _type(steps, chosen)
    else:
        st.selectbox(
            "Step",
            steps,
            key="step",
            help="Type to jump.",
            on_change=_part_of_run.first_rollout,
            persist_state="session",
        )
    _buttons(steps, steps.index(chosen))


def nearest(steps: Sequence[int], wanted: int, before: int) -> int:
    """The recorded step that is meant by a typed one. steps: ascending; before: the one shown until now.

    One more or one less than that, as the field's own buttons have it, is the next recorded one or the
    one before.
    """
    place = bisect_left(steps, wanted)
    if place < len(steps) and steps[place] == wanted:
        return wanted
    around = steps[max(place - 1, 0) : place + 1]
    if abs(wanted - before) == 1:
        return around[-1] if wanted > before else around[0]
    return min(around, key=lambda step: abs(step - wanted))


def _type(steps: list[int], chosen: int) -> None:
    # A field of its own: what is typed may be no recorded step, and no other page may ever see it.
    _state.put(step=chosen)
    st.session_state[_TYPED] = chosen
    st.number_input(
        "Step",
        step=1,
        key=_TYPED,
        help=f"{len(steps):,} steps, {steps[0]} to {steps[-1]}. Type one and press Enter: the nearest "
        "that is recorded is shown.",
        on_change=_take_typed,
        args=(steps, chosen),
    )


def _take_typed(steps: Sequence[int], before: int) -> None:
    wanted = int(st.session_state[_TYPED])
    found = nearest(steps, wanted, before)
    if found != wanted and abs(wanted - before) != 1:
        _state.notice(f"Step {wanted} is not recorded; showing {found}, the nearest that is.")
    _state.put(step=found)
    _part_of_run.first_rollout()


def _buttons(steps: Sequence[int], place: int) -> None:
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
