"""The step that pages are of: typed, or reached by buttons and keys from the one before."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

import streamlit as st

from board.query.open_run import Run
from board.views.frame import following
from board.views.shared import part_of_run, state

_TYPED: Final = "_step_typed"
# One box of four buttons and a field, without the field's own buttons and the names of keys, for which
# the sidebar has no room: the help of the pages lists them.
_LOOK: Final = """<style>
.st-key-step_row {
  --line: 1px solid var(--st-border-color, rgb(128 140 170 / 35%));
  gap: 0;
  flex-wrap: nowrap;
  overflow: hidden;
  border: var(--line);
  border-radius: 0.5rem;
}
.st-key-step_row > div + div { border-left: var(--line); }
.st-key-step_row > .st-key-_step_typed { flex: 1; min-width: 0; }
.st-key-step_row button { min-width: 2.3rem; padding-inline: 0; border: 0; border-radius: 0; }
.st-key-step_row [data-testid="stNumberInputContainer"] { border: 0; border-radius: 0; }
.st-key-step_row input { padding-inline: 0.25rem; font-weight: 600; text-align: center; }
.st-key-step_row kbd,
.st-key-step_row [data-testid="stNumberInputContainer"] > div { display: none; }
</style>"""


def choose(run: Run) -> None:
    """A field for the step between the buttons to its neighbours, and the switch that follows the log."""
    steps = [int(step) for step in run.steps["step"]]
    chosen = following.settle(run.info.name, steps)
    st.html(_LOOK)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.markdown("Step", width="stretch")
        ends = f"{steps[0]}–{steps[-1]}" if len(steps) > 1 else "1 step"
        st.caption(ends, width="content")
    place = steps.index(chosen)
    with st.container(key="step_row", horizontal=True, gap=None):
        _button("first_page", "First step", steps, place, 0)
        _button("chevron_left", "Previous step", steps, place, place - 1, "Left")
        _type(steps, chosen)
        _button("chevron_right", "Next step", steps, place, place + 1, "Right")
        _button("last_page", "Newest step", steps, place, len(steps) - 1)
    following.switch()


def in_title(run: Run) -> None:
    """The step beside the run's name, with buttons to its neighbours for when the sidebar is closed."""
    steps, step = [int(step) for step in run.steps["step"]], state.get("step")
    with st.container(key="title_step", horizontal=True, gap="xsmall", width="content"):
        if step in steps:
            place = steps.index(step)
            _button("chevron_left", "Previous step", steps, place, place - 1, where="title")
        st.badge(f"step {step}", color="blue")
        if step in steps:
            _button("chevron_right", "Next step", steps, place, place + 1, where="title")


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
    st.session_state[_TYPED] = chosen
    st.number_input(
        "Step",
        step=1,
        key=_TYPED,
        label_visibility="collapsed",
        width="stretch",
        on_change=_take_typed,
        args=(steps, chosen),
    )


def _take_typed(steps: Sequence[int], before: int) -> None:
    wanted = int(st.session_state[_TYPED])
    found = nearest(steps, wanted, before)
    if found != wanted and abs(wanted - before) != 1:
        state.notice(f"Step {wanted} is not recorded; showing {found}, the nearest that is.")
    state.put(step=found)
    part_of_run.first_rollout()


def _button(
    icon: str,
    text: str,
    steps: Sequence[int],
    place: int,
    target: int,
    shortcut: str | None = None,
    where: str = "step",
) -> None:
    st.button(
        "",
        icon=f":material/{icon}:",
        help=text,
        key=f"{where}_{icon}",
        shortcut=shortcut,
        disabled=target == place or not 0 <= target < len(steps),
        on_click=_go_to,
        args=(steps[min(max(target, 0), len(steps) - 1)],),
    )


def _go_to(step: int) -> None:
    state.put(step=step)
    part_of_run.first_rollout()
