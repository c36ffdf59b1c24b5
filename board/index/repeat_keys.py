"""The hash by which a row of the index is known again, and how far two buffers overlap."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt
import orjson
from xxhash import xxh3_64_intdigest, xxh3_128_digest

from board.core.records import Record
from board.formats.base import Repeats
from board.formats.columns import Columns, Values
from board.formats.io.lines import LineBlock
from board.index.reading.file_steps import IntArray
from board.index.segments import JOIN_KEYS

_WORD: Final = (1 << 64) - 1
BY_ID: Final = ("same_id", "unique_id")
"""Kinds of repeats that are told by ids, wherever they stand."""
BY_FILE: Final = ("copied_steps", "merged_files")
"""Kinds of repeats that are told by the lines of whole files, and only where several hold one step."""
NO_KEY: Final = 0
"""The key of a row that can't be a repeat of another."""


def repeat_key(record: Record, repeats: Repeats) -> int:
    """A hash that is equal for rows that are one rollout: of its id, or of its texts and scores."""
    if repeats not in BY_ID:
        return _buffer_key(record.scores, record.texts)
    rollout_id = record.ids.get("rollout_id")
    if rollout_id is None:
        return NO_KEY
    step, split = record.step, record.ids.get("split")
    value: object = [step, split, rollout_id] if repeats == "same_id" else rollout_id
    return _hashed(orjson.dumps(value))


def repeat_keys(rollouts: Columns, repeats: Repeats) -> list[int]:
    """The repeat_key of the Record of every row."""
    count = len(rollouts.steps)
    if repeats not in BY_ID:
        return _buffer_keys(rollouts)
    ids, splits = (rollouts.ids.get(key, [None] * count) for key in ("rollout_id", "split"))
    if repeats == "unique_id":
        return [NO_KEY if i is None else _hashed(orjson.dumps(i)) for i in ids]
    rows = zip(rollouts.steps.tolist(), splits, ids, strict=True)
    return [NO_KEY if row[2] is None else _hashed(orjson.dumps(row)) for row in rows]


def _buffer_key(scores: Mapping[str, float], texts: Mapping[str, str]) -> int:
    """The key of a row of a buffer: a sum over all of its scores and texts, each with its name."""
    total = sum(int(_of_texts(name, [text])[0]) for name, text in texts.items())
    for name, score in scores.items():
        (word,) = struct.unpack("<Q", struct.pack("<d", score))
        first, factor = _factors(name)
        # High bits are brought down, for what is multiplied only goes up.
        total += (word ^ word >> 32) * factor + first
    return int.from_bytes((total & _WORD).to_bytes(8, "big"), "big", signed=True)


def _buffer_keys(rollouts: Columns) -> list[int]:
    """The _buffer_key of every row."""
    total = np.zeros(len(rollouts.steps), np.uint64)
    for name, texts in rollouts.texts.items():
        total += _of_texts(name, texts)
    for name, numbers in rollouts.scores.items():  # NaN: there is none
        first, factor = map(np.uint64, _factors(name))
        words = numbers.view(np.uint64)
        hashed = (words ^ words >> np.uint64(32)) * factor + first
        total += np.where(np.isnan(numbers), np.uint64(0), hashed)
    keys: list[int] = total.view(np.int64).tolist()
    return keys


@lru_cache(maxsize=1024)
def _factors(name: str) -> tuple[int, int]:
    """Two odd numbers that look like drawn ones, others for every name."""
    drawn = xxh3_128_digest(name.encode("utf-8", "surrogatepass"))
    first, second = struct.unpack("<2Q", drawn)
    return first | 1, second | 1


def _of_texts(name: str, texts: Values) -> npt.NDArray[np.uint64]:
    """[rows] a hash of each text and of its name, 0 of None."""
    seed = xxh3_64_intdigest(f"{len(name)}:{name}".encode("utf-8", "surrogatepass"))
    hashes = np.zeros(len(texts), np.uint64)
    last, key = None, 0
    for place, text in enumerate(texts):
        if text is None:
            continue
        if text != last:  # nearly all rollouts of a prompt follow each other
            last, key = text, xxh3_64_intdigest(text.encode("utf-8", "surrogatepass"), seed)
        hashes[place] = key
    return hashes


def _hashed(content: bytes | memoryview, seed: int = 0) -> int:
    return int(np.uint64(xxh3_64_intdigest(content, seed)).view(np.int64))


def line_key(text: bytes | memoryview | None, part: int) -> int:
    """A hash of a line, and of the number of a rollout in it; NO_KEY of None, no line of text."""
    return NO_KEY if text is None else _hashed(text, part)


def line_keys(block: LineBlock) -> IntArray:
    """[lines] the line_key of each line as its first part."""
    return np.array([line_key(text, 0) for text in block.texts], np.int64)


def overlap(before: IntArray, after: IntArray) -> int:
    """How many entries at the beginning of `after` are the end of `before`; the most there can be.

    A stretch of one and the same key tells nothing: it may as well be written anew.
    """
    shared = _shared(before, after)
    is_certain = len(shared) and shared[0] != NO_KEY and _differ(shared)
    return len(shared) if is_certain else 0


def _shared(before: IntArray, after: IntArray) -> IntArray:
    """The longest end of `before` with which `after` begins."""
    if len(after) == 0:
        return after
    first = max(len(before) - len(after), 0)
    for start in np.flatnonzero(before[first:] == after[0]).tolist():
        tail = before[first + start :]
        if np.array_equal(tail, after[: len(tail)]):
            return tail
    return after[:0]


def _differ(keys: Sequence[int] | IntArray) -> bool:
    return bool(np.any(np.asarray(keys) != keys[0]))


def join_keys(record: Record, keys: Sequence[object]) -> dict[str, int]:
    """The columns by which a row is joined; keys: by its reader."""
    hashed: dict[str, int] = {}
    for name, key in zip(JOIN_KEYS, keys, strict=False):
        if key is not None:
            content = orjson.dumps([record.step, key])
            digest = hashlib.blake2b(content, digest_size=8).digest()
            hashed[name] = int.from_bytes(digest, "big", signed=True)
    return hashed
