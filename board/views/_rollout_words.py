"""What the list of rollouts shows of prompts and responses: what was asked last, and the final answer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pandas as pd

from board.core.conversation import ConversationTurn, conversation_of
from board.core.text_blocks import arguments_text, think_tags
from board.store.run import Run
from board.store.step_records import PLACES, StepRecords, bytes_again
from board.views import _state

__all__ = ["PLACES", "in_words"]

_LARGEST_PAGE: Final = 2 << 20
"""Bytes that are read for a page of the list; more would keep it waiting."""


def in_words(run: Run, view: pd.DataFrame) -> pd.DataFrame:
    """The rows with other words as prompt and response: what the user said last, and the last answer
    without its reasoning. Where that takes long to read, they keep the beginnings of the whole texts.

    view: with PLACES as far as the run has them.
    """
    texts = [name for name in ("prompt", "response") if name in view]
    if not texts or not _is_quick(run, view):
        return view
    found = {name: view[name].tolist() for name in texts}
    tags = think_tags(str(_state.get("think")))
    for place, record in StepRecords(run).of(view):
        turns = conversation_of(record.messages, record.texts, tags)
        for name, text in (("prompt", _question(turns)), ("response", _answer(turns))):
            if name in found and text:
                found[name][place] = text
    return view.assign(**found)


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
