"""The order of very many texts: most are told apart by eight bytes, which sort as one number."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
# pyarrow ships without types, and makes its compute functions when it is imported.

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Places = npt.NDArray[np.intp]

_KEY_BYTES: Final = 8
_MASKS: Final = np.array(
    [(1 << 64) - (1 << 8 * (8 - held)) for held in range(_KEY_BYTES + 1)], np.uint64
)
"""By how many bytes of the key the text holds: what is beyond its end belongs to the next one."""
_SAMPLE: Final = 4096
_MOST_TIES: Final = 0.02
"""Share of a sample that is tied with another, above which eight bytes tell too little."""
_SURELY: Final = 4
"""Standard deviations by which a text of the sample is further back than the last one that is wanted."""
_MANY: Final = 1 << 16
_COUNTED: Final = 1 << 16
"""A range that fits two bytes, of which numpy's stable sort is a radix sort."""
_FEW: Final = 0.5
"""Share of the first _MANY texts that are distinct, below which it pays to look for equal ones."""


def text_order(texts: pa.ChunkedArray, *, descending: bool) -> Places:
    """[n] places in the order of the texts' code points, ties in their order, missing ones last."""
    held = np.flatnonzero(pc.is_valid(texts).to_numpy())
    missing = np.flatnonzero(pc.is_null(texts).to_numpy())
    chunks = texts.drop_null().chunks
    values = (
        chunks[0] if len(chunks) == 1 else pa.concat_arrays([*chunks, pa.array([], texts.type)])
    )
    values = values.cast(pa.large_string())
    return np.concatenate((held[_order(values, descending=descending)], missing))


def first_texts(texts: pa.ChunkedArray, limit: int, *, descending: bool) -> Places:
    """The first `limit` of text_order: those alone are sorted that come before a text so far to the
    front that a sample of them has few before it.
    """
    missing = np.flatnonzero(pc.is_null(texts).to_numpy()) if texts.null_count else []
    is_before = pc.greater if descending else pc.less
    held = len(texts) - texts.null_count
    for bound in _bounds(texts, limit / max(held, 1), descending=descending):
        before = _places(is_before(texts, bound))
        if len(before) >= limit:
            return _sorted(texts, before, descending=descending)[:limit]
        as_far = _places(pc.equal(texts, bound))
        if len(before) + len(as_far) >= limit:
            found = _sorted(texts, before, descending=descending)
            return np.concatenate((found, as_far[: limit - len(before)]))
    every = _sorted(texts, _places(pc.is_valid(texts)), descending=descending)
    return np.concatenate((every, missing))[:limit].astype(np.intp)


def _bounds(texts: pa.ChunkedArray, share: float, *, descending: bool) -> Iterator[pa.Scalar]:
    """Texts before which there is likely at least this share of all, the nearest one first."""
    every = np.arange(0, len(texts), max(len(texts) // _SAMPLE, 1))
    sample = _taken(texts, every).drop_null()
    order = "descending" if descending else "ascending"
    sample = sample.take(pc.array_sort_indices(sample, order=order))
    place = share * len(sample)
    place += _SURELY * np.sqrt(place) + _SURELY
    while place < len(sample):
        yield sample[int(place)]
        place *= _SURELY


def _places(mask: pa.ChunkedArray) -> Places:
    return np.flatnonzero((mask.fill_null(False) if mask.null_count else mask).to_numpy())


def _sorted(texts: pa.ChunkedArray, places: Places, *, descending: bool) -> Places:
    """These places in the order of their texts, ties in theirs."""
    found = pa.table({"text": _taken(texts, places), "place": places})
    order = "descending" if descending else "ascending"
    sorting = pc.sort_indices(found, [("text", order), ("place", "ascending")])
    return places[sorting.to_numpy()]


def _taken(texts: pa.ChunkedArray, places: Places) -> pa.Array:
    """The texts at these places, which are ascending. All of them together would be copied first."""
    starts = np.cumsum([0, *map(len, texts.chunks)])
    cuts = np.searchsorted(places, starts)
    bounds = zip(texts.chunks, starts[:-1], cuts[:-1], cuts[1:], strict=True)
    found = [chunk.take(pa.array(places[a:b] - start)) for chunk, start, a, b in bounds if a < b]
    return pa.concat_arrays([*found, pa.array([], texts.type)])


def _order(texts: pa.Array, *, descending: bool) -> Places:
    direction = "descending" if descending else "ascending"
    keys = _keys(texts) if len(texts) else np.zeros(0, np.uint64)
    if _ties(keys) > _MOST_TIES:
        few = pc.count_distinct(texts[:_MANY]).as_py() < _FEW * min(len(texts), _MANY)
        if few:
            return _by_distinct(texts, descending=descending)
        return pc.array_sort_indices(texts, order=direction).to_numpy().astype(np.intp)
    order = np.argsort(~keys if descending else keys, kind="stable")
    ordered = keys[order]
    is_tied = np.zeros(len(keys) + 1, bool)
    is_tied[1:-1] = ordered[1:] == ordered[:-1]
    tied = np.flatnonzero(is_tied[1:] | is_tied[:-1])
    if len(tied):
        table = pa.table({"key": ordered[tied], "text": texts.take(pa.array(order[tied]))})
        within = pc.sort_indices(table, [("key", direction), ("text", direction)]).to_numpy()
        order[tied] = order[tied][within]
    return order


def _by_distinct(texts: pa.Array, *, descending: bool) -> Places:
    """The order of texts of which few are distinct: these are sorted, and then their places."""
    encoded = pc.dictionary_encode(texts)
    order = pc.array_sort_indices(encoded.dictionary).to_numpy()
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    return whole_order(places[encoded.indices.to_numpy()], descending=descending)


def whole_order(numbers: npt.NDArray[np.int64], *, descending: bool) -> Places:
    """[n] the places of whole numbers in their order, ties in theirs: numbers near each other are
    counted rather than compared.
    """
    low, high = (int(numbers.min()), int(numbers.max())) if len(numbers) else (0, 0)
    if high - low < _COUNTED:
        near = (high - numbers if descending else numbers - low).astype(np.uint16)
        return np.argsort(near, kind="stable")
    return np.argsort(~numbers if descending else numbers, kind="stable")


def _ties(keys: npt.NDArray[np.uint64]) -> float:
    """The share of a sample of keys that others of it have too."""
    sample = keys if len(keys) <= _SAMPLE else np.random.default_rng(0).choice(keys, _SAMPLE)
    return 1 - len(np.unique(sample)) / max(len(sample), 1)


def _keys(texts: pa.Array) -> npt.NDArray[np.uint64]:
    """[n] the first eight bytes after those that all texts have in common, as numbers of their order."""
    ends = pc.min_max(texts)
    shared = _shared(*(ends[side].as_py().encode() for side in ("min", "max")))
    _, offsets, content = texts.buffers()
    bounds = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    starts = bounds[:-1] + shared
    masks = _MASKS[np.minimum(bounds[1:] - starts, _KEY_BYTES)]
    return _windows(np.frombuffer(content or b"", np.uint8), starts) & masks


def _windows(
    content: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64]
) -> npt.NDArray[np.uint64]:
    """[n] the eight bytes from each start as a number, zeros beyond the end."""
    last = max(len(content) - _KEY_BYTES, 0)
    end = np.append(content[last:], np.zeros(2 * _KEY_BYTES, np.uint8))
    near_end = np.flatnonzero(starts >= last)
    found = _every_window(content)[np.minimum(starts, max(last - 1, 0))] if last else starts
    found = found.astype(np.uint64)
    found[near_end] = _every_window(end)[starts[near_end] - last]
    return found


def _every_window(content: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
    """A view of each eight bytes in a row as a number, the first byte being the highest."""
    return np.ndarray(len(content) - _KEY_BYTES + 1, ">u8", content, strides=(1,))


def _shared(first: bytes, last: bytes) -> int:
    """How many bytes two texts begin with alike; all texts between them do, too."""
    pairs = enumerate(zip(first, last, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(first), len(last)))
