"""Which rows of an index repeat others: a look at rows only where a reader says that they may, and at all
that they hold only where a few numbers of them are such that they may be equal; see row_keys.
"""

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
    maybe_copied,
    maybe_repeated,
    place_codes,
    repeated,
)
from board.store.row_keys import FIRST_LOOK, row_keys, second_look
from board.store.segments import whole_numbers
from board.store.storage import Storage
from board.store.table_files import StepRange
from board.store.tally import IntArray

_MOST_SPANS: Final = 16
"""More steps than these are read all at once."""
_ROWS_AT_ONCE: Final = 200_000
"""About so many are in memory while it is looked which of them are equal."""
_TEXTS_AT_ONCE: Final = 16_384
"""Rows of a segment whose texts are read at once."""
_PLACES: Final = ("step", "file", "line", "rank", segments.PART)
_STANDS: Final = "stands"
"""Where a row stands in the index: the number of its segment, times _SEGMENT, and its place in it."""
_SEGMENT: Final = 1 << 40


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

    for table, kind in finder.pieces(finder.kinds(), kept):
        for number, repeats in finder.repeats_in(table, kind):
            # The last file of a piece is told again with the next, where nothing is before it.
            if number not in found or kind in BY_ID:
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
                table = self.rows(list(files), "copied_steps", first_shared(shared))
                files = alike(
                    _keys_in(table),
                    table.column("file").to_numpy(),
                    table.column("step").to_numpy(),
                )
            found |= files
        return found

    def pieces(
        self, kinds: Mapping[int, Repeats], kept: Callable[[pa.Table], pa.Table]
    ) -> Iterator[tuple[pa.Table, Repeats]]:
        """Rows that may repeat each other, a bounded number of most kinds at a time, and of which kind
        they are. kept: a table without the rows that repeat none.
        """
        of_kind: dict[Repeats, list[int]] = {}
        for number in sorted(kinds, key=self.number_of.__getitem__):
            of_kind.setdefault(kinds[number], []).append(number)
        for kind, ids in of_kind.items():
            if kind in BY_FILE:
                yield kept(self.rows(ids, kind)), kind
            elif kind in BY_ID:
                for table in self._with_equal_keys(ids):
                    yield kept(table), kind
            elif kind != "never":
                before = segments.empty()
                for files in self._files_in_turn(ids):
                    table = segments.joined([before, kept(self.rows(files, kind))])
                    yield table, kind
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
            names = (*_PLACES, segments.REPEAT_KEY)
            tables = [
                _of_files(self.storage.get(segment.name, names), ids)
                for segment, own in self._keys(ids)
                if np.isin(own, equal).any()
            ]
            table = segments.joined(tables)
            yield table.filter(pa.array(np.isin(_keys_in(table).view(np.uint64), equal)))

    def _keys(self, ids: Sequence[int]) -> Iterator[tuple[Segment, npt.NDArray[np.uint64]]]:
        """The keys of the rows of each segment that has any of these files."""
        for _, segment in self._segments(ids):
            table = self.storage.get(segment.name, [segments.REPEAT_KEY])
            yield segment, _keys_in(table).view(np.uint64)

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

    def rows(
        self, ids: Sequence[int], kind: Repeats, steps: Collection[int] | None = None
    ) -> pa.Table:
        """The rows of these files, in no order, with the keys of a first look; steps: of these alone."""
        few = steps is not None and len(steps) <= _MOST_SPANS
        spans = [(step, step) for step in steps] if few and steps else [None]
        found = segments.joined(
            self._first_look(number, segment, ids, kind, span)
            for number, segment in self._segments(ids)
            for span in spans
            if span is None or segment.low <= span[0] <= segment.high
        )
        if steps is not None:
            found = found.filter(pc.is_in(found.column("step"), pa.array(list(steps), pa.int64())))
        return found

    def _segments(self, ids: Sequence[int]) -> list[tuple[int, Segment]]:
        """The segments that have any of these files, each with its number."""
        wanted = set(ids)
        numbered = enumerate(self.manifest.all_segments)
        return [(number, s) for number, s in numbered if not wanted.isdisjoint(s.files)]

    def _first_look(
        self,
        number: int,
        segment: Segment,
        ids: Sequence[int],
        kind: Repeats,
        steps: StepRange | None,
    ) -> pa.Table:
        """The rows of a segment that are of these files; those of all steps with where they stand."""
        names = FIRST_LOOK[kind]
        table = self.storage.get(segment.name, (*_PLACES, *names), steps)
        if steps is None:
            stands = number * _SEGMENT + np.arange(table.num_rows)
            table = table.append_column(_STANDS, pa.array(stands))
        table = self._as_if_ended(_of_files(table, ids))
        keys = pa.array(row_keys(table, names).view(np.int64))
        held = [name for name in (*_PLACES, _STANDS) if name in table.column_names]
        return table.select(held).append_column(segments.REPEAT_KEY, keys)

    def _as_if_ended(self, table: pa.Table) -> pa.Table:
        """The rows with the size of their lines as if each ended: a copy of the last line of a file may
        end where that does not.
        """
        if "size" not in table.column_names or not table.num_rows:
            return table
        ended = np.zeros(max(self.number_of) + 1, np.int64)
        for state in self.files:
            ended[state.id] = state.lines
        is_torn = table.column("line").to_numpy() > ended[table.column("file").to_numpy()]
        sizes = pa.array(table.column("size").to_numpy() + is_torn)
        return table.set_column(table.column_names.index("size"), "size", sizes)

    def repeats_in(self, table: pa.Table, kind: Repeats) -> Iterator[tuple[int, FoundRepeats]]:
        """By id of the file the rows of a piece that repeat another of it."""
        places = np.zeros(max(self.number_of, default=0) + 1, np.int64)
        places[list(self.number_of)] = list(self.number_of.values())
        ids, lines = table.column("file").to_numpy(), table.column("line").to_numpy()
        codes = place_codes(lines, whole_numbers(table, segments.PART, 0))
        order = np.lexsort((codes, places[ids]))
        ids, codes = ids[order], codes[order]
        steps, keys = table.column("step").to_numpy()[order], _keys_in(table)[order]
        stands = whole_numbers(table, _STANDS, 0)[order]
        files, by_file = places[ids], kind in BY_FILE
        dumps = _numbered(ids, lines[order]) if kind == "line_buffer" else ids
        if kind not in BY_ID:
            maybe = (
                maybe_copied(keys, files, steps, kind) if by_file else maybe_repeated(keys, dumps)
            )
            if not maybe.any():
                return
            keys = self._second_look(keys, stands, maybe, kind)
        hit = copied(keys, files, steps, kind) if by_file else repeated(keys, kind, dumps)
        for rows in _by_value(np.flatnonzero(hit), ids):
            yield int(ids[rows[0]]), FoundRepeats(codes[rows], Counter(steps[rows].tolist()))

    def _second_look(
        self, keys: IntArray, stands: IntArray, maybe: Mask, kind: Repeats
    ) -> IntArray:
        """[rows] keys of all that rows hold, from those of the first look; NO_KEY of rows that have no
        need of one. maybe: which have.
        """
        found = np.where(maybe, keys, NO_KEY).view(np.uint64)
        rows = np.flatnonzero(maybe)
        rows = rows[np.argsort(stands[rows])]
        for piece in _by_value(rows, stands // _TEXTS_AT_ONCE):
            number = int(stands[piece[0]]) // _SEGMENT  # no piece is of two segments
            segment = self.manifest.all_segments[number]
            names = second_look(segment.columns, kind)
            if names:
                own = stands[piece] - number * _SEGMENT
                found[piece] += row_keys(self.storage.take(segment.name, names, own), names)
        return found.view(np.int64)


def _keys_in(table: pa.Table) -> IntArray:
    return whole_numbers(table, segments.REPEAT_KEY, NO_KEY)


def _of_files(table: pa.Table, ids: Sequence[int]) -> pa.Table:
    return table.filter(pc.is_in(table.column("file"), pa.array(ids, pa.int64())))


def _numbered(files: IntArray, lines: IntArray) -> IntArray:
    """A number for each line of each file; rows of one line follow each other, [n]."""
    changed = (np.diff(files) != 0) | (np.diff(lines) != 0)
    return np.concatenate(([0], np.cumsum(changed))) if len(files) else files


def _by_value(rows: IntArray, values: IntArray) -> Iterator[IntArray]:
    """The rows in pieces, those with equal values that follow each other; values: of all rows."""
    if len(rows):
        yield from np.split(rows, np.flatnonzero(np.diff(values[rows])) + 1)
