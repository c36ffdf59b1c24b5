"""The groups that verl's uids name: of "{sample}_{rollout}_{output}" the sample."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportMissingTypeStubs=false
# pyarrow ships without types.

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from board.formats.stored_texts import array_of
from board.formats.texts import Values, Words

_MARK: Final = np.uint8(ord("_"))
_ZERO, _NINE = np.uint8(ord("0")), np.uint8(9)


def group_of(uid: object) -> str | None:
    """The group that a uid names, where it is sample, rollout and output."""
    parts = str(uid).rsplit("_", 2)
    return parts[0] if len(parts) == 3 and parts[1].isdigit() and parts[2].isdigit() else None


def ids_and_groups(uids: Values) -> tuple[Any, Any]:
    """The uids and the group that each names, as Ids; most blocks have uids of one form."""
    if isinstance(uids, Words) and uids and uids.lengths is not None:
        ids = array_of(uids)
        groups = _groups_in(ids)
        if groups is not None:
            return ids, groups
    return uids, list(map(group_of, uids))


def _groups_in(ids: Any) -> Any:
    """What stands before the last two marks of each text; None where not all end as uids do."""
    bounds = np.frombuffer(ids.buffers()[1], np.int32, len(ids) + 1)
    codes = np.frombuffer(ids.buffers()[2], np.uint8, bounds[-1])
    starts, ends = bounds[:-1], bounds[1:]
    marks = np.flatnonzero(codes == _MARK)
    last = np.searchsorted(marks, ends) - 1
    if last[0] < 1:
        return None
    first, second = marks[last - 1], marks[last]
    if (first < starts).any() or (second - first < 2).any() or (ends - second < 2).any():
        return None
    others = (codes - _ZERO > _NINE).cumsum()
    if (others[ends - 1] - others[first] != 1).any():  # the second mark
        return None
    pieces = np.empty(2 * len(ids), np.int32)  # a group, and what stands between it and the next
    pieces[::2], pieces[1::2] = starts, first
    buffers = [None, pa.py_buffer(pieces), ids.buffers()[2]]
    cut = pa.Array.from_buffers(ids.type, len(pieces) - 1, buffers)
    return cut.take(pa.array(np.arange(0, len(pieces), 2)))
