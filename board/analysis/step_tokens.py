"""Puts the tokens of a step, or of some of its rollouts, into flat arrays."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from board.analysis.rollout_traits import traits_of
from board.analysis.step_records import PLACES, Progress, StepRecords
from board.core.arrays import FloatArray, IntArray
from board.core.metrics.definitions import DERIVED
from board.core.metrics.kl import without_fill
from board.core.records import NumberArray, Record
from board.core.schema import TOKEN_ARRAY_FIELDS
from board.core.texts.traits import Traits
from board.core.texts.turns import from_markers, of_tokens, with_tool_names
from board.core.tokens.pieces import (
    KINDS,
    Coding,
    detect_coding,
    display_pieces,
    joined,
    kinds_of,
    words,
)
from board.core.tokens.step_tokens import StepTokens
from board.core.tokens.vocabulary import Vocabulary, id_texts
from board.errors import RecordError
from board.query.open_run import Run

_BROKEN: Final = re.compile("[\ufffd\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ue000-\uf8ff]")
_LEAST_BROKEN: Final = 3


@dataclass(frozen=True, slots=True)
class ReadTokens:
    """What of each rollout is read. arrays: token arrays by name; () is all that are recorded.

    roles: whether to find out who speaks where, which takes a look at every token's text where the
    log has chat-template markers.
    texts: whether to look at the responses as texts: `numbers["broken"]` is then the share of their
    characters that are not text, and words serve as tokens where a rollout has no tokens.
    traits: of how many rollouts of a step, evenly spread, to say what they are like.
    """

    arrays: tuple[str, ...] = ()
    roles: bool = True
    texts: bool = False
    traits: int = 0

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
    are_words: whether pieces are words, since no token is recorded.
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
    are_words: bool = False

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


def tokens_of(place: int, record: Record, what: ReadTokens) -> RolloutTokens:
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
            read.arrays[name] = without_fill(values) if name.endswith("logprobs") else values
    if "loss_mask" in read.faults:  # without it, means would be over other tokens
        read.arrays = {}
    read.segments = record.segments
    if "sft_mask" in read.arrays:  # in other runs they would only take memory
        read.messages = record.messages
    if read.pieces is None and record.response_ids is not None:
        read.ids = _values(record.response_ids)
    if not read.has_tokens and not read.arrays and response and what.texts:
        read.pieces, read.response, read.are_words = words(response), None, True
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


class TokenCodes:
    """Gives every distinct token a code; ids and pieces may both occur in a run."""

    def __init__(self, vocabulary: Vocabulary | None) -> None:
        self.vocabulary = vocabulary
        self._pieces: dict[Coding, dict[str, int]] = {}
        self._codes: dict[int, int] = {}
        self._special: list[int] = []
        self._kinds = np.zeros(0, np.int8)
        self.texts: list[str] = []

    def of_pieces(self, pieces: Sequence[str], response: str | None) -> npt.NDArray[np.int32]:
        """[pieces] codes of the pieces of one response. response: its text, which tells the coding."""
        coding = detect_coding(pieces, response)
        known = self._pieces.setdefault(coding, {})
        codes = [*map(known.get, pieces)]
        if None in codes:
            for piece in dict.fromkeys(pieces):
                if piece not in known:
                    known[piece] = len(self.texts)
                    self.texts.append(display_pieces([piece], coding)[0])
            codes = [known[piece] for piece in pieces]
        return np.array(codes, np.int32)

    def of_ids(self, ids: FloatArray) -> npt.NDArray[np.int32]:
        """All ids at once: most occur many times, and each is decoded once. -1 for anything but an id."""
        places, distinct = pd.factorize(np.where(np.isfinite(ids), ids, np.nan), sort=True)
        numbers: list[int] = distinct.astype(np.int64).tolist()
        self._learn([number for number in numbers if number not in self._codes])
        return np.array([*map(self._codes.__getitem__, numbers), -1], np.int32)[places]

    def _learn(self, ids: list[int]) -> None:
        first = len(self.texts)
        self._codes |= {number: first + place for place, number in enumerate(ids)}
        if self.vocabulary:
            special = self.vocabulary.special_ids
            self._special += [self._codes[number] for number in ids if number in special]
            self.texts += self.vocabulary.alone(ids)
        else:
            self.texts += id_texts(np.array(ids, np.float64))

    def decoded(self, ids: npt.NDArray[Any]) -> str:
        """The text of a whole response; empty without a vocabulary."""
        return joined(self.vocabulary.texts(ids)) if self.vocabulary else ""

    def kinds(self) -> npt.NDArray[np.int8]:
        """[texts] codes; those known before are not looked at again."""
        first = len(self._kinds)
        special = [place - first for place in self._special if place >= first]
        self._kinds = np.append(self._kinds, kinds_of(self.texts[first:], special))
        return self._kinds


_NUMBERS: Final = ("reward", "advantage", "policy_version", "rank", "is_truncated")
_ROLE_MARKS: Final = frozenset(("template", "tool tag", "end of text"))


COLUMNS: Final = (*PLACES, *_NUMBERS)
"""Columns of the rollouts table that `StepReader.read` takes."""


def read_step(
    run: Run,
    step: int,
    what: ReadTokens | None = None,
    vocabulary: Vocabulary | None = None,
    progress: Progress | None = None,
) -> StepTokens:
    """The tokens of a step's rollouts.

    vocabulary: decodes ids where the run has none. Rollouts that can't be read are left out and counted.
    Raises NotFoundError when the run has no such step.
    """
    run.row(step, 0)
    return StepReader(run, what, vocabulary).read(step, run.frame(COLUMNS, (step, step)), progress)


class StepReader:
    """Reads steps of a run one after the other, keeping what it learned of tokens and lines."""

    def __init__(
        self, run: Run, what: ReadTokens | None = None, vocabulary: Vocabulary | None = None
    ) -> None:
        self._what = what or ReadTokens()
        self._texts = TokenCodes(run.vocabulary or vocabulary)
        self._records = StepRecords(run)

    def read(self, step: int, rows: pd.DataFrame, progress: Progress | None = None) -> StepTokens:
        """The tokens of these rollouts of a step. rows: of the rollouts table, with COLUMNS as far as
        the run has them. Rollouts that can't be read are left out and counted.
        """
        what, texts = self._what, self._texts
        records = self._records.of(rows, progress)
        every = -(-len(rows) // what.traits) if what.traits else 0
        traits: dict[int, Traits] = {}
        reads: list[RolloutTokens] = []
        for place, record in records:
            reads.append(tokens_of(place, record, what))
            if every and place % every == 0:
                traits[place] = traits_of(record, texts.vocabulary)
        reads.sort(key=lambda read: read.place)
        lengths = np.array([read.length for read in reads], np.int64)
        starts = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
        places = np.array([read.place for read in reads], np.int64)
        names = sorted({name for read in reads for name in read.arrays} - {"loss_mask"}, key=_rank)
        arrays = {name: _flat(reads, name, starts) for name in names}
        codes = _codes(reads, starts, texts)
        kinds = texts.kinds()
        roles = _roles(reads, codes, texts.texts, kinds, starts) if what.roles else {}
        indices = rows["index"].to_numpy(np.int64)[places]
        faults: dict[str, list[int]] = {}
        for read, index in zip(reads, indices.tolist(), strict=True):
            for name in read.faults:
                faults.setdefault(name, []).append(index)
        return StepTokens(
            step=step,
            indices=indices,
            starts=starts,
            arrays=arrays,
            in_loss=_flat(reads, "loss_mask", starts, 1.0) > 0,
            codes=codes,
            pieces=[*texts.texts],
            kinds=kinds,
            numbers=_broken(reads, codes, starts, kinds, texts)
            | {
                name: rows[name].to_numpy(np.float64, na_value=np.nan)[places]
                for name in _NUMBERS
                if name in rows
            },
            left_out=len(rows) - len(reads),
            faults=faults,
            traits=[traits.get(place) for place in places.tolist()],
            unit="words" if any(read.are_words for read in reads) else "tokens",
            **roles,
        )


def _codes(
    reads: list[RolloutTokens], starts: IntArray, texts: TokenCodes
) -> npt.NDArray[np.int32]:
    """Codes of all tokens, -1 where a rollout has none."""
    ids = np.full(int(starts[-1]), np.nan)
    for read, start in zip(reads, starts.tolist(), strict=False):
        if read.ids is not None and read.pieces is None:
            ids[start : start + read.length] = read.ids
    codes = texts.of_ids(ids)
    for read, start in zip(reads, starts.tolist(), strict=False):
        if read.pieces is not None:
            codes[start : start + read.length] = texts.of_pieces(read.pieces, read.response)
    return codes


def _broken(
    reads: list[RolloutTokens],
    codes: npt.NDArray[np.int32],
    starts: IntArray,
    kinds: npt.NDArray[np.int8],
    texts: TokenCodes,
) -> dict[str, FloatArray]:
    """By rollout the share of characters that are not text; decoded from ids where there is no text."""
    shares = np.array([read.broken for read in reads])
    part = KINDS.index("part of a character")
    is_part = np.append(kinds, np.int8(-1))[codes] == part
    for place in np.flatnonzero(np.isnan(shares)).tolist():
        read, own = reads[place], is_part[starts[place] : starts[place + 1]]
        if own.any() and read.ids is not None:
            shares[place] = broken_share(texts.decoded(read.ids))
        elif read.has_tokens:
            shares[place] = 0.0
    return {"broken": shares} if np.isfinite(shares).any() else {}


def _rank(name: str) -> int:
    return TOKEN_ARRAY_FIELDS.index(name) if name in TOKEN_ARRAY_FIELDS else len(TOKEN_ARRAY_FIELDS)


def _flat(
    reads: list[RolloutTokens], name: str, starts: IntArray, missing: float = np.nan
) -> FloatArray:
    """The array of all rollouts. missing: what the tokens of a rollout without it have."""
    if reads and all(name in read.arrays for read in reads):
        return np.concatenate([read.arrays[name] for read in reads])
    flat = np.full(int(starts[-1]), missing)
    for read, start in zip(reads, starts.tolist(), strict=False):
        if name in read.arrays:
            flat[start : start + read.length] = read.arrays[name]
    return flat


def _roles(
    reads: list[RolloutTokens],
    codes: npt.NDArray[np.int32],
    texts: Sequence[str],
    kinds: npt.NDArray[np.int8],
    starts: IntArray,
) -> dict[str, Any]:
    """Fields of StepTokens: roles, and of each token the code of its role and the number of its turn;
    empty where nobody is known to speak.
    """
    marks = [
        code
        for code, kind in enumerate(kinds.tolist())
        if KINDS[kind] in _ROLE_MARKS and from_markers(texts[code])
    ]
    has_marks = np.zeros(len(texts) + 1, bool)
    has_marks[marks] = True
    names: dict[str, int] = {}
    roles = np.full(int(starts[-1]), -1, np.int16)
    numbers = np.zeros(int(starts[-1]), np.int32)
    for read, start in zip(reads, starts.tolist(), strict=False):
        own = codes[start : start + read.length]
        if not read.segments and not read.messages and not has_marks[own].any():
            continue
        tokens = [texts[int(code)] if code >= 0 else "" for code in own.tolist()]
        turns = of_tokens(tokens, read.segments, read.messages)
        for number, turn in enumerate(with_tool_names(turns, read.messages)):
            label = f"{turn.role} {turn.name}".strip()
            roles[start + turn.start : start + turn.end] = names.setdefault(label, len(names))
            numbers[start + turn.start : start + turn.end] = number
    return {"roles": [*names], "role_codes": roles, "turns": numbers} if names else {}
