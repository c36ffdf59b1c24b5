"""Rollouts that a framework wrote more than once: which rows are such, told exactly.

Equal texts alone make no repeat, since a policy may say the same twice. A repeat is a row with an id that
another one has, or one at the beginning of a buffer that is the end of the buffer written before, or one
of a whole dump that another file holds too.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import orjson

from board.core.records import Record
from board.readers.base import Repeats
from board.readers.columns import Columns, listed_ids
from board.store.tally import IntArray

_PARTS: Final = 1 << 20
BY_ID: Final = ("same_id", "unique_id")
"""Kinds of repeats that are told by ids, wherever they stand."""
BY_FILE: Final = ("copied_steps", "merged_files")
"""Kinds of repeats that are told by the lines of whole files, and only where several hold one step."""
NO_KEY: Final = 0
"""The key of a row that can't be a repeat of another."""

Mask = npt.NDArray[np.bool_]
_Dumps = Mapping[int, Mapping[int, IntArray]]
"""By file and step the rows of a dump, in their order."""


def id_key(record: Record, repeats: Repeats) -> int:
    """A hash that is equal for rows whose ids say that they are one rollout; repeats: one of BY_ID."""
    rollout_id = record.ids.get("rollout_id")
    if rollout_id is None:
        return NO_KEY
    step, split = record.step, record.ids.get("split")
    return _hashed([step, split, rollout_id] if repeats == "same_id" else rollout_id)


def id_keys(found: Columns, repeats: Repeats) -> list[int]:
    """The id_key of the Record of every row."""
    count = len(found.steps)
    ids, splits = (
        listed_ids(found.ids.get(key, [None] * count)) for key in ("rollout_id", "split")
    )
    if repeats == "unique_id":
        return [NO_KEY if i is None else _hashed(i) for i in ids]
    rows = zip(found.steps.tolist(), splits, ids, strict=True)
    return [NO_KEY if row[2] is None else _hashed(row) for row in rows]


def _hashed(said: object) -> int:
    # SHA-1 is computed by the processor itself, nearly everywhere: no other hash is as quick.
    known = hashlib.sha1(orjson.dumps(said), usedforsecurity=False)
    return int.from_bytes(known.digest()[:8], "big", signed=True)


def copied(keys: IntArray, files: IntArray, steps: IntArray, repeats: Repeats) -> Mask:
    """Which rows stand in another file too, told by whole steps of files alone, [n].

    keys: of all that rows hold; files: numbers; steps. A file's lines of one step are its dump. Two dumps
    are one when all their lines are equal: one line may well be that of another rollout, since a group
    holds equal answers, and so may a dump whose lines are all alike.
    """
    dumps = _dumps_of(files, steps)
    again = _copies(keys, dumps, _tells) if repeats == "copied_steps" else _merged(keys, dumps)
    mask = np.zeros(len(keys), bool)
    for rows, _ in again:
        mask[rows] = True
    return mask


def maybe_copied(keys: IntArray, files: IntArray, steps: IntArray, repeats: Repeats) -> Mask:
    """Which rows have to be told exactly, for `copied` to find what it would find of all; arguments as
    there, but that other rows may have equal keys too.
    """
    dumps = _dumps_of(files, steps)
    by_copies = repeats == "copied_steps"
    again = _copies(keys, dumps, _several) if by_copies else _maybe_merged(keys, dumps)
    mask = np.zeros(len(keys), bool)
    for rows, others in again:
        mask[rows] = mask[others] = True
    return mask


def _dumps_of(files: IntArray, steps: IntArray) -> _Dumps:
    dumps: dict[int, dict[int, IntArray]] = {}
    order = np.lexsort((np.arange(len(files)), steps, files))
    changed = (np.diff(files[order]) != 0) | (np.diff(steps[order]) != 0)
    for rows in np.split(order, np.flatnonzero(changed) + 1) if len(order) else ():
        dumps.setdefault(int(files[rows[0]]), {})[int(steps[rows[0]])] = rows
    return dumps


def first_shared(holders: Mapping[int, Sequence[int]]) -> set[int]:
    """The steps at which two files first hold a step together; holders: files by step, ascending."""
    groups: set[tuple[int, ...]] = set()
    pairs: set[tuple[int, int]] = set()
    found: set[int] = set()
    for step, files in holders.items():
        group = tuple(files)
        if len(group) < 2 or group in groups:
            continue
        groups.add(group)
        fresh = {(a, b) for i, a in enumerate(group) for b in group[i + 1 :]} - pairs
        if fresh:
            found.add(step)
            pairs |= fresh
    return found


def alike(keys: IntArray, files: IntArray, steps: IntArray) -> set[int]:
    """The files that hold a dump of several lines which another one may hold too; arguments as of
    `maybe_copied`.
    """
    holders: dict[tuple[int, bytes], list[int]] = {}
    for number, dumps in _dumps_of(files, steps).items():
        for step, rows in dumps.items():
            if _several(keys[rows]):
                holders.setdefault((step, keys[rows].tobytes()), []).append(number)
    return {number for group in holders.values() if len(group) > 1 for number in group}


def _copies(
    keys: IntArray, dumps: _Dumps, tells: Callable[[IntArray], bool]
) -> Iterator[tuple[IntArray, IntArray]]:
    """The dumps that an earlier file holds too, from the first step on that both hold, each with that
    file's.
    """
    numbers = list(dumps)
    for place, number in enumerate(numbers):
        for earlier in numbers[:place]:
            for step in sorted(dumps[number].keys() & dumps[earlier].keys()):
                own, other = dumps[number][step], dumps[earlier][step]
                if not np.array_equal(keys[own], keys[other]) or not tells(keys[own]):
                    break
                yield own, other


def _merged(keys: IntArray, dumps: _Dumps) -> Iterator[tuple[IntArray, IntArray]]:
    """The dumps that hold the lines of several other files, of each all, and none else; and these."""
    for rows, inside in _with_parts(keys, dumps):
        others = np.concatenate(inside)
        if _counted(keys[others]) == _counted(keys[rows]) and _tells(keys[rows]):
            yield rows, others


def _maybe_merged(keys: IntArray, dumps: _Dumps) -> Iterator[tuple[IntArray, IntArray]]:
    """As _merged, where lines of other files may have equal keys by chance."""
    for rows, inside in _with_parts(keys, dumps):
        others = np.concatenate(inside)
        if _counted(keys[others]) >= _counted(keys[rows]):
            yield rows, others


def _with_parts(keys: IntArray, dumps: _Dumps) -> Iterator[tuple[IntArray, list[IntArray]]]:
    """The dumps that hold all lines of those of several other files, and these."""
    for number, steps in dumps.items():
        for step, rows in steps.items():
            whole = _counted(keys[rows])
            smaller = [
                other[step]
                for file, other in dumps.items()
                if file != number and step in other and len(other[step]) < len(rows)
            ]
            inside = [part for part in smaller if _counted(keys[part]) <= whole]
            if len(inside) > 1:
                yield rows, inside


def _counted(keys: IntArray) -> Counter[int]:
    values: list[int] = keys.tolist()
    return Counter(values)


def _several(keys: IntArray) -> bool:
    return len(keys) > 1


def _tells(keys: IntArray) -> bool:
    """Whether the lines of a dump are such that an equal one is no chance."""
    return _several(keys) and _differ(keys) and bool((keys != NO_KEY).all())


def place_codes(lines: IntArray, parts: IntArray) -> IntArray:
    """One number for each row of a file, in file order; lines, parts: [n]."""
    return lines * _PARTS + np.minimum(parts, _PARTS - 1)


def repeated(keys: IntArray, repeats: Repeats, dumps: IntArray) -> Mask:
    """Which rows of a run's files of one reader repeat another row.

    keys: [n], in file order. dumps: [n], a number for each buffer that was written as a whole, equal for
    its rows, which follow each other.
    """
    if repeats in BY_ID:
        return _all_but_last(keys)
    mask = np.zeros(len(keys), bool)
    for before, after in _following(dumps):
        shared = overlap(keys[before], keys[after])
        mask[after.start : after.start + shared] = True
    return mask


def maybe_repeated(keys: IntArray, dumps: IntArray) -> Mask:
    """Which rows of buffers have to be told exactly, for `repeated` to find what it would find of all;
    arguments as there, but that other rows may have equal keys too.
    """
    mask = np.zeros(len(keys), bool)
    for before, after in _following(dumps):
        if _may_overlap(keys[before], keys[after]):
            mask[before.start : after.stop] = True
    return mask


def _all_but_last(keys: IntArray) -> Mask:
    mask = np.ones(len(keys), bool)
    _, last = np.unique(keys[::-1], return_index=True)
    mask[len(keys) - 1 - last] = False
    return mask & (keys != NO_KEY)


def _following(dumps: IntArray) -> Iterator[tuple[slice, slice]]:
    """The rows of each dump, but of the first, after those of the dump before."""
    starts = [0, *(np.flatnonzero(np.diff(dumps)) + 1).tolist()]
    for before, start, end in zip(starts, starts[1:], [*starts[2:], len(dumps)], strict=False):
        yield slice(before, start), slice(start, end)


def overlap(before: IntArray, after: IntArray) -> int:
    """How many entries at the beginning of `after` are the end of `before`; the most there can be.

    A stretch of one and the same key tells nothing: it may as well be written anew.
    """
    if len(after) == 0:
        return 0
    first = max(len(before) - len(after), 0)
    for start in np.flatnonzero(before[first:] == after[0]).tolist():
        tail = before[first + start :]
        if np.array_equal(tail, after[: len(tail)]):
            return len(tail) if _differ(tail) else 0
    return 0


def _may_overlap(before: IntArray, after: IntArray) -> bool:
    """Whether several entries at the beginning of `after` are the end of `before`."""
    if len(before) < 2 or len(after) < 2:
        return False
    first = max(len(before) - len(after), 0)
    starts = np.flatnonzero(before[first:-1] == after[0]) + first
    if not len(starts):
        return False
    starts = starts[before[starts + 1] == after[1]]
    starts = starts[after[len(before) - 1 - starts] == before[-1]]
    return any(np.array_equal(before[at:], after[: len(before) - at]) for at in starts.tolist())


def _differ(keys: Sequence[int] | IntArray) -> bool:
    return bool(np.any(np.asarray(keys) != keys[0]))
