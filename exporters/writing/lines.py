"""A rollout as the fields of one line of Rollout Board's own format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from exporters.arrays.batch import Batch, Rollout
from exporters.arrays.snapshot import Array
from exporters.record import (
    SCORE_FIELDS,
    TOKEN_FLAG_FIELDS,
    TOKEN_FLOAT_FIELDS,
    encode_values,
    round_score,
    round_significant,
)
from exporters.writing.images import with_references


def native_line(
    batch: Batch, rollout: Rollout, row: int, *, rank: int, digits: int
) -> dict[str, Any]:
    """The fields of one `sample` line; what was not recorded has no key."""
    line: dict[str, Any] = {"type": "sample", **whose(batch, row, rank)}
    for name, column in batch.columns.items():
        if column[row] is not None:
            line[name] = rounded_column(name, column[row], digits)
    line |= {name: rounded_number(value, digits) for name, value in rollout.scalars.items()}
    if rollout.prompt_ids is not None:
        line["prompt_ids"] = encode_values(np.ascontiguousarray(rollout.prompt_ids))
    if rollout.response_ids is not None:
        line["response_ids"] = encode_values(np.ascontiguousarray(rollout.response_ids))
    for name, values in rollout.tokens.items():
        tokens = rounded_tokens(name, values, digits)
        # Of another name, a number alone would be read as one of the rollout.
        line[name] = _compact(tokens) if name in TOKEN_FLOAT_FIELDS else _encoded(tokens)
    if rollout.loss_mask is not None:
        line["loss_mask"] = encode_values(rollout.loss_mask)
    return line


def whose(batch: Batch, row: int, rank: int) -> dict[str, int]:
    """The fields that say where a rollout belongs."""
    place = batch.place
    return {
        "step": place.step,
        "micro_step": place.micro_step,
        "rank": rank,
        "index": place.first_index + row,
    }


def rounded_column(name: str, value: Any, digits: int) -> Any:
    """A caller's value; scores are rounded, and NaN and Inf become None."""
    if name == "rewards" and isinstance(value, Mapping):
        return {str(part): _rounded_score(score, digits) for part, score in value.items()}
    if name in SCORE_FIELDS:
        return _rounded_score(value, digits)
    return value if isinstance(value, int | float) else with_references(value)


def rounded_number(value: Any, digits: int) -> Any:
    """A number of an array [B]."""
    return round_score(float(value), digits) if isinstance(value, np.floating) else value


def rounded_tokens(name: str, values: Array, digits: int) -> Array:
    """Values of the tokens as they are written, contiguous."""
    if values.dtype.kind == "O":  # integers, of which one is missing
        return values
    if name in TOKEN_FLAG_FIELDS:
        return (values != 0).astype(np.uint8)
    if values.dtype.kind == "f":
        return round_significant(values, digits)
    return np.ascontiguousarray(values)


def _rounded_score(value: Any, digits: int) -> Any:
    return round_score(float(value), digits) if isinstance(value, float | np.floating) else value


def _compact(values: Array) -> Any:
    """One number where it says it all, else the encoded values.

    NaN equals nothing, so an array that was not measured stays an array.
    """
    is_constant = (
        values.ndim == 1
        and values.dtype.kind == "f"
        and len(values) > 1
        and values[0] == values[-1]
        and bool((values == values[0]).all())
    )
    return values[0] if is_constant else _encoded(values)


def _encoded(values: Array) -> Any:
    return values.tolist() if values.dtype.kind == "O" else encode_values(values)
