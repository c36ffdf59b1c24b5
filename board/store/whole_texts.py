"""The texts of a rollout in full, which the table of rollouts holds the beginnings of."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Final

import pandas as pd

from board.core.pieces import joined
from board.core.records import Record
from board.core.vocabulary import Vocabulary
from board.readers.messages import message_text
from board.store.rollout import prompt_tokens, response_tokens
from board.store.run import Run
from board.store.step_records import StepRecords

ANY_TEXT: Final = "any_text"
_RECORDED: Final = ("prompt", "response", "ref_response", "ground_truth")
WHOLE_TEXTS: Final = (*_RECORDED, ANY_TEXT)
"""Names of texts in filters; the last one is all the others and every message."""


def whole_text(record: Record, vocabulary: Vocabulary | None, name: str) -> str | None:
    """One of WHOLE_TEXTS; None where it is not recorded.

    Prompt and response are as recorded, else decoded from tokens, else the messages before the first one
    of the assistant, and from there on, else ids as text.
    """
    if name == ANY_TEXT:
        texts = (whole_text(record, vocabulary, one) for one in _RECORDED)
        return "\n".join([text for text in texts if text is not None] + _messages(record))
    if name in record.texts:
        return record.texts[name]
    if name not in ("prompt", "response"):
        return None
    tokens = _tokens(record, vocabulary, name)
    if tokens and vocabulary is None and (name == "prompt" or record.response_tokens is None):
        return _said(record, name) or joined(tokens)
    return joined(tokens) if tokens else _said(record, name)


def _tokens(record: Record, vocabulary: Vocabulary | None, name: str) -> Sequence[str]:
    if name == "response":
        return response_tokens(vocabulary, record)[0]
    return prompt_tokens(vocabulary, record) or ()


def _said(record: Record, name: str) -> str | None:
    """The messages of the prompt, or those of the response."""
    if not record.messages:
        return None
    given = sum(1 for _ in takewhile(lambda m: m.get("role") != "assistant", record.messages))
    messages = _messages(record)
    return "\n".join(messages[:given] if name == "prompt" else messages[given:])


def _messages(record: Record) -> list[str]:
    return [message_text(message) for message in record.messages]


def read_texts(run: Run, rows: pd.DataFrame, names: Sequence[str]) -> dict[str, list[str | None]]:
    """Texts of some rollouts, a list for each of `names`; None where not recorded or not readable.

    rows: with the columns of step_records.PLACES.
    """
    found: dict[str, list[str | None]] = {name: [None] * len(rows) for name in names}
    for place, record in StepRecords(run).of(rows):
        for name in names:
            found[name][place] = whole_text(record, run.vocabulary, name)
    return found
