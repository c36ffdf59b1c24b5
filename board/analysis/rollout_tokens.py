"""What of the tokens of many rollouts is needed, read again from the log."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pandas as pd

from board.analysis.step_records import Progress, StepRecords
from board.core.metrics.definitions import DERIVED
from board.core.records import FloatArray, NumberArray, Record
from board.core.tokens.pieces import words
from board.errors import RecordError

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
    arrays: dict[str, FloatArray] = field(default_factory=dict[str, FloatArray])
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
    return (_tokens_of(place, record, what) for place, record in records.of(rows, progress))


def _tokens_of(place: int, record: Record, what: ReadTokens) -> RolloutTokens:
    """The arrays that are asked for, of the length that most have, and the tokens; without those that do
    not fit.
    """
    wanted = {name: array for name, array in record.tokens.items() if what.wants(name)}
    lengths = [len(array) for array in wanted.values()]
    length = max(lengths, key=lengths.count) if lengths else record.response_length or 0
    response = record.texts.get("response")
    read = RolloutTokens(place, length, response=response, pieces=record.response_tokens)
    for name, array in wanted.items():
        values = _values(array) if len(array) == length else None
        if values is None:
            read.faults.append(name)
        else:
            read.arrays[name] = values
    if "loss_mask" in read.faults:  # without it, means would be over other tokens
        read.arrays = {}
    read.segments = record.segments
    if "sft_mask" in read.arrays:  # in other runs they would only take memory
        read.messages = record.messages
    if read.pieces is None and record.response_ids is not None:
        read.ids = _values(record.response_ids)
    if not read.has_tokens and not read.arrays and response and what.texts:
        read.pieces, read.response = words(response), None
        read.length = len(read.pieces)
    tokens = read.ids if read.pieces is None else read.pieces
    if tokens is not None and len(tokens) != read.length:
        read.ids = read.pieces = None
        read.faults.append("response_ids")
    if response and what.texts:
        read.broken = broken_share(response)
    return read


def _values(array: NumberArray) -> FloatArray | None:
    try:
        return array.values()
    except RecordError:
        return None
