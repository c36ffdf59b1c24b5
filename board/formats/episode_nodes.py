"""The nodes of a trace: its branches, and the tokens of each with what annotations say of them.

Of the episodes that frameworks/episodes.py reads. Per-token lists of a message hold a value for each
sampled token (mask true).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from board.core.arrays import FloatArray
from board.errors import RecordError
from board.formats.fields import RecordBuilder
from board.formats.number_arrays import as_numbers, numbers_from_list
from board.formats.parse import is_list, is_object, object_at, objects_in
from board.formats.sequences import Piece

_Object = Mapping[str, Any]

_STREAMS: Final[Mapping[str, str]] = {
    "logprobs": "sampling_logprobs",
    "trainer_logprobs": "logprobs",
    "reference_logprobs": "ref_logprobs",
    "entropies": "entropy",
    "advantages": "advantages",
    "is_masked": "is_masked",
}


def paths_of(nodes: Sequence[_Object]) -> list[list[int]]:
    """Numbers of the nodes from root to leaf, for each leaf in their order."""
    parents = [node.get("parent") for node in nodes]
    # A parent stands before its child; what does not is cut off there, and can't make a circle.
    known = [p if isinstance(p, int) and 0 <= p < i else None for i, p in enumerate(parents)]
    paths: list[list[int]] = []
    for leaf in sorted(set(range(len(nodes))) - set(known)):
        path: list[int] = []
        at: int | None = leaf
        while at is not None:
            path.append(at)
            at = known[at]
        paths.append(path[::-1])
    return paths


class Overlay:
    """The nodes of a trace with what annotations say of their tokens."""

    def __init__(self, trace: _Object, builder: RecordBuilder) -> None:
        self._builder = builder
        self.nodes = objects_in(trace.get("nodes"))
        self.paths = paths_of(self.nodes)
        self._later: dict[int, dict[str, FloatArray]] = {}

    def fold(self, updates: Iterator[_Object], info: dict[str, Any]) -> _Object:
        """Applies updates in write order, the newest winning; the merged info."""
        for update in updates:
            info = _merged(info, object_at(update, "info"))
            for branch in objects_in(update.get("branches")):
                index = branch.get("index")
                if isinstance(index, int) and 0 <= index < len(self.paths):
                    for name in _STREAMS.keys() & branch.keys():
                        self._project(self.paths[index], name, branch[name])
        return info

    def _project(self, path: Sequence[int], name: str, values: Any) -> None:
        """Lays a stream over the whole branch upon its nodes; what it says nothing of stays."""
        try:
            stream = numbers_from_list(values)
        except RecordError as error:
            reason = f"{name} of an annotation {error.reason}"
            self._builder.remark(_STREAMS[name], reason, f"expected: {error.hint}")
            return
        if name == "is_masked":
            stream = np.where(stream < 0, np.nan, stream)  # -1: the loss did not ask
        begin = 0
        for node in path:
            ids = self.nodes[node].get("token_ids")
            length = len(ids) if is_list(ids) else 0
            part = stream[begin : begin + length]
            begin += length
            if np.isnan(part).all():
                continue
            recorded = self._later.setdefault(node, {}).setdefault(name, np.full(length, np.nan))
            recorded[: len(part)] = np.where(np.isnan(part), recorded[: len(part)], part)

    def piece(self, number: int) -> Piece:
        """The tokens of one node. Raises RecordError when they or their mask can't be used."""
        node = self.nodes[number]
        message = object_at(node, "message")
        ids, sampled = _tokens(node)
        compact = {
            ours: array.values()
            for name, ours in _STREAMS.items()
            if (array := as_numbers(node.get(name) or None)) is not None
        }
        for name, values in self._later.get(number, {}).items():
            known = compact.get(_STREAMS[name])
            later = values[sampled]
            if known is not None and len(known) == len(later):
                later = np.where(np.isnan(later), known, later)
            compact[_STREAMS[name]] = later
        aligned = {
            f"{name}_weights": array.values()
            for name, values in object_at(node, "loss_weights").items()
            if (array := as_numbers(values)) is not None
        }
        tool = message.get("name")
        name = tool if isinstance(tool, str) else ""
        return Piece(str(message.get("role", "?")), ids, sampled, compact, aligned, name)


def _tokens(node: _Object) -> tuple[FloatArray, Any]:
    ids, mask = as_numbers(node.get("token_ids") or []), as_numbers(node.get("mask") or [])
    values = ids.values() if ids is not None else np.array([])
    sampled = mask.values() > 0 if mask is not None else np.array([], bool)
    if len(values) != len(sampled):
        hint = f"as many as token_ids; found {len(sampled)} for {len(values)}"
        reason = "the mask of a message is not as long as its tokens"
        raise RecordError(reason, field="mask", hint=hint)
    return values, sampled


def _merged(old: _Object, new: _Object) -> dict[str, Any]:
    merged = dict(old)
    for key, value in new.items():
        both = is_object(value) and is_object(old.get(key))
        merged[key] = _merged(old[key], value) if both else value
    return merged
