"""Reads of an index the rows that may repeat each other, with what each is known by."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
# pyarrow ships without types, and makes its compute functions when it is imported.

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from board.readers.base import Repeats
from board.store import segments
from board.store.manifest import Manifest, Segment
from board.store.repeats import NO_KEY, Mask, place_codes
from board.store.run_files import RunFiles
from board.store.segments import whole_numbers
from board.store.storage import Storage
from board.store.table_files import StepRange
from board.store.tally import IntArray

_MOST_SPANS: Final = 16
"""More steps than these are read all at once."""
_ROWS_AT_ONCE: Final = 200_000
"""About so many are in memory while it is looked which of them have equal ids."""
_BUFFERED_AT_ONCE: Final = 60_000
"""About so many rows of buffers, which have more columns, and of which each table is read once."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows in the order of their files and lines. files: ids; places: their numbers in the run; codes: of
    place_codes; keys: equal for rows that may be one; each [n].
    """

    files: IntArray
    places: IntArray
    lines: IntArray
    codes: IntArray
    steps: IntArray
    keys: IntArray

    def only(self, which: Mask | npt.NDArray[np.intp]) -> Self:
        """Those at some places, in the order of these; which: [n] flags, or places."""
        columns = (self.files, self.places, self.lines, self.codes, self.steps, self.keys)
        return type(self)(*(column[which] for column in columns))

    def dumps(self, kind: Repeats) -> IntArray:
        """[n] a number for each buffer that was written as a whole."""
        if kind == "file_buffer":
            return self.files
        changed = (np.diff(self.files) != 0) | (np.diff(self.lines) != 0)
        return np.concatenate(([0], np.cumsum(changed))) if len(self.files) else self.files


@dataclass(frozen=True, slots=True)
class RepeatRows:
    """The rows of an index, with the segments.REPEAT_KEY of each."""

    storage: Storage
    manifest: Manifest
    run: RunFiles

    def ordered(self, table: pa.Table) -> Rows:
        """The rows of a table that `of`, `in_turn` or `with_equal_keys` gave."""
        places = np.zeros(max(self.run.number_of, default=0) + 1, np.int64)
        places[list(self.run.number_of)] = list(self.run.number_of.values())
        files, lines = table.column("file").to_numpy(), table.column("line").to_numpy()
        codes = place_codes(lines, whole_numbers(table, segments.PART, 0))
        rows = Rows(
            *(files, places[files], lines, codes), table.column("step").to_numpy(), _keys_of(table)
        )
        return rows.only(np.lexsort((codes, rows.places)))

    def kept(self, table: pa.Table) -> pa.Table:
        """The rows that no resume wrote again: the others repeat none."""
        steps, files = table.column("step").to_numpy(), table.column("file").to_numpy()
        return table.filter(pa.array(~self.run.superseded.rows(table, steps, files)))

    def of(self, ids: Sequence[int], steps: Collection[int] | None = None) -> pa.Table:
        """The rows of these files, in no order; steps: of these alone."""
        few = steps is not None and len(steps) <= _MOST_SPANS
        spans = [(step, step) for step in steps] if few and steps else [None]
        found = segments.joined(
            self._of(segment, ids, span)
            for segment in self._segments(ids)
            for span in spans
            if span is None or segment.low <= span[0] <= segment.high
        )
        if steps is not None:
            found = found.filter(pc.is_in(found.column("step"), pa.array(list(steps), pa.int64())))
        return found

    def in_turn(self, ids: Sequence[int]) -> Iterator[pa.Table]:
        """The kept rows of these files, which are in order, a bounded number of most at a time; the last
        file of a table begins the next one too, since what follows it may begin with rows that end it.
        """
        before = segments.empty()
        for files in self._files_in_turn(ids):
            table = segments.joined([before, self.kept(self.of(files))])
            yield table
            before = self._of_last_file(table)

    def with_equal_keys(self, ids: Sequence[int]) -> Iterator[pa.Table]:
        """The kept rows of these files whose key another one has too, those of one key together."""
        rollouts = self._rollouts()
        parts = np.uint64(-(-sum(rollouts[number] for number in ids) // _ROWS_AT_ONCE))
        for part in range(int(parts)):
            keys = np.sort(np.concatenate([k[k % parts == part] for _, k in self._keys(ids)]))
            equal = np.unique(keys[1:][keys[1:] == keys[:-1]])
            equal = equal[equal != NO_KEY]
            if not len(equal):
                continue
            tables = [
                self._of(segment, ids, None)
                for segment, own in self._keys(ids)
                if np.isin(own, equal).any()
            ]
            table = segments.joined(tables)
            held = _keys_of(table).view(np.uint64)
            yield self.kept(table.filter(pa.array(np.isin(held, equal))))

    def _keys(self, ids: Sequence[int]) -> Iterator[tuple[Segment, npt.NDArray[np.uint64]]]:
        """The keys of the rows of each segment that has any of these files."""
        for segment in self._segments(ids):
            table = self.storage.get(segment.name, ("step", segments.REPEAT_KEY))
            yield segment, _keys_of(table).view(np.uint64)

    def _files_in_turn(self, ids: Sequence[int]) -> Iterator[list[int]]:
        """Files that follow each other."""
        rollouts = self._rollouts()
        some: list[int] = []
        rows = 0
        for number in ids:
            rows += rollouts[number]
            some.append(number)
            if rows >= _BUFFERED_AT_ONCE:
                yield some
                some, rows = [], 0
        if some:
            yield some

    def _of_last_file(self, table: pa.Table) -> pa.Table:
        held = pc.unique(table.column("file")).to_pylist()
        last = max(held, key=self.run.number_of.__getitem__, default=-1)
        return table.filter(pc.equal(table.column("file"), last))

    def _rollouts(self) -> dict[int, int]:
        """Rollouts of each file by its id, superseded ones included."""
        return {
            state.id: sum(n for tally in state.all_tallies.values() for _, n in tally.counts())
            for state in self.run.files
        }

    def _segments(self, ids: Sequence[int]) -> list[Segment]:
        wanted = set(ids)
        return [s for s in self.manifest.all_segments if not wanted.isdisjoint(s.files)]

    def _of(self, segment: Segment, ids: Sequence[int], steps: StepRange | None) -> pa.Table:
        """The rows of a segment that are of these files and steps."""
        names = ["step", "file", "line", "rank", segments.PART, segments.REPEAT_KEY]
        table = self.storage.get(segment.name, names, steps)
        wanted = pc.is_in(table.column("file"), pa.array(ids, pa.int64()))
        if steps is not None:  # a table is read some thousand rows at a time
            held = table.column("step")
            of_steps = pc.and_(pc.greater_equal(held, steps[0]), pc.less_equal(held, steps[1]))
            wanted = pc.and_(wanted, of_steps)
        return table.filter(wanted)


def _keys_of(table: pa.Table) -> IntArray:
    """[rows] the key of each row."""
    return whole_numbers(table, segments.REPEAT_KEY, NO_KEY)
