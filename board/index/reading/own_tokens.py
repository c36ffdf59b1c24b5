"""Token arrays under names that the board does not know: their mean and their maximum over a rollout."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from board.core.arrays import FloatArray
from board.core.metrics.aggregate import NEEDED
from board.core.records import NumberArray, Sparse
from board.core.schema import TOKEN_ARRAY_FIELDS
from board.errors import RecordError
from board.formats.columns import FieldColumns, Values
from board.index.reading.cells import is_token_array

_KNOWN = frozenset((*TOKEN_ARRAY_FIELDS, *NEEDED))


def reductions(values: FloatArray, mask: FloatArray | None) -> tuple[float, float]:
    """Mean and maximum of an array [R] over its tokens in the loss (mask [R]; None: all of them), without
    those that are no finite number; NaN where none is left.
    """
    inside = np.isfinite(values) if mask is None else np.isfinite(values) & (mask > 0)
    selected = values[inside]
    return (float(selected.mean()), float(selected.max())) if len(selected) else (np.nan, np.nan)


def names_of(key: str) -> tuple[str, str]:
    """The columns of an array's mean and maximum."""
    return f"{key}_mean", f"{key}_max"


def of_record(tokens: Mapping[str, NumberArray]) -> Iterator[tuple[str, float]]:
    """(column, number) of each array of a record whose name the board does not know."""
    mask = _values(tokens["loss_mask"]) if "loss_mask" in tokens else None
    for key, array in tokens.items():
        values = None if key in _KNOWN else _values(array)
        if values is None or (mask is not None and len(mask) != len(values)):
            continue
        numbers = zip(names_of(key), reductions(values, mask), strict=True)
        yield from ((name, number) for name, number in numbers if np.isfinite(number))


def of_columns(key: str, values: Values, rollouts: FieldColumns) -> dict[str, FloatArray]:
    """The columns of an unknown key whose values are arrays over the tokens; none where none is."""
    masks: Sequence[object] = rollouts.arrays.get("loss_mask") or rollouts.other_arrays.get(
        "loss_mask", [None] * len(values)
    )
    reduced = np.full((2, len(values)), np.nan)
    for row, (value, length) in enumerate(zip(values, rollouts.lengths, strict=True)):
        if not is_token_array(value, length):
            continue
        array, mask = _values(value), None if masks[row] is None else _values(masks[row])
        if array is not None and (mask is None or len(mask) == len(array)):
            reduced[:, row] = reductions(array, mask)
    return dict(zip(names_of(key), reduced, strict=True)) if np.isfinite(reduced).any() else {}


def _values(array: Any) -> FloatArray | None:
    """[R], NaN for None; None of what is no array of numbers."""
    try:
        if isinstance(array, Sparse):
            return array.filled()
        parsed = array.values() if hasattr(array, "values") else array
        return np.asarray(parsed, np.float64)
    except (RecordError, TypeError, ValueError):
        return None
