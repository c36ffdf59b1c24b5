"""Rollouts packed behind each other into one sequence, as `log_packed` takes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from exporters.batch import Batch, BatchInfo, Rollout, check_name, take_columns
from exporters.snapshot import Array, Copies

# Values of a token given those before it. A packed sequence's first token has none before it: what
# is there was computed from the end of the sequence packed in front of it.
_PREDICTED = (
    *("logprobs", "old_logprobs", "sampling_logprobs", "ref_logprobs"),
    *("entropy", "topk_logprobs"),
)


@dataclass(frozen=True, kw_only=True)
class PackedBatch(Batch):
    """S sequences, prompt and response each, in T tokens; what is left over at the end is padding."""

    input_ids: Array  # [T]
    seq_lens: Array  # [S]
    prompt_lens: Array | None  # [S]; None: a response begins with the first token of the loss
    loss_mask: Array  # [T]
    arrays: Mapping[str, Array]  # [T], [T, k] or [S]

    def arrays_nbytes(self) -> int:
        """Memory that the arrays take, in bytes."""
        frame = (self.input_ids, self.seq_lens, self.prompt_lens, self.loss_mask)
        return sum(a.nbytes for a in (*frame, *self.arrays.values()) if a is not None)

    def cut(self, row: int) -> Rollout:
        """Sequence `row`. Raises ValueError where the lengths do not fit the tokens."""
        self.check()
        end = int(self._ends[row])
        start = end - int(self.seq_lens[row])
        first = start + self._prompt_length(row, start, end)
        tokens, scalars = {}, {}
        for name, array in self.arrays.items():
            if len(array) != len(self.input_ids):
                scalars[name] = array[row]
            elif first == start and first < end and name in _PREDICTED:
                tokens[name] = _without_first(array[first:end])
            else:
                tokens[name] = array[first:end]
        trained = self.loss_mask[first:end] != 0
        loss = None if trained.all() else trained.astype(np.uint8)
        return Rollout(
            self.input_ids[start:first], self.input_ids[first:end], loss, scalars, tokens
        )

    def check(self) -> None:
        """Raises ValueError where the lengths do not fit the tokens. Reads the arrays."""
        total, room = int(self._ends[-1]) if self.size else 0, len(self.input_ids)
        if total > room or (self.seq_lens < 0).any():
            raise ValueError(f"seq_lens add up to {total} tokens, input_ids has {room}")
        if (
            self.prompt_lens is not None
            and ((self.prompt_lens > self.seq_lens) | (self.prompt_lens < 0)).any()
        ):
            raise ValueError("prompt_lens: expected 0 to the length of the sequence")

    @cached_property
    def _ends(self) -> Array:
        return np.cumsum(self.seq_lens)

    def _prompt_length(self, row: int, start: int, end: int) -> int:
        if self.prompt_lens is not None:
            return int(self.prompt_lens[row])
        trained = np.flatnonzero(self.loss_mask[start:end])
        # Without a trained token nothing says where the response begins: all of it is shown as one.
        return int(trained[0]) if len(trained) else 0


def take_packed(
    copies: Copies,
    place: BatchInfo,
    frame: Mapping[str, Any],
    arrays: Mapping[str, Any],
    columns: Mapping[str, Any],
) -> PackedBatch:
    """Copies and checks the arguments of one `log_packed` call.

    Raises ValueError where tokens, mask and lengths disagree; what else does not fit is left out
    and named in `refused`.
    """
    ids, loss = (_flat(copies.take(frame[name])) for name in ("input_ids", "loss_mask"))
    lengths = _flat(copies.take(frame["seq_lens"]))
    prompts = None
    if frame["prompt_lens"] is not None:
        prompts = _flat(copies.take(frame["prompt_lens"]))
    _check_shapes(ids, loss, lengths, prompts)
    size, refused = len(lengths), dict[str, str]()
    copied: dict[str, Array] = {}
    for name, value in arrays.items():
        try:
            copied[name] = _fitting(name, _flat(copies.take(value)), len(ids), size)
        except (TypeError, ValueError) as error:
            refused[name] = str(error)
    batch = PackedBatch(
        place=place,
        size=size,
        rows=range(size),
        columns=take_columns(columns, size, refused),
        refused=refused,
        ready=copies.ready(),
        room=copies.room,
        input_ids=ids,
        seq_lens=lengths,
        prompt_lens=prompts,
        loss_mask=loss,
        arrays=copied,
    )
    if not batch.ready:  # on a device the lengths are not known yet
        batch.check()
    return batch


def _flat(array: Array) -> Array:
    """[T] or [T, k] of either that or [1, T] or [1, T, k]."""
    return array[0] if array.ndim > 1 and array.shape[0] == 1 else array


def _check_shapes(ids: Array, loss: Array, lengths: Array, prompts: Array | None) -> None:
    if ids.ndim != 1 or (ids.dtype.kind not in "iu" and ids.size):
        raise ValueError(f"input_ids: expected integers [T], found {ids.dtype} {list(ids.shape)}")
    if loss.shape != ids.shape:
        raise ValueError(f"loss_mask {list(loss.shape)} does not match input_ids {list(ids.shape)}")
    if lengths.ndim != 1 or (lengths.dtype.kind not in "iu" and lengths.size):
        raise ValueError(f"seq_lens: expected integers [S], found {lengths.dtype}")
    if prompts is not None and prompts.shape != lengths.shape:
        raise ValueError(f"prompt_lens {list(prompts.shape)} but {len(lengths)} seq_lens")


def _fitting(name: str, array: Array, tokens: int, sequences: int) -> Array:
    check_name(name)
    if (array.ndim in (1, 2) and len(array) == tokens) or array.shape == (sequences,):
        return array
    raise ValueError(
        f"expected [{tokens}] (a value a token), [{tokens}, k] or [{sequences}] (one a sequence), "
        f"found {list(array.shape)}"
    )


def _without_first(values: Array) -> Array:
    values = values.astype(np.float32)
    values[0] = np.nan
    return values
