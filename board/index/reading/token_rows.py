"""What a reader's `token_columns` says of many rollouts -> the table's columns that are of tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from board.core.texts.turns import may_hold_turns
from board.core.tokens.pieces import joined
from board.core.tokens.vocabulary import Vocabulary
from board.errors import RecordError
from board.formats.texts import Values
from board.formats.token_columns import TokenColumns
from board.index.reading.record_row import PREVIEW_TOKENS, prompt_of_ids, response_of_ids
from board.index.reading.table_columns import preview
from board.index.segments import PROMPT_KEY, TOKEN_ROLES, WHOLE
from board.index.whole_texts import ids_may_hold_turns, key_of_ids

_TextOf = Callable[[Any], str]


def add_token_columns(
    columns: dict[str, Values], found: TokenColumns, vocabulary: Vocabulary | None
) -> bool:
    """Adds lengths, and texts that are logged as tokens alone, as record_row.row_of has them.

    False where ids can't be read: which row's, and what is wrong with them, is for the rows to say.
    """
    rows, ids = len(found.lengths), found.token_ids
    columns["response_tokens"] = found.lengths
    prompts = ids.get("prompt_ids") or [None] * rows
    columns["prompt_tokens"] = [None if one is None else len(one) for one in prompts]
    responses = ids.get("response_ids") or [None] * rows

    def text_of_ids(array: Any) -> str:
        assert vocabulary is not None
        return joined(vocabulary.texts(array.values()))

    whole_of = None if vocabulary is None else text_of_ids
    try:
        if whole_of is None:
            _add_prompt_keys(columns, prompts)
        _fill(columns, "prompt", prompts, lambda one: prompt_of_ids(one, vocabulary), whole_of)
        _fill(columns, "response", found.pieces, lambda one: "".join(one[:PREVIEW_TOKENS]), joined)
        _fill(
            columns, "response", responses, lambda one: response_of_ids(one, vocabulary), whole_of
        )
        _add_token_roles(columns, found.pieces, responses, vocabulary)
    except RecordError:
        return False
    return True


def _fill(
    columns: dict[str, Values],
    name: str,
    tokens: Values,
    preview_of: _TextOf,
    whole_of: _TextOf | None,
) -> None:
    """Gives a preview, and the whole text where it can be read, to rows that have none and were logged
    as tokens.
    """
    previews = columns.get(name) or [None] * len(tokens)
    missing = [
        place
        for place, (text, own) in enumerate(zip(previews, tokens, strict=True))
        if text is None and own is not None
    ]
    if not missing:
        return
    columns[name] = previews = [*previews]
    whole = [*(columns.get(WHOLE + name) or [None] * len(tokens))]
    for place in missing:
        previews[place] = preview(preview_of(tokens[place]))
        text = None if whole_of is None else whole_of(tokens[place])
        whole[place] = None if text == previews[place] else text
    columns[WHOLE + name] = whole


def _add_token_roles(
    columns: dict[str, Values], pieces: Values, responses: Values, vocabulary: Vocabulary | None
) -> None:
    """Notes the rows of which tokens may say who speaks."""
    roles = [
        may_hold_turns("".join(own)) if own is not None else ids_may_hold_turns(ids, vocabulary)
        for own, ids in zip(pieces, responses, strict=True)
    ]
    if any(roles):
        columns[TOKEN_ROLES] = [one or None for one in roles]


def _add_prompt_keys(columns: dict[str, Values], prompts: Values) -> None:
    """Keys of prompts that are token ids alone, in rows without a text of the prompt."""
    texts = columns.get("prompt") or [None] * len(prompts)
    columns[PROMPT_KEY] = [
        key_of_ids(ids) if text is None and ids is not None else None
        for text, ids in zip(texts, prompts, strict=True)
    ]
