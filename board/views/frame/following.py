"""Which step is shown: the newest one while the page follows the log, else the one that was chosen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import streamlit as st

from board.views.shared import state

_SHOWN: Final = "_step_shown"
_SWITCH: Final = "_following"


@dataclass(frozen=True, slots=True)
class _Shown:
    """What the last run of the script showed."""

    run: str
    place: tuple[Any, ...]
    is_newest: bool
    is_following: bool


def is_following() -> bool:
    """Whether the newest step is shown as the log grows."""
    return bool(state.get("live") and state.get("follow"))


def settle(run: str, steps: Sequence[int]) -> int:
    """The step to show, one of `steps`, which are ascending.

    The newest while the page follows, which ends when anything else was chosen since: another step, a
    rollout or a token. A live page that names no step begins with following. Another run is entered
    silently, at its newest step where it lacks this one.
    """
    newest, step = steps[-1], state.get("step")
    if step is None and state.get("live"):
        state.put(follow=True)
    before: _Shown | None = st.session_state.get(_SHOWN)
    if before is not None and before.run != run:
        if step not in steps or (before.is_newest and step == before.place[0]):
            state.put(step=newest, index=None, token=None, zoom=None)
    elif is_following():
        if before is None or not before.is_following or before.place == _place():
            _go_to(newest)
        else:
            state.put(follow=False)
    step = int(state.ensure("step", steps, newest))
    st.session_state[_SHOWN] = _Shown(run, _place(), step == newest, is_following())
    return step


def remember() -> None:
    """Called when a page is drawn: what it filled in itself is no choice of the user."""
    before: _Shown | None = st.session_state.get(_SHOWN)
    if before is not None and before.run == state.get("run"):
        is_newest = before.is_newest and before.place[0] == state.get("step")
        st.session_state[_SHOWN] = _Shown(before.run, _place(), is_newest, is_following())


def switch() -> None:
    """The switch that follows the newest step, and says whether it does."""
    st.session_state[_SWITCH] = is_following()
    st.toggle(
        "Following the newest step" if is_following() else "Follow the newest step",
        key=_SWITCH,
        help="Shows each step as soon as the log has it. Choosing another step, a rollout or a token "
        "turns it off.",
        on_change=_switched,
    )


def _switched() -> None:
    is_on = bool(st.session_state[_SWITCH])
    state.put(follow=True, live=True) if is_on else state.put(follow=False)


def _go_to(newest: int) -> None:
    if state.get("step") != newest:
        state.put(step=newest, index=None, token=None, zoom=None)


def _place() -> tuple[Any, ...]:
    return state.get("step"), state.get("index"), state.get("token")
