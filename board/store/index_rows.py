"""Reads rows of an index: of some steps in their order, or at some places of the whole run."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
# pyarrow ships without types, and makes its compute functions when it is imported.

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from board.store import part_rows, segments
from board.store.found_repeats import FoundRepeats
from board.store.manifest import FileState, Manifest
from board.store.repeats import place_codes
from board.store.row_order import in_order, numbered, order_if_other
from board.store.segment_order import stand_in_order
from board.store.segments import whole_numbers
from board.store.spare_memory import give_back
from board.store.storage import Storage
from board.store.superseded import Superseded
from board.store.table_files import StepRange, rows_taken
from board.store.tally import IntArray

ORDER: Final = ("step", "rank", "file", "line", segments.PART)
"""Columns that say in which order rollouts are."""
_AT_ONCE: Final = 2


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the rollouts of a whole run stand. names: of segments; starts: [segments + 1] places of their
    rows, one segment after the other. order: [rollouts] the place of each one's row; None: as they stand.
    """

    names: tuple[str, ...]
    starts: IntArray
    order: npt.NDArray[np.int32] | None

    def stored(self, places: IntArray) -> IntArray:
        """[n] where the rows of these rollouts stand. places: [n] among all rollouts."""
        return places if self.order is None else self.order[places].astype(np.int64)


@dataclass(frozen=True)
class IndexRows:
    """The rows of the files of a run. number_of: the number in the run of each file's id. repeats: by id
    of a file.
    """

    storage: Storage
    manifest: Manifest
    files: Sequence[FileState]
    number_of: Mapping[int, int]
    superseded: Superseded
    repeats: Mapping[int, FoundRepeats]

    def segments(self, steps: StepRange | None) -> list[str]:
        """Names of the segments that have rows of these steps."""
        return [
            segment.name
            for segment in self.manifest.all_segments
            if (steps is None or (segment.low <= steps[1] and segment.high >= steps[0]))
            and any(number in self.number_of for number in segment.files)
        ]

    def read(self, steps: StepRange | None, names: list[str] | None) -> pa.Table:
        """Rows of these steps and more; names: of stored columns."""
        held = self.segments(steps)
        return segments.joined(part_rows.read_all(self.storage, held, names, steps))

    def visible(
        self, steps: StepRange | None, names: list[str] | None, superseded: bool = False
    ) -> pa.Table:
        """The rows in order, those that are joined to others among them; names: of stored columns.

        Those of ORDER have to be among them unless `stands_in_order`; then of these `step` alone, and
        `file` where `rank` is.
        """
        table = self.read(steps, names)
        if self.stands_in_order and not superseded:
            return self._cut(table, steps)
        keep = self.kept(table, steps, superseded)
        if not keep.all():
            table = table.filter(pa.array(keep))
        table = in_order(table, self.files, self.number_of)
        # Rows taken from many chunks are copied one chunk after the other.
        return table.combine_chunks()

    def _cut(self, table: pa.Table, steps: StepRange | None) -> pa.Table:
        """The rows of these steps, of rows that stand in order."""
        if steps is not None:
            low, high = np.searchsorted(table.column("step").to_numpy(), (steps[0], steps[1] + 1))
            table = table.slice(low, high - low)
        if "file" in table.column_names:
            table = numbered(table, self.files, self.number_of)
        return table.combine_chunks()

    def kept(
        self, table: pa.Table, within: StepRange | None, superseded: bool = False
    ) -> npt.NDArray[np.bool_]:
        """[rows] which are shown; superseded: which are not, of the files of the run."""
        steps = table.column("step").to_numpy()
        keep = np.ones(len(steps), bool)
        if within is not None:
            keep &= (steps >= within[0]) & (steps <= within[1])
        if self.shows_all:
            return keep & (not superseded)
        files = table.column("file").to_numpy()
        known = np.zeros(max(int(files.max(initial=0)), *self.number_of, 0) + 1, bool)
        known[list(self.number_of)] = True
        hidden = self._hidden(table, steps, files)
        return keep & known[files] & (hidden if superseded else ~hidden)

    @cached_property
    def shows_all(self) -> bool:
        """Whether every row of the index is one of a file of the run that stands for itself."""
        known = self.number_of.keys() >= {n for s in self.manifest.all_segments for n in s.files}
        return known and not (self.repeats or self.superseded.as_plain)

    @cached_property
    def stands_in_order(self) -> bool:
        """Whether every row is known to be shown, and to stand in its order."""
        return self.shows_all and stand_in_order(self.manifest.all_segments)

    def _hidden(self, table: pa.Table, steps: IntArray, files: IntArray) -> npt.NDArray[np.bool_]:
        hidden = self.superseded.rows(table, steps, files)
        if self.repeats:
            codes = place_codes(
                table.column("line").to_numpy(), whole_numbers(table, segments.PART, 0)
            )
            for number, repeats in self.repeats.items():
                own = np.flatnonzero(files == number)
                hidden[own] |= np.isin(codes[own], repeats.codes)
        return hidden

    def layout(self) -> Layout:
        """Where the rollouts of the whole run stand, those that are shown alone and in their order."""
        names = self.segments(None)
        if self.stands_in_order:
            rows = {segment.name: segment.rows for segment in self.manifest.all_segments}
            return Layout(tuple(names), np.cumsum([0, *(rows[name] for name in names)]), None)
        files = {number for segment in self.manifest.all_segments for number in segment.files}
        wanted = [name for name in ORDER if name != "file" or len(files) > 1]
        tables = part_rows.read_all(self.storage, names, wanted)
        starts = np.cumsum([0, *(table.num_rows for table in tables)])
        table = segments.joined(tables)
        if len(files) == 1:  # equal ones need not be read
            held = [name for name in table.column_names if name != "file"]
            one = pa.array(np.full(table.num_rows, next(iter(files))))
            table = table.select(held).append_column("file", one)
        keep = self.kept(table, None)
        places = None if keep.all() else np.flatnonzero(keep)
        if places is not None:
            table = table.take(pa.array(places))
        order = order_if_other(numbered(table, self.files, self.number_of))
        if places is not None:
            order = places if order is None else places[order]
        return Layout(tuple(names), starts, None if order is None else order.astype(np.int32))

    def layout_of(self, step: int) -> Layout:
        """Where the rollouts of one step stand, in their order: found a segment after the other."""
        names = self.segments((step, step))
        rows = {segment.name: segment.rows for segment in self.manifest.all_segments}
        starts = np.cumsum([0, *(rows[name] for name in names)])
        wanted = ["step"] if self.stands_in_order else list(ORDER)
        found = [
            self._stand(self.storage.get(name, wanted), step, int(start))
            for name, start in zip(names, starts[:-1], strict=True)
        ]
        places = np.concatenate([np.zeros(0, np.int32), *(of[0] for of in found)])
        keys = [_telling(pieces) for pieces in zip(*(of[1] for of in found), strict=True)]
        del found
        order = _order_by([key for key in keys if key is not None])
        del keys
        return Layout(tuple(names), starts, places if order is None else places[order])

    def _stand(
        self, table: pa.Table, step: int, start: int
    ) -> tuple[npt.NDArray[np.int32], list[npt.NDArray[Any]]]:
        """Where the rows of a step stand, the first one of the table at `start`, and what tells their
        order; nothing where they stand in it.
        """
        give_back()
        if self.stands_in_order:
            held = np.flatnonzero(table.column("step").to_numpy() == step)
            return (held + start).astype(np.int32), []
        held = np.flatnonzero(self.kept(table, (step, step)))
        own = numbered(table.take(pa.array(held)), self.files, self.number_of)
        lines, parts = own.column("line").to_numpy(), whole_numbers(own, segments.PART, 0)
        ranks = whole_numbers(own, "rank", np.iinfo(np.int64).max)  # unknown ones come last
        files = own.column("file").to_numpy()
        return (held + start).astype(np.int32), [*map(_brief, (ranks, files, lines, parts))]

    def column(self, layout: Layout, names: Sequence[str]) -> pa.Table:
        """Stored columns of all rollouts in their order, `file` being the number in the run."""
        table = segments.joined(part_rows.read_all(self.storage, layout.names, names))
        if "file" in names:
            table = numbered(table, self.files, self.number_of)
        if layout.order is None:
            return table
        return table.combine_chunks().take(pa.array(layout.order))

    def tables_of(
        self, layout: Layout, stand: npt.NDArray[np.int32], names: Sequence[str]
    ) -> Iterator[tuple[npt.NDArray[np.int32], pa.Table]]:
        """The places of rollouts and stored columns of them, a segment after the other, as they stand.

        stand: [rollouts] their places in the order in which they stand.
        """
        ordered = stand if layout.order is None else layout.order[stand]
        cuts = np.searchsorted(ordered, layout.starts)
        for number, name in enumerate(layout.names):
            first, end = cuts[number], cuts[number + 1]
            if first < end:
                table = self.storage.get(name, names)
                own = (ordered[first:end] - layout.starts[number]).astype(np.int64)
                yield stand[first:end], rows_taken(name, table, own)

    def at(
        self, layout: Layout, places: IntArray, names: Sequence[str], at_once: int = _AT_ONCE
    ) -> pa.Table:
        """Stored columns of the rollouts at these places, [n], in their order, `file` among them;
        segments without one of them are not read. at_once: threads that read.
        """
        stand = layout.stored(places)
        order = np.argsort(stand, kind="stable")
        stand = stand[order]
        cuts = np.searchsorted(stand, layout.starts)
        held = [n for n in range(len(layout.names)) if cuts[n] < cuts[n + 1]]

        def taken(number: int) -> pa.Table:
            own = stand[cuts[number] : cuts[number + 1]] - layout.starts[number]
            return self.storage.take(layout.names[number], [*names], own)

        if at_once == 1:
            table = segments.joined(map(taken, held))
        else:
            with ThreadPoolExecutor(at_once) as threads:
                table = segments.joined(threads.map(taken, held))
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        if "file" in names:
            table = numbered(table, self.files, self.number_of)
        return table.combine_chunks().take(pa.array(back))


def _telling(pieces: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any] | None:
    """The values of all pieces; None where all are equal."""
    told = {int(piece[0]) for piece in pieces if len(piece)}
    return np.concatenate(pieces) if len(told) > 1 or any(map(_differ, pieces)) else None


def _differ(values: npt.NDArray[Any]) -> bool:
    return len(values) > 0 and bool((values[1:] != values[0]).any())


def _brief(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The values, in half of the memory where they fit, in none where all are equal."""
    if len(values) and not _differ(values):
        return np.broadcast_to(values[:1].copy(), len(values))
    fits = len(values) and values.min() >= 0 and values.max() <= np.iinfo(np.int32).max
    return values.astype(np.int32) if fits else values


def _order_by(keys: Sequence[npt.NDArray[Any]]) -> npt.NDArray[np.int32] | None:
    """The order of the keys, the first of which tells most; None: as they stand."""
    if not keys:
        return None
    order = np.argsort(keys[0], kind="stable") if len(keys) == 1 else np.lexsort(keys[::-1])
    return order.astype(np.int32)
