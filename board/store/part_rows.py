"""Reads what is kept of steps: whole, or some of its rows without the others."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
# pyarrow ships without types, and makes its compute functions when it is imported.

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from board.store.manifest import Part
from board.store.step_parts import loaded
from board.store.storage import StepRange, Storage
from board.store.tally import IntArray

_MANY: Final = 8
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
    """These tables, as Storage.get reads them; of many two at a time, since most of it is unpacking,
    without the GIL.
    """

    def table(name: str) -> pa.Table:
        return storage.get(name, columns, steps)

    if len(names) < _MANY:
        return [table(name) for name in names]
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        return list(threads.map(table, names))


def read_with_texts(
    storage: Storage,
    name: str,
    columns: Sequence[str],
    steps: StepRange,
    only: Mapping[str, Sequence[str]],
) -> pa.Table:
    """A table as Storage.get reads it, of the rows alone that have one of the texts in each of some of
    these columns.
    """
    found = storage.get(name, columns, steps)
    for column, texts in only.items():
        if column not in found.column_names:
            return found.slice(0, 0)
        found = found.filter(pc.is_in(found.column(column), pa.array(texts, pa.string())))
    return found


def rows_at(
    storage: Storage, parts: Sequence[Part], columns: Sequence[str], places: IntArray
) -> pa.Table:
    """Some rows of what `all_rows` gives, without reading the others; places: [n] in it.

    Raises BrokenIndexError.
    """
    parts = [part for part in parts if part.rows]
    starts = np.cumsum([0, *(part.rows for part in parts)])
    if not _in_order(parts):
        steps = pa.concat_tables(storage.get(part.name, ("step",)) for part in parts)
        places = np.argsort(steps.column("step").to_numpy(), kind="stable")[places]
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
    """Whether the parts one after the other are ordered by step; each of them is."""
    return all(one.high < other.low for one, other in pairwise(parts))
