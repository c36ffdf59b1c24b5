"""The reader on its page: a rollout opened, put into the form the component takes, and drawn."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pandas as pd
import streamlit as st

from board.analysis.rollout import OpenRollout
from board.components.reader import (
    Chosen,
    CompareMenu,
    Frame,
    TokenContent,
    first_choice,
    reader,
    reader_data,
)
from board.core.texts.conversation import ConversationTurn, conversation_of
from board.core.tokens.text_blocks import think_tags
from board.errors import BoardError
from board.query.open_run import Run
from board.views.rollouts import comparison, details, facts, token_content
from board.views.shared import cache, state, tokenizer_field
from board.views.shared.text import one_line, plain

_LONGEST_DATA: Final = 1024


def show(run: Run, step: int, index: int) -> None:
    """Draw rollout `index` of `step`; the choices of the reader are in the URL."""
    tokenizer = ""
    if run.vocabulary is None and {"prompt_tokens", "response_tokens"} & {*run.columns}:
        tokenizer = tokenizer_field.choose(run)
    try:
        opened = cache.rollout(run, step, index, tokenizer)
    except BoardError as error:
        st.error(plain(error, 500), icon=":material/error:")
        return
    if comparison.show(run, opened):
        return
    _draw(run, opened)


def data_ahead(run: Run, step: int, index: int) -> dict[str, Any]:
    """What the reader would be sent for a rollout, with the choices that outlast going to another.

    Raises BoardError where it can't be read.
    """
    opened = cache.rollout(run, step, index, str(state.get("tokenizer")))
    turns = _turns(opened)
    content = _content(opened, turns)
    wanted = Chosen(metric=state.get("metric") or None, heat=bool(state.get("heat")))
    shown = first_choice(wanted, content)
    frame = _frame(run, opened, turns, raw=False)
    return reader_data(
        content,
        frame,
        signature=token_content.signature_of(run, opened),
        shown=shown,
        step_spans=lambda: token_content.step_spans(run, step),
    )


@st.fragment
def _draw(run: Run, opened: OpenRollout) -> None:
    """The reader; choosing a metric, a token or a scale reruns only this."""
    turns = _turns(opened)
    content = _content(opened, turns)
    _ensure_choices(content)
    chosen = reader(
        content,
        _frame(run, opened, turns, raw=bool(state.get("raw"))),
        key="reader",
        signature=token_content.signature_of(run, opened),
        chosen=Chosen(
            metric=state.get("metric") or None,
            pinned=state.get("token"),
            over=state.get("over"),
            strip=state.get("strip") or None,
            masks=state.get("masks"),
            zoom=state.get("zoom"),
            heat=bool(state.get("heat")),
            raw=bool(state.get("raw")),
            read=state.get("read"),
        ),
        step_spans=lambda: token_content.step_spans(run, opened.step),
        menu=CompareMenu(comparison.menu_content(run, opened, "reader"), comparison.begin),
    )
    shows_other = chosen.raw != state.get("raw") or chosen.read != state.get("read")
    _remember(chosen, content)
    if shows_other:
        st.rerun(scope="fragment")


def _ensure_choices(content: TokenContent) -> None:
    names = ["", *content.metrics]
    count = len(content.tokens)
    state.ensure("metric", names, "")
    state.ensure("token", [None, *range(count)], None)
    state.ensure("strip", names, "")
    zoom = state.get("zoom")
    state.ensure("zoom", [None, zoom] if zoom and zoom[1] < count else [None], None)


def _remember(chosen: Chosen, content: TokenContent) -> None:
    """What was chosen in the reader, into the URL."""
    default = next(iter(content.metrics), "")
    # A link may name the default: another URL would be another entry in the browser's history.
    is_default = chosen.metric in (None, default) and chosen.metric != state.get("metric")
    metric = "" if is_default else chosen.metric or ""
    state.put(metric=metric, token=chosen.pinned, over=chosen.over, heat=chosen.heat)
    state.put(strip=chosen.strip or "", masks=chosen.masks, zoom=chosen.zoom, raw=chosen.raw)
    state.put(read=chosen.read)
    state.push()


def _turns(opened: OpenRollout) -> list[ConversationTurn] | None:
    """The rollout as a conversation, where no tokens are recorded or the text is asked for.

    Ids that nothing decodes are not read for their own sake: the text comes first there.
    """
    wish = state.get("read")
    as_text = wish == "text" or (not wish and opened.tokens_are_ids)
    if token_content.has_tokens(opened) and not (as_text and _has_text(opened)):
        return None
    tags = think_tags(str(state.get("think")))
    return conversation_of(opened.record.messages, opened.record.texts, tags)


def _has_text(opened: OpenRollout) -> bool:
    return bool(opened.record.messages or opened.record.texts.get("response"))


def _content(opened: OpenRollout, turns: Sequence[ConversationTurn] | None) -> TokenContent:
    if turns is not None:
        return TokenContent([], {})
    return token_content.content_of(opened, token_content.fitted_metrics(opened))


def _frame(
    run: Run, opened: OpenRollout, turns: Sequence[ConversationTurn] | None, *, raw: bool
) -> Frame:
    row: pd.Series[Any] = run.row(opened.step, opened.index)
    return Frame(
        title=f"Rollout {opened.index}",
        place=(opened.step, opened.index),
        facts=facts.facts_of(run, opened, row, turns),
        notes=notes_of(run, opened),
        details=details.details_of(run, opened, row, raw=raw),
        turns=turns,
        messages=_messages(opened.record.messages),
        can_switch=token_content.has_tokens(opened) and _has_text(opened),
    )


def notes_of(run: Run, opened: OpenRollout) -> list[str]:
    """What the reader should know of how the rollout was read, in sentences."""
    notes = [
        one_line("; ".join(filter(None, (remark.reason, remark.hint))), 300)
        for remark in opened.remarks
        if remark.severity != "note"
    ]
    if opened.tokens_are_ids:
        notes.append(one_line(tokenizer_field.why_ids(run), 400))
    if token_content.has_tokens(opened) and opened.tokens and not opened.metrics:
        notes.append("The log holds tokens of this rollout and no values for them.")
    return [*token_content.length_notes(opened), *notes]


def _messages(messages: Sequence[Mapping[str, Any]]) -> str:
    """The messages as JSON for copying; data of images are left out."""
    if not messages:
        return ""
    try:
        return json.dumps(_without_data(list(messages)), indent=1, ensure_ascii=True, default=str)
    except RecursionError:
        return ""


def _without_data(value: Any) -> Any:
    """The value with long `data:` addresses cut after their type."""
    if isinstance(value, str):
        is_data = value.startswith("data:") and len(value) > _LONGEST_DATA
        return f"{value.partition(',')[0]},…" if is_data else value
    if isinstance(value, Mapping):
        return {str(name): _without_data(one) for name, one in value.items()}
    return [_without_data(one) for one in value] if isinstance(value, list) else value
