"""The URL that the browser shows, as far as the server knows it.

A run of the page comes with the URL that the server wrote last, or that the browser was led to: by a
link, by Back. It may also come with one of those before the last, while the browser does not have that.
Scripts of the page change the URL that is shown by themselves. They say in messages what they have
changed, and change it again where the server has written a URL meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

Url = Mapping[str, str]
_WRITTEN: Final = "_url_written"
_SHOWN: Final = "_url_shown"
_SUPERSEDED: Final = "_url_superseded"
_EARLIER: Final = "_earlier_urls"
_RECEIVED: Final = "_received_url_changes"
_LATE_SECONDS: Final = 5.0
_MOST_EARLIER: Final = 20
_MOST_RECEIVED: Final = 50
_MOST_AT_ONCE: Final = 50


def current() -> Url | None:
    """The URL that the browser shows; None before its first run."""
    return st.session_state.get(_SHOWN)


def set_current(url: Url) -> None:
    """Called where the browser shows a URL, and its runs come with it."""
    st.session_state[_WRITTEN] = st.session_state[_SHOWN] = url


def write(wanted: Url) -> None:
    """Has the browser show another URL."""
    url, now = st.query_params.to_dict(), time.monotonic()
    st.session_state[_SUPERSEDED] = (url, now)
    # The browser may be behind by several: it sends what is pressed with the last one that it has got.
    earlier = [
        *st.session_state.get(_EARLIER, ()),
        (st.session_state.get(_WRITTEN), now),
        (url, now),
    ]
    st.session_state[_EARLIER] = earlier[-_MOST_EARLIER:]
    st.query_params.from_dict(wanted)
    set_current(wanted)


def meet(url: Url, *, is_moved: bool) -> bool:
    """Whether the URL that a run came with says something new; it is the one that is shown, unless it is
    only the one that was written last, or was superseded. is_moved: another page is open.
    """
    written, before = st.session_state.get(_WRITTEN), current()
    if (
        not url and written is not None
    ):  # Streamlit's own navigation: no wish to forget every choice
        set_current(url)
        return False
    if is_moved or is_move_in_history():
        set_current(url)
        return url != before and not (is_moved and url == superseded())
    if url in (written, before) or _is_earlier(url):
        return False
    set_current(url)
    return True


def _is_earlier(url: Url) -> bool:
    """Whether a URL is one that the server wrote, or a run came with, moments ago."""
    now = time.monotonic()
    return any(
        url == earlier and now - since < _LATE_SECONDS
        for earlier, since in st.session_state.get(_EARLIER, ())
    )


def is_move_in_history() -> bool:
    """Whether this run of the page is one of Back or Forward."""
    context = get_script_run_ctx()
    return context is not None and context.is_history_navigation


def superseded() -> Url | None:
    """The URL before the last one that was written; None where that was written long ago."""
    before, since = st.session_state.get(_SUPERSEDED, (None, 0.0))
    return before if time.monotonic() - since < _LATE_SECONDS else None


def take_superseded() -> Url | None:
    """The URL before the last, from which a link may have been made, and forgets it; None after Back."""
    before = superseded()
    st.session_state.pop(_SUPERSEDED, None)
    return None if is_move_in_history() else before


def received() -> list[str]:
    """The ids of messages that were dealt with."""
    return [*st.session_state.get(_RECEIVED, [])]


def receive(sent: Any, page: str, change: Callable[[Mapping[str, str | None]], None]) -> None:
    """Takes messages of what scripts of a page have changed in the URL, each once however often it is
    sent; of another page than the open one they are of no interest any more. They may hold anything.

    change: called with the values of parameters, None for those that were taken out.
    """
    known: list[str] = st.session_state.setdefault(_RECEIVED, [])
    for entry in (sent if isinstance(sent, list) else [])[:_MOST_AT_ONCE]:
        if not isinstance(entry, Mapping) or str(entry.get("id"))[:40] in known:
            continue
        known.append(str(entry.get("id"))[:40])
        changes = entry.get("changes")
        if entry.get("page") != page or not isinstance(changes, Mapping):
            continue
        changes = {str(name): text and str(text) for name, text in changes.items()}
        change(changes)
        url = {**(current() or {}), **changes}
        st.session_state[_SHOWN] = {name: text for name, text in url.items() if text is not None}
    del known[:-_MOST_RECEIVED]
