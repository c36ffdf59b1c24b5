"""prime-rl's token exports: one packed sequence per line, all arrays over prompt and response.

Read from PrimeIntellect-ai/prime-rl@559b447 src/prime_rl/trainer/rl/token_export.py. Two layouts:
`token_exports/rank_N.jsonl` (e971d90) and `token_exports/step_N/rank_N.jsonl` (badd2b0 and later).
The response begins at the first token of the loss mask. Token 0 is always given to the prompt: nothing
comes before it, so that its log-probability log(1/V) and its entropy log(V) are fillers of the exporter.
The older layout repeats the rollout's reward for each token (`rewards`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from board.core.arrays import FloatArray
from board.core.records import NumberArray, Parsed, Record
from board.errors import RecordError
from board.formats.base import Event, Head, Join, LineContext, Reader
from board.formats.fields import RecordBuilder
from board.formats.number_arrays import RawNumbers, as_numbers
from board.formats.parse import is_list
from board.formats.sequences import TOKENS_JOINED_BY, tokens_key

_OURS: Final[Mapping[str, str]] = {
    "trainer_logprobs": "logprobs",
    "inference_logprobs": "sampling_logprobs",
    **{name: name for name in ("entropy", "advantages", "loss_mask")},
    **{name: name for name in ("is_masked", "is_masked_high", "is_masked_low")},
}
_PLACE: Final = ("rank", "micro_step", "micro_sequence_idx", "export_sequence_idx")
"""What tells a sequence from all others of its step."""
_READ_APART: Final = frozenset(
    {
        # These follow from the log-probabilities: derived when read, under the board's own names.
        *("mismatch_kl", "log_importance_ratio", "importance_ratio", "prob_delta", "position_ids"),
        *("token_ids", "step", "schema_version", "micro_sequence_idx", "export_sequence_idx"),
        "env_name",
    }
)


class PrimeRLReader(Reader):
    """Reads prime-rl's token exports, both layouts."""

    name = "prime_rl_tokens"
    title = "prime-rl token exports"
    left_out: Mapping[str, str] = {
        "mismatch_kl": "derived again from the log-probabilities",
        "log_importance_ratio": "derived again from the log-probabilities",
        "importance_ratio": "derived again from the log-probabilities",
        "prob_delta": "derived again from the log-probabilities",
        "position_ids": "the number of each token",
    }
    layout = re.compile(r"token_exports/(?:step_[0-9]+/)?rank_[0-9]+\.jsonl")
    join = Join("prime_rl", TOKENS_JOINED_BY, "trainer", order=3, is_trainer=True)

    def recognises(self, head: Head) -> bool:
        """A record with a step, token ids and the trainer's or the sampler's log-probabilities."""
        return any(
            "step" in record
            and "token_ids" in record
            and ("trainer_logprobs" in record or "inference_logprobs" in record)
            for record in head.records
        )

    def join_keys(self, record: Record, part: int) -> Sequence[object]:
        """All its token ids: the trainer is told no id of the trace."""
        return (tokens_key(record),)

    def read(self, line: Mapping[str, Any], at: LineContext) -> Record | Event:
        token_ids = _token_ids(line)
        builder = RecordBuilder(at.options)
        start = _response_start(line, len(token_ids), builder)
        ids = token_ids.values()
        builder.prompt_ids, builder.response_ids = Parsed(ids[:start]), Parsed(ids[start:])
        builder.take("env", line.get("env_name"))
        for key, value in line.items():
            if key in _READ_APART:
                continue
            if isinstance(value, RawNumbers) or (is_list(value) and _is_stream(value)):
                _take_stream(builder, key, value, start, len(token_ids))
            else:
                builder.take(key, value)
        if place := [str(line[key]) for key in _PLACE if line.get(key) is not None]:
            builder.ids["rollout_id"] = "-".join(place)
        return builder.build(line.get("step"))


def _token_ids(line: Mapping[str, Any]) -> NumberArray:
    reason = "is missing"
    try:
        if (token_ids := as_numbers(line.get("token_ids"))) is not None:
            return token_ids
    except RecordError as error:
        reason = error.reason
    raise RecordError(f"token_ids {reason}", field="token_ids", hint="a list of token ids")


def _response_start(line: Mapping[str, Any], length: int, builder: RecordBuilder) -> int:
    """Index of the first token in the loss; 1 (all after the filler) where there is no usable mask."""
    first = min(1, length)
    try:
        mask = as_numbers(line.get("loss_mask"))
        in_loss = np.flatnonzero(mask.values() > 0) if mask is not None else np.array([])
    except RecordError:
        return first
    if mask is None or len(mask) != length:
        return first
    if len(in_loss) == 0:
        builder.note("loss_mask", "no token is in the loss", "all tokens are shown as response")
        return first
    return max(int(in_loss[0]), first)


def _is_stream(values: Sequence[Any]) -> bool:
    """Whether a list is not one of texts or objects, which no stream of tokens is."""
    return not any(isinstance(value, str | Mapping | list) for value in values)


def _take_stream(builder: RecordBuilder, key: str, value: Any, start: int, length: int) -> None:
    """A stream over the whole sequence, cut to the response; kept whole when its length is odd."""
    try:
        array = as_numbers(value)
    except RecordError as error:
        builder.refuse(key, error)
        return
    if array is None:
        return
    if len(array) == length:
        array = _Tail(array, start)
    if key in _OURS:
        builder.tokens[_OURS[key]] = array
        return
    if key == "rewards":  # the number that all recorded entries are
        recorded = np.unique(array.values())
        recorded = recorded[np.isfinite(recorded)]
        if len(recorded) == 1:
            builder.take("reward", float(recorded[0]))
            return
    builder.unknown_arrays[key] = array
    builder.extras[key] = value


class _Tail:
    """A NumberArray without its first entries, which are parsed only when its values are."""

    __slots__ = ("_start", "_whole")

    def __init__(self, whole: NumberArray, start: int) -> None:
        self._whole = whole
        self._start = start

    def __len__(self) -> int:
        return len(self._whole) - self._start

    def values(self) -> FloatArray:
        return self._whole.values()[self._start :]
