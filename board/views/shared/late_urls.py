"""The URL before the last one, which a browser may still send while it does not have the last."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

Url = Mapping[str, str]
_SUPERSEDED: Final = "_superseded"
_LATE_SECONDS: Final = 5.0


def is_move_in_history() -> bool:
    """Whether this run of the page is of Back or Forward, or of a script that does the same."""
    context = get_script_run_ctx()
    return context is not None and context.is_history_navigation


def remember(before: Url, wanted: Url) -> None:
    """Called where another URL takes the place of one."""
    st.session_state[_SUPERSEDED] = (before, time.monotonic(), wanted)


def latest() -> tuple[Url | None, Url]:
    """The URL before the last one, None where that is there for long; and the last one."""
    before, since, wanted = st.session_state.get(_SUPERSEDED, (None, 0.0, {}))
    return (before if time.monotonic() - since < _LATE_SECONDS else None), wanted


def taken_before(url: Url) -> Url | None:
    """The URL before the last one, from which a script of the page may have made this one; None where
    this is that itself, as after Back. It is forgotten.
    """
    before, _ = latest()
    st.session_state.pop(_SUPERSEDED, None)
    return None if url == before else before
