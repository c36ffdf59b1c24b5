"""A rollout in memory, the same whichever framework wrote it, and how a user wants it read.

Readers check a `Record` where they make it, once. Token arrays stay unparsed until somebody asks for
their values, so that a scan that needs three of twelve arrays pays for three.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeGuard, cast

import numpy as np
import numpy.typing as npt

from board.core.arrays import BoolArray, FloatArray, IntArray
from board.core.problems import Severity


def is_number(value: object) -> TypeGuard[float]:
    """Whether a parsed value is a number, NaN and infinities included; true and false are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


class NumberArray(Protocol):
    """A one-dimensional array of numbers whose values may not have been parsed yet."""

    def __len__(self) -> int:
        """Number of entries; cheap, without parsing the values."""
        ...

    def values(self) -> FloatArray:
        """float64 [len(self)]; null and NaN are NaN. Raises RecordError on anything but numbers."""
        ...


@dataclass(slots=True)
class Parsed:
    """A NumberArray whose values are at hand."""

    array: FloatArray

    def __len__(self) -> int:
        return len(self.array)

    def values(self) -> FloatArray:
        """float64 [len(self)]."""
        return self.array


@dataclass(slots=True)
class Sparse(Parsed):
    """Values at some tokens: none elsewhere is how they are laid out, and no gap in them.

    array: NaN elsewhere. places: bool, where a value belongs.
    """

    places: BoolArray

    def filled(self) -> FloatArray:
        """The values with 0 at the other tokens, for what looks at `places` alone."""
        return np.where(self.places, self.array, 0.0)


@dataclass(frozen=True, slots=True)
class Remark:
    """Something about one record that the user should know; becomes a Problem with its location."""

    field: str | None
    reason: str
    hint: str = ""
    severity: Severity = "partial"


@dataclass(slots=True)
class Record:
    """One rollout. What the log does not hold is absent from the mappings or None, never zero.

    step: trainer step, as the trainer counts.
    ids: micro_step, rank, rollout_id, group_id, env, split, policy_version, timestamp.
    texts: prompt, response, ref_response, ground_truth, finish_reason; and failure, what the log says of
        why it failed, as `board.core.failures.causes.recorded` writes it.
    scores: reward, ref_reward, valid_reward, ref_valid_reward, advantage, is_truncated (0 or 1) and
        the named parts as `rewards.NAME`; finite floats.
    tokens: aligned with the response, by the names of `schema.TOKEN_ARRAY_FIELDS` and, for arrays that
        a framework adds, their own name; lengths as recorded, which may differ from each other.
    prompt_ids, response_ids: token ids, [P] and [R].
    response_tokens: pieces of the response, [R]; as the log has them, possibly undecoded.
    messages: chat messages {role, content, ...} as recorded.
    given, generated: those of the prompt and of the response, where the log keeps them apart; None where
        it has no messages of the one or the other.
    segments: which stretch of response tokens is of which role, {start, end, role, name?}.
    extras: every other key of the line, as recorded.
    pad_tokens: padding tokens that were left out at both ends of the response.
    remarks: what of the line was left out, and how unusual values were read.
    """

    step: int
    ids: Mapping[str, Any] = field(default_factory=dict[str, Any])
    texts: Mapping[str, str] = field(default_factory=dict[str, str])
    scores: Mapping[str, float] = field(default_factory=dict[str, float])
    tokens: Mapping[str, NumberArray] = field(default_factory=dict[str, NumberArray])
    prompt_ids: NumberArray | None = None
    response_ids: NumberArray | None = None
    response_tokens: Sequence[str] | None = None
    messages: Sequence[Mapping[str, Any]] = ()
    given: Sequence[Mapping[str, Any]] | None = None
    generated: Sequence[Mapping[str, Any]] | None = None
    segments: Sequence[Mapping[str, Any]] = ()
    extras: Mapping[str, Any] = field(default_factory=dict[str, Any])
    pad_tokens: int = 0
    remarks: Sequence[Remark] = ()

    @property
    def response_length(self) -> int | None:
        """Response tokens R: of the ids, else of the pieces, else of the longest token array.

        None when the record holds no token at all: the length in characters is another quantity.
        """
        if self.response_ids is not None:
            return len(self.response_ids)
        if self.response_tokens is not None:
            return len(self.response_tokens)
        return max((len(a) for a in self.tokens.values()), default=None)


DEFAULT_PAD_MARKERS: Final = ("<pad>", "<PAD>", "[PAD]", "<|pad|>")


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How texts and tokens are read; the same for every file of a run.

    pad_markers: response pieces that are padding. Runs of them at either end of a response are left
        out, with the values that belong to them; the number is in `Record.pad_tokens`.
    system_prompt_end: text that ends the system prompt; what comes before and including its first
        occurrence is left out of the prompt. Empty: nothing is left out.
    outline: ids, scores and single values alone are read, in a fraction of the time: no texts, messages
        or tokens.
    """

    pad_markers: tuple[str, ...] = DEFAULT_PAD_MARKERS
    system_prompt_end: str = ""
    outline: bool = field(default=False, repr=False)


MOST_ALTERNATIVES: Final = 64
"""More than this many per token are cut: nobody reads them, and each costs a number per token."""


@dataclass(frozen=True, slots=True)
class TopK:
    """The likeliest tokens at each position, as recorded.

    texts: [V] display text of every token that occurs. places: [R, k] index in texts, -1 for none.
    logprobs: [R, k] natural log-probabilities, NaN where there is none.
    """

    texts: Sequence[str]
    places: npt.NDArray[np.int32]
    logprobs: npt.NDArray[np.float32]


def read_top_k(
    fields: Mapping[str, Any], length: int
) -> tuple[IntArray, npt.NDArray[np.float32]] | None:
    """Token ids, -1 where there is none, and log-probabilities, NaN there, of a record's extras: [R, k].

    topk_ids and topk_logprobs may have rows of unequal length. None where either is missing, or not one
    row per response token: rows have no other place.
    """
    ids, logprobs = fields.get("topk_ids"), fields.get("topk_logprobs")
    if not (_is_rows(ids, length) and _is_rows(logprobs, length)) or length == 0:
        return None
    k = min(MOST_ALTERNATIVES, max(map(min, map(len, ids), map(len, logprobs))))
    if k == 0:
        return None
    places, values = np.full((length, k), -1, np.int64), np.full((length, k), np.nan, np.float32)
    for i, row in enumerate(zip(ids, logprobs, strict=True)):
        for j, pair in enumerate(zip(*(one[:k] for one in row), strict=False)):
            if all(is_number(value) and value == value for value in pair):
                places[i, j], values[i, j] = int(pair[0]), pair[1]
    return places, values


def _is_rows(value: object, length: int) -> TypeGuard[list[list[Any]]]:
    rows = cast("list[object]", value) if isinstance(value, list) else []
    return len(rows) == length and all(isinstance(row, list) for row in rows)
