"""Reading that takes longer than a page should: on a thread of its own, with progress, to be stopped.

The page waits for it and shows how far it is. Whoever clicks elsewhere meanwhile is not held up: the
reading goes on, and is there when the page is opened again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, Generic, TypeVar

import streamlit as st

from board.core.metrics.shares import percent
from board.errors import BoardError
from board.views._text import plain

Result = TypeVar("Result")
Progress = Callable[[int, int], None]
"""Called with the units done and the units in all; raising from it stops the reading."""

_UNSEEN_SECONDS: Final = 0.4
"""What is done by then shows no progress bar: one that flickers tells nothing."""
_LOOK_SECONDS: Final = 0.1


class _StoppedError(Exception):
    pass


class Reading(Generic[Result]):
    """One reading, begun when it is first waited for. work: gets a function that takes progress."""

    def __init__(self, work: Callable[[Progress], Result]) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._error: Exception | None = None
        self._result: list[Result] = []
        self._share = 0.0

    @property
    def is_running(self) -> bool:
        """Whether it was begun and is not over."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def was_stopped(self) -> bool:
        """Whether somebody stopped it before it was done."""
        return self._stop.is_set() and not self._result

    @property
    def has_failed(self) -> bool:
        """Whether the work raised something."""
        return self._error is not None

    @property
    def finished(self) -> Result | None:
        """What it found, if it is done."""
        return self._result[0] if self._result else None

    @property
    def result(self) -> Result | None:
        """What it found; None until it is done. Raises what the work raised."""
        if self._error is not None:
            raise self._error
        return self._result[0] if self._result else None

    def begin(self) -> None:
        """Begins unless it is running, done or stopped."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, daemon=True)
                self._thread.start()

    def at_once(self) -> Result:
        """What it finds, waited for: of readings that nobody stops. Raises what the work raised."""
        self.begin()
        assert self._thread is not None, "it was begun"
        self._thread.join()
        if self._error is not None:
            error = self._error
            self.again()
            raise error
        return self._result[0]

    def stop(self) -> None:
        """Ends it at its next report of progress."""
        self._stop.set()

    def again(self) -> None:
        """Forgets that it was stopped, or failed, so that it can begin anew."""
        with self._lock:
            if not self.is_running:
                self._stop.clear()
                self._thread, self._error, self._share = None, None, 0.0

    def _run(self) -> None:
        try:
            self._result = [self._work(self._report)]
        except _StoppedError:
            pass
        except Exception as error:
            self._error = error

    def _report(self, done: int, total: int) -> None:
        if self._stop.is_set():
            raise _StoppedError
        self._share = min(done / total, 1.0) if total else 1.0

    def wait(self, seconds: float) -> float:
        """Waits for its end for so long at most; the share of the work that is done."""
        if self._thread is not None:
            self._thread.join(seconds)
        return self._share


def shown(reading: Reading[Result], label: str, key: str) -> Result | None:
    """What a reading found, with a bar and a button that stops it while it runs; None when stopped.

    label: what is read, in words. key: of the buttons. Raises BoardError.
    """
    if reading.was_stopped and not reading.is_running:
        _offer_again(reading, label, key)
        return None
    reading.begin()
    reading.wait(_UNSEEN_SECONDS)
    if reading.is_running:
        _watch(reading, label, key)
    if reading.was_stopped:
        st.rerun()
    try:
        return reading.result
    except BoardError:
        reading.again()
        raise


def _watch(reading: Reading[Result], label: str, key: str) -> None:
    place = st.empty()
    with place.container(horizontal=True, vertical_alignment="center", gap="small"):
        bar = st.progress(0.0, text=plain(label))
        st.button("Stop", icon=":material/stop_circle:", key=f"stop_{key}", on_click=reading.stop)
    while reading.is_running:
        # Drawing is where Streamlit leaves this run of the script when somebody clicks.
        share = reading.wait(_LOOK_SECONDS)
        bar.progress(share, text=f"{plain(label)}: {percent(share)}")
    place.empty()


def _offer_again(reading: Reading[Result], label: str, key: str) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.caption(f"Stopped: {plain(label)}")
        st.button(
            "Resume reading",
            icon=":material/play_arrow:",
            key=f"again_{key}",
            on_click=reading.again,
        )
