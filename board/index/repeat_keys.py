"""The hashes by which a row of the index is recognised again, and how far two buffers overlap."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import orjson
from xxhash import xxh3_64_intdigest

from board.core.arrays import IntArray
from board.core.records import Record
from board.formats.base import Repeats
from board.formats.columns import FieldColumns
from board.index.segments import JOIN_KEYS

BY_ID: Final = ("same_id", "unique_id")
"""Kinds of repeats that are found by ids, wherever they are."""
UNORDERED: Final = ("unordered", "unique_id")
"""Of readers whose lines are in no order of steps."""
BY_FILE: Final = ("copied_steps", "merged_files")
"""Kinds of repeats that are found by the lines of whole files, and only where several hold one step."""
_SIGN: Final = 1 << 63
NO_KEY: Final = 0
"""The key of a row that can't be a repeat of another."""


def repeat_key(record: Record, repeats: Repeats) -> int:
    """A hash that is equal for rows that are one rollout: of its id, or of id, texts and scores."""
    if repeats in BY_ID:
        ids = record.ids
        return _key_of_id(record.step, ids.get("split"), ids.get("rollout_id"), repeats)
    rollout_id = record.ids.get("rollout_id")
    return _key_of_content(rollout_id, record.texts.items(), record.scores.items())


def repeat_keys(rollouts: FieldColumns, repeats: Repeats) -> list[int]:
    """The repeat_key of the Record of every row."""
    steps: list[int] = rollouts.steps.tolist()
    nothing = [None] * len(steps)
    splits, ids = (rollouts.ids.get(key, nothing) for key in ("split", "rollout_id"))
    if repeats in BY_ID:
        rows = zip(steps, splits, ids, strict=True)
        return [_key_of_id(step, split, one, repeats) for step, split, one in rows]
    return [
        _key_of_content(
            ids[row],
            ((name, texts[row]) for name, texts in rollouts.texts.items()),
            ((name, scores[row]) for name, scores in rollouts.scores.items()),
        )
        for row in range(len(steps))
    ]


def _key_of_id(step: int, split: str | None, rollout_id: str | None, repeats: Repeats) -> int:
    if rollout_id is None:
        return NO_KEY
    value: object = [step, split, rollout_id] if repeats == "same_id" else rollout_id
    return key_of(orjson.dumps(value))


def _key_of_content(
    rollout_id: str | None,
    texts: Iterable[tuple[str, str | None]],
    scores: Iterable[tuple[str, float]],
) -> int:
    """scores: NaN is the same as none."""
    content = (
        rollout_id,
        sorted((name, text) for name, text in texts if text is not None),
        sorted((name, float(score)) for name, score in scores if score == score),
    )
    return key_of(orjson.dumps(content))


def key_of(content: bytes | memoryview, seed: int = 0) -> int:
    """A 64-bit hash as a signed number, as columns have it."""
    return (xxh3_64_intdigest(content, seed) ^ _SIGN) - _SIGN


def keys_of(contents: Iterable[bytes | memoryview]) -> list[int]:
    """The same of many, in a third of the time."""
    hashes = np.array([*map(xxh3_64_intdigest, contents)], np.uint64)
    keys: list[int] = hashes.view(np.int64).tolist()
    return keys


def line_key(text: bytes | memoryview | None, part: int) -> int:
    """A hash of a line, and of the number of a rollout in it; NO_KEY of None, no line of text."""
    return NO_KEY if text is None else key_of(text, part)


def overlap(before: IntArray, after: IntArray) -> int:
    """How many entries at the beginning of `after` are the end of `before`; the most there can be.

    A run of one and the same key tells nothing: it may as well be new.
    """
    first = max(len(before) - len(after), 0)
    for start in np.flatnonzero(before[first:] == after[:1]).tolist():
        shared = before[first + start :]
        if np.array_equal(shared, after[: len(shared)]):
            is_certain = shared[0] != NO_KEY and np.any(shared != shared[0])
            return len(shared) if is_certain else 0
    return 0


def join_keys(record: Record, keys: Sequence[object]) -> dict[str, int]:
    """The columns by which a row is joined; keys: by its reader."""
    hashed: dict[str, int] = {}
    for name, key in zip(JOIN_KEYS, keys, strict=False):
        if key is not None:
            content = orjson.dumps([record.step, key])
            digest = hashlib.blake2b(content, digest_size=8).digest()
            hashed[name] = int.from_bytes(digest, "big", signed=True)
    return hashed
