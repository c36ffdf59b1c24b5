"""Whether rows of an index stand in the order of rollouts, told when they are written: then nobody who
reads them has to find their order out.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false
# pyarrow ships without types.

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from board.store.manifest import NO_RANK, Ends, Place, Segment
from board.store.segments import PART, whole_numbers


def ends_of(table: pa.Table) -> Ends | None:
    """The places of the first and the last row; None where the rows may not stand in order.

    Files have no order yet, and rows that name no rank may get one from their file's header: so rows of
    one step are in order only where they are of one file and all of them name a rank, or none does.
    table: at least one row.
    """
    is_ranked = "rank" in table.column_names
    if is_ranked and table.column("rank").null_count:
        return None
    step, file, line = (table.column(name).to_numpy() for name in ("step", "file", "line"))
    rank = table.column("rank").to_numpy() if is_ranked else np.full(len(step), NO_RANK)
    part = whole_numbers(table, PART, 0)
    if not (
        _is_later(step) | (_is_equal(step) & _is_equal(file) & _follows(rank, line, part))
    ).all():
        return None
    first, last = (
        (int(step[at]), int(file[at]), int(rank[at]), int(line[at]), int(part[at]))
        for at in (0, -1)
    )
    return first, last


def _is_later(values: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    return values[1:] > values[:-1]


def _is_equal(values: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    return values[1:] == values[:-1]


def _follows(*keys: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """[rows - 1] whether each row comes after the one before it; the first of the keys tells most."""
    found = np.zeros(len(keys[0]) - 1, bool)
    for key in reversed(keys):
        found = _is_later(key) | (_is_equal(key) & found)
    return found


def stand_in_order(segments: Sequence[Segment]) -> bool:
    """Whether all rows, one segment after the other, are known to stand in the order of rollouts."""
    if any(segment.ends is None for segment in segments):
        return False
    ends = [segment.ends for segment in segments if segment.ends is not None]
    return all(_joins(one[1], other[0]) for one, other in pairwise(ends))


def _joins(last: Place, first: Place) -> bool:
    if last[0] != first[0]:
        return last[0] < first[0]
    is_ranked = [place[2] != NO_RANK for place in (last, first)]
    return last[1] == first[1] and is_ranked[0] == is_ranked[1] and last[2:] < first[2:]
