"""Files that a page makes for a reader: in threads, said while they are made, saved when they are there.

A file that was asked for is saved wherever the reader is by then, also where the panel was closed or
another page was opened meanwhile: it is drawn until the browser says that it has pressed its button.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from typing import Final
from uuid import uuid4

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from board.components.press_once import press_once
from board.errors import BoardError
from board.export.file_names import FileOf
from board.export.page_text import Redaction
from board.views.shared.background import BackgroundTask, Report
from board.views.shared.rollout_files import Made
from board.views.shared.text import plain, size

_JOBS: Final = "_export_jobs"
_MOST_SAVED: Final = 3
"""Files that were saved already, kept to be saved again."""
_SAVE: Final = "export_save"
_BAR_SECONDS: Final = 0.3
"""Before a bar shows how far a file is."""
_POLL_SECONDS: Final = 0.1
_FETCH_SECONDS: Final = 60.0
"""For which a file stays drawn after its button was pressed: only then the browser fetches it."""


class FileJob:
    """A file that is made for a download. page: what offers it; label: of its button; file: what it is
    of. pressed_at: when the browser had its button pressed, by the monotonic clock.
    """

    def __init__(
        self,
        page: Hashable,
        label: str,
        file: FileOf,
        ending: str,
        mime: str,
        make: Callable[[Report], Made],
        redaction: Redaction | None = None,
    ) -> None:
        self.page, self.label, self.mime = page, label, mime
        self.id = uuid4().hex
        self.task = BackgroundTask(make)
        self.begun_at = time.monotonic()
        self.pressed_at: float | None = None
        self.file, self._ending, self._redaction = file, ending, redaction

    def name(self, made: Made) -> str:
        """The name of the file."""
        return self.file.name(self._ending, made.data, self._redaction)

    @property
    def is_due(self) -> bool:
        """Whether the reader waits for it."""
        if self.task.result is None:
            return self.task.is_running
        return self.pressed_at is None or time.monotonic() < self.pressed_at + _FETCH_SECONDS


def begin(job: FileJob) -> None:
    """Begins to make a file. Those that are not saved yet go on."""
    jobs: list[FileJob] = st.session_state.get(_JOBS, [])
    due = [known for known in jobs if known.is_due]
    again = [
        known
        for known in jobs
        if not known.is_due and (known.page, known.label) != (job.page, job.label)
    ]
    st.session_state[_JOBS] = [*again[-_MOST_SAVED:], *due, job]
    job.begun_at = time.monotonic()
    job.task.start()


def asked_for(page: Hashable) -> list[FileJob]:
    """The files that were asked for last on a page, each once."""
    return [*{(job.label, job.file): job for job in _jobs() if job.page == page}.values()]


def due_besides(drawn: Sequence[FileJob]) -> list[FileJob]:
    """Files that the reader waits for and that are not drawn, since another page, or a panel that is
    closed now, was asked for them.
    """
    return [job for job in _jobs() if job.is_due and job not in drawn]


def announce(jobs: Iterable[FileJob]) -> list[tuple[FileJob, DeltaGenerator]]:
    """Files, each with its line, which says at once that it is being made."""
    lines = [(job, st.empty()) for job in jobs]
    for job, line in lines:
        if job.task.is_running:
            line.caption(_words(job), width="content")
    return lines


def _words(job: FileJob) -> str:
    task = job.task
    return f"Making {job.label}" + (f": {task.done:,} of {task.total:,}" if task.total else " …")


def _jobs() -> Sequence[FileJob]:
    return st.session_state.get(_JOBS, [])


def watch(lines: Sequence[tuple[FileJob, DeltaGenerator]], unseen: Collection[str] = ()) -> None:
    """Says how far files are, and saves each when it is there, whichever is first. unseen: ids of those
    outside of the panel, of which the browser alone says that they are saved.
    """
    waiting = [*lines]
    bars: dict[str, DeltaGenerator] = {}
    while waiting:
        for job, line in [*waiting]:
            briefly = job.id in unseen
            if not job.task.is_running:
                _end(job, line, briefly=briefly)
                waiting.remove((job, line))
            # What is drawn anew gives way to a run of the page that is asked for meanwhile.
            elif briefly or time.monotonic() < job.begun_at + _BAR_SECONDS:
                line.caption(_words(job), width="content")
            else:
                _show_progress(job, line, bars)
        if waiting:
            waiting[0][0].task.wait(_POLL_SECONDS)


def _show_progress(job: FileJob, line: DeltaGenerator, bars: dict[str, DeltaGenerator]) -> None:
    task = job.task
    share = min(task.done / task.total, 1.0) if task.total else 0.0
    if job.id in bars:
        bars[job.id].progress(share, text=_words(job))
        return
    with line.container(horizontal=True, vertical_alignment="center", gap="small"):
        bars[job.id] = st.progress(share, text=_words(job))
        key = f"export_stop_{job.id}"
        st.button("Stop", icon=":material/stop_circle:", key=key, on_click=task.stop)


def _end(job: FileJob, line: DeltaGenerator, *, briefly: bool) -> None:
    task = job.task
    if briefly and task.result is None:
        line.caption(f":material/error: No {job.label}: Export says why", width="content")
    elif isinstance(task.error, BoardError):
        line.error(plain(f"No {job.label}: {task.error}", 900), icon=":material/error:")
    elif task.error is not None:
        words = f"No {job.label}: {type(task.error).__name__}: {task.error}"
        line.error(plain(words, 900), icon=":material/error:")
    elif task.result is None:
        line.caption(f"Stopped: {job.label}.")
    else:
        with line.container(key=f"export_unseen_{job.id}" if briefly else None):
            _save(job, task.result, briefly=briefly)


def _save(job: FileJob, made: Made, *, briefly: bool) -> None:
    """A button with the file, pressed for the reader as soon as it is there.

    A file that Streamlit makes while the browser waits belongs to no session, and is forgotten when
    others run; that of a button that is drawn is kept.
    """
    if not briefly:
        summary = "; ".join([f"{job.label}, {size(len(made.data))}", *made.notes])
        st.caption(f":material/check: {plain(summary, 900)}.")
    st.download_button(
        "Save again",
        data=made.data,
        file_name=job.name(made),
        mime=job.mime,
        on_click="ignore",
        type="tertiary",
        icon=":material/download:",
        key=f"{_SAVE}_{job.id}",
    )

    def pressed() -> None:
        job.pressed_at = job.pressed_at or time.monotonic()

    press_once(f"{_SAVE}_{job.id}", job.id, key=f"export-saved-{job.id}", on_press=pressed)
