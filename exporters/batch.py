"""One call of `log`, copied at the call, and its cutting into one record per rollout."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from exporters.record import (
    SCORE_FIELDS,
    TOKEN_FLAG_FIELDS,
    WRITER_FIELDS,
    round_score,
    round_significant,
)

Array = npt.NDArray[Any]

_FRAME = ("prompt_ids", "prompt_mask", "response_ids", "response_mask")


@dataclass(frozen=True)
class Batch:
    """The rollouts of one `log` call.

    Arrays are private copies: training may overwrite its tensors afterwards.
    """

    step: int
    micro_step: int
    first_index: int
    prompt_ids: Array  # [B, P]
    prompt_mask: Array  # [B, P] bool
    response_ids: Array  # [B, R]
    response_mask: Array  # [B, R] bool
    arrays: Mapping[str, Array]  # [B], [B, R] or [B, R, k]
    columns: Mapping[str, Sequence[Any]]  # length B each
    refused: tuple[str, ...]  # names that were left out because their shape cannot be right

    @property
    def size(self) -> int:
        """Number of rollouts, B."""
        return int(self.response_ids.shape[0])

    @property
    def nbytes(self) -> int:
        """Memory held while the batch waits, in bytes; text is counted by its characters."""
        frame = sum(getattr(self, name).nbytes for name in _FRAME)
        text = sum(len(v) for column in self.columns.values() for v in column if isinstance(v, str))
        return frame + sum(a.nbytes for a in self.arrays.values()) + text


def snapshot(value: Any) -> Array:
    """A private copy as numpy: floats as float32, bools as uint8, integers as they are.

    A tensor on a device is copied to the host before this returns. Raises TypeError or ValueError
    on what is no rectangle of numbers.
    """
    if hasattr(value, "detach"):
        tensor = value.detach()
        value = (tensor.float() if tensor.is_floating_point() else tensor).cpu().numpy()
    array = np.asarray(value)
    if array.dtype.kind == "f":
        return np.array(array, dtype=np.float32, order="C")
    if array.dtype.kind == "b":
        return array.astype(np.uint8)
    if array.dtype.kind in "iu":
        return np.array(array, order="C")
    raise TypeError(f"expected numbers, found {array.dtype}")


def count_rollouts(response_ids: Any) -> int:
    """How many rollouts a call meant to log, 0 where even that cannot be told."""
    try:
        return len(response_ids)
    except TypeError:
        return 0


def take_batch(
    step: int,
    micro_step: int,
    first_index: int,
    frame: Mapping[str, Any],
    arrays: Mapping[str, Any],
    columns: Mapping[str, Sequence[Any]],
) -> Batch:
    """Copies and checks the arguments of one `log` call.

    Raises ValueError where prompt or response and their masks disagree in shape: nothing of such a
    batch can be trusted. Any other array or column that does not fit is left out and named in
    `refused`.
    """
    prompt, prompt_mask = _ids_and_mask("prompt", frame)
    response, response_mask = _ids_and_mask("response", frame)
    if len(prompt) != len(response):
        raise ValueError(
            f"{len(prompt)} prompts but {len(response)} responses: one row each is expected"
        )
    fitting = {name: _fitting(name, value, response.shape) for name, value in arrays.items()}
    listed = {name: _listed(name, column, len(response)) for name, column in columns.items()}
    return Batch(
        step,
        micro_step,
        first_index,
        prompt,
        prompt_mask,
        response,
        response_mask,
        arrays={name: array for name, array in fitting.items() if array is not None},
        columns={name: column for name, column in listed.items() if column is not None},
        refused=tuple(name for d in (fitting, listed) for name, v in d.items() if v is None),
    )


def cut_records(batch: Batch, rank: int, digits: int) -> Iterator[dict[str, Any]]:
    """The records of a batch, in order, with everything outside the masks cut away."""
    rounded = {name: _rounded(name, array, digits) for name, array in batch.arrays.items()}
    for row in range(batch.size):
        record: dict[str, Any] = {
            "type": "sample",
            "step": batch.step,
            "micro_step": batch.micro_step,
            "rank": rank,
            "index": batch.first_index + row,
        }
        for name, column in batch.columns.items():
            _add_column(record, name, column[row], digits)
        record["prompt_ids"] = batch.prompt_ids[row][batch.prompt_mask[row]]
        span = _span(batch.response_mask[row])
        record["response_ids"] = np.ascontiguousarray(batch.response_ids[row, span])
        _add_arrays(record, rounded, row, span, batch.response_mask[row, span])
        yield record


def _ids_and_mask(name: str, frame: Mapping[str, Any]) -> tuple[Array, Array]:
    ids = snapshot(frame[f"{name}_ids"])
    if ids.ndim != 2 or ids.dtype.kind not in "iu":
        raise ValueError(
            f"{name}_ids: expected integers [B, T], found {ids.dtype} {list(ids.shape)}"
        )
    mask = frame[f"{name}_mask"]
    if mask is None:
        return ids, np.ones(ids.shape, dtype=bool)
    flags = snapshot(mask).astype(bool)
    if flags.shape != ids.shape:
        raise ValueError(
            f"{name}_mask {list(flags.shape)} does not match {name}_ids {list(ids.shape)}"
        )
    return ids, flags


def _fitting(name: str, value: Any, shape: tuple[int, ...]) -> Array | None:
    """`value` copied; None where it is neither a number a rollout nor one (or k) a token."""
    try:
        array = snapshot(value)
    except (TypeError, ValueError):
        return None
    if name in WRITER_FIELDS or array.ndim not in (1, 2, 3) or array.shape[0] != shape[0]:
        return None
    return array if array.ndim == 1 or array.shape[1] == shape[1] else None


def _listed(name: str, column: Any, size: int) -> list[Any] | None:
    """`column` as a list of Python values, or None where it is not one value a rollout."""
    if isinstance(column, str):  # one text for all would come apart into its letters
        return None
    values = column.tolist() if hasattr(column, "tolist") else list(column)
    return values if name not in WRITER_FIELDS and len(values) == size else None


def _rounded(name: str, array: Array, digits: int) -> Array:
    if name in TOKEN_FLAG_FIELDS:
        return (array != 0).astype(np.uint8)
    return round_significant(array, digits) if array.dtype.kind == "f" else array


def _span(mask: Array) -> slice:
    """From the first to the last token of the mask: padding goes, holes stay in place."""
    inside = np.flatnonzero(mask)
    return slice(int(inside[0]), int(inside[-1]) + 1) if len(inside) else slice(0, 0)


def _add_column(record: dict[str, Any], name: str, value: Any, digits: int) -> None:
    if value is None:
        return
    if name == "rewards" and isinstance(value, Mapping):
        parts = {str(part): score for part, score in value.items()}
        value = {
            part: None if score is None else round_score(score, digits)
            for part, score in parts.items()
        }
    elif name in SCORE_FIELDS and isinstance(value, float):
        value = round_score(value, digits)
    record[name] = value


def _add_arrays(
    record: dict[str, Any], rounded: Mapping[str, Array], row: int, span: slice, mask: Array
) -> None:
    for name, array in rounded.items():
        if array.ndim == 1:
            record[name] = array[row]
            continue
        tokens = np.ascontiguousarray(array[row, span])
        if name != "loss_mask":
            record[name] = tokens[0] if _is_constant(tokens) else tokens
    # A hole in the response mask is no trained token either, whatever the loss mask says of it.
    loss = (
        rounded["loss_mask"][row, span] * mask if "loss_mask" in rounded else mask.astype(np.uint8)
    )
    if not loss.all():
        record["loss_mask"] = np.ascontiguousarray(loss)


def _is_constant(tokens: Array) -> bool:
    """True where one number says it all.

    NaN equals nothing, so an array that was not measured stays an array.
    """
    return (
        tokens.ndim == 1
        and tokens.dtype.kind == "f"
        and len(tokens) > 1
        and bool((tokens == tokens[0]).all())
    )
