"""The order of rollouts: by step, rank, file and line; and the index of each within its step."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
# pyarrow ships without types, and makes its compute functions when it is imported.

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from board.store import segments
from board.store.manifest import FileState
from board.store.segments import whole_numbers
from board.store.tally import IntArray

_NEVER: Final = np.iinfo(np.int64).max


def in_order(table: pa.Table, files: Sequence[FileState], number_of: Mapping[int, int]) -> pa.Table:
    """By step, rank, file and line; rows of which no rank is known come after the others.

    number_of: the number in the run of each file's id, which its rows have instead of it then.
    """
    ids = table.column("file").to_numpy()
    table = _with_header_ranks(table, ids, files, number_of)
    size = max(number_of, default=0) + 1
    numbers = np.zeros(size, np.int64)
    numbers[list(number_of)] = list(number_of.values())
    place = table.column_names.index("file")
    table = table.set_column(place, "file", pa.array(numbers[ids]))
    keys = [table.column("line").to_numpy(), numbers[ids]]
    if segments.PART in table.column_names:
        keys.insert(0, whole_numbers(table, segments.PART, 0))
    if "rank" in table.column_names:
        keys.append(whole_numbers(table, "rank", _NEVER))
    keys.append(table.column("step").to_numpy())
    order = np.lexsort(keys)
    return table if (np.diff(order) == 1).all() else table.take(pa.array(order))


def _with_header_ranks(
    table: pa.Table, ids: IntArray, files: Sequence[FileState], number_of: Mapping[int, int]
) -> pa.Table:
    """The rank of a file's header where its rows name none."""
    known = {state.id: state.rank for state in files if state.rank is not None}
    if not known:
        return table
    ranks = np.full(max(number_of) + 1, np.nan)
    ranks[list(known)] = list(known.values())
    of_rows = pa.array(ranks[ids], from_pandas=True).cast(pa.int64())
    if "rank" not in table.column_names:
        return table.append_column("rank", of_rows)
    place = table.column_names.index("rank")
    filled = pc.coalesce(table.column("rank"), of_rows)
    return table.set_column(place, "rank", filled)


def index_within(steps: IntArray) -> npt.NDArray[np.int32]:
    """The position of each row among those of its step; steps: ascending, [n]."""
    starts = np.flatnonzero(np.diff(steps, prepend=steps[:1] - 1))
    sizes = np.diff(np.append(starts, len(steps)))
    return (np.arange(len(steps)) - np.repeat(starts, sizes)).astype(np.int32)
