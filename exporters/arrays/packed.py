"""Rollouts packed behind each other into one sequence, as `log_packed` takes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from exporters.arrays.batch import (
    Batch,
    BatchInfo,
    Rollout,
    check_name,
    count_rollouts,
    loss_flags,
    reason,
    take_columns,
)
from exporters.arrays.snapshot import Array, Copies
from exporters.record import (
    ID_FIELDS,
    SCORE_FIELDS,
    TEXT_FIELDS,
    TOKEN_FLAG_FIELDS,
    TOKEN_FLOAT_FIELDS,
)

# Whose value an array's value at token i is, which only matters where sequences meet:
PREDICTED = "predicted"  # of token i given those before it: the first of a sequence has none
PREDICTING = "predicting"  # of token i + 1, as the logits at i are: the last of a sequence has none
TOKEN = "token"  # of token i itself
POSITIONS = (PREDICTED, PREDICTING, TOKEN)
_OF_THE_TOKEN = frozenset(
    ("advantages", "returns", "values", "token_rewards", "versions", *TOKEN_FLAG_FIELDS)
)
_OF_A_SEQUENCE = frozenset((*SCORE_FIELDS, *ID_FIELDS, *TEXT_FIELDS))


@dataclass(frozen=True, kw_only=True)
class PackedBatch(Batch):
    """S sequences, prompt and response each, in T tokens; what is left over at the end is padding."""

    input_ids: Array  # [T]
    seq_lens: Array  # [S]
    prompt_lens: Array | None  # [S]; None: a response begins with the first token of the loss
    loss_mask: Array  # [T]
    tokens: Mapping[str, Array]  # [T], [T, k] or [T, L, k]
    scalars: Mapping[str, Array]  # [S]
    positions: Mapping[
        str, str
    ]  # name -> one of POSITIONS; default: TOKEN or PREDICTED by the name

    def arrays_nbytes(self) -> int:
        """Memory that the arrays take, in bytes."""
        frame = (self.input_ids, self.seq_lens, self.prompt_lens, self.loss_mask)
        arrays = (*frame, *self.tokens.values(), *self.scalars.values())
        return sum(array.nbytes for array in arrays if array is not None)

    def cut(self, row: int) -> Rollout:
        """Sequence `row`. Raises ValueError where the lengths do not fit the tokens."""
        self.check()
        end = int(self._ends[row])
        start = end - int(self.seq_lens[row])
        first = start + self._prompt_length(row, start, end)
        scalars = {name: array[row] for name, array in self.scalars.items()}
        tokens = {
            name: _of_sequence(array, self._position(name), start, first, end)
            for name, array in self.tokens.items()
        }
        loss = loss_flags(self.loss_mask[first:end])
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

    def _position(self, name: str) -> str:
        return self.positions.get(name, TOKEN if name in _OF_THE_TOKEN else PREDICTED)

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
    tokens, scalars = dict[str, Array](), dict[str, Array]()
    positions = frame.get("positions") or {}
    for name, value in arrays.items():
        try:
            check_name(name)
            array = _flat(copies.take(value, exact=count_rollouts(value) == size))
            is_of_tokens = _is_of_tokens(name, array, len(ids), size, positions)
            (tokens if is_of_tokens else scalars)[name] = array
        except Exception as error:
            refused[name] = reason(error)
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
        tokens=tokens,
        scalars=scalars,
        positions=positions,
    )
    if not batch.ready:  # on a device the lengths are not known yet
        batch.check()
    return batch


def _flat(array: Array) -> Array:
    """[T, ...] of either that or [1, T, ...]."""
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


def _is_of_tokens(
    name: str, array: Array, tokens: int, sequences: int, positions: Mapping[str, str]
) -> bool:
    """Whether an array has a value a token, not one a sequence. Raises ValueError for neither."""
    if positions.get(name, TOKEN) not in POSITIONS:
        raise ValueError(f"positions: expected {' or '.join(POSITIONS)}, found {positions[name]!r}")
    of_tokens = array.ndim in (1, 2, 3) and len(array) == tokens
    of_sequences = array.shape == (sequences,)
    if of_tokens and of_sequences:
        if name in _OF_A_SEQUENCE:
            return False
        if name in (*TOKEN_FLOAT_FIELDS, *_OF_THE_TOKEN, *positions):
            return True
        raise ValueError(
            f"there are {tokens} tokens and as many sequences: say in positions= whether it is a value "
            "a token, or hand it over in meta"
        )
    if of_tokens or of_sequences:
        return of_tokens
    raise ValueError(
        f"expected [{tokens}] (a value a token), [{tokens}, k] or [{sequences}] (one a sequence), "
        f"found {list(array.shape)}"
    )


def _of_sequence(values: Array, position: str, start: int, first: int, end: int) -> Array:
    """The values of the tokens from `first` to `end` of a sequence that begins at `start`.

    None of them is one that was computed in the sequence before.
    """
    shift = 1 if position == PREDICTING else 0
    if position == TOKEN or first > start or first == end:
        return values[first - shift : end - shift]
    # As objects integers stay whole beside a value that is not there.
    kind, missing = (np.float32, np.nan) if values.dtype.kind == "f" else (object, None)
    cut = np.empty((end - first, *values.shape[1:]), kind)
    cut[0] = missing
    cut[1:] = values[first + 1 - shift : end - shift]
    return cut
