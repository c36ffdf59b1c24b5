"""Token arrays under names that the board does not know: their aggregates over a rollout."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from board.core.arrays import FloatArray
from board.core.metrics.aggregate import NEEDED
from board.core.metrics.own_metrics import Aggregate, aggregates_of
from board.core.records import NumberArray, Sparse
from board.core.schema import TOKEN_ARRAY_FIELDS
from board.errors import RecordError
from board.formats.columns import FieldColumns, Values
from board.index.reading.cells import is_token_array

_KNOWN = frozenset((*TOKEN_ARRAY_FIELDS, *NEEDED))


_REDUCE: Final[Mapping[Aggregate, Callable[[FloatArray], Any]]] = {
    "mean": np.mean,
    "max": np.max,
    "min": np.min,
    "sum": np.sum,
}


def reductions(
    values: FloatArray, mask: FloatArray | None, aggregates: Sequence[Aggregate]
) -> list[float]:
    """Aggregates of an array [R] over its tokens in the loss (mask [R]; None: all of them), without those
    that are no finite number; NaN where none is left.
    """
    inside = np.isfinite(values) if mask is None else np.isfinite(values) & (mask > 0)
    selected = values[inside]
    return [float(_REDUCE[how](selected)) if len(selected) else np.nan for how in aggregates]


def names_of(key: str) -> list[str]:
    """The columns of an array's aggregates."""
    return [f"{key}_{how}" for how in aggregates_of(key)]


def of_record(tokens: Mapping[str, NumberArray]) -> Iterator[tuple[str, float]]:
    """(column, number) of each array of a record whose name the board does not know."""
    mask = _values(tokens["loss_mask"]) if "loss_mask" in tokens else None
    for key, array in tokens.items():
        values = None if key in _KNOWN else _values(array)
        if values is None or (mask is not None and len(mask) != len(values)):
            continue
        numbers = zip(names_of(key), reductions(values, mask, aggregates_of(key)), strict=True)
        yield from ((name, number) for name, number in numbers if np.isfinite(number))


def of_columns(key: str, values: Values, rollouts: FieldColumns) -> dict[str, FloatArray]:
    """The columns of an unknown key whose values are arrays over the tokens; none where none is."""
    masks: Sequence[object] = rollouts.arrays.get("loss_mask") or rollouts.other_arrays.get(
        "loss_mask", [None] * len(values)
    )
    aggregates = aggregates_of(key)
    reduced = np.full((len(aggregates), len(values)), np.nan)
    for row, (value, length) in enumerate(zip(values, rollouts.lengths, strict=True)):
        if not is_token_array(value, length):
            continue
        array, mask = _values(value), None if masks[row] is None else _values(masks[row])
        if array is not None and (mask is None or len(mask) == len(array)):
            reduced[:, row] = reductions(array, mask, aggregates)
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
