"""What the list of rollouts shows of prompts and responses: what was asked last, and the final answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pandas as pd

from board.analysis.step_records import PLACES, StepRecords, bytes_again
from board.core.texts.conversation import ConversationTurn, conversation_of
from board.core.tokens.text_blocks import arguments_text, think_tags
from board.query.open_run import Run
from board.query.rollouts import texts_at
from board.views.shared import state

__all__ = ["PLACES", "in_words"]

_LARGEST_PAGE: Final = 2 << 20
"""Bytes that are read of the log for a page of the list; more would keep it waiting."""
_LONGEST_TEXT: Final = 64 << 10
"""Bytes of a text of the index; of a longer one the preview is shown."""
_Placed = tuple[int, list[ConversationTurn]]


def in_words(run: Run, view: pd.DataFrame) -> pd.DataFrame:
    """The rows with other words as prompt and response: what the user said last, and the last answer
    without its reasoning.

    view: with PLACES as far as the run has them.
    """
    texts = [name for name in ("prompt", "response") if name in view]
    if not texts:
        return view
    found = {name: view[name].tolist() for name in texts}
    tags = think_tags(str(state.get("think")))
    conversations = _of_log if _is_quick(run, view) else _of_index
    for place, turns in conversations(run, view, tags):
        for name, text in (("prompt", _question(turns)), ("response", _answer(turns))):
            if name in found and text:
                found[name][place] = text
    return view.assign(**found)


def _of_log(run: Run, view: pd.DataFrame, tags: tuple[str, ...]) -> Iterator[_Placed]:
    """The turns of the rollouts, as they are recorded, with their places in `view`."""
    for place, record in StepRecords(run).of(view):
        yield place, conversation_of(record.messages, record.texts, tags)


def _of_index(run: Run, view: pd.DataFrame, tags: tuple[str, ...]) -> Iterator[_Placed]:
    """The turns that the whole texts of the index tell, without reading the log."""
    at = view["step"].tolist(), view["index"].tolist()
    pairs = (texts_at(run, *at, name, _LONGEST_TEXT) for name in ("prompt", "response"))
    for place, (prompt, response) in enumerate(zip(*pairs, strict=True)):
        texts = {"prompt": prompt, "response": response}
        known = {name: text for name, text in texts.items() if text is not None}
        yield place, conversation_of((), known, tags)


def _is_quick(run: Run, view: pd.DataFrame) -> bool:
    """Whether the rollouts are few bytes of one log on this machine."""
    is_near = isinstance(run.info.path, Path) and not run.info.is_joined
    return is_near and bytes_again(run, view) <= _LARGEST_PAGE


def _question(turns: Sequence[ConversationTurn]) -> str:
    """What the user said last before the response."""
    asked = [turn for turn in turns if turn.given and turn.role == "user"]
    return _said(asked[-1]) if asked else ""


def _answer(turns: Sequence[ConversationTurn]) -> str:
    """What the model said or called last."""
    own = [turn for turn in turns if not turn.given and turn.role in ("assistant", "response")]
    return _said(own[-1]) if own else ""


def _said(turn: ConversationTurn) -> str:
    texts = [block.text for block in turn.blocks if block.kind == "text" and block.text.strip()]
    calls = [block for block in turn.blocks if block.kind == "call"]
    called = [f"{call.name}({arguments_text(call.arguments)})" for call in calls]
    return (texts or called or [""])[-1]
