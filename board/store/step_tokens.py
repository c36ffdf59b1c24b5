"""Reads the tokens of a step, or of some of its rollouts, into flat arrays."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from board.core.alignment import words
from board.core.metrics import DERIVED
from board.core.records import FloatArray, NumberArray, Record
from board.core.schema import TOKEN_ARRAY_FIELDS
from board.core.step_tokens import StepTokens
from board.core.token_kinds import KINDS
from board.core.turns import from_markers, of_tokens, with_tool_names
from board.core.vocabulary import Vocabulary
from board.errors import RecordError
from board.store.run import Run
from board.store.step_records import PLACES, Progress, StepRecords
from board.store.token_codes import TokenCodes

_NUMBERS: Final = ("reward", "advantage", "policy_version", "rank", "is_truncated")
_ROLE_MARKS: Final = frozenset(("template", "tool tag", "end of text"))
_BROKEN: Final = re.compile("[\ufffd\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ue000-\uf8ff]")
_LEAST_BROKEN: Final = 3
_FAULTY: Final = 3


@dataclass(frozen=True, slots=True)
class ReadTokens:
    """What of each rollout is read. arrays: token arrays by name; () is all that are recorded.

    roles: whether to find out who speaks where, which takes a look at every token's text where the
    log has chat-template markers. columns: further columns of the rollouts table for `numbers`.
    texts: whether to look at the responses as texts: `numbers["broken"]` is then the share of their
    characters that are no text, and words stand for tokens where a rollout has no tokens.
    """

    arrays: tuple[str, ...] = ()
    roles: bool = True
    columns: tuple[str, ...] = ()
    texts: bool = False

    @classmethod
    def of_metric(cls, metric: str) -> ReadTokens:
        """What a token metric needs, and no more."""
        needs = DERIVED[metric].needs if metric in DERIVED else (metric,)
        return cls(tuple(dict.fromkeys((*needs, metric))))


@dataclass(slots=True)
class _Read:
    """One rollout as far as it is needed. tokens: ids as numbers, or codes of pieces as whole ones."""

    place: int
    length: int
    arrays: dict[str, FloatArray]
    tokens: FloatArray | npt.NDArray[np.int32] | None
    segments: Sequence[Mapping[str, Any]]
    messages: Sequence[Mapping[str, Any]] = ()
    broken: float = float("nan")
    faults: list[str] = field(default_factory=list[str])


COLUMNS: Final = (*PLACES, *_NUMBERS)
"""Columns of the rollouts table that `StepReader.read` takes."""


def read_step(
    run: Run,
    step: int,
    what: ReadTokens | None = None,
    indices: Iterable[int] | None = None,
    vocabulary: Vocabulary | None = None,
    progress: Progress | None = None,
) -> StepTokens:
    """The tokens of a step's rollouts.

    indices: of the rollouts to read; None is all. vocabulary: decodes ids where the run has none.
    Rollouts that can't be read are left out and counted. Raises NotFoundError when the run has no such
    step.
    """
    run.row(step, 0)
    rows = run.of_step(step)
    if indices is not None:
        rows = rows[rows["index"].isin(list(indices))]
    found = StepReader(run, what, vocabulary).read(step, rows, progress)
    return replace(found, left_out=len(run.of_step(step)) - len(found.indices))


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
        found = sorted(self._rollouts(rows, progress), key=lambda read: read.place)
        return _joined(step, rows, found, self._texts, self._what)

    def _rollouts(self, rows: pd.DataFrame, progress: Progress | None) -> Iterator[_Read]:
        for place, record in self._records.of(rows, progress):
            yield _needed(place, record, self._what, self._texts)


def _needed(place: int, record: Record, what: ReadTokens, texts: TokenCodes) -> _Read:
    """The arrays that are asked for, of the length that most have, and the tokens' codes."""
    names = ("loss_mask", *what.arrays) if what.arrays else (*record.tokens,)
    held = {name: record.tokens[name] for name in names if name in record.tokens}
    length = _length(record, held)
    arrays: dict[str, FloatArray] = {}
    faults: list[str] = []
    for name, array in held.items():
        values = _values(array) if len(array) == length else None
        if values is None:
            faults.append(name)
        else:
            arrays[name] = values
    if "loss_mask" in faults:  # without it, means would be over other tokens
        arrays = {}
    tokens = _tokens(record, texts)
    response = record.texts.get("response") if what.texts else None
    if tokens is None and not arrays and response:
        tokens = texts.of_pieces(words(response), None)
        length = len(tokens)
    if tokens is not None and len(tokens) != length:
        tokens = None
        faults.append("response_ids")
    broken = _broken_share(response) if response else float("nan")
    # What tools said is told by them; of other runs they would only take memory.
    messages = record.messages if "sft_mask" in arrays else ()
    return _Read(place, length, arrays, tokens, record.segments, messages, broken, faults)


def _broken_share(text: str) -> float:
    """The share of characters that are no text: U+FFFD, control and private-use characters.

    One in the end is what a response cut within a character ends with.
    """
    count = len(_BROKEN.findall(text[:-1]))
    return count / len(text) if count >= _LEAST_BROKEN else 0.0


def _length(record: Record, held: Mapping[str, NumberArray]) -> int:
    lengths = [len(array) for array in held.values()]
    if not lengths:
        return record.response_length or 0
    return max(lengths, key=lengths.count)


def _values(array: NumberArray) -> FloatArray | None:
    try:
        return array.values()
    except RecordError:
        return None


def _tokens(record: Record, texts: TokenCodes) -> FloatArray | npt.NDArray[np.int32] | None:
    if record.response_tokens is not None:
        return texts.of_pieces(record.response_tokens, record.texts.get("response"))
    return None if record.response_ids is None else _values(record.response_ids)


def _codes(
    found: list[_Read], starts: npt.NDArray[np.int64], texts: TokenCodes
) -> npt.NDArray[np.int32]:
    """Codes of all tokens, -1 where a rollout has none."""
    codes = np.full(int(starts[-1]), -1, np.int32)
    of_ids = np.zeros(len(codes), bool)
    ids: list[FloatArray] = []
    for read, start in zip(found, starts.tolist(), strict=False):
        if read.tokens is None:
            continue
        if read.tokens.dtype == np.int32:
            codes[start : start + read.length] = read.tokens
        else:
            of_ids[start : start + read.length] = True
            ids.append(read.tokens.astype(np.float64, copy=False))
    if ids and of_ids.all():  # nearly all logs
        return texts.of_ids(np.concatenate(ids))
    if ids:
        codes[of_ids] = texts.of_ids(np.concatenate(ids))
    return codes


def _joined(
    step: int,
    rows: pd.DataFrame,
    found: list[_Read],
    texts: TokenCodes,
    what: ReadTokens,
) -> StepTokens:
    lengths = np.array([read.length for read in found], np.int64)
    starts = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    kept = rows.iloc[[read.place for read in found]]
    names = sorted({name for read in found for name in read.arrays} - {"loss_mask"}, key=_rank)
    arrays = {name: _flat(found, name, starts) for name in names}
    codes = _codes(found, starts, texts)
    kinds = texts.kinds()
    roles = _roles(found, codes, texts.shown, kinds, starts) if what.roles else ((), None, None)
    indices = kept["index"].to_numpy(np.int64)
    faulty: dict[str, list[int]] = {}
    for read, index in zip(found, indices.tolist(), strict=True):
        for name in read.faults:
            faulty.setdefault(name, []).append(index)
    return StepTokens(
        step=step,
        indices=indices,
        starts=starts,
        arrays=arrays,
        in_loss=_in_loss(found, starts),
        codes=codes,
        pieces=[*texts.shown],
        kinds=kinds,
        roles=roles[0],
        role_codes=np.zeros(0, np.int16) if roles[1] is None else roles[1],
        turns=np.zeros(0, np.int32) if roles[2] is None else roles[2],
        numbers=_broken(found, codes, starts, kinds, texts)
        | {
            name: kept[name].to_numpy(np.float64, na_value=np.nan)
            for name in dict.fromkeys((*_NUMBERS, *what.columns))
            if name in kept
        },
        left_out=len(rows) - len(found),
        faults={name: len(own) for name, own in faulty.items()},
        faulty={name: own[:_FAULTY] for name, own in faulty.items()},
    )


def _broken(
    found: list[_Read],
    codes: npt.NDArray[np.int32],
    starts: npt.NDArray[np.int64],
    kinds: npt.NDArray[np.int8],
    texts: TokenCodes,
) -> dict[str, FloatArray]:
    """By rollout the share of characters that are no text; decoded from ids where there is no text."""
    shares = np.array([read.broken for read in found])
    part = KINDS.index("part of a character")
    is_part = np.append(kinds, np.int8(-1))[codes] == part
    for place in np.flatnonzero(np.isnan(shares)).tolist():
        read, own = found[place], is_part[starts[place] : starts[place + 1]]
        if own.any() and read.tokens is not None and read.tokens.dtype != np.int32:
            shares[place] = _broken_share(texts.decoded(read.tokens))
        elif read.tokens is not None:
            shares[place] = 0.0
    return {"broken": shares} if np.isfinite(shares).any() else {}


def _rank(name: str) -> int:
    return TOKEN_ARRAY_FIELDS.index(name) if name in TOKEN_ARRAY_FIELDS else len(TOKEN_ARRAY_FIELDS)


def _flat(found: list[_Read], name: str, starts: npt.NDArray[np.int64]) -> FloatArray:
    """The array of all rollouts, NaN where a rollout has none."""
    if all(name in read.arrays for read in found):
        return np.concatenate([read.arrays[name] for read in found])
    flat = np.full(int(starts[-1]), np.nan)
    for read, start in zip(found, starts.tolist(), strict=False):
        if name in read.arrays:
            flat[start : start + read.length] = read.arrays[name]
    return flat


def _in_loss(found: list[_Read], starts: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """A rollout without a loss_mask has all its tokens in the loss."""
    in_loss = np.ones(int(starts[-1]), bool)
    for read, start in zip(found, starts.tolist(), strict=False):
        if "loss_mask" in read.arrays:
            in_loss[start : start + read.length] = read.arrays["loss_mask"] > 0
    return in_loss


def _roles(
    found: list[_Read],
    codes: npt.NDArray[np.int32],
    shown: Sequence[str],
    kinds: npt.NDArray[np.int8],
    starts: npt.NDArray[np.int64],
) -> tuple[Sequence[str], npt.NDArray[np.int16] | None, npt.NDArray[np.int32] | None]:
    """Roles, and of each token the code of its role and the number of its turn."""
    marks = [
        code
        for code, kind in enumerate(kinds.tolist())
        if KINDS[kind] in _ROLE_MARKS and from_markers(shown[code])
    ]
    has_marks = np.zeros(len(shown) + 1, bool)
    has_marks[marks] = True
    names: dict[str, int] = {}
    roles = np.full(int(starts[-1]), -1, np.int16)
    numbers = np.zeros(int(starts[-1]), np.int32)
    for read, start in zip(found, starts.tolist(), strict=False):
        own = codes[start : start + read.length]
        if not read.segments and not read.messages and not has_marks[own].any():
            continue
        tokens = [shown[int(code)] if code >= 0 else "" for code in own.tolist()]
        turns = of_tokens(tokens, read.segments, read.messages)
        for number, turn in enumerate(with_tool_names(turns, read.messages)):
            label = f"{turn.role} {turn.name}".strip()
            roles[start + turn.start : start + turn.end] = names.setdefault(label, len(names))
            numbers[start + turn.start : start + turn.end] = number
    return [*names], (roles if names else None), (numbers if names else None)
