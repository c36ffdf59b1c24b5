"""Which rows of an index repeat others, by the hash that each row has of its id, texts or whole line."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
# pyarrow ships without types, and makes its compute functions when it is imported.

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from board.readers import reader_named
from board.readers.base import Repeats
from board.store.manifest import Manifest
from board.store.repeat_rows import RepeatRows
from board.store.repeats import (
    BY_FILE,
    BY_ID,
    alike,
    copied,
    first_shared,
    repeated,
)
from board.store.run_files import RunFiles
from board.store.storage import Storage
from board.store.tally import IntArray


@dataclass(frozen=True, slots=True)
class FoundRepeats:
    """Rows of a file that repeat others: their place codes in ascending order, and how many by step."""

    codes: IntArray
    counts: Mapping[int, int]


def find_repeats(storage: Storage, manifest: Manifest, run: RunFiles) -> dict[int, FoundRepeats]:
    """By id of the file the rows that repeat another, as far as their keys tell."""
    look = RepeatRows(storage, manifest, run)
    found: dict[int, list[FoundRepeats]] = {}
    for kind, ids in _ids_of_kinds(run).items():
        for table in _tables(look, kind, ids):
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


def _tables(look: RepeatRows, kind: Repeats, ids: Sequence[int]) -> Iterator[pa.Table]:
    """Rows that may repeat each other, a bounded number of most kinds at a time."""
    if kind in BY_ID:
        yield from look.with_equal_keys(ids)
    elif kind in BY_FILE:
        files = _possible_copies(look, kind, ids)
        if files:
            yield look.kept(look.of(sorted(files)))
    else:
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
    """Files whose lines may stand in another one: of each reader those that share steps. Copies of whole
    steps begin at the first shared one, so that the files of ranks cost one step.
    """
    found: set[int] = set()
    for by_step in _holders(look.run, ids).values():
        shared = {step: files for step, files in sorted(by_step.items()) if len(files) > 1}
        files = sorted({file for of_step in shared.values() for file in of_step})
        if kind != "copied_steps":
            found.update(files)
        elif files:
            rows = look.ordered(look.kept(look.of(files, first_shared(shared))))
            found |= alike(rows.keys, rows.files, rows.steps)
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
