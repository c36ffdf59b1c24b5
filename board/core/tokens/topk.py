"""The likeliest tokens at each position, where a log records them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt

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


@dataclass(frozen=True, slots=True)
class RecordedTopK:
    """ids: [R, k], -1 where there is none. logprobs: [R, k], NaN where there is none."""

    ids: npt.NDArray[np.int64]
    logprobs: npt.NDArray[np.float32]


def read_top_k(fields: Mapping[str, Any], length: int) -> RecordedTopK | None:
    """topk_ids and topk_logprobs of a record's extras as arrays; rows may be of unequal length.

    None where either is missing, or not one row per response token: rows have no other place.
    """
    ids, logprobs = fields.get("topk_ids"), fields.get("topk_logprobs")
    if not (_is_rows(ids, length) and _is_rows(logprobs, length)) or length == 0:
        return None
    rows = list(zip(cast("list[Any]", ids), cast("list[Any]", logprobs), strict=True))
    k = min(MOST_ALTERNATIVES, max(min(len(a), len(b)) for a, b in rows))
    if k == 0:
        return None
    result = RecordedTopK(
        np.full((length, k), -1, np.int64), np.full((length, k), np.nan, np.float32)
    )
    for i, (row_ids, row_logprobs) in enumerate(rows):
        for j, (token, logprob) in enumerate(zip(row_ids[:k], row_logprobs[:k], strict=False)):
            if _is_number(token) and _is_number(logprob):
                result.ids[i, j], result.logprobs[i, j] = int(token), logprob
    return result


def _is_rows(value: object, length: int) -> bool:
    return (
        isinstance(value, list)
        and len(cast("list[object]", value)) == length
        and all(isinstance(row, list) for row in cast("list[object]", value))
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value
