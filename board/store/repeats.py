"""Rollouts that a framework wrote more than once: which rows are such, told exactly.

Equal texts alone make no repeat, since a policy may say the same twice. A repeat is a row with an id that
another one has, or one at the beginning of a buffer that is the end of the buffer written before.
"""

from __future__ import annotations

import hashlib
import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt
import orjson

from board.core.records import Record
from board.readers.base import Repeats
from board.readers.byte_ends import ends_at
from board.readers.columns import Columns, listed_ids
from board.readers.lines import Stretch
from board.readers.texts import ends_of
from board.store.tally import IntArray

_LINE_FIRST: Final = 128
_LINE_LAST: Final = 256
"""Bytes of a line by which it is known again, beside its length; scores stand behind the texts."""
_LINE_WORDS: Final = (_LINE_FIRST + _LINE_LAST) // 8
_TEXT_END: Final = 128
"""Bytes at either end of a text by which it is known again, beside its length."""
_END_WORDS: Final = 2 * _TEXT_END // 8
_WORD: Final = (1 << 64) - 1
_HALF, _NONE = np.uint64(32), np.uint64(0)
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


def repeat_key(record: Record, repeats: Repeats) -> int:
    """A hash that is equal for rows that may be one rollout: of its id, or of texts and scores."""
    if repeats in BY_ID:
        rollout_id = record.ids.get("rollout_id")
        if rollout_id is None:
            return NO_KEY
        step, split = record.step, record.ids.get("split")
        said: object = [step, split, rollout_id] if repeats == "same_id" else rollout_id
        return _hashed(orjson.dumps(said))
    lengths = {name: len(text) for name, text in record.texts.items()}
    ends = {name: ends_of(text, _TEXT_END) for name, text in record.texts.items()}
    return _buffer_key(record.scores, lengths, ends)


def repeat_keys(found: Columns, repeats: Repeats) -> list[int]:
    """The repeat_key of the Record of every row."""
    count = len(found.steps)
    if repeats not in BY_ID:
        return _buffer_keys(found)
    ids, splits = (
        listed_ids(found.ids.get(key, [None] * count)) for key in ("rollout_id", "split")
    )
    if repeats == "unique_id":
        return [NO_KEY if i is None else _hashed(orjson.dumps(i)) for i in ids]
    rows = zip(found.steps.tolist(), splits, ids, strict=True)
    return [NO_KEY if row[2] is None else _hashed(orjson.dumps(row)) for row in rows]


def _buffer_key(
    scores: Mapping[str, float], lengths: Mapping[str, int], ends: Mapping[str, bytes]
) -> int:
    """The key of a row of a buffer: of its scores, the lengths of its texts, and their ends.

    What stands between the ends is not looked at: hashing texts whole would cost a third of the scan.
    It is a sum over all of that, each word times a number of its own and of the name it stands under.
    """
    told = 0
    for name, score in scores.items():
        told += _of_words(name, (1, *struct.unpack("<Q", struct.pack("<d", score))))
    for name, length in lengths.items():
        told += _of_words(name, (1, length, *struct.unpack(f"<{_END_WORDS}Q", ends[name])))
    return int.from_bytes((told & _WORD).to_bytes(8, "big"), "big", signed=True)


def _of_words(name: str, words: Sequence[int]) -> int:
    # High bits are brought down, for what is multiplied only goes up: two signs that change are told.
    return sum((w ^ w >> 32) * f for w, f in zip(words, _factors(name)[1], strict=False))


@lru_cache(maxsize=1024)
def _factors(name: str) -> tuple[npt.NDArray[np.uint64], Sequence[int]]:
    """Odd numbers that look like drawn ones, others for every name: as an array and as a list."""
    drawn = hashlib.shake_128(name.encode("utf-8", "surrogatepass")).digest(8 * (2 + _LINE_WORDS))
    factors = np.frombuffer(drawn, "<u8").astype(np.uint64) | np.uint64(1)
    return factors, factors.tolist()


def _buffer_keys(found: Columns) -> list[int]:
    """The _buffer_key of every row."""
    told = np.zeros(len(found.steps), np.uint64)
    for name, values in found.scores.items():
        numbers = np.array(values, np.float64)  # NaN: there is none
        words = numbers.view(np.uint64)
        told += np.where(np.isnan(numbers), _NONE, _of_columns(name, words))
    for name, texts in found.texts.items():
        counts = texts.lengths()
        is_array = isinstance(counts, np.ndarray)
        lengths = counts if is_array else np.array([-1 if n is None else n for n in counts])
        hashed = _of_columns(name, lengths.astype(np.uint64), texts.ends(_TEXT_END))
        told += np.where(lengths < 0, _NONE, hashed)
    keys: list[int] = told.view(np.int64).tolist()
    return keys


def _of_columns(
    name: str, words: npt.NDArray[np.uint64], more: npt.NDArray[np.uint64] | None = None
) -> npt.NDArray[np.uint64]:
    """[rows] as _of_words, of a 1, a word and more of them. words: [rows]; more: [rows, n]."""
    factors = _factors(name)[0]
    told = (words ^ words >> _HALF) * factors[1] + factors[0]
    if more is None:
        return told
    return told + (more ^ more >> _HALF) @ factors[2 : 2 + more.shape[1]]


def _hashed(*contents: bytes) -> int:
    # SHA-1 is computed by the processor itself, nearly everywhere: no other hash is as quick.
    known = hashlib.sha1(usedforsecurity=False)
    for content in contents:
        known.update(content)
    return int.from_bytes(known.digest()[:8], "big", signed=True)


def line_key(text: bytes | None, part: int) -> int:
    """A number that is equal for lines of equal length and ends; NO_KEY of None, no line of text.

    The middle of a long line is not looked at: hashing it whole would cost a sixth of the scan.
    """
    if text is None:
        return NO_KEY
    first, last = text[:_LINE_FIRST], text[-_LINE_LAST:]
    ends = first.ljust(_LINE_FIRST, b"\0") + last.ljust(_LINE_LAST, b"\0")
    told = _of_words("line", (1 + part, len(text), *struct.unpack(f"<{_LINE_WORDS}Q", ends)))
    return int.from_bytes((told & _WORD).to_bytes(8, "big"), "big", signed=True)


def line_keys(stretch: Stretch) -> IntArray:
    """[lines] the line_key of each line as its first part."""
    content, lengths = stretch.content, stretch.sizes - 1
    if content is None:
        return np.full(len(lengths), NO_KEY)
    starts = stretch.sizes.cumsum() - stretch.sizes
    codes = np.frombuffer(content, np.uint8)
    ends = ends_at(codes, starts, lengths, _LINE_FIRST, _LINE_LAST)
    return _of_columns("line", lengths.view(np.uint64), ends).view(np.int64)


def copied(keys: IntArray, files: IntArray, steps: IntArray, repeats: Repeats) -> Mask:
    """Which rows stand in another file too, told by whole steps of files alone, [n].

    keys: of line_key; files: numbers; steps. A file's lines of one step are its dump. Two dumps are one
    when all their lines are equal: one line may well be that of another rollout, since a group holds
    equal answers, and so may a dump whose lines are all alike.
    """
    dumps = _dumps_of(files, steps)
    again = _copies if repeats == "copied_steps" else _merged
    mask = np.zeros(len(keys), bool)
    for rows in again(keys, dumps):
        mask[rows] = True
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
    """The files that hold a dump which another one holds too; arguments as of `copied`."""
    holders: dict[tuple[int, bytes], list[int]] = {}
    for number, dumps in _dumps_of(files, steps).items():
        for step, rows in dumps.items():
            holders.setdefault((step, keys[rows].tobytes()), []).append(number)
    return {number for group in holders.values() if len(group) > 1 for number in group}


def _copies(keys: IntArray, dumps: _Dumps) -> Iterator[IntArray]:
    """The dumps that an earlier file holds too, from the first step on that both hold."""
    numbers = list(dumps)
    copied: set[tuple[int, int]] = set()
    for place, number in enumerate(numbers):
        for earlier in numbers[:place]:
            for step in sorted(dumps[number].keys() & dumps[earlier].keys()):
                own, other = dumps[number][step], dumps[earlier][step]
                if not np.array_equal(keys[own], keys[other]) or not _tells(keys[own]):
                    break
                if (number, step) not in copied:
                    copied.add((number, step))
                    yield own


def _merged(keys: IntArray, dumps: _Dumps) -> Iterator[IntArray]:
    """The dumps that hold the lines of several other files, of each all, and none else."""
    for number, steps in dumps.items():
        for step, rows in steps.items():
            whole = _counted(keys[rows])
            parts = [
                _counted(keys[other[step]])
                for file, other in dumps.items()
                if file != number and step in other and len(other[step]) < len(rows)
            ]
            inside = [part for part in parts if part <= whole]
            total = sum(inside, Counter[int]())
            if len(inside) > 1 and total == whole and _tells(keys[rows]):
                yield rows


def _counted(keys: IntArray) -> Counter[int]:
    values: list[int] = keys.tolist()
    return Counter(values)


def _tells(keys: IntArray) -> bool:
    """Whether the lines of a dump are such that an equal one is no chance."""
    return len(keys) > 1 and _differ(keys) and bool((keys != NO_KEY).all())


def place_codes(lines: IntArray, parts: IntArray) -> IntArray:
    """One number for each row of a file, in file order; lines, parts: [n]."""
    return lines * _PARTS + np.minimum(parts, _PARTS - 1)


def repeated(keys: IntArray, repeats: Repeats, dumps: IntArray) -> Mask:
    """Which rows of a run's files of one reader repeat another row.

    keys: [n], in file order. dumps: [n], a number for each buffer that was written as a whole, equal for
    its rows, which follow each other.
    """
    if repeats == "never" or len(keys) == 0:
        return np.zeros(len(keys), bool)
    return _all_but_last(keys) if repeats in BY_ID else _buffered(keys, dumps)


def _all_but_last(keys: IntArray) -> Mask:
    mask = np.ones(len(keys), bool)
    _, last = np.unique(keys[::-1], return_index=True)
    mask[len(keys) - 1 - last] = False
    return mask & (keys != NO_KEY)


def _buffered(keys: IntArray, dumps: IntArray) -> Mask:
    mask = np.zeros(len(keys), bool)
    starts = [0, *(np.flatnonzero(np.diff(dumps)) + 1).tolist()]
    ends = [*starts[1:], len(keys)]
    for i in range(1, len(starts)):
        before = keys[starts[i - 1] : ends[i - 1]]
        shared = overlap(before, keys[starts[i] : ends[i]])
        mask[starts[i] : starts[i] + shared] = True
    return mask


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


def _differ(keys: Sequence[int] | IntArray) -> bool:
    return bool(np.any(np.asarray(keys) != keys[0]))
