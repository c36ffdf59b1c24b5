"""Sums of groups and prompts as columns of what is kept of steps, and back."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
# pyarrow ships without types, and makes its compute functions when it is imported.

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from board.core.group_sums import Extremes, GroupSums
from board.core.records import FloatArray

IntArray = npt.NDArray[np.int64]

_EXTREMES: Final = ("known", "low", "high", "at_low", "at_high")


def columns_of_sums(sums: GroupSums) -> dict[str, Any]:
    """The columns, by name, that sums of groups or prompts are kept as."""
    columns: dict[str, Any] = {"step": sums.steps, "size": sums.size.astype(np.int32)}
    columns["total"] = sums.total
    for name, extremes in {"reward": sums.reward, **sums.parts}.items():
        for field in _EXTREMES:
            values = getattr(extremes, field)
            is_count = values.dtype.kind == "i"
            columns[f"{name}:{field}"] = values.astype(np.int32) if is_count else values
    return columns


def sums_columns(part: str | None) -> tuple[str, ...]:
    """Columns of groups or prompts that `sums_from` takes. part: the score that says what is right."""
    names = ("reward", *((part,) if part else ()))
    return ("step", "member", "size", "total", *(f"{n}:{f}" for n in names for f in _EXTREMES))


def visit_columns(part: str | None) -> tuple[str, ...]:
    """Those of `sums_columns` that visits of prompts are made of: fewer are read faster."""
    own = tuple(f"{part}:{name}" for name in ("known", "high", "at_high")) if part else ()
    every = tuple(f"reward:{name}" for name in _EXTREMES)
    return ("step", "size", "total", *(("reward:known", *own) if part else every))


def sums_from(table: pa.Table, codes: IntArray, part: str | None) -> GroupSums:
    """The groups that a table holds; codes: [rows], below 0 where `member` is false."""
    is_member = "member" not in table.column_names or table.column("member").to_numpy()
    return GroupSums(
        _whole(table, "step"),
        np.where(is_member, codes, -1),
        _whole(table, "size"),
        _float(table, "total"),
        _extremes(table, "reward"),
        {part: _extremes(table, part)} if part else {},
    )


def _extremes(table: pa.Table, name: str) -> Extremes:
    whole = {field: _whole(table, f"{name}:{field}") for field in ("known", "at_low", "at_high")}
    low, high = _float(table, f"{name}:low"), _float(table, f"{name}:high")
    return Extremes(low=low, high=high, **whole)


def _whole(table: pa.Table, name: str) -> IntArray:
    """[rows] whole numbers, 0 where there is none."""
    if name not in table.column_names:
        return np.zeros(table.num_rows, np.int64)
    return table.column(name).fill_null(0).to_numpy().astype(np.int64, copy=False)


def _float(table: pa.Table, name: str) -> FloatArray:
    """[rows] numbers, NaN where there is none."""
    if name not in table.column_names:
        return np.full(table.num_rows, np.nan)
    return table.column(name).cast(pa.float64()).to_numpy()
