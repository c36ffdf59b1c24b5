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
import pyarrow as pa
import pyarrow.compute as pc

from board.readers import reader_named
from board.readers.base import Repeats
from board.store import segments
from board.store.manifest import FileState, Manifest
from board.store.repeats import (
    BY_FILE,
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
from board.store.tally import IntArray

_MOST_SPANS: Final = 16
"""More steps than these are read all at once."""


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
    kinds = finder.kinds()
    if all(kind == "never" for kind in kinds.values()):
        return {}
    table = finder.rows([i for i, kind in kinds.items() if kind != "never"])
    steps, of_files = table.column("step").to_numpy(), table.column("file").to_numpy()
    table = table.filter(pa.array(~superseded(table, steps, of_files)))
    return dict(finder.repeats_in(table, kinds))


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

    def rows(self, ids: Sequence[int], steps: Collection[int] | None = None) -> pa.Table:
        """The rows of these files, in no order; steps: of these alone."""
        names = ["step", "file", "line", "rank", segments.PART, segments.REPEAT_KEY]
        few = steps is not None and len(steps) <= _MOST_SPANS
        spans = [(step, step) for step in steps] if few and steps else [None]
        found = segments.joined(
            self.storage.get(segment.name, names, span)
            for segment in self.manifest.all_segments
            for span in spans
            if not set(ids).isdisjoint(segment.files)
            and (span is None or segment.low <= span[0] <= segment.high)
        )
        if steps is not None:
            found = found.filter(pc.is_in(found.column("step"), pa.array(list(steps), pa.int64())))
        return found.filter(pc.is_in(found.column("file"), pa.array(ids, pa.int64())))

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
