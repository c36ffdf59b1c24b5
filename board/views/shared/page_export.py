"""The button Export of the title row: the page as one HTML file, and rollouts in every form.

Each page offers what it shows. A file is made when somebody clicks, in a thread, while its progress, and
in the end what was left out, or why there is no file, stands below the buttons.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple
from uuid import uuid4

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from board.components.press_once import press_once
from board.errors import BoardError, ChoiceError
from board.export.page_text import Redaction, file_name
from board.export.pages import PageOptions
from board.export.sheet import StaticPage
from board.query.open_run import Run
from board.query.outlines import is_outline
from board.views.shared import cache, rollout_files, state
from board.views.shared.background import BackgroundTask, Report
from board.views.shared.rollout_files import ON_PAGE, Chosen, Form, Made
from board.views.shared.text import plain, size

MakePage = Callable[[PageOptions], StaticPage]
_PLACE: Final = "_export_place"
_OFFERED: Final = "_export_offered"
_JOBS: Final = "_export_jobs"
_MOST_JOBS: Final = 3
_PANEL: Final = "export"
_PATTERN: Final = "_export_redact"
_WHICH: Final = "_export_which"
_MOST: Final = "_export_most"
_SAVE: Final = "export_save"
_PIXELS: Final = 420
_TITLE_PIXELS: Final = 130
_UNSEEN_SECONDS: Final = 0.3
_POLL_SECONDS: Final = 0.1
_HELP: Final = (
    "A regular expression. What it matches is removed everywhere on HTML pages, also where it spans "
    "tokens; the page says how many matches there were. Other files are not redacted, and so not "
    "offered with one."
)


class Table(NamedTuple):
    """A further file of what a page shows. make: what is in it."""

    label: str
    file_name: str
    mime: str
    make: Callable[[], bytes]


class _Offered(NamedTuple):
    name: str = ""
    make: MakePage | None = None
    tables: Sequence[Table] = ()
    listed: Chosen | None = None
    of_step: bool = False


class _Job:
    """A file that is made for a download. page: that offers it; label: of its button."""

    def __init__(
        self, page: str, label: str, file_name: str, mime: str, make: Callable[[Report], Made]
    ) -> None:
        self.page, self.label = page, label
        self.file_name, self.mime = file_name, mime
        self.id = uuid4().hex
        self.task = BackgroundTask(make)


def place() -> None:
    """Where the button will be: it is drawn when the page is, which knows then what it shows."""
    st.session_state[_PLACE] = st.empty()
    st.session_state.pop(_OFFERED, None)  # of a page that was left before it was drawn


def offer(
    name: str,
    make: MakePage | None,
    *,
    tables: Sequence[Table] = (),
    listed: Chosen | None = None,
    of_step: bool = False,
) -> None:
    """What the page has to export: made when somebody asks.

    name: of the page's file, without its ending. make: None where the page is but a list of rollouts.
    listed: the rollouts that the page lists; of_step: whether it is about those of the step.
    """
    st.session_state[_OFFERED] = _Offered(name, make, tables, listed, of_step)


def draw(run: Run | None = None) -> None:
    """The button with what the page offered. run: whose rollouts are offered, on every page of it."""
    slot = st.session_state.pop(_PLACE, None)
    offered = st.session_state.pop(_OFFERED, None)
    if slot is not None and (offered or run) and not (run and is_outline(run)):
        with slot.container(key="export_place", width="content"):
            _panel(offered or _Offered(), run)


@st.fragment
def _panel(offered: _Offered, run: Run | None) -> None:
    """The button, and what it opens: counted and looked up only then."""
    icon = ":material/download:"
    panel = st.popover("Export", icon=icon, type="tertiary", key=_PANEL, on_change="rerun")
    if panel.open:
        with panel, st.container(width=_PIXELS, gap="small", key="export_panel"):
            _fields(offered, run)


def _fields(offered: _Offered, run: Run | None) -> None:
    pattern = str(st.session_state.get(_PATTERN) or "") or None
    try:
        redaction = Redaction.of(pattern)
    except ChoiceError as error:
        st.error(plain(error, 300), icon=":material/error:")
    else:
        options = PageOptions(redact=pattern)
        if offered.make is not None or offered.tables:
            with _row("This page"):
                if offered.make is not None:
                    make = partial(_page, offered.make, options, str(state.get("tokenizer")))
                    name = file_name(redaction.text(offered.name))
                    _button(_Job(offered.name, "HTML page", name, "text/html", make), "page_html")
                for table in offered.tables:
                    make = partial(_table, table.make)
                    job = _Job(offered.name, table.label, table.file_name, table.mime, make)
                    _button(job, f"page_{table.label}", why_not=_unredacted(pattern))
        if run is not None and run.counts:
            _rollouts(offered, run, options)
        _watch(offered.name)
    st.text_input(
        "Redact",
        key=_PATTERN,
        placeholder="a regular expression, e.g. sk-\\w+",
        help=_HELP,
        persist_state="session",
    )


def _rollouts(offered: _Offered, run: Run, options: PageOptions) -> None:
    """Which rollouts, how many of them, and a button for each form."""
    choices = rollout_files.of_run(run, state.get("step"), offered.listed)
    if not offered.of_step and offered.listed is None:
        choices.reverse()  # those of the step last
    words = {one.name: f"{plain(one.label, 40)} :gray[{one.count:,}]" for one in choices}
    if st.session_state.get(_WHICH) not in words:
        st.session_state[_WHICH] = next(iter(words))
    st.segmented_control(
        "Rollouts",
        [*words],
        key=_WHICH,
        required=True,
        format_func=words.__getitem__,
        persist_state="session",
    )
    chosen = next(one for one in choices if one.name == st.session_state[_WHICH])
    most = st.number_input(
        "At most",
        min_value=1,
        value=None,
        key=_MOST,
        placeholder=f"{ON_PAGE} to read, all in tables and to train on",
        help="So many of them, the first ones in their order.",
        persist_state="session",
    )
    for title, forms in rollout_files.FORMS.items():
        usual = ON_PAGE if title == "To read" else None
        with _row(title, chosen.first(usual if most is None else most) if chosen.count else ""):
            reasons = [_offer_form(offered.name, form, chosen, most, options) for form in forms]
        for form, reason in zip(forms, reasons, strict=True):
            if reason:
                st.caption(plain(f"No {form.label}: {reason}.", 300))


def _row(title: str, words: str = "") -> DeltaGenerator:
    """A line with a title and words below it, and room for buttons."""
    row = st.container(horizontal=True, gap="small", vertical_alignment="center")
    below = f"  \n:gray[:small[{plain(words)}]]" if words else ""
    row.markdown(f"{title}{below}", width=_TITLE_PIXELS)
    return row


def _offer_form(
    page: str, form: Form, chosen: Chosen, most: int | None, options: PageOptions
) -> str:
    """A button for the rollouts in a form; why it can't be made, where it is disabled."""
    reason = "there is no rollout" if not chosen.count else form.lacks(chosen.run)
    reason = reason or (_unredacted(options.redact) if form.label != "HTML page" else "")
    tokenizer = str(state.get("tokenizer"))
    make = partial(_form, form, chosen, most, options, tokenizer)
    name = form.file_name(chosen, options.redact)
    job = _Job(page, form.label, name, form.mime, make)
    _button(job, f"rollouts_{form.label}", why_not=reason)
    return reason


def _unredacted(pattern: str | None) -> str:
    return "only HTML pages are redacted" if pattern else ""


def _button(job: _Job, key: str, *, why_not: str = "") -> None:
    st.button(job.label, on_click=_begin, args=(job,), key=f"export_{key}", disabled=bool(why_not))


def _begin(job: _Job) -> None:
    before: list[_Job] = st.session_state.get(_JOBS, [])
    others = [other for other in before if (other.page, other.label) != (job.page, job.label)]
    st.session_state[_JOBS] = [*others, job][-_MOST_JOBS:]
    job.task.start()


def _page(make: MakePage, options: PageOptions, tokenizer: str, report: Report) -> Made:
    page = make(_with_vocabulary(options, tokenizer))
    return Made(page.html, rollout_files.notes_of_page(page.left_out, page.redactions))


def _table(make: Callable[[], bytes], report: Report) -> Made:
    return Made(make(), [])


def _form(
    form: Form,
    chosen: Chosen,
    most: int | None,
    options: PageOptions,
    tokenizer: str,
    report: Report,
) -> Made:
    return form.make(chosen, most, _with_vocabulary(options, tokenizer), report)


def _with_vocabulary(options: PageOptions, tokenizer: str) -> PageOptions:
    known = cache.vocabulary(tokenizer) if tokenizer else None
    return PageOptions(redact=options.redact, vocabulary=known)


def _watch(page: str) -> None:
    """How far the files are that were asked for last on this page, and what became of each."""
    jobs: list[_Job] = st.session_state.get(_JOBS, [])
    for job in jobs:
        if job.page == page:
            _watch_job(job)


def _watch_job(job: _Job) -> None:
    task = job.task
    task.wait(_UNSEEN_SECONDS)
    slot = st.empty()
    if task.is_running:
        with slot.container(horizontal=True, vertical_alignment="center", gap="small"):
            bar = st.progress(0.0, text=f"Making {job.label}")
            key = f"export_stop_{job.id}"
            st.button("Stop", icon=":material/stop_circle:", key=key, on_click=task.stop)
        while task.is_running:
            task.wait(_POLL_SECONDS)
            share = min(task.done / task.total, 1.0) if task.total else 0.0
            words = f": {task.done:,} of {task.total:,}" if task.total else ""
            bar.progress(share, text=f"Making {job.label}{words}")
    if isinstance(task.error, BoardError):
        slot.error(plain(f"No {job.label}: {task.error}", 900), icon=":material/error:")
    elif task.error is not None:
        words = f"No {job.label}: {type(task.error).__name__}: {task.error}"
        slot.error(plain(words, 900), icon=":material/error:")
    elif task.result is None:
        slot.caption(f"Stopped: {job.label}.")
    else:
        with slot.container():
            _save(job, task.result)


def _save(job: _Job, made: Made) -> None:
    """A button with the file, pressed for the reader as soon as it is there.

    A file that Streamlit makes while the browser waits belongs to no session, and is forgotten when
    others run; that of a button that is drawn is kept.
    """
    summary = "; ".join([f"{job.label}, {size(len(made.data))}", *made.notes])
    st.caption(f":material/check: {plain(summary, 900)}.")
    st.download_button(
        "Save again",
        data=made.data,
        file_name=job.file_name,
        mime=job.mime,
        on_click="ignore",
        type="tertiary",
        icon=":material/download:",
        key=f"{_SAVE}_{job.id}",
    )
    press_once(f"{_SAVE}_{job.id}", job.id, key=f"export-saved-{job.id}")
