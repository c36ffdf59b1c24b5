"""A Record -> its row in the table: scalars, previews, and the arrays that aggregates are made of."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from board.core.metrics.aggregate import NEEDED
from board.core.metrics.definitions import ROLLOUT_METRICS, base_name
from board.core.records import FloatArray, NumberArray, Record, Remark, Sparse
from board.core.tokens.vocabulary import Vocabulary, id_texts
from board.errors import RecordError
from board.formats.messages import message_text
from board.formats.number_arrays import first_values, last_values
from board.index import segments
from board.index.whole_texts import TEXTS, text_columns

PREVIEW_CHARS: Final = 240
"""So much of a text is in the table."""
CUT_SIGN: Final = "…"
PREVIEW_TOKENS: Final = 80
_RESERVED: Final = (
    frozenset((*ROLLOUT_METRICS, *map(base_name, ROLLOUT_METRICS), "index")) | segments.FIXED
)
"""Columns the board fills itself."""


def column_name(key: str) -> str:
    """The column of a key of the log: `logged.KEY` where the board has another column of that name."""
    return f"logged.{key}" if key in _RESERVED else key


def cell(value: object) -> float | str | None:
    """A number or short text of an extra key; None for what has no place in a table."""
    if isinstance(value, bool | int | float):
        try:
            number = float(value)
        except OverflowError:
            return None
        return number if math.isfinite(number) else None
    return value[:PREVIEW_CHARS] if isinstance(value, str) else None


def preview(text: str | None) -> str | None:
    """The first characters of a text."""
    if text is None or len(text) <= PREVIEW_CHARS:
        return text
    return text[: PREVIEW_CHARS - 1] + CUT_SIGN


def row_of(
    record: Record, vocabulary: Vocabulary | None, *, is_joined: bool = False
) -> dict[str, Any]:
    """The table row of a rollout, without location and aggregates. is_joined: with rows of other logs."""
    row: dict[str, Any] = {"step": record.step, **record.ids, **record.scores}
    length = record.response_length
    if length is not None:
        row["response_tokens"] = length
    if record.prompt_ids is not None:
        row["prompt_tokens"] = len(record.prompt_ids)
    if record.pad_tokens:
        row["pad_tokens"] = record.pad_tokens
    response = record.texts.get("response")
    if response is not None:
        row["response_chars"] = len(response)
    if "finish_reason" in record.texts:
        row["finish_reason"] = record.texts["finish_reason"]
    row["prompt"], row["response"] = previews(record, vocabulary)
    known = {name: row[name] for name in TEXTS}
    return row | text_columns(record, vocabulary, known, is_joined=is_joined)


def previews(record: Record, vocabulary: Vocabulary | None) -> tuple[str | None, str | None]:
    """The first characters of prompt and response; decoded from ids where there is no text."""
    prompt = record.texts.get("prompt")
    response = record.texts.get("response")
    if prompt is None and record.messages:
        prompt = next((message_text(m) for m in record.messages if m.get("role") == "user"), None)
    if response is None and record.messages:
        spoken = (
            message_text(m) for m in reversed(record.messages) if m.get("role") == "assistant"
        )
        response = next(spoken, None)
    if response is None and record.response_tokens is not None:
        response = "".join(record.response_tokens[:PREVIEW_TOKENS])
    if prompt is None and record.prompt_ids is not None:
        prompt = prompt_of_ids(record.prompt_ids, vocabulary)
    if response is None and record.response_ids is not None:
        response = response_of_ids(record.response_ids, vocabulary)
    return preview(prompt), preview(response)


def prompt_of_ids(ids: NumberArray, vocabulary: Vocabulary | None) -> str:
    """The end of a prompt."""
    return _decoded(last_values(ids, PREVIEW_TOKENS), vocabulary)


def response_of_ids(ids: NumberArray, vocabulary: Vocabulary | None) -> str:
    """The beginning of a response."""
    return _decoded(first_values(ids, PREVIEW_TOKENS), vocabulary)


def _decoded(ids: FloatArray, vocabulary: Vocabulary | None) -> str:
    return "".join(vocabulary.texts(ids) if vocabulary else id_texts(ids))


def arrays_for_aggregates(record: Record) -> tuple[dict[str, FloatArray], list[Remark]]:
    """The arrays that aggregates need, all of one length; and which are left out for their length or
    what is in them.
    """
    lengths = {name: len(record.tokens[name]) for name in NEEDED if name in record.tokens}
    if not lengths:
        return {}, []
    common = _commonest(lengths)
    length = lengths[common]
    arrays: dict[str, FloatArray] = {}
    remarks: list[Remark] = []
    for name in ("loss_mask", *lengths):
        array = record.tokens.get(name)
        if array is None:
            continue
        try:
            if len(array) == length:
                # The tokens in the loss are those that such an array has values for.
                arrays[name] = array.filled() if isinstance(array, Sparse) else array.values()
                continue
            remarks.append(_unequal(name, len(array), common, length))
        except RecordError as error:
            remarks.append(Remark(name, f"{name} {error.reason}", f"expected: {error.hint}"))
        if name == "loss_mask":  # without it the means would be over other tokens
            return {}, remarks
    return arrays, remarks


def _commonest(lengths: Mapping[str, int]) -> str:
    """The first array of the length that most have."""
    if len(set(lengths.values())) == 1:
        return next(iter(lengths))
    counts = Counter(lengths.values())
    return max(lengths, key=lambda name: counts[lengths[name]])


def _unequal(name: str, entries: int, other: str, length: int) -> Remark:
    # The lengths themselves go into the hint: every line has its own, and a reason is what problems
    # are folded by.
    reason = f"{name} and {other} are of unequal length"
    hint = f"e.g. {entries} and {length} entries; metrics that need both are not shown for these rollouts"
    return Remark(name, reason, hint)
