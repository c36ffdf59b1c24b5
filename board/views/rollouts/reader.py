"""The reader on its page: a rollout opened, put into the form the component takes, and drawn."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, Final

import streamlit as st

from board.analysis.rollout import OpenRollout
from board.components.reader import Chosen, first_choice, reader, reader_data
from board.components.reader.frame import Frame
from board.components.rollout_list import MOST_WAITING, Address, ListPage, send_ahead
from board.components.token_data import TokenContent
from board.errors import BoardError
from board.export.pages import rollout_page
from board.export.rollout_frame import content_and_frame
from board.export.rollout_part import Address as RolloutAddress
from board.query.open_run import Run
from board.query.rollouts import filter_of_text
from board.views.rollouts import comparison, labels, reader_content
from board.views.shared import browser_url, cache, page_parts, run_options, state
from board.views.shared.page_export import MakePage
from board.views.shared.text import plain

_AHEAD: Final = (1, 2, -1, 3)
"""The neighbours in the list that are sent before a key asks for them."""
_LARGEST_AHEAD_BYTES: Final = 4 << 20
"""Size in the log; sending a larger one would delay what the user asks for meanwhile."""
_SENT: Final = "_ahead_sent"
_IN_URL: Final = {
    "metric": "reader_metric",
    "pinned": "token",
    "over": "reader_over",
    "strip": "reader_strip",
    "masks": "reader_masks",
    "zoom": "zoom",
    "heat": "reader_heat",
    "raw": "reader_record",
    "read": "reader_as",
}
"""By field of `Chosen` the name of the choice in the URL."""
_OUTLASTING: Final = (
    *("tokenizer", "think", "reader_as", "reader_metric", "reader_over", "reader_heat"),
)
"""Choices that stay when another rollout is opened."""


def show(run: Run, step: int, index: int) -> None:
    """Draws rollout `index` of `step`; the choices of the reader are in the URL."""
    tokenizer = ""
    if run.vocabulary is None and {"prompt_tokens", "response_tokens"} & {*run.columns}:
        tokenizer = run_options.choose_tokenizer(run)
    try:
        opened = cache.rollout(run, step, index, tokenizer)
    except BoardError as error:
        st.error(plain(error, 500), icon=":material/error:")
        return
    if not comparison.show(run, opened):
        _draw(run, opened)


def page_of(run: Run, step: int, index: int) -> MakePage:
    """What makes a page of the rollout as the reader shows it: with its metric, its pinned token, and
    beside the rollout that it is compared with.
    """
    address = RolloutAddress(step, index, state.get("token"), str(state.get("reader_metric")))
    return comparison.page_of(run, address) or partial(rollout_page, run, address)


@st.fragment
def _draw(run: Run, opened: OpenRollout) -> None:
    """The reader; choosing a metric, a token or a scale reruns only this."""
    content, frame = _content_and_frame(run, opened, raw=bool(state.get("reader_record")))
    names, count = ["", *content.metrics], len(content.tokens)
    token, zoom = state.get("token"), state.get("zoom")
    state.ensure("reader_metric", names, "")
    state.ensure("reader_strip", names, "")
    state.ensure("token", [None, token] if token in range(count) else [None], None)
    state.ensure("zoom", [None, zoom] if zoom and zoom[1] < count else [None], None)
    wanted: dict[str, Any] = {field: state.get(name) for field, name in _IN_URL.items()}
    wanted |= {name: wanted[name] or None for name in ("metric", "strip")}
    chosen = reader(
        content,
        frame,
        key="reader",
        signature=reader_content.signature_of(run, opened),
        chosen=Chosen(**wanted),
        step_spans=lambda: reader_content.step_spans(run, opened.step),
        menu=comparison.menu_content(run, opened, "reader"),
        on_compare=comparison.begin,
        on_alike=partial(_list_alike, run, opened),
    )
    is_other_content = (chosen.raw, chosen.read) != (wanted["raw"], wanted["read"])
    values = {name: getattr(chosen, field) for field, name in _IN_URL.items()}
    # A link may name the default: another URL would be another entry in the browser's history.
    default = next(iter(content.metrics), "")
    if chosen.metric == default != wanted["metric"]:
        values["reader_metric"] = ""
    state.put(**values | {name: values[name] or "" for name in ("reader_metric", "reader_strip")})
    state.push()
    if is_other_content:
        st.rerun(scope="fragment")


def _list_alike(run: Run, opened: OpenRollout, text: str) -> None:
    """Opens the list of the rollouts that have a selected text; says so where filters can't find it."""
    where = filter_of_text(run, opened.step, opened.index, text)
    if where:
        page_parts.open_matching(where)
    st.toast("No text of this rollout that a filter searches holds the selection.")


def _content_and_frame(run: Run, opened: OpenRollout, *, raw: bool) -> tuple[TokenContent, Frame]:
    """As the URL asks for it, with its labels."""
    content, frame = content_and_frame(
        run,
        opened,
        read=state.get("reader_as"),
        think=str(state.get("think")),
        raw=raw,
        ids_note=run_options.why_ids(run) if opened.tokens_are_ids else "",
    )
    row = labels.label_row(run, opened.step, opened.index)
    return content, replace(frame, labels=row, answered=browser_url.received())


def ahead_prefix(run: Run) -> str:
    """Prefix of the addresses under which rollouts wait in the browser, by run and by what is chosen."""
    chosen = "/".join(str(state.get(name)) for name in _OUTLASTING)
    return f"{run.info.name}/{run.version}/{run.options}/{chosen}"


def send_neighbours(run: Run, page: ListPage, at: Address) -> None:
    """Sends the browser the neighbours in the list that it lacks. Called last: another key stops it."""
    if at not in page.addresses or state.get("reader_vs") or state.get("reader_record"):
        return
    sent: list[str] = st.session_state.setdefault(_SENT, [])
    row = [page.before, *page.addresses, page.after]
    places = [page.addresses.index(at) + 1 + offset for offset in _AHEAD]
    ahead = [row[place] for place in places if 0 <= place < len(row)]
    with st.container(key="rollouts_ahead"):
        for slot, (step, index) in enumerate(one for one in ahead if one is not None):
            address = f"{ahead_prefix(run)}/{step}/{index}"
            if address in sent:
                continue
            try:
                size = run.row(step, index, ("size",))["size"]
                data = _data_ahead(run, step, index) if size <= _LARGEST_AHEAD_BYTES else None
            except BoardError:
                continue
            if data is not None:
                send_ahead(address, data, key=f"ahead_{slot}")
                sent.append(address)
                del sent[:-MOST_WAITING]


def _data_ahead(run: Run, step: int, index: int) -> dict[str, Any]:
    """What the reader would be sent for a rollout. Raises BoardError where it can't be read."""
    opened = cache.rollout(run, step, index, str(state.get("tokenizer")))
    content, frame = _content_and_frame(run, opened, raw=False)
    # Another step's scale would first be read, for a rollout that may never be opened.
    over = state.get("reader_over") if step == state.get("step") else "rollout"
    heat = bool(state.get("reader_heat"))
    wanted = Chosen(metric=state.get("reader_metric") or None, heat=heat, over=over)
    return reader_data(
        content,
        frame,
        signature=reader_content.signature_of(run, opened),
        choice=first_choice(wanted, content),
        step_spans=lambda: reader_content.step_spans(run, step),
    )
