"""What of a rollout's tokens is needed, from a line of its own or from many lines read together."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Final

import pandas as pd

from board.analysis.step_records import Batch, Progress, StepRecords
from board.core.metrics.definitions import DERIVED
from board.core.records import FloatArray, NumberArray, Record
from board.core.schema import TOPK_FIELDS
from board.core.tokens.pieces import words
from board.errors import RecordError
from board.formats.columns import Values
from board.formats.fields import is_flat_numbers
from board.formats.number_arrays import RawNumbers, as_numbers, values_together
from board.formats.token_columns import TokenColumns

_BROKEN: Final = re.compile("[\ufffd\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ue000-\uf8ff]")
_LEAST_BROKEN: Final = 3


@dataclass(frozen=True, slots=True)
class ReadTokens:
    """What of each rollout is read. arrays: token arrays by name; () is all that are recorded.

    roles: whether to find out who speaks where, which takes a look at every token's text where the
    log has chat-template markers.
    texts: whether to look at the responses as texts: `numbers["broken"]` is then the share of their
    characters that are not text, and words serve as tokens where a rollout has no tokens.
    """

    arrays: tuple[str, ...] = ()
    roles: bool = True
    texts: bool = False

    @classmethod
    def of_metric(cls, metric: str) -> ReadTokens:
        """What a token metric needs, and no more."""
        needs = DERIVED[metric].needs if metric in DERIVED else (metric,)
        return cls(tuple(dict.fromkeys((*needs, metric))))

    def wants(self, name: str) -> bool:
        """Whether an array is to be read."""
        return not self.arrays or name == "loss_mask" or name in self.arrays


@dataclass(slots=True)
class RolloutTokens:
    """One rollout as far as it is needed. place: in the table of addresses.

    length: of the response, in tokens, and of each of the arrays. ids or pieces: its tokens, None where
    not recorded or of another length; the coding of pieces is judged by the response. broken: share of
    the response's characters that are not text, NaN where not known. faults: arrays that are left out.
    """

    place: int
    length: int
    arrays: dict[str, FloatArray]
    ids: FloatArray | None = None
    pieces: Sequence[str] | None = None
    response: str | None = None
    segments: Sequence[Mapping[str, Any]] = ()
    messages: Sequence[Mapping[str, Any]] = ()
    broken: float = float("nan")
    faults: list[str] = field(default_factory=list[str])

    @property
    def has_tokens(self) -> bool:
        """Whether it is known which tokens they are."""
        return self.ids is not None or self.pieces is not None

    def finish(self, what: ReadTokens) -> RolloutTokens:
        """The rollout without arrays and tokens that do not fit."""
        if "loss_mask" in self.faults:  # without it, means would be over other tokens
            self.arrays = {}
        response = self.response if what.texts else None
        if not self.has_tokens and not self.arrays and response:
            self.pieces, self.response = words(response), None
            self.length = len(self.pieces)
        tokens = self.ids if self.pieces is None else self.pieces
        if tokens is not None and len(tokens) != self.length:
            self.ids = self.pieces = None
            self.faults.append("response_ids")
        if response:
            self.broken = broken_share(response)
        # They name the tools; in other runs they would only take memory.
        if "sft_mask" not in self.arrays:
            self.messages = ()
        return self


def broken_share(text: str) -> float:
    """The share of characters that are not text: U+FFFD, control and private-use characters.

    One in the end is what a response cut within a character ends with.
    """
    count = len(_BROKEN.findall(text[:-1]))
    return count / len(text) if count >= _LEAST_BROKEN else 0.0


def read_tokens(
    records: StepRecords, rows: pd.DataFrame, what: ReadTokens, progress: Progress | None = None
) -> Iterator[RolloutTokens]:
    """The rollouts of a table of addresses in the order of the log; what can't be read is left out."""
    for batch in records.batches(rows, progress):
        if batch.columns is not None:
            yield from _of_columns(batch, batch.columns, what)
        for place, record in batch.records:
            yield _of_record(place, record, what)


def _of_record(place: int, record: Record, what: ReadTokens) -> RolloutTokens:
    """The arrays that are asked for, of the length that most have, and the tokens."""
    wanted = {name: array for name, array in record.tokens.items() if what.wants(name)}
    length = _length(record, wanted)
    read = RolloutTokens(place, length, {}, response=record.texts.get("response"))
    for name, array in wanted.items():
        values = _values(array) if len(array) == length else None
        if values is None:
            read.faults.append(name)
        else:
            read.arrays[name] = values
    read.segments, read.messages = record.segments, record.messages
    read.pieces = record.response_tokens
    if read.pieces is None and record.response_ids is not None:
        read.ids = _values(record.response_ids)
    return read.finish(what)


def _length(record: Record, wanted: Mapping[str, NumberArray]) -> int:
    lengths = [len(array) for array in wanted.values()]
    if not lengths:
        return record.response_length or 0
    return max(lengths, key=lengths.count)


def _values(array: NumberArray) -> FloatArray | None:
    try:
        return array.values()
    except RecordError:
        return None


def _of_columns(batch: Batch, columns: TokenColumns, what: ReadTokens) -> Iterator[RolloutTokens]:
    """Like _of_record, for rows in each of which all arrays are of one length."""
    recorded = {
        n: v for n, v in (*columns.other_arrays.items(), *_unknown(columns)) if what.wants(n)
    }
    parsed = {name: _together(own) for name, own in recorded.items()}
    values = {name: own for name, own in columns.arrays.items() if what.wants(name)} | parsed
    faulty = [
        (name, own)
        for name, own in recorded.items()
        if any(a is None and b is not None for a, b in zip(parsed[name], own, strict=True))
    ]
    nothing: Values = [None] * len(batch.places)
    ids = _together(columns.token_ids.get("response_ids", nothing))
    texts = columns.columns.texts.get("response")
    responses = nothing if texts is None else texts
    rows = zip(batch.places, columns.lengths, columns.pieces, ids, responses, strict=True)
    for row, (place, count, pieces, own_ids, response) in enumerate(rows):
        arrays = {name: array for name, own in values.items() if (array := own[row]) is not None}
        faults = [name for name, own in faulty if own[row] is not None and name not in arrays]
        logged = arrays or {name: recorded[name][row] for name in faults}
        length = len(next(iter(logged.values()))) if logged else count or 0
        read = RolloutTokens(place, length, arrays, response=response, pieces=pieces, faults=faults)
        if pieces is None:
            read.ids = own_ids
        yield read.finish(what)


def _unknown(columns: TokenColumns) -> Iterator[tuple[str, Values]]:
    """Arrays under names that the board does not know, in the rows where they are as long as the
    response.
    """
    for name, values in columns.columns.extras.items():
        if name not in TOPK_FIELDS and any(isinstance(v, RawNumbers | list) for v in values):
            arrays = map(_numbers, values)
            pairs = zip(arrays, columns.lengths, strict=True)
            yield name, [a if a is not None and len(a) == length else None for a, length in pairs]


def _numbers(value: object) -> NumberArray | None:
    try:
        return as_numbers(value) if is_flat_numbers(value) else None
    except RecordError:
        return None


def _together(arrays: Values) -> list[FloatArray | None]:
    """The values of arrays; None where there is none, or one of something else."""
    raw = [array for array in arrays if isinstance(array, RawNumbers)]
    parsed = values_together(raw) if raw else None
    if parsed is None:
        return [None if array is None else _values(array) for array in arrays]
    flat, lengths = parsed
    ends = list(accumulate(lengths))
    cut = (flat[end - length : end] for end, length in zip(ends, lengths, strict=True))
    return [
        next(cut) if isinstance(array, RawNumbers) else None if array is None else _values(array)
        for array in arrays
    ]
