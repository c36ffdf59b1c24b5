"""The order of rollouts: by step, rank, file and line; and the index of each within its step."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
# pyarrow ships without types, and makes its compute functions when it is imported.

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from board.index import segments
from board.index.manifest import FileState
from board.index.reading.file_steps import IntArray
from board.index.segments import whole_numbers

_NEVER: Final = np.iinfo(np.int64).max


def in_order(table: pa.Table, files: Sequence[FileState], number_of: Mapping[int, int]) -> pa.Table:
    """By step, rank, file and line; rows of which no rank is known come after the others.

    number_of: the number in the run of each file's id, which its rows have instead of it then.
    """
    table = numbered(table, files, number_of)
    order = order_if_other(table)
    return table if order is None else table.take(pa.array(order))


def numbered(table: pa.Table, files: Sequence[FileState], number_of: Mapping[int, int]) -> pa.Table:
    """The rows as they stand, with the rank of their file's header and its number; as `in_order`."""
    ids = table.column("file").to_numpy()
    table = _with_header_ranks(table, ids, files, number_of)
    numbers = np.zeros(_count(ids, number_of), np.int64)
    numbers[list(number_of)] = list(number_of.values())
    place = table.column_names.index("file")
    return table.set_column(place, "file", pa.array(numbers[ids]))


def order_of(table: pa.Table) -> IntArray:
    """The order of the rows of a numbered table, [n]."""
    order = order_if_other(table)
    return np.arange(table.num_rows) if order is None else order


def order_if_other(table: pa.Table) -> IntArray | None:
    """As order_of; None where the rows stand in their order."""
    keys = [table.column("step").to_numpy()]
    if "rank" in table.column_names:
        keys.append(_with_unknown_last(table.column("rank")))
    keys += [table.column("file").to_numpy(), table.column("line").to_numpy()]
    if segments.PART in table.column_names:
        keys.append(whole_numbers(table, segments.PART, 0))
    packed = _packed(keys)
    if packed is None:
        order = np.lexsort(keys[::-1])
        return None if (np.diff(order) == 1).all() else order
    # Rows mostly stand in their order, or a few times one after the other.
    if (packed[1:] >= packed[:-1]).all():
        return None
    return np.argsort(packed, kind="stable")


def _with_unknown_last(ranks: pa.ChunkedArray) -> IntArray:
    if not ranks.null_count:
        return ranks.to_numpy()
    highest = pc.max(ranks).as_py()
    return ranks.fill_null(0 if highest is None else highest + 1).to_numpy()


def _packed(keys: Sequence[IntArray]) -> IntArray | None:
    """[n] numbers in the order of the keys, the first of which tells most; None where they do not fit."""
    if not len(keys[0]):
        return keys[0]
    bounds = [(int(key.min()), int(key.max())) for key in keys]
    if math.prod(high - low + 1 for low, high in bounds) >= _NEVER:
        return None
    packed = keys[0] - bounds[0][0]
    for key, (low, high) in zip(keys[1:], bounds[1:], strict=True):
        if high == low:
            continue
        packed *= high - low + 1
        packed += key
        packed -= low
    return packed


def _with_header_ranks(
    table: pa.Table, ids: IntArray, files: Sequence[FileState], number_of: Mapping[int, int]
) -> pa.Table:
    """The rank of a file's header where its rows name none."""
    known = {state.id: state.rank for state in files if state.rank is not None}
    if not known:
        return table
    ranks = np.full(_count(ids, number_of), np.nan)
    ranks[list(known)] = list(known.values())
    of_rows = pa.array(ranks[ids], from_pandas=True).cast(pa.int64())
    if "rank" not in table.column_names:
        return table.append_column("rank", of_rows)
    place = table.column_names.index("rank")
    filled = pc.coalesce(table.column("rank"), of_rows)
    return table.set_column(place, "rank", filled)


def _count(ids: IntArray, number_of: Mapping[int, int]) -> int:
    """One more than the largest id; rows of files that are not of the run may be among them."""
    return max(int(ids.max(initial=0)), *number_of, 0) + 1


def index_within(steps: IntArray) -> npt.NDArray[np.int32]:
    """The position of each row among those of its step; steps: ascending, [n]."""
    starts = np.flatnonzero(np.diff(steps, prepend=steps[:1] - 1))
    sizes = np.diff(np.append(starts, len(steps)))
    return (np.arange(len(steps)) - np.repeat(starts, sizes)).astype(np.int32)
