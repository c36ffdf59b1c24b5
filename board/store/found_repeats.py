"""Which rows of an index repeat others.

Nearly no log has copies, and what tells them surely, a hash of each line or of all texts of a row, takes
a good part of a scan. So it is known in two looks. The first is at numbers that every index has:
`possible_repeats` finds the files in which equal lengths and scores stand where copies would. These are
read again, with keys; `find_repeats` then goes by the keys alone. Rows that are known by an id have their
keys from the first.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
# pyarrow ships without types, and makes its compute functions when it is imported.

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa

from board.readers import reader_named
from board.readers.base import Repeats
from board.store import segments
from board.store.manifest import Manifest
from board.store.repeat_rows import RepeatRows
from board.store.repeats import (
    BY_FILE,
    BY_ID,
    alike,
    copied,
    first_shared,
    may_be_merged,
    may_overlap,
    repeated,
    starts_of,
)
from board.store.run_files import RunFiles
from board.store.storage import Storage
from board.store.tally import IntArray

_OF_ROWS: Final = ("response_chars", "reward", "advantage")
"""Numbers that are equal in rows of equal texts and scores."""
_OF_LINES: Final = ("size", *_OF_ROWS)
"""Numbers that are equal in rows of equal lines."""


@dataclass(frozen=True, slots=True)
class FoundRepeats:
    """Rows of a file that repeat others: their place codes in ascending order, and how many by step."""

    codes: IntArray
    counts: Mapping[int, int]


def possible_repeats(storage: Storage, manifest: Manifest, run: RunFiles) -> set[int]:
    """Ids of files that may hold copies of rows, or what was copied, and have no keys to tell."""
    found: set[int] = set()
    for kind, ids in _ids_of_kinds(run).items():
        if kind in BY_FILE:
            look = RepeatRows(storage, manifest, run, _OF_LINES)
            found |= _possible_copies(look, kind, ids)
        elif kind not in BY_ID:
            found |= _possible_buffers(RepeatRows(storage, manifest, run, _OF_ROWS), kind, ids)
    return found - {state.id for state in run.files if state.keyed}


def find_repeats(storage: Storage, manifest: Manifest, run: RunFiles) -> dict[int, FoundRepeats]:
    """By id of the file the rows that repeat another, as far as their keys tell."""
    look = RepeatRows(storage, manifest, run, (segments.REPEAT_KEY,))
    keyed = {state.id for state in run.files if state.keyed}
    found: dict[int, list[FoundRepeats]] = {}
    for kind, ids in _ids_of_kinds(run).items():
        for table in _tables(look, kind, ids, keyed):
            for number, repeats in _repeats_in(look, table, kind):
                # The last file of a table is told again with the next, where nothing is before it.
                if number not in found or kind in BY_ID:
                    found.setdefault(number, []).append(repeats)
    return {number: _together(parts) for number, parts in found.items()}


def _ids_of_kinds(run: RunFiles) -> dict[Repeats, list[int]]:
    """By how their framework repeats rollouts the ids of files, in their order."""
    found: dict[Repeats, list[int]] = {}
    for state in run.files:
        kind = reader_named(state.reader).repeats
        if kind != "never":
            found.setdefault(kind, []).append(state.id)
    return found


def _tables(
    look: RepeatRows, kind: Repeats, ids: Sequence[int], keyed: set[int]
) -> Iterator[pa.Table]:
    """Rows that may repeat each other, a bounded number of most kinds at a time."""
    if kind in BY_ID:
        yield from look.with_equal_keys(ids)
    elif kind in BY_FILE:
        own = _possible_copies(look, kind, [number for number in ids if number in keyed])
        if own:
            yield look.kept(look.of(sorted(own)))
    elif not keyed.isdisjoint(ids):  # buffers without keys stand between those that have them
        yield from look.in_turn(ids)


def _repeats_in(
    look: RepeatRows, table: pa.Table, kind: Repeats
) -> Iterator[tuple[int, FoundRepeats]]:
    rows = look.ordered(table)
    if kind in BY_FILE:
        hit = copied(rows.keys, rows.places, rows.steps, kind)
    else:
        hit = repeated(rows.keys, kind, rows.dumps(kind))
    rows = rows.only(hit)
    for number in np.unique(rows.files).tolist():
        own = rows.only(rows.files == number)
        yield number, FoundRepeats(own.codes, Counter(own.steps.tolist()))


def _together(parts: Sequence[FoundRepeats]) -> FoundRepeats:
    counts = sum((Counter(part.counts) for part in parts), Counter[int]())
    return FoundRepeats(np.unique(np.concatenate([part.codes for part in parts])), counts)


def _possible_copies(look: RepeatRows, kind: Repeats, ids: Sequence[int]) -> set[int]:
    """Files whose lines may stand in another one: told by the steps they share, and of copies by the
    lines of the first of them, so that the files of ranks cost one step.
    """
    found: set[int] = set()
    for by_step in _holders(look.run, ids).values():
        shared = {step: files for step, files in sorted(by_step.items()) if len(files) > 1}
        files = sorted({file for of_step in shared.values() for file in of_step})
        if not files:
            continue
        steps = first_shared(shared) if kind == "copied_steps" else set(shared)
        rows = look.ordered(look.kept(look.of(files, steps)))
        may_be = alike if kind == "copied_steps" else may_be_merged
        found |= may_be(rows.keys, rows.files, rows.steps)
    return found


def _holders(run: RunFiles, ids: Sequence[int]) -> dict[str, dict[int, list[int]]]:
    """By reader and step the files that hold it, and in which no resume wrote it again."""
    found: dict[str, dict[int, list[int]]] = {}
    wanted = set(ids)
    for state, counts in run.superseded.standing:
        if state.id in wanted:
            of_reader = found.setdefault(state.reader, {})
            for step in {step for step, count in counts if count}:
                of_reader.setdefault(step, []).append(state.id)
    return found


def _possible_buffers(look: RepeatRows, kind: Repeats, ids: Sequence[int]) -> set[int]:
    """Files with a buffer that may begin with rows that end the one before, and the files of those."""
    found: set[int] = set()
    for table in look.in_turn(ids):
        rows = look.ordered(table)
        bounds = [*starts_of(rows.dumps(kind)), len(rows.keys)]
        for first, second in pairwise(pairwise(bounds)):
            if may_overlap(rows.keys[slice(*first)], rows.keys[slice(*second)]):
                found |= {int(rows.files[first[0]]), int(rows.files[second[0]])}
    return found
