"""Rollouts that a framework wrote more than once: which rows are such, told exactly.

Equal texts alone make no repeat, since a policy may say the same twice. A repeat is a row with an id that
another one has, or one at the beginning of a buffer that is the end of the buffer written before.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import orjson

from board.core.records import Record
from board.readers.base import Repeats
from board.readers.columns import Columns
from board.store.tally import IntArray

_PARTS: Final = 1 << 20
_BY_ID: Final = ("same_id", "unique_id")
NO_KEY: Final = 0
"""The key of a row that can't be a repeat of another."""

Mask = npt.NDArray[np.bool_]


def repeat_key(record: Record, repeats: Repeats) -> int:
    """A hash that is equal for rows that may be one rollout: of its id, or of texts and scores."""
    if repeats in _BY_ID:
        rollout_id = record.ids.get("rollout_id")
        if rollout_id is None:
            return NO_KEY
        step, split = record.step, record.ids.get("split")
        said: object = [step, split, rollout_id] if repeats == "same_id" else rollout_id
        return _hashed(orjson.dumps(said))
    return _buffer_key(record.texts, record.scores)


def repeat_keys(found: Columns, repeats: Repeats) -> list[int]:
    """The repeat_key of the Record of every row."""
    count = len(found.steps)
    if repeats not in _BY_ID:
        scores, texts = _by_row(found.scores, count), _by_row(found.texts, count)
        return [_buffer_key(t, s) for t, s in zip(texts, scores, strict=True)]
    ids = found.ids.get("rollout_id") or [None] * count
    splits = found.ids.get("split") or [None] * count
    if repeats == "unique_id":
        return [NO_KEY if i is None else _hashed(orjson.dumps(i)) for i in ids]
    rows = zip(found.steps, splits, ids, strict=True)
    return [NO_KEY if row[2] is None else _hashed(orjson.dumps(row)) for row in rows]


def _by_row(columns: Mapping[str, list[Any]], count: int) -> list[dict[str, Any]]:
    """What each row holds, by name."""
    if not columns:
        return [{}] * count
    found = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    if any(None in values for values in columns.values()):
        return [{k: v for k, v in row.items() if v is not None} for row in found]
    return found


def _buffer_key(texts: Mapping[str, str], scores: Mapping[str, float]) -> int:
    """The key of a row of a buffer: of its scores, the lengths of its texts, and the texts."""
    said: dict[str, Any] = dict(scores)
    encoded: list[bytes] = []
    for name in sorted(texts):
        text = texts[name].encode("utf-8", "surrogatepass")
        said["text " + name] = len(text)
        encoded.append(text)
    return _hashed(orjson.dumps(said, option=orjson.OPT_SORT_KEYS), *encoded)


def _hashed(*contents: bytes) -> int:
    # SHA-1 is computed by the processor itself, nearly everywhere: no other hash is as quick.
    known = hashlib.sha1(usedforsecurity=False)
    for content in contents:
        known.update(content)
    return int.from_bytes(known.digest()[:8], "big", signed=True)


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
    return _all_but_last(keys) if repeats in _BY_ID else _buffered(keys, dumps)


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
