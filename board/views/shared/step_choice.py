"""The step that pages are of: typed, reached by buttons and keys, or the newest of a log."""

from __future__ import annotations

import math
import time
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import streamlit as st

from board.query.open_run import Run
from board.views.shared import shortcuts, state

_TYPED: Final = "_step_typed"
_FIELDS: Final = "_step_fields"
_MOST_FIELDS: Final = 50
_FRACTIONS: Final = 4096
_MOST_FRACTIONS: Final = 2000
"""Less than a half, which would be shown as the next step."""
_SWITCH: Final = "_following"
_SWITCHED: Final = "_switched"
_SWITCHES: Final = "_switches"
_LATE_SECONDS: Final = 0.5
"""Nobody reacts so soon to a switch that moved by itself."""
_LAST_VIEW: Final = "_last_view"
_OPENS_FIRST: Final = "_opens_first"
_LED_TO: Final = "_led_to_newest"


class _View(NamedTuple):
    """What a run of the script showed. place: step, index and token."""

    run: str
    place: tuple[Any, ...]
    is_newest: bool
    is_following: bool


def choose(run: Run) -> None:
    """A field for the step between the buttons to its neighbours, and the switch that follows the log."""
    steps = [*run.counts]
    step = settle(run.info.name, steps)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.markdown("Step", width="stretch")
        ends = f"{steps[0]}–{steps[-1]}" if len(steps) > 1 else "1 step"
        st.caption(ends, width="content")
    at, last = steps.index(step), len(steps) - 1
    with st.container(key="step_row", horizontal=True, gap=None):
        shortcuts.move("step", "first_page", "First step", steps, 0 if at else -1, _go_to)
        shortcuts.move("step", "chevron_left", "Previous step (←)", steps, at - 1, _go_to)
        # A field of its own: what is typed may be no recorded step, and no other page may ever see it.
        _set_field(step)
        st.number_input(
            "Step",
            step=1.0,
            format="%.0f",
            key=_TYPED,
            label_visibility="collapsed",
            width="stretch",
            on_change=_go_to_typed,
            args=(steps, step),
        )
        shortcuts.move("step", "chevron_right", "Next step (→)", steps, at + 1, _go_to)
        shortcuts.walk(("ArrowLeft", "ArrowRight"), steps, at, _go_to)
        newest = last if at < last else -1
        shortcuts.move("step", "last_page", "Newest step", steps, newest, _go_to)
    _set(_SWITCH, _is_following())
    st.toggle(
        "Following the newest step" if _is_following() else "Follow the newest step",
        key=_SWITCH,
        help="Shows each step as soon as the log has it. Choosing another step, a rollout or a token "
        "turns it off.",
        on_change=_switch_following,
    )


def in_title(run: Run) -> None:
    """The step beside the run's name, with buttons to its neighbours for when the sidebar is closed."""
    steps, step = [*run.counts], state.get("step")
    with st.container(key="title_step", horizontal=True, gap="xsmall", width="content"):
        if step not in steps:
            st.badge(f"step {step}", color="blue")
            return
        at = steps.index(step)
        shortcuts.move("title", "chevron_left", "Previous step", steps, at - 1, _go_to)
        st.badge(f"step {step}", color="blue")
        shortcuts.move("title", "chevron_right", "Next step", steps, at + 1, _go_to)


def settle(run: str, steps: Sequence[int]) -> int:
    """The step to show, one of `steps`, which are ascending.

    The newest while the page follows, which ends when another step, a rollout or a token was chosen. A
    live page that names neither a step nor a rollout begins with following. Another run that lacks
    the step is entered at its newest, as is one to which a link led at what was the newest.
    """
    newest, step = steps[-1], state.get("step")
    if step is None and state.get("index") is None and state.get("live"):
        state.put(follow=True)
    before: _View | None = st.session_state.get(_LAST_VIEW)
    if before is not None and before.run != run:
        moves = step not in steps or (before.is_newest and step == before.place[0])
    else:
        if _is_following() and before and before.is_following and _has_left(before.place):
            state.put(follow=False)
            note_switched()
        moves = _is_following() and step != newest
    was_led = (run, step) == st.session_state.pop(_LED_TO, None)
    if moves or (was_led and step != newest):
        state.put(step=newest, **state.NO_ROLLOUT)
    step = int(state.ensure("step", steps, newest))
    st.session_state[_LAST_VIEW] = _View(run, _place(), step == newest, _is_following())
    return step


def remember() -> None:
    """Called when a page is drawn: what it filled in itself is no choice of the user."""
    if st.session_state.get(_SWITCHES):
        note_switched(is_drawn=True)
    before: _View | None = st.session_state.get(_LAST_VIEW)
    if before is not None and before.run == state.get("run"):
        is_newest = before.is_newest and before.place[0] == state.get("step")
        st.session_state[_LAST_VIEW] = _View(before.run, _place(), is_newest, _is_following())


def lead_to_newest(run: str, step: int | None) -> None:
    """Called where links lead to a run at its newest step, which may be another one when it is opened."""
    st.session_state[_LED_TO] = (run, step)


def nearest(steps: Sequence[int], wanted: int, before: int) -> int:
    """The recorded step that is meant by a typed one. steps: ascending; before: the one shown until now,
    of which one more or less, as the field's own buttons have it, is its neighbour.
    """
    at = bisect_left(steps, wanted)
    if at < len(steps) and steps[at] == wanted:
        return wanted
    around = steps[max(at - 1, 0) : at + 1]
    if abs(wanted - before) == 1:
        return around[-1] if wanted > before else around[0]
    return min(around, key=lambda step: abs(step - wanted))


def first_rollout() -> None:
    """Another run or step: where a rollout is open, the first one of the new list takes its place."""
    if state.get("index") is not None:
        st.session_state[_OPENS_FIRST] = state.pulls()
    state.put(**state.NO_ROLLOUT, page=0)


def opens_first() -> bool:
    """Whether the first rollout is to be opened; True once. A link followed since names its own."""
    return st.session_state.pop(_OPENS_FIRST, None) == state.pulls()


def was_newest() -> bool:
    """Whether the page showed the newest step that there was, and no rollout."""
    view: _View | None = st.session_state.get(_LAST_VIEW)
    return view is not None and view.is_newest and view.place[1:] == (None, None)


def _set(key: str, value: object) -> None:
    """Sets a field of which only a part of a choice is. One that has the value is left alone: the browser
    would take it over, and with it what is typed or switched there meanwhile.
    """
    if st.session_state.get(key) != value:
        st.session_state[key] = value


def _set_field(step: int) -> None:
    """Has the field show a step. Values that are set differ in a fraction that is not shown: one that
    comes back is known for what a browser sends that has not drawn the last one yet.
    """
    if _TYPED in st.session_state and round(st.session_state[_TYPED]) == step:
        return
    fields: list[float] = st.session_state.setdefault(_FIELDS, [])
    nth = round(fields[-1] % 1 * _FRACTIONS) if fields else 0
    fields.append(step + (nth % _MOST_FRACTIONS + 1) / _FRACTIONS)
    del fields[:-_MOST_FIELDS]
    st.session_state[_TYPED] = fields[-1]


def _is_following() -> bool:
    return bool(state.get("live") and state.get("follow"))


def note_switched(*, is_drawn: bool = False) -> None:
    """Called when a page switches Live or following by itself, and again when it is drawn."""
    st.session_state[_SWITCHED] = time.monotonic()
    st.session_state[_SWITCHES] = not is_drawn


def was_just_switched() -> bool:
    """Whether that was so shortly ago that the browser may have sent the switches as they were, with
    something else that was done there: until the page is drawn, and a moment longer.
    """
    if st.session_state.get(_SWITCHES):
        return True
    return time.monotonic() - st.session_state.get(_SWITCHED, -math.inf) < _LATE_SECONDS


def _switch_following() -> None:
    if was_just_switched():
        return
    is_on = bool(st.session_state[_SWITCH])
    state.put(follow=is_on, live=is_on or state.get("live"))


def _place() -> tuple[Any, ...]:
    return state.get("step"), state.get("index"), state.get("token")


def _has_left(place: tuple[Any, ...]) -> bool:
    """Whether another step, a rollout or a token was chosen. Links of a page that follows name none."""
    step, *rollout = _place()
    return step not in (None, place[0]) or tuple(rollout) != place[1:]


def _go_to_typed(steps: Sequence[int], before: int) -> None:
    typed: float = st.session_state[_TYPED]
    if typed in st.session_state[_FIELDS]:
        return
    wanted = round(typed)
    step = nearest(steps, wanted, before)
    if step != wanted and abs(wanted - before) != 1:
        state.notice(f"Step {wanted} is not recorded; showing {step}, the nearest that is.")
    _go_to(step)


def _go_to(step: int) -> None:
    state.put(step=step)
    first_rollout()
