"""Long work of a page: in a thread of its own, with progress, results so far, and a way to stop it.

Whoever clicks elsewhere meanwhile need not wait: the result is there when the page is opened again.
"""

from __future__ import annotations

import threading
import time
from bisect import insort
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import Any, Final, Generic, TypeVar, cast

import streamlit as st

from board.core.metrics.shares import percent
from board.views.shared.text import plain

Result = TypeVar("Result")
Item = TypeVar("Item")

Report = Callable[..., None]
"""Called by work: units done, units in all, its result so far if any. Raises where it was stopped."""

_UNSEEN_SECONDS: Final = 0.4
"""Work that ends within this time shows no progress bar: it would only flicker."""
_UNSEEN_LIVE_SECONDS: Final = 5.0
"""The same where a page is drawn again by itself: what it showed before stays so long."""
_BY_ITSELF: Final = "_drawn_by_itself"
_POLL_SECONDS: Final = 0.1
_WATCH_SECONDS: Final = 2.0
"""Between the results that a page draws while it scans a run."""


class _StoppedError(Exception):
    pass


class BackgroundTask(Generic[Result]):
    """Work in a thread, which begins at `start`. Safe to read from any thread.

    work: called again when a stopped task is started. result: None until the work has ended. partial:
    the result that it reported last. error: what the work raised.
    """

    def __init__(self, work: Callable[[Report], Result], total: int = 0) -> None:
        self.done, self.total = 0, total
        self.partial: Result | None = None
        self.result: Result | None = None
        self.error: Exception | None = None
        self.has_ended = False
        self._work = work
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def is_running(self) -> bool:
        """Whether a thread works on it."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def was_stopped(self) -> bool:
        """Whether somebody stopped it before it ended."""
        return self._stop.is_set() and not self.has_ended

    def start(self) -> None:
        """Begins, or goes on after a stop; nothing where it is running or has ended."""
        with self._lock:
            if self.is_running or self.has_ended:
                return
            self._stop.clear()
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Ends it at its next report."""
        self._stop.set()

    def wait(self, seconds: float | None = None) -> None:
        """Waits until it has ended or stopped, at most so long."""
        if self._thread is not None:
            self._thread.join(seconds)

    def finish(self) -> Result:
        """Its result, waited for. Raises what the work raised; the next start tries again."""
        while not self.has_ended:
            self.start()
            self.wait()
        if self.error is not None:
            error, self.error, self.has_ended = self.error, None, False
            raise error
        return cast(Result, self.result)

    def _run(self) -> None:
        try:
            self.result = self._work(self._report)
        except _StoppedError:
            return
        except Exception as error:
            self.error = error
        self.has_ended = True

    def _report(self, done: int, total: int, partial: Result | None = None) -> None:
        self.done, self.total = done, total
        if partial is not None:
            self.partial = partial
        if self._stop.is_set():
            raise _StoppedError


def collect_by_step(items: Iterator[Item], total: int) -> BackgroundTask[list[Item]]:
    """A task that sorts items by step as they come; total: of steps. After a stop it continues."""
    collected: list[Item] = []
    step_of = attrgetter("step")

    def work(report: Report) -> list[Item]:
        for item in items:
            insort(collected, item, key=step_of)
            report(len({*map(step_of, collected)}), total, [*collected])
        return collected

    return BackgroundTask(work, total)


def coarse_to_fine(steps: Sequence[int]) -> list[int]:
    """All steps once, the ends and the middle first: early results span the whole run."""
    order: dict[int, None] = {}
    parts = 1
    while len(order) < len(steps):
        order |= {round((len(steps) - 1) * part / parts): None for part in range(parts, -1, -1)}
        parts *= 2
    return [steps[number] for number in order]


def note_run(*, by_itself: bool) -> None:
    """Called when a page is drawn: whether it is since its log grew, and nobody asked for it."""
    st.session_state[_BY_ITSELF] = by_itself


def show_progress(
    task: BackgroundTask[Result],
    label: str,
    key: str = "",
    *,
    describe: Callable[[int, int], str] | None = None,
) -> Result | None:
    """The result of a task, with a progress bar while it runs; None where it was stopped. Raises what the
    work raised. label: what is read. key: of the buttons that stop and resume it; "" for none. describe:
    units done and in all, in words; by default their share.
    """
    if key and task.was_stopped and not task.is_running:
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.caption(f"Stopped: {plain(label)}")
            icon = ":material/play_arrow:"
            st.button("Resume reading", icon=icon, key=f"again_{key}", on_click=task.start)
        return None
    # Also where it stays empty: what comes after it would be mounted again where it came and went.
    row = st.empty()
    task.start()
    task.wait(_UNSEEN_SECONDS)
    if st.session_state.get(_BY_ITSELF):
        until = time.monotonic() + _UNSEEN_LIVE_SECONDS
        while task.is_running and time.monotonic() < until:
            row.empty()  # where Streamlit leaves this run of the script when somebody clicks
            task.wait(_POLL_SECONDS)
    if task.is_running:
        with row.container(horizontal=True, vertical_alignment="center", gap="small"):
            bar = st.progress(0.0, text=plain(label))
            if key:
                icon = ":material/stop_circle:"
                st.button("Stop", icon=icon, key=f"stop_{key}", on_click=task.stop)
        try:
            while task.is_running:
                task.wait(_POLL_SECONDS)
                # Drawing is where Streamlit leaves this run of the script when somebody clicks.
                share = min(task.done / task.total, 1.0) if task.total else 0.0
                words = describe(task.done, task.total) if describe else percent(share)
                bar.progress(share, text=f"{plain(label)}: {words}")
        finally:
            row.empty()
    if task.was_stopped:
        st.rerun()
    return task.finish()


def scan_buttons(
    scans: Sequence[BackgroundTask[Any]], words: str, *, key: str, **options: Any
) -> Callable[[], None] | None:
    """A button that stops the scans where one is running, else one with `words` that starts them. Returns
    what it does; None where there is nothing to do.
    """
    waiting = [scan for scan in scans if not scan.has_ended]
    if not waiting:
        return None
    if any(scan.is_running for scan in waiting):
        name, icon, label, action = "stop", "stop", "Stop", BackgroundTask.stop
    else:
        name, icon, action = "start", "play_arrow", BackgroundTask.start
        label = "Continue" if any(scan.done for scan in waiting) else words

    def act() -> None:
        for scan in waiting:
            action(scan)

    st.button(label, icon=f":material/{icon}:", key=f"{key}_{name}", on_click=act, **options)
    return act


def watch_scans(scans: Sequence[BackgroundTask[Any]], draw: Callable[[], object]) -> None:
    """Draws the results of the scans, again and again while one is running."""
    if any(scan.is_running for scan in scans):
        _watch_running(scans, draw)
    else:
        draw()


@st.fragment(run_every=_WATCH_SECONDS)
def _watch_running(scans: Sequence[BackgroundTask[Any]], draw: Callable[[], object]) -> None:
    if not any(scan.is_running for scan in scans):
        st.rerun()
    done, total = sum(scan.done for scan in scans), sum(scan.total for scan in scans)
    st.progress(min(done / max(total, 1), 1.0), text=f"{done:,} of {total:,} steps")
    draw()
