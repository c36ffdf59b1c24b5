"""The button Export of the title row: the page as one HTML file, and rollouts in every form.

Each page offers what it shows. A file is made when somebody clicks, in a thread, while its progress, and
in the end what was left out, or why there is no file, stands below the buttons.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from board.errors import ChoiceError
from board.export.file_names import FileOf
from board.export.page_text import Redaction
from board.export.pages import PageOptions
from board.export.sheet import StaticPage
from board.query.open_run import Run
from board.query.outlines import is_outline
from board.views.shared import cache, rollout_files, state
from board.views.shared.background import Report
from board.views.shared.file_jobs import FileJob, announce, asked_for, begin, due_besides, watch
from board.views.shared.rollout_files import ON_PAGE, Chosen, Form, Made
from board.views.shared.text import plain

MakePage = Callable[[PageOptions], StaticPage]
_PLACE: Final = "_export_place"
_OFFERED: Final = "_export_offered"
_PANEL: Final = "export"
_PATTERN: Final = "_export_redact"
_WHICH: Final = "_export_which"
_MOST: Final = "_export_most"
_PIXELS: Final = 420
_TITLE_PIXELS: Final = 130
_HELP: Final = (
    "A regular expression. What it matches is removed everywhere on HTML pages, also where it spans "
    "tokens; the page says how many matches there were. Other files are not redacted, and so not "
    "offered with one."
)


class Table(NamedTuple):
    """A further file of what a page shows. make: what is in it."""

    label: str
    ending: str
    mime: str
    make: Callable[[], bytes]


class _Offered(NamedTuple):
    file: FileOf = FileOf("", "")
    make: MakePage | None = None
    tables: Sequence[Table] = ()
    listed: Chosen | None = None
    of_step: bool = False


def begin_page() -> None:
    """Forgets what a page that was left before it was drawn had to export, and where its button was: an
    element drawn there in the next page would break it.
    """
    for name in (_PLACE, _OFFERED):
        st.session_state.pop(name, None)


def place() -> None:
    """Where the button will be: it is drawn when the page is, which knows then what it shows. Until then
    the button of the run of the script before stays.
    """
    look = {"horizontal": True, "vertical_alignment": "center", "width": "content"}
    st.session_state[_PLACE] = st.container(key="export_place", **look)


def offer(
    file: FileOf,
    make: MakePage | None,
    *,
    tables: Sequence[Table] = (),
    listed: Chosen | None = None,
    of_step: bool = False,
) -> None:
    """What the page has to export: made when somebody asks.

    file: what it is of. make: None where the page is but a list of rollouts.
    listed: the rollouts that the page lists; of_step: whether it is about those of the step.
    """
    st.session_state[_OFFERED] = _Offered(file, make, tables, listed, of_step)


def draw(run: Run | None = None) -> None:
    """The button with what the page offered. run: whose rollouts are offered, on every page of it."""
    slot = st.session_state.pop(_PLACE, None)
    offered = st.session_state.pop(_OFFERED, None)
    if slot is not None and (offered or run) and not (run and is_outline(run)):
        with slot:
            _panel(offered or _Offered(), run)


@st.fragment
def _panel(offered: _Offered, run: Run | None) -> None:
    """The button, and what it opens: counted and looked up only then; and files that are made for it."""
    icon = ":material/download:"
    panel = st.popover("Export", icon=icon, type="tertiary", key=_PANEL, on_change="rerun")
    lines: list[tuple[FileJob, DeltaGenerator]] = []
    if panel.open:
        with panel, st.container(width=_PIXELS, gap="small", key="export_panel"):
            lines = _fields(offered, run)
    due = due_besides([job for job, _ in lines])
    watch([*lines, *announce(due)], unseen={job.id for job in due})


def _fields(offered: _Offered, run: Run | None) -> list[tuple[FileJob, DeltaGenerator]]:
    """Draws what can be made. Returns what was asked for here, each file with its line."""
    above, below = st.container(gap="small"), st.container(gap="small")
    with below:
        lines = announce(asked_for(offered.file))  # before the rollouts are counted
        st.text_input(
            "Redact",
            key=_PATTERN,
            placeholder="a regular expression, e.g. sk-\\w+",
            help=_HELP,
            persist_state="session",
        )
    pattern = str(st.session_state.get(_PATTERN) or "") or None
    with above:
        try:
            redaction = Redaction.of(pattern)
        except ChoiceError as error:
            st.error(plain(error, 300), icon=":material/error:")
            return lines
        options = PageOptions(redact=pattern)
        if offered.make is not None or offered.tables:
            with _row("This page"):
                _offer_page(offered, options, redaction)
        if run is not None and run.counts:
            _rollouts(offered, run, options)
    return lines


def _offer_page(offered: _Offered, options: PageOptions, redaction: Redaction) -> None:
    """Buttons for the page and its tables."""
    file = offered.file
    if offered.make is not None:
        make = partial(_page, offered.make, options, str(state.get("tokenizer")))
        job = FileJob(file, "HTML page", file, ".html", "text/html", make, redaction)
        _button(job, "page_html")
    for table in offered.tables:
        make = partial(_table, table.make)
        job = FileJob(file, table.label, file, table.ending, table.mime, make)
        _button(job, f"page_{table.label}", why_not=_unredacted(options.redact))


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
            reasons = [_offer_form(offered.file, form, chosen, most, options) for form in forms]
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
    page: FileOf, form: Form, chosen: Chosen, most: int | None, options: PageOptions
) -> str:
    """A button for the rollouts in a form; why it can't be made, where it is disabled."""
    reason = "there is no rollout" if not chosen.count else form.lacks(chosen.run)
    reason = reason or (_unredacted(options.redact) if form.label != "HTML page" else "")
    tokenizer = str(state.get("tokenizer"))
    make = partial(_form, form, chosen, most, options, tokenizer)
    redaction = Redaction.of(options.redact)
    ending = f".{form.ending.rpartition('.')[2]}"
    file = form.file_of(chosen, most)
    job = FileJob(page, form.label, file, ending, form.mime, make, redaction)
    _button(job, f"rollouts_{form.label}", why_not=reason)
    return reason


def _unredacted(pattern: str | None) -> str:
    return "only HTML pages are redacted" if pattern else ""


def _button(job: FileJob, key: str, *, why_not: str = "") -> None:
    st.button(job.label, on_click=begin, args=(job,), key=f"export_{key}", disabled=bool(why_not))


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
