"""Which rows of an index repeat others: a look at rows only where a reader says that they may."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
# pyarrow ships without types, and makes its compute functions when it is imported.

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from board.readers import reader_named
from board.readers.base import Repeats
from board.store import segments
from board.store.manifest import FileState, Manifest, Segment
from board.store.repeats import (
    BY_FILE,
    BY_ID,
    NO_KEY,
    Mask,
    alike,
    copied,
    first_shared,
    place_codes,
    repeated,
)
from board.store.segments import whole_numbers
from board.store.storage import Storage
from board.store.table_files import StepRange
from board.store.tally import IntArray

_MOST_SPANS: Final = 16
"""More steps than these are read all at once."""
_ROWS_AT_ONCE: Final = 200_000
"""About so many are in memory while it is looked which of them are equal."""


@dataclass(frozen=True, slots=True)
class FoundRepeats:
    """Rows of a file that repeat others: their place codes in ascending order, and how many by step."""

    codes: IntArray
    counts: Mapping[int, int]


def find_repeats(
    storage: Storage,
    manifest: Manifest,
    files: Sequence[FileState],
    number_of: Mapping[int, int],
    superseded: Callable[[pa.Table, IntArray, IntArray], Mask],
) -> dict[int, FoundRepeats]:
    """By id of the file the rows that repeat another.

    number_of: place of each file in the run, by its id. superseded: which rows are, from a table, its
    steps and its files; they repeat none.
    """
    finder = _Finder(storage, manifest, files, number_of)
    found: dict[int, list[FoundRepeats]] = {}

    def kept(table: pa.Table) -> pa.Table:
        steps, of_files = table.column("step").to_numpy(), table.column("file").to_numpy()
        return table.filter(pa.array(~superseded(table, steps, of_files)))

    for table, kinds in finder.pieces(finder.kinds(), kept):
        for number, repeats in finder.repeats_in(table, kinds):
            # The last file of a piece is told again with the next, where nothing is before it.
            if number not in found or kinds[number] in BY_ID:
                found.setdefault(number, []).append(repeats)
    return {number: _together(parts) for number, parts in found.items()}


def _together(parts: Sequence[FoundRepeats]) -> FoundRepeats:
    counts = sum((Counter(part.counts) for part in parts), Counter[int]())
    return FoundRepeats(np.unique(np.concatenate([part.codes for part in parts])), counts)


@dataclass(frozen=True, slots=True)
class _Finder:
    storage: Storage
    manifest: Manifest
    files: Sequence[FileState]
    number_of: Mapping[int, int]

    def kinds(self) -> dict[int, Repeats]:
        """By id of the file how its framework repeats rollouts, "never" where none can be."""
        kinds: dict[int, Repeats] = {s.id: reader_named(s.reader).repeats for s in self.files}
        copies = self._possible_copies()
        return {i: "never" if k in BY_FILE and i not in copies else k for i, k in kinds.items()}

    def _possible_copies(self) -> set[int]:
        """Files whose lines may stand in another one: told by the steps they share, and of copies by
        the lines of the first of them, so that the files of ranks cost one step.
        """
        holders: dict[str, dict[int, list[int]]] = {}
        for state in self.files:
            if reader_named(state.reader).repeats in BY_FILE:
                of_reader = holders.setdefault(state.reader, {})
                for step in {step for t in state.all_tallies.values() for step, _ in t.counts()}:
                    of_reader.setdefault(step, []).append(state.id)
        found: set[int] = set()
        for reader, by_step in holders.items():
            shared = {step: files for step, files in sorted(by_step.items()) if len(files) > 1}
            files = {file for of_step in shared.values() for file in of_step}
            if files and reader_named(reader).repeats == "copied_steps":
                table = self.rows(list(files), first_shared(shared))
                files = alike(
                    whole_numbers(table, segments.REPEAT_KEY, NO_KEY),
                    table.column("file").to_numpy(),
                    table.column("step").to_numpy(),
                )
            found |= files
        return found

    def pieces(
        self, kinds: Mapping[int, Repeats], kept: Callable[[pa.Table], pa.Table]
    ) -> Iterator[tuple[pa.Table, Mapping[int, Repeats]]]:
        """Rows that may repeat each other, a bounded number of most kinds at a time, and of the files
        they are of the kinds. kept: a table without the rows that repeat none.
        """
        of_kind: dict[Repeats, list[int]] = {}
        for number in sorted(kinds, key=self.number_of.__getitem__):
            of_kind.setdefault(kinds[number], []).append(number)
        for kind, ids in of_kind.items():
            some: dict[int, Repeats] = dict.fromkeys(ids, kind)
            if kind in BY_FILE:
                yield kept(self.rows(ids)), some
            elif kind in BY_ID:
                for table in self._with_equal_keys(ids):
                    yield kept(table), some
            elif kind != "never":
                before = segments.empty()
                for files in self._files_in_turn(ids):
                    table = segments.joined([before, kept(self.rows(files))])
                    yield table, some
                    before = self._of_last_file(table)

    def _with_equal_keys(self, ids: Sequence[int]) -> Iterator[pa.Table]:
        """The rows of these files whose key another one has too, those of one key together."""
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
            held = whole_numbers(table, segments.REPEAT_KEY, NO_KEY).view(np.uint64)
            yield table.filter(pa.array(np.isin(held, equal)))

    def _keys(self, ids: Sequence[int]) -> Iterator[tuple[Segment, npt.NDArray[np.uint64]]]:
        """The keys of the rows of each segment that has any of these files."""
        for segment in self._segments(ids):
            table = self.storage.get(segment.name, [segments.REPEAT_KEY])
            yield segment, whole_numbers(table, segments.REPEAT_KEY, NO_KEY).view(np.uint64)

    def _files_in_turn(self, ids: Sequence[int]) -> Iterator[list[int]]:
        """Files that follow each other."""
        rollouts = self._rollouts()
        some: list[int] = []
        rows = 0
        for number in ids:
            rows += rollouts[number]
            some.append(number)
            if rows >= _ROWS_AT_ONCE:
                yield some
                some, rows = [], 0
        if some:
            yield some

    def _of_last_file(self, table: pa.Table) -> pa.Table:
        """The rows of the last file that has any: the next file may begin with rows that end this one."""
        held = pc.unique(table.column("file")).to_pylist()
        last = max(held, key=self.number_of.__getitem__, default=-1)
        return table.filter(pc.equal(table.column("file"), last))

    def _rollouts(self) -> dict[int, int]:
        """Rollouts of each file by its id, superseded ones included."""
        return {
            state.id: sum(n for tally in state.all_tallies.values() for _, n in tally.counts())
            for state in self.files
        }

    def rows(self, ids: Sequence[int], steps: Collection[int] | None = None) -> pa.Table:
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

    def repeats_in(
        self, table: pa.Table, kinds: Mapping[int, Repeats]
    ) -> Iterator[tuple[int, FoundRepeats]]:
        places = np.zeros(max(self.number_of, default=0) + 1, np.int64)
        places[list(self.number_of)] = list(self.number_of.values())
        ids, lines = table.column("file").to_numpy(), table.column("line").to_numpy()
        numbers = places[ids]
        codes = place_codes(lines, whole_numbers(table, segments.PART, 0))
        order = np.lexsort((codes, numbers))
        keys = whole_numbers(table, segments.REPEAT_KEY, NO_KEY)[order]
        ids, lines, codes = ids[order], lines[order], codes[order]
        steps = table.column("step").to_numpy()[order]
        for kind in sorted(set(kinds.values()) - {"never"}):
            own = np.isin(ids, [number for number, other in kinds.items() if other == kind])
            if kind in BY_FILE:
                hit = copied(keys[own], numbers[order][own], steps[own], kind)
            else:
                dumps = ids[own] if kind == "file_buffer" else _numbered(ids[own], lines[own])
                hit = repeated(keys[own], kind, dumps)
            for number in np.unique(ids[own][hit]).tolist():
                of_file = hit & (ids[own] == number)
                counts = Counter(steps[own][of_file].tolist())
                yield number, FoundRepeats(codes[own][of_file], counts)


def _numbered(files: IntArray, lines: IntArray) -> IntArray:
    """A number for each line of each file; rows of one line follow each other, [n]."""
    changed = (np.diff(files) != 0) | (np.diff(lines) != 0)
    return np.concatenate(([0], np.cumsum(changed))) if len(files) else files
