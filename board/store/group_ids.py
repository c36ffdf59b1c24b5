"""Which rollouts are of one group: those of one step, one split and one group_id.

Frameworks count the prompts of training and those of an evaluation each from 0.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

IntArray = npt.NDArray[np.int64]

COLUMNS: Final = ("group_id", "split")
"""Columns of the rollouts that tell their groups."""
_TRAIN: Final = "train"


def group_codes(rows: pd.DataFrame) -> IntArray:
    """[rows] a code per group in the order of ids and then of splits, -1 where there is none.

    Rollouts that name no split are training's.
    """
    if "group_id" not in rows:
        return np.full(len(rows), -1, np.int64)
    codes, _ = _coded(rows["group_id"], None)
    if "split" not in rows:
        return codes
    splits, names = _coded(rows["split"], _TRAIN)
    return np.where(codes < 0, -1, codes * len(names) + splits)


def group_names(rows: pd.DataFrame) -> pd.Series[str]:
    """[rows] what each one's group is called, empty for none: its id, and where rollouts of several
    splits have that id, the split as well.
    """
    if "group_id" not in rows:
        return pd.Series("", rows.index, dtype=str)
    ids = rows["group_id"].astype(object).where(rows["group_id"].notna(), "").astype(str)
    if "split" not in rows:
        return ids
    splits = rows["split"].astype(object).where(rows["split"].notna(), _TRAIN).astype(str)
    is_shared = splits.groupby(ids).transform("nunique") > 1
    return ids.where(~is_shared | (ids == ""), ids + " (" + splits + ")")


def _coded(values: pd.Series[Any], missing: str | None) -> tuple[IntArray, list[str]]:
    """[rows] places in the names, -1 for none, and the names in their order. missing: what none means."""
    kinds = values.astype("category").cat
    found: list[str] = list(
        map(str, kinds.categories.tolist())
    )  # one by one takes seven times as long
    names: list[str] = sorted({*found, *([] if missing is None else [missing])})
    places = {name: place for place, name in enumerate(names)}
    of_kind = np.array([*(places[name] for name in found), places.get(missing or "", -1)], np.int64)
    return of_kind[np.asarray(kinds.codes, np.int64)], names
