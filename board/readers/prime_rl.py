"""prime-rl's token exports: one packed sequence per line, all arrays over prompt and response.

Read from PrimeIntellect-ai/prime-rl@559b447 src/prime_rl/trainer/rl/token_export.py. Two layouts:
`token_exports/rank_N.jsonl` (e971d90) and `token_exports/step_N/rank_N.jsonl` (badd2b0 and later).
A stream that was not recorded is a list of nulls. The response begins at the first token of the loss
mask; the exporter's fillers at position 0 lie in the prompt and are cut with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from board.core.records import FloatArray, NumberArray, Parsed, Record, Remark
from board.errors import RecordError
from board.core.options import ReadOptions
from board.readers.base import Event, Head
from board.readers.fields import RecordBuilder
from board.readers.parse import RawNumbers, as_numbers

_OURS: Final[Mapping[str, str]] = {
    "trainer_logprobs": "logprobs",
    "inference_logprobs": "sampling_logprobs",
    "entropy": "entropy",
    "advantages": "advantages",
    "loss_mask": "loss_mask",
    "is_masked": "is_masked",
    "is_masked_high": "is_masked_high",
    "is_masked_low": "is_masked_low",
}
_DERIVED_HERE: Final = frozenset(
    {"mismatch_kl", "log_importance_ratio", "importance_ratio", "prob_delta", "position_ids"}
)
"""Streams that follow from the log-probabilities; derived when read, under the board's own names."""


class PrimeRLReader:
    """Reads prime-rl's token exports, both layouts."""

    name = "prime_rl_tokens"
    title = "prime-rl token exports"

    def recognises(self, head: Head) -> bool:
        """A record with a step, token ids and the trainer's or the sampler's log-probabilities."""
        return any(
            "step" in record
            and "token_ids" in record
            and ("trainer_logprobs" in record or "inference_logprobs" in record)
            for record in head.records
        )

    def read(self, line: Mapping[str, Any], options: ReadOptions) -> Record | Event:
        """The Record of one packed sequence, cut into prompt and response by its loss mask."""
        token_ids = as_numbers(line.get("token_ids"))
        if token_ids is None:
            hint = "a list of token ids"
            raise RecordError("token_ids is missing", field="token_ids", hint=hint)
        builder = RecordBuilder(options)
        start = _response_start(line, len(token_ids), builder)
        ids = token_ids.values()
        builder.prompt_ids, builder.response_ids = Parsed(ids[:start]), Parsed(ids[start:])
        for key, value in line.items():
            _take(builder, key, value, start, len(token_ids))
        builder.ids["rollout_id"] = _rollout_id(line)
        return builder.build(line.get("step"))


def _response_start(line: Mapping[str, Any], length: int, builder: RecordBuilder) -> int:
    """Index of the first token in the loss; 0 (all is response) where there is no usable mask."""
    try:
        mask = as_numbers(line.get("loss_mask"))
    except RecordError:
        return 0
    if mask is None or len(mask) != length:
        return 0
    in_loss = np.flatnonzero(mask.values() > 0)
    if len(in_loss) == 0:
        reason = "no token is in the loss"
        builder.remarks.append(
            Remark("loss_mask", reason, "all tokens are shown as response", "note")
        )
        return 0
    return int(in_loss[0])


def _take(builder: RecordBuilder, key: str, value: Any, start: int, length: int) -> None:
    if key in _DERIVED_HERE or key in ("token_ids", "step"):
        return
    if key == "env_name":
        builder.take("env", value)
    elif not isinstance(value, RawNumbers | list):
        builder.take(key, value)
    else:
        _take_stream(builder, key, value, start, length)


def _take_stream(builder: RecordBuilder, key: str, value: Any, start: int, length: int) -> None:
    """A stream over the whole sequence, cut to the response; kept whole when its length is odd."""
    try:
        array = as_numbers(value)
    except RecordError as error:
        builder.remarks.append(Remark(key, f"{key} {error.reason}", f"expected: {error.hint}"))
        return
    if array is not None:
        whole = len(array) == length
        builder.tokens[_OURS.get(key, key)] = _Tail(array, start) if whole else array


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


def _rollout_id(line: Mapping[str, Any]) -> str:
    """Rank, micro step and position: unique within a step of one export."""
    keys = ("rank", "micro_step", "micro_sequence_idx", "export_sequence_idx")
    return "-".join(str(line[key]) for key in keys if line.get(key) is not None)
