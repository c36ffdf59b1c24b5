"""The rollouts of one `log` call, copied at the call, and their cutting into one rollout each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from exporters.arrays.room import Room
from exporters.arrays.snapshot import Array, Copies
from exporters.record import WRITER_FIELDS


@dataclass(frozen=True, slots=True)
class BatchInfo:
    """Where a batch belongs: its step, its micro batch, and the number of its first rollout."""

    step: int
    micro_step: int = 0
    first_index: int = 0


@dataclass(frozen=True, slots=True)
class Rollout:
    """One rollout, cut out of its batch. R = response tokens.

    refused: per-token values that turned out to be of another length, by name.
    """

    prompt_ids: Array | None  # [P]
    response_ids: Array | None  # [R]
    loss_mask: Array | None  # [R] of 0 and 1; None = all 1
    scalars: Mapping[str, Any]
    tokens: Mapping[str, Array]  # [R], [R, k] or [R, L, k]
    refused: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Batch(ABC):
    """The rollouts of one call. Its arrays are private copies.

    refused: what was left out because it cannot be right, name -> what is wrong. ready: events to
    wait for before the arrays are read. room: whose memory they take.
    """

    place: BatchInfo
    size: int
    columns: Mapping[str, Sequence[Any]]
    refused: Mapping[str, str]
    ready: Sequence[Any] = ()
    room: Room = field(default_factory=Room)
    rows: Sequence[int] = field(default=())

    @abstractmethod
    def cut(self, row: int) -> Rollout:
        """One rollout, 0 <= row < size. Raises ValueError where its values are not known."""

    @abstractmethod
    def arrays_nbytes(self) -> int:
        """Memory that the arrays take, in bytes."""

    def check(self) -> None:
        """Raises ValueError where the values of the arrays show that something does not fit."""
        return

    def demand_all(self) -> None:
        """Raises ValueError on what would otherwise be left out and counted."""
        where = f"step {self.place.step}"
        for name, reason in self.refused.items():
            raise ValueError(f"{where}: {name}: {reason}")
        if not self.ready:  # on a device the values are not known yet
            self.check()

    @property
    def nbytes(self) -> int:
        """Memory of the batch while it waits, in bytes; text is counted by its characters."""
        text = sum(len(v) for column in self.columns.values() for v in column if isinstance(v, str))
        return self.arrays_nbytes() + text

    def group(self, row: int) -> str:
        """The group of a rollout: its group_id, else the rollout alone."""
        for name in ("group_id", "rollout_id"):
            column = self.columns.get(name)
            if column is not None and column[row] is not None:
                return str(column[row])
        return f"{self.place.step}/{self.place.first_index + row}"

    def wait(self) -> None:
        """Returns once the arrays hold what was copied into them."""
        for event in self.ready:
            event.synchronize()

    def release(self) -> None:
        """Gives the arrays' memory back. Nothing may be cut from the batch any more."""
        self.room.release()


@dataclass(frozen=True, kw_only=True)
class PaddedBatch(Batch):
    """What `log` takes: rectangles, padded on either side, cut by their masks."""

    prompt_ids: Array | None  # [B, P]; None: not recorded
    prompt_mask: Array | None  # [B, P]; None: no padding
    response_ids: Array  # [B, R]
    response_mask: Array | None  # [B, R]; None: no padding
    arrays: Mapping[str, Array]  # [B], [B, R], [B, R, k] or [B, R, L, k]

    def arrays_nbytes(self) -> int:
        """Memory that the arrays take, in bytes."""
        frame = (self.prompt_ids, self.prompt_mask, self.response_ids, self.response_mask)
        return sum(a.nbytes for a in (*frame, *self.arrays.values()) if a is not None)

    def cut(self, row: int) -> Rollout:
        """Everything outside the masks is cut away."""
        prompt, mask = None, None
        if self.prompt_ids is not None:
            prompt = self.prompt_ids[row]
            if self.prompt_mask is not None:
                prompt = prompt[flags("prompt_mask", self.prompt_mask[row])]
        span = slice(0, self.response_ids.shape[1])
        if self.response_mask is not None:
            mask = flags("response_mask", self.response_mask[row])
            span = _span(mask)
            mask = mask[span]
        tokens = {name: a[row, span] for name, a in self.arrays.items() if a.ndim > 1}
        scalars = {name: a[row] for name, a in self.arrays.items() if a.ndim == 1}
        loss = tokens.pop("loss_mask", None)
        # A hole in the response mask is not a trained token, whatever the loss mask says of it.
        trained = (
            None if loss is None else loss_flags(loss if mask is None else np.where(mask, loss, 0))
        )
        if loss is None and mask is not None and not mask.all():
            trained = mask.astype(np.uint8)
        return Rollout(prompt, self.response_ids[row, span], trained, scalars, tokens)

    def check(self) -> None:
        """Raises ValueError for the first row whose masks are not of 0 and 1. Reads the arrays."""
        for row in range(self.size):
            self.cut(row)


def take_padded(
    copies: Copies,
    place: BatchInfo,
    frame: Mapping[str, Any],
    arrays: Mapping[str, Any],
    columns: Mapping[str, Any],
) -> PaddedBatch:
    """Copies and checks the arguments of one `log` call.

    Raises ValueError where prompt, response and masks disagree in shape: nothing of such a batch can
    be trusted. Any other array or column that does not fit is left out and named in
    `refused`.
    """
    prompt, prompt_mask = None, None
    if frame["prompt_ids"] is not None:
        prompt, prompt_mask = _ids_and_mask("prompt", frame, copies)
    elif frame["prompt_mask"] is not None:
        raise ValueError("prompt_mask: expected only with prompt_ids")
    response, response_mask = _ids_and_mask("response", frame, copies)
    size = len(response)
    if prompt is not None and len(prompt) != size:
        raise ValueError(f"{len(prompt)} prompts but {size} responses: one row each is expected")
    refused: dict[str, str] = {}
    copied: dict[str, Array] = {}
    for name, value in arrays.items():
        try:
            copied[name] = _fitting(name, copies.take(value, exact=True), response.shape)
        except Exception as error:
            if name == "loss_mask":  # left out it would say that every token is trained
                raise ValueError(f"loss_mask: {error}") from error
            refused[name] = reason(error)
    return PaddedBatch(
        place=place,
        size=size,
        rows=range(size),
        columns=take_columns(columns, size, refused),
        refused=refused,
        ready=copies.ready(),
        room=copies.room,
        prompt_ids=prompt,
        prompt_mask=prompt_mask,
        response_ids=response,
        response_mask=response_mask,
        arrays=copied,
    )


def count_rollouts(rows: Any) -> int:
    """How many rollouts a call meant to log, 0 where even that is not known."""
    try:
        return len(rows)
    except Exception:  # whatever an odd object raises
        return 0


def reason(error: Exception) -> str:
    """Says what an odd value raised; the kind of error goes along where it isn't one of ours."""
    is_ours = type(error) in (TypeError, ValueError)
    return str(error) if is_ours else f"{type(error).__name__}: {error}"


def flags(name: str, mask: Array) -> npt.NDArray[np.bool_]:
    """A mask as booleans. Raises ValueError for what is neither 0 nor 1."""
    is_set = mask != 0
    if mask.dtype != np.bool_ and not (mask == is_set).all():
        odd = mask[mask != is_set][0]
        raise ValueError(f"{name}: expected 0 or 1, found {odd:g}")
    return is_set


def loss_flags(loss: Array) -> Array | None:
    """A loss mask [R] of 0 and 1 as it is written: None where all 1. Raises ValueError as `flags`."""
    trained = flags("loss_mask", loss)
    return None if trained.all() else trained.astype(np.uint8)


def take_columns(
    columns: Mapping[str, Any], size: int, refused: dict[str, str]
) -> dict[str, list[Any]]:
    """Columns as lists of `size` Python values; those that are none go into `refused`."""
    lists: dict[str, list[Any]] = {}
    if not isinstance(columns, Mapping):
        refused["meta"] = f"expected columns by name, found {type(columns).__name__}"
        return lists
    for name, column in columns.items():
        try:
            lists[str(name)] = _column(str(name), column, size)
        except Exception as error:
            refused[str(name)] = reason(error)
    return lists


def check_name(name: str) -> None:
    """Raises ValueError for a name that the writer fills itself."""
    if name in WRITER_FIELDS:
        raise ValueError(f"the name {name} is the exporter's own: use another")


def _column(name: str, column: Any, size: int) -> list[Any]:
    check_name(name)
    if name == "rewards" and isinstance(column, Mapping):
        parts = {str(part): _part(part, values, size) for part, values in column.items()}
        return [{part: values[row] for part, values in parts.items()} for row in range(size)]
    return _values(column, size)


def _part(name: object, values: Any, size: int) -> list[Any]:
    try:
        return _values(values, size)
    except Exception as error:
        raise ValueError(f"{name}: {reason(error)}") from error


def _values(column: Any, size: int) -> list[Any]:
    if isinstance(column, str):  # one text for all would come apart into its letters
        raise TypeError(f"expected {size} values, one a rollout, found one text")
    values = _listed(column) if hasattr(column, "tolist") else [private_copy(v) for v in column]
    if len(values) != size:
        raise ValueError(f"expected {size} values, one a rollout, found {len(values)}")
    return values


def private_copy(value: Any) -> Any:
    """A copy that does not see what training later appends to a conversation, as plain values.

    What says of itself that it is JSON already is read: written as it is, it might be no JSON. Raises
    ValueError where that cannot be done.
    """
    if isinstance(value, Mapping):
        return {key: private_copy(v) for key, v in value.items()}
    if isinstance(value, orjson.Fragment):
        return orjson.loads(orjson.dumps(value))
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: private_copy(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, list | tuple):
        return [private_copy(v) for v in value]
    if hasattr(value, "detach"):
        return _listed(value)
    return value.copy() if isinstance(value, np.ndarray) else value


def _listed(array: Any) -> Any:
    if getattr(array, "is_cuda", False):  # its values are read here, and that waits for the device
        raise TypeError("found a CUDA tensor: hand it over as an array [B] beside the others")
    return array.tolist()


def _ids_and_mask(
    name: str, frame: Mapping[str, Any], copies: Copies
) -> tuple[Array, Array | None]:
    ids = copies.take(frame[f"{name}_ids"])
    if ids.ndim != 2 or (ids.dtype.kind not in "iu" and ids.size):
        shape = f"{ids.dtype} {list(ids.shape)}"
        raise ValueError(f"{name}_ids: expected integers [B, T], found {shape}")
    if frame[f"{name}_mask"] is None:
        return ids, None
    mask = copies.take(frame[f"{name}_mask"])
    if mask.shape != ids.shape:
        raise ValueError(
            f"{name}_mask {list(mask.shape)} does not match {name}_ids {list(ids.shape)}"
        )
    return ids, mask


def _fitting(name: str, array: Array, shape: tuple[int, ...]) -> Array:
    """`array`; ValueError where it is neither a number a rollout nor one (k, or L x k) a token."""
    check_name(name)
    size, length = shape
    if name == "loss_mask" and array.shape != shape:
        raise ValueError(f"{list(array.shape)} does not match response_ids {list(shape)}")
    if array.shape == (size,) or (array.ndim in (2, 3, 4) and array.shape[:2] == shape):
        return array
    raise ValueError(
        f"expected [{size}], [{size}, {length}], [{size}, {length}, k] or [{size}, {length}, L, k], "
        f"found {list(array.shape)}; the responses are [{size}, {length}]"
    )


def _span(mask: Array) -> slice:
    """From the first to the last token of the mask: padding goes, holes stay in place."""
    inside = np.flatnonzero(mask)
    return slice(int(inside[0]), int(inside[-1]) + 1) if len(inside) else slice(0, 0)
