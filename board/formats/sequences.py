"""Tokens that a log holds message by message: put together, and cut into prompt and response.

The response begins at the first sampled token; what was given in between (tool results, the template's
own tokens) stays in it, with loss_mask 0 and a segment that says whose it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from board.core.arrays import FloatArray
from board.core.records import Parsed, Record, Sparse
from board.errors import RecordError
from board.formats.fields import RecordBuilder

TOKENS_JOINED_BY: Final = "step and exact token ids"


def tokens_key(record: Record) -> object:
    """A hash of all token ids, of prompt and response; None where none are recorded."""
    parts = [a.values() for a in (record.prompt_ids, record.response_ids) if a is not None]
    ids = np.concatenate(parts) if parts else np.array([])
    if len(ids) == 0 or not np.isfinite(ids).all():
        return None
    return hashlib.blake2b(ids.astype(np.int64).tobytes(), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class Piece:
    """The tokens of one message. role: whose. ids: [n]. sampled: which of them the model made, [n].

    compact: by name, a value for each sampled token, [sampled.sum()]. aligned: a value for each
    token, [n]. name: of the tool.
    """

    role: str
    ids: FloatArray
    sampled: npt.NDArray[np.bool_]
    compact: Mapping[str, FloatArray] = field(default_factory=dict[str, FloatArray])
    aligned: Mapping[str, FloatArray] = field(default_factory=dict[str, FloatArray])
    name: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a model. prompt: all ids that it was given, None where not recorded. generated: ids that
    it made, [n]. compact: by name, a value for each of them.
    """

    prompt: FloatArray | None
    generated: FloatArray
    compact: Mapping[str, FloatArray]


def pieces_of_calls(calls: Sequence[Call]) -> list[Piece]:
    """What each call added: what it was given after all that came before, and what it generated.

    Raises RecordError where a prompt does not begin with all tokens before it.
    """
    pieces = list[Piece]()
    before = np.array([], np.float64)
    for call in calls:
        prompt = before if call.prompt is None else call.prompt
        if len(prompt) < len(before) or not np.array_equal(prompt[: len(before)], before):
            hint = "calls whose prompts begin with all tokens before them"
            raise RecordError("the history changed between model calls", hint=hint)
        added = prompt[len(before) :]
        pieces.append(Piece("tool", added, np.zeros(len(added), bool)))
        pieces += sampled_alone([call])
        before = np.concatenate((prompt, call.generated))
    return pieces


def sampled_alone(calls: Sequence[Call]) -> list[Piece]:
    """What each call generated, without what it was given."""
    return [
        Piece("assistant", call.generated, np.ones(len(call.generated), bool), call.compact)
        for call in calls
    ]


def take_pieces(builder: RecordBuilder, pieces: Sequence[Piece]) -> None:
    """Takes ids, loss mask, segments and all arrays; without any token, nothing.

    Values are missing, never zero, where there is none; an array of a length that fits neither all
    nor the sampled tokens of its message is left out there, with a remark.
    """
    ids = np.concatenate([piece.ids for piece in pieces]) if pieces else np.array([])
    if len(ids) == 0:
        return
    sampled = np.concatenate([piece.sampled for piece in pieces])
    start = int(np.argmax(sampled)) if sampled.any() else len(ids)
    if start:
        builder.prompt_ids = Parsed(ids[:start])
    builder.response_ids = Parsed(ids[start:])
    if start == len(ids):
        return
    builder.tokens["loss_mask"] = Parsed(sampled[start:].astype(np.float64))
    for name in dict.fromkeys(n for p in pieces for n in (*p.compact, *p.aligned)):
        whole = np.concatenate([_values_at_tokens(builder, piece, name) for piece in pieces])
        aligned = any(name in piece.aligned for piece in pieces)
        values = whole[start:]
        builder.tokens[name] = Parsed(values) if aligned else Sparse(values, sampled[start:])
    builder.segments = _segments(pieces, start)


def _values_at_tokens(builder: RecordBuilder, piece: Piece, name: str) -> FloatArray:
    """The values of one message at their tokens, NaN elsewhere."""
    values = np.full(len(piece.ids), np.nan)
    for array, places in (
        (piece.aligned.get(name), np.ones(len(values), bool)),
        (piece.compact.get(name), piece.sampled),
    ):
        count = np.count_nonzero(places)
        if array is None:
            continue
        if len(array) == count:
            values[places] = array
            continue
        hint = f"e.g. {len(array)} entries for {count} tokens; nothing is shifted"
        builder.remark(name, f"{name} is not as long as the tokens of its message", hint)
    return values


def _segments(pieces: Sequence[Piece], start: int) -> list[dict[str, object]]:
    """{start, end, role, name?} of each message in the response, from the first sampled token on."""
    segments: list[dict[str, object]] = []
    end = -start
    for piece in pieces:
        begin, end = max(end, 0), end + len(piece.ids)
        if end > begin:
            name = {"name": piece.name} if piece.name else {}
            segments.append({"start": begin, "end": end, "role": piece.role, **name})
    return segments
