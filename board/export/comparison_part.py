"""Two responses side by side, on one scale of colours, with what differs between them underlined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from board.analysis.rollout import OpenRollout, in_loss
from board.core.arrays import BoolArray
from board.core.texts.conversation import ConversationTurn
from board.core.texts.diff import text_diff
from board.core.tokens.pieces import PLACEHOLDER, joined
from board.core.tokens.scales import shared_spans
from board.export.page_text import html
from board.export.rollout_facts import place_of
from board.export.rollout_part import (
    Address,
    conversation_on,
    facts_markup,
    fitted,
    notes_markup,
    prompt_markup,
    shows_tokens,
)
from board.export.sheet import Room, Sheet
from board.export.token_markup import Tokens, legend, token_turns, tokens_of
from board.query.open_run import Run


class Side(NamedTuple):
    """One of the two: a rollout of a run."""

    run: Run
    opened: OpenRollout
    address: Address


_Pieces = Sequence[tuple[str, bool]]
"""A redacted text in pieces, of each whether the other text has it not."""


def comparison_markup(
    sheet: Sheet, left: Side, right: Side, room: Room, metric: str | None = None
) -> str:
    """Both sides. metric: that of the colours, of both; the first that the left one has, without it."""
    sides = (left, right)
    spans = shared_spans([in_loss(side.opened.metrics) for side in sides], "of both")
    tokens = [
        tokens_of(sheet, side.opened, metric, spans) if shows_tokens(side.opened) else None
        for side in sides
    ]
    texts = [
        sheet.redaction.text(side.opened.transcript) if own is None else joined(own.texts)
        for side, own in zip(sides, tokens, strict=True)
    ]
    changes = text_diff(*texts)
    pieces = (
        [(one.left, not one.is_equal) for one in changes],
        [(one.right, not one.is_equal) for one in changes],
    )
    conversations = [conversation_on(sheet, side.opened) for side in sides]
    prompts = [[turn for turn in own if turn.given] for own in conversations]
    shared = "".join(prompt_markup(sheet, prompts[0], room)) if prompts[0] == prompts[1] else ""
    key = next((legend(sheet, own) for own in tokens if own is not None), "")
    columns = [
        _column(sheet, *each, Room(room.left // 2), room)
        for each in zip(sides, [[], []] if shared else prompts, tokens, pieces, strict=True)
    ]
    words = "Underlined: what the other response has not."
    return f"{shared}{key}<p class=mute>{words}</p><div class=pair>{''.join(columns)}</div>"


def _column(
    sheet: Sheet,
    side: Side,
    prompt: Sequence[ConversationTurn],
    tokens: Tokens | None,
    pieces: _Pieces,
    own: Room,
    room: Room,
) -> str:
    """One side. own: what it may take; room: of both, which is told what was cut."""
    run, opened, address = side
    row = run.row(address.step, address.index)
    words = f"{sheet.line(run.info.name)}: {address.words}"
    facts = facts_markup(sheet, row, place_of(run, row))
    head = own.take(f"<h2>{words}</h2>{facts}{notes_markup(sheet, opened)}")
    head += "".join(prompt_markup(sheet, prompt, own))
    if tokens is None:
        body = _text(pieces, own)
    else:
        body = token_turns(sheet, tokens, own, {}, _differing(tokens.texts, pieces))
    room.cut += [f"{cut} of {address.words.lower()}" for cut in own.cut]
    return f"<div>{head}{body}</div>"


def _text(pieces: _Pieces, room: Room) -> str:
    parts: list[str] = []
    for text, differs in pieces:
        fitting = fitted(text, room)
        markup = html(fitting)
        parts.append(room.take(f"<span class=d>{markup}</span>" if differs else markup))
        if fitting != text:
            room.cut.append("the end of the response")
            parts.append("<b>The rest is left out.</b>")
            break
    return f"<pre class=response>{''.join(parts)}</pre>"


def _differing(texts: Sequence[str], pieces: _Pieces) -> BoolArray:
    """[R] whether a character of a token lies in a piece that differs."""
    lengths = [len(text) for text, _ in pieces]
    differs = np.repeat([differs for _, differs in pieces], lengths)
    before = np.concatenate([[0], np.cumsum(differs)])
    ends = np.cumsum([0 if text == PLACEHOLDER else len(text) for text in texts])
    starts = np.concatenate([[0], ends[:-1]])
    return before[ends] > before[starts]
