"""Rollouts as lists, one entry a rollout and each of its own length, as `log_ragged` takes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from exporters.arrays.batch import (
    Batch,
    BatchInfo,
    Rollout,
    check_name,
    loss_flags,
    reason,
    take_columns,
)
from exporters.arrays.snapshot import Array, Copies, as_numbers

Row = Array | list[Any]


@dataclass(frozen=True, kw_only=True)
class RaggedBatch(Batch):
    """B rollouts. Per-token rows hold R values (the response's) or P + R (the whole sequence's)."""

    token_ids: Sequence[Row | None] | None  # B rows of P + R; None: text only
    response_lengths: Array | None  # [B]
    scalars: Mapping[str, Array]  # [B]
    tokens: Mapping[str, Sequence[Row | None]]  # B rows of R or P + R; None = not recorded

    def arrays_nbytes(self) -> int:
        """Memory that the arrays take, in bytes; a value of a list counts as a pointer and a float."""
        rows = [row for rows in self.tokens.values() for row in rows]
        scalars = sum(array.nbytes for array in self.scalars.values())
        return scalars + sum(_nbytes(row) for row in (*rows, *(self.token_ids or ())))

    def cut(self, row: int) -> Rollout:
        """Rollout `row`. Raises ValueError where its response is longer than its tokens."""
        scalars = {name: array[row] for name, array in self.scalars.items()}
        if self.token_ids is None or self.response_lengths is None:
            return Rollout(None, None, None, scalars, {})
        given = self.token_ids[row]
        ids = _integers([] if given is None else given)
        length = int(self.response_lengths[row])
        if not 0 <= length <= len(ids):
            raise ValueError(f"response_lengths: {length} of {len(ids)} token_ids")
        tokens: dict[str, Array] = {}
        refused: list[str] = []
        for name, rows in self.tokens.items():
            values = _response_part(rows[row], len(ids), length)
            if values is not None:
                tokens[name] = values
            elif rows[row] is not None:
                if name == "loss_mask":  # left out it would say that every token is trained
                    raise ValueError(f"rollout {row}: loss_mask: {self._expected(row)}")
                refused.append(name)
        prompt, response = np.split(ids, [len(ids) - length])
        given_loss = tokens.pop("loss_mask", None)
        loss = None if given_loss is None else loss_flags(given_loss)
        return Rollout(prompt, response, loss, scalars, tokens, refused)

    def check(self) -> None:
        """Raises ValueError for the first row that does not fit. Reads the arrays."""
        for row in range(self.size):
            refused = self.cut(row).refused
            if refused:
                raise ValueError(f"rollout {row}: {', '.join(refused)}: {self._expected(row)}")

    def _expected(self, row: int) -> str:
        ids = self.token_ids[row] if self.token_ids else None
        lengths = self.response_lengths
        whole = 0 if ids is None else len(ids)
        response = 0 if lengths is None else int(lengths[row])
        return f"expected {response} numbers (the response) or {whole} (prompt and response)"


def take_ragged(
    copies: Copies,
    place: BatchInfo,
    frame: Mapping[str, Any],
    arrays: Mapping[str, Any],
    columns: Mapping[str, Any],
) -> RaggedBatch:
    """Copies and checks the arguments of one `log_ragged` call.

    Raises ValueError where the number of rollouts is not clear. Rows of a wrong length are found when
    they are cut.
    """
    size, lengths = _size(frame, columns), None
    token_ids = frame["token_ids"]
    if token_ids is not None:
        lengths = copies.take(frame["response_lengths"])
        if lengths.shape != (size,) or (lengths.dtype.kind not in "iu" and size):
            raise ValueError(f"response_lengths: expected {size} integers, one a rollout")
        token_ids = [copies.take_row(row) for row in token_ids]
    refused: dict[str, str] = {}
    scalars: dict[str, Array] = {}
    tokens: dict[str, list[Row | None]] = {}
    for name, value in arrays.items():
        try:
            check_name(name)
            _sort_in(name, value, size, copies, scalars, tokens)
        except Exception as error:
            if name == "loss_mask":
                raise ValueError(f"loss_mask: {error}") from error
            refused[name] = reason(error)
    if "loss_mask" in scalars:
        raise ValueError("loss_mask: expected one row a rollout, found one number")
    return RaggedBatch(
        place=place,
        size=size,
        rows=range(size),
        columns=take_columns(columns, size, refused),
        refused=refused,
        ready=copies.ready(),
        room=copies.room,
        token_ids=token_ids,
        response_lengths=lengths,
        scalars=scalars,
        tokens=tokens,
    )


def _size(frame: Mapping[str, Any], columns: Mapping[str, Any]) -> int:
    if frame["token_ids"] is not None:
        if frame["response_lengths"] is None:
            raise ValueError(
                "response_lengths: expected with token_ids, to know where a prompt ends"
            )
        return len(frame["token_ids"])
    if not columns:
        raise ValueError("token_ids: expected, unless meta holds the texts of the rollouts")
    column = next(iter(columns.values()))
    if isinstance(column, Mapping):  # parts of the reward, each with a value for every rollout
        column = next(iter(column.values()), ())
    return len(column)


def _sort_in(
    name: str,
    value: Any,
    size: int,
    copies: Copies,
    scalars: dict[str, Array],
    tokens: dict[str, list[Row | None]],
) -> None:
    """One number a rollout, or a row of its own for each."""
    if len(value) != size:
        raise ValueError(f"expected {size} entries, one a rollout, found {len(value)}")
    is_flat = value.ndim == 1 if hasattr(value, "ndim") else all(_is_number(v) for v in value)
    if is_flat:
        scalars[name] = copies.take(value, exact=True)
    else:
        tokens[name] = [copies.take_row(row) for row in value]


def _is_number(value: Any) -> bool:
    """Also of what has no dimension: numpy's and torch's scalars."""
    return value is None or isinstance(value, int | float) or getattr(value, "ndim", 1) == 0


def _response_part(row: Row | None, whole: int, length: int) -> Array | None:
    """The values of the response; None where the row is neither of its length nor of the whole's."""
    if row is None or len(row) not in (whole, length):
        return None
    try:
        values = as_numbers(row)
    except Exception:
        return None
    return values[len(values) - length :]


def _integers(row: Row) -> Array:
    if not len(row):
        return np.zeros(0, np.int64)
    ids = as_numbers(row)
    if ids.ndim != 1 or ids.dtype.kind not in "iu":
        raise ValueError(f"token_ids: expected integers, found {ids.dtype} {list(ids.shape)}")
    return ids


def _nbytes(row: Row | None) -> int:
    if row is None:
        return 0
    return row.nbytes if isinstance(row, np.ndarray) else 32 * len(row)
