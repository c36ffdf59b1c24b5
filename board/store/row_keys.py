"""Keys of stored rows: numbers by which a rollout that was written again is known, of what it holds.

Nearly no run holds a repeat, so rows are looked at twice: at a few numbers of all of them, and at what
else tells them apart only where those numbers are such that rows may be equal. The key of a row is a
sum over the columns that are looked at, to which one without a value adds nothing: it depends neither on
the rows it is stored with nor on the columns that only they have, and keys of two looks add up to that
of both. Of a text what stands behind its preview is told by its length alone, or by that of its line.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
# pyarrow ships without types.

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from board.core.aggregate import COLUMNS
from board.readers.base import Repeats
from board.store import segments

Keys = npt.NDArray[np.uint64]

_OF_LINES: Final = ("size", segments.PART)
_OF_BUFFERS: Final = ("response_chars", "reward", "advantage")
FIRST_LOOK: Final[Mapping[Repeats, Sequence[str]]] = {
    "copied_steps": _OF_LINES,
    "merged_files": _OF_LINES,
    "file_buffer": _OF_BUFFERS,
    "line_buffer": _OF_BUFFERS,
}
"""By kind of repeats that are told by what rows hold, the columns that are looked at of all rows."""
_OF_PLACE: Final = frozenset(
    {
        *("step", "line", "offset", "file", "rank", "split"),
        *(segments.REPEAT_KEY, *segments.JOIN_KEYS, *COLUMNS),
    }
)
"""What may be said by where a line stands; and what is computed of tokens, rounded one way or another."""
_BUFFERED: Final = frozenset(
    {
        *("ref_reward", "valid_reward", "ref_valid_reward", "is_truncated"),
        *("finish_reason", "prompt", "response"),
    }
)
"""A buffer that is written again has another step, and may have other values beside its rollouts."""
_PART_OF_REWARD: Final = f"{segments.NUMBER}rewards."
_PIECE: Final = 256
"""Bytes of a text that are looked at at once; a preview of ASCII has fewer."""
_PIECE_WORDS: Final = _PIECE // 8
_HALF: Final = np.uint64(32)


def second_look(columns: Iterable[segments.Column], repeats: Repeats) -> list[str]:
    """The stored names of what tells rows of these columns apart beside the first look."""
    stored = [name for column in columns for name in segments.stored_names(column)]
    rest = [name for name in stored if name not in FIRST_LOOK[repeats]]
    if FIRST_LOOK[repeats] is _OF_LINES:
        return [name for name in rest if name not in _OF_PLACE]
    return [name for name in rest if name in _BUFFERED or name.startswith(_PART_OF_REWARD)]


def row_keys(table: pa.Table, names: Sequence[str]) -> Keys:
    """[rows] a key of what these columns hold; 0 where they hold nothing.

    It is of texts as they are stored, whole, of numbers bit by bit, and of the names they stand under.
    """
    told = np.zeros(table.num_rows, np.uint64)
    for name in set(names).intersection(table.column_names):
        first = 0
        for chunk in table.column(name).chunks:
            told[first : first + len(chunk)] += _of_values(name, chunk)
            first += len(chunk)
    return told


def _of_values(name: str, values: pa.Array) -> Keys:
    """[values] the addend of each, 0 where there is none."""
    if not len(values):
        return np.zeros(0, np.uint64)
    if pa.types.is_string(values.type):
        held = values.is_valid().to_numpy(zero_copy_only=False)
        return np.where(held, _of_texts(name, values), np.uint64(0))
    if pa.types.is_floating(values.type):
        numbers = values.to_numpy(zero_copy_only=False)
        held = ~np.isnan(numbers)
    else:
        numbers = values.fill_null(0).to_numpy(zero_copy_only=False)
        held = values.is_valid().to_numpy(zero_copy_only=False)
    factors = _factors(name)
    return np.where(held, _mixed(numbers.view(np.uint64)) * factors[1] + factors[0], np.uint64(0))


def _of_texts(name: str, texts: pa.Array) -> Keys:
    """[texts] of the bytes of each, some at a time, and of how many these are."""
    _, bounds, content = texts.buffers()
    codes = np.frombuffer(b"" if content is None else content, np.uint8)
    offsets = np.frombuffer(bounds, np.int32, len(texts) + 1, 4 * texts.offset).astype(np.int64)
    starts, sizes = offsets[:-1], np.diff(offsets)
    factors = _factors(name)
    told = sizes.view(np.uint64) * factors[1] + factors[0]
    rows, first = np.flatnonzero(sizes), 0
    while len(rows):
        pieces = _pieces(codes, starts[rows] + first, sizes[rows] - first)
        told[rows] = _mixed(told[rows]) * factors[1] + _mixed(pieces) @ factors[2:]
        first += _PIECE
        rows = rows[sizes[rows] > first]
    return told


def _mixed(words: Keys) -> Keys:
    # High bits are brought down, for what is multiplied only goes up: two signs that change are told.
    return words ^ words >> _HALF


def _pieces(codes: npt.NDArray[np.uint8], starts: Any, sizes: Any) -> Keys:
    """[texts, words] the first bytes of each text, or fewer and zeros."""
    if len(codes) < _PIECE:
        codes = np.concatenate((codes, np.zeros(_PIECE, np.uint8)))
    beyond = len(codes) - _PIECE
    # As bytes of that size at every place: sliding_window_view makes a dozen calls for the same.
    windows = np.ndarray((beyond + 1,), f"V{_PIECE}", codes, strides=(1,))
    words = windows[np.minimum(starts, beyond)].view("<u8").reshape(len(starts), _PIECE_WORDS)
    words &= _kept()[np.minimum(sizes, _PIECE)]
    for row in np.flatnonzero(starts > beyond).tolist():
        text = codes[int(starts[row]) :][: int(sizes[row])].tobytes()
        words[row] = np.frombuffer(text.ljust(_PIECE, b"\0"), "<u8")
    return words


@lru_cache(maxsize=1)
def _kept() -> Keys:
    """[bytes + 1, words] by how many bytes are kept: ones where they stand, zeros behind them."""
    kept = np.arange(_PIECE) < np.arange(_PIECE + 1)[:, None]
    return (kept * np.uint8(255)).view("<u8")


@lru_cache(maxsize=1024)
def _factors(name: str) -> Keys:
    """[2 + words] odd numbers that look like drawn ones, others for every name."""
    drawn = hashlib.shake_128(name.encode("utf-8", "surrogatepass")).digest(8 * (2 + _PIECE_WORDS))
    return np.frombuffer(drawn, "<u8").astype(np.uint64) | np.uint64(1)
