"""The record: its field names as data, the rounding of its floats, its encoding to a JSON line.

The names are the contract with every reader of the format.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

SCHEMA_VERSION = 1

LINE_TYPES = ("header", "sample", "step_end", "close")

ID_FIELDS = (
    "step",
    "micro_step",
    "rank",
    "index",
    "rollout_id",
    "group_id",
    "env",
    "split",
    "policy_version",
    "timestamp",
)
TEXT_FIELDS = (
    "prompt",
    "response",
    "ref_response",
    "ground_truth",
    "messages",
    "finish_reason",
    "is_truncated",
)
SCORE_FIELDS = ("reward", "ref_reward", "valid_reward", "ref_valid_reward", "rewards", "advantage")
TOKEN_ID_FIELDS = ("prompt_ids", "response_ids", "response_tokens")
TOKEN_FLOAT_FIELDS = (
    "logprobs",
    "old_logprobs",
    "sampling_logprobs",
    "ref_logprobs",
    "entropy",
    "values",
    "returns",
    "advantages",
    "token_rewards",
)
TOKEN_FLAG_FIELDS = ("loss_mask", "is_masked", "is_masked_high", "is_masked_low", "sft_mask")
TOPK_FIELDS = ("topk_ids", "topk_logprobs")
STRUCTURE_FIELDS = ("segments",)

# The writer fills these itself: a caller's column of that name would be a second truth.
WRITER_FIELDS = ("type", "step", "micro_step", "rank", "index")

_FULL_DIGITS = 9  # float32 needs no more to come back bit for bit
_OPTIONS = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS


def round_significant(values: npt.NDArray[Any], digits: int) -> npt.NDArray[np.float32]:
    """`values` (any shape) rounded to `digits` significant decimal digits; NaN and Inf pass through.

    Significant digits rather than decimals: four decimals turn a KL of 1e-5 nats into zero. The
    result is float32, so that its shortest decimal form is the rounded one. Values below 1.2e-38
    (float32's subnormals) keep fewer digits.
    """
    single = np.ascontiguousarray(values, dtype=np.float32)
    if digits >= _FULL_DIGITS:
        return single
    next_decade, scales = _rounding_tables(digits)
    # The exponent's bits look the decade up: a logarithm of each value takes six times as long.
    place = (single.view(np.uint32) >> np.uint32(23)) & np.uint32(0xFF)
    is_above = np.abs(single) >= next_decade.take(place)
    place += place
    place += is_above
    scale = scales.take(place)
    with np.errstate(invalid="ignore"):
        rounded = np.multiply(single, scale)
        np.rint(rounded, out=rounded)
        rounded /= scale
    return rounded.astype(np.float32)


@cache
def _rounding_tables(digits: int) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float64]]:
    """By exponent of a float32, 0 to 255: the power of ten above 2**e [256], at most one of which
    lies below 2**(e+1); and what to multiply by below and from that power on [512], interleaved.
    """
    decade = np.floor((np.arange(256) - 127) * math.log10(2) + 1e-9)
    above = 10.0 ** (decade + 1)
    above[above > np.finfo(np.float32).max] = np.inf
    decades = np.stack([decade, decade + 1], axis=1).reshape(-1)
    return above.astype(np.float32), 10.0 ** (digits - 1 - decades)


def round_score(value: float, digits: int) -> float | None:
    """One score rounded to `digits` significant digits; None where it is NaN or infinite.

    From 10**digits on it stays as it is: what stands before the point counts or is a time.
    """
    number = float(value)
    if abs(number) >= 10**digits:
        return number if math.isfinite(number) else None
    return float(f"{number:.{digits}g}") if number == number else None


def rounded_metric(value: Any, digits: int) -> Any:
    """A metric of a step: a float (or what has one, as a 0-d array does) rounded, else as it is."""
    number = value.item() if hasattr(value, "item") else value
    return round_score(number, digits) if isinstance(number, float) else number


def encode_line(fields: Mapping[str, Any]) -> bytes:
    """One JSON line with its newline. Arrays must be contiguous; NaN and Inf become null.

    Raises TypeError (orjson's) on what JSON cannot hold, e.g. a string with a lone surrogate.
    """
    return dump(fields) + b"\n"


def dump(value: Any) -> bytes:
    """`value` as JSON without a newline. Raises TypeError (orjson's) on what JSON cannot hold."""
    return orjson.dumps(value, default=str, option=_OPTIONS)


def encode_values(values: npt.NDArray[Any]) -> orjson.Fragment:
    """A contiguous array, encoded already, for a field of `encode_line`; NaN and Inf become null.

    Array by array rather than a whole line at once: the encoder holds Python's lock from beginning to
    end, and what is done to the next array lets the training thread have it in between.
    """
    return orjson.Fragment(orjson.dumps(values, option=_OPTIONS))


def encode_document(fields: Mapping[str, Any]) -> bytes:
    """A whole JSON file, indented for people."""
    return orjson.dumps(fields, default=str, option=_OPTIONS | orjson.OPT_INDENT_2) + b"\n"
