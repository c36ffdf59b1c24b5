"""What a reader's `token_columns` says of many rollouts -> the table's columns that are of tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from board.core.vocabulary import Vocabulary
from board.errors import RecordError
from board.readers.texts import Values
from board.readers.token_columns import TokenColumns
from board.store.record_row import PREVIEW_TOKENS, prompt_of_ids, response_of_ids
from board.store.table_columns import preview


def add_token_columns(
    columns: dict[str, Values], found: TokenColumns, vocabulary: Vocabulary | None
) -> bool:
    """Adds lengths, and previews of texts that are logged as tokens alone, as record_row.row_of has them.

    False where ids can't be read: which row's, and what is wrong with them, is for the rows to say.
    """
    rows, ids = len(found.lengths), found.token_ids
    columns["response_tokens"] = found.lengths
    prompts = ids.get("prompt_ids") or [None] * rows
    columns["prompt_tokens"] = [None if one is None else len(one) for one in prompts]
    responses = ids.get("response_ids") or [None] * rows
    try:
        _fill(columns, "prompt", prompts, lambda one: prompt_of_ids(one, vocabulary))
        _fill(columns, "response", found.pieces, lambda one: "".join(one[:PREVIEW_TOKENS]))
        _fill(columns, "response", responses, lambda one: response_of_ids(one, vocabulary))
    except RecordError:
        return False
    return True


def _fill(
    columns: dict[str, Values], name: str, tokens: Values, text_of: Callable[[Any], str]
) -> None:
    """Gives a preview to rows that have none and were logged as tokens."""
    shown = columns.get(name) or [None] * len(tokens)
    if None in shown:
        columns[name] = [
            preview(text_of(own)) if known is None and own is not None else known
            for known, own in zip(shown, tokens, strict=True)
        ]
