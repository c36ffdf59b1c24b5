"""Reads what is kept of steps: whole, or some of its rows without the others."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
# pyarrow ships without types, and makes its compute functions when it is imported.

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa

from board.store.manifest import Part
from board.store.segments import LONG_TEXTS
from board.store.step_parts import loaded
from board.store.storage import Storage
from board.store.table_files import StepRange
from board.store.tally import IntArray

_MANY: Final = 2
_HEAVY: Final = 8
_AT_ONCE: Final = 2


def all_rows(
    storage: Storage, parts: Sequence[Part], columns: Sequence[str] | None
) -> pa.Table | None:
    """One kind of all steps, ordered by step; None where no step has any. Raises BrokenIndexError.

    columns: of those that it has, `step` among them where they are in another order than the parts;
    None is all.
    """
    parts = [part for part in parts if part.rows]
    if not parts:
        return None
    if columns is None or not _in_order(parts):
        columns = None if columns is None else [*dict.fromkeys((*columns, "step"))]
        return loaded(read_all(storage, [part.name for part in parts], columns))
    tables = read_all(storage, [part.name for part in parts], columns)
    return pa.concat_tables(tables, promote_options="permissive")


def read_all(
    storage: Storage,
    names: Sequence[str],
    columns: Sequence[str] | None,
    steps: StepRange | None = None,
) -> list[pa.Table]:
    """These tables, as Storage.get reads them; two at a time where that is mostly unpacking, without
    the GIL: of a few columns of numbers opening them is most of it, and takes longer in two threads.
    """

    def table(name: str) -> pa.Table:
        return storage.get(name, columns, steps)

    if len(names) < _MANY or not is_heavy(columns):
        return [table(name) for name in names]
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        return list(threads.map(table, names))


def is_heavy(columns: Sequence[str] | None) -> bool:
    """Whether these columns of rows take longer to unpack than their tables to open."""
    return columns is None or len(columns) > _HEAVY or not LONG_TEXTS.isdisjoint(columns)


def _by_step(storage: Storage, parts: Sequence[Part]) -> IntArray:
    """[rows] where each row of `all_rows` is, one part after the other."""
    steps = pa.concat_tables(storage.get(part.name, ("step",)) for part in parts)
    return np.argsort(steps.column("step").to_numpy(), kind="stable")


def rows_at(
    storage: Storage, parts: Sequence[Part], columns: Sequence[str], places: IntArray
) -> pa.Table:
    """Some rows of what `all_rows` gives, without reading the others; places: [n] in it.

    Raises BrokenIndexError.
    """
    parts = [part for part in parts if part.rows]
    starts = np.cumsum([0, *(part.rows for part in parts)])
    if not _in_order(parts):
        places = _by_step(storage, parts)[places]
    order = np.argsort(places, kind="stable")
    places = places[order]
    cuts = np.searchsorted(places, starts)
    tables = [
        storage.take(part.name, columns, places[low:high] - start)
        for part, start, low, high in zip(parts, starts[:-1], cuts[:-1], cuts[1:], strict=True)
        if low < high or not len(places)
    ]
    table = pa.concat_tables(tables, promote_options="permissive")
    if (np.diff(order) == 1).all():
        return table
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    return table.take(pa.array(back))


def _in_order(parts: Sequence[Part]) -> bool:
    """Whether the parts one after the other are ordered by step; each of them is. Those that share a
    step hold its rows in their order.
    """
    return all(one.high <= other.low for one, other in pairwise(parts))
