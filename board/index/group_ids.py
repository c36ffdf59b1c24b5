"""Which rollouts are of one group: those of one step, one split and one group_id.

Frameworks count the prompts of training and those of an evaluation each from 0.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportAttributeAccessIssue=false
# pyarrow ships without types, and makes its compute functions when it is imported.

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

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
    splits, count = _coded(rows["split"], _TRAIN)
    return np.where(codes < 0, -1, codes * count + splits)


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


def _coded(values: pd.Series[Any], missing: str | None) -> tuple[IntArray, int]:
    """[rows] places in the names in their order, -1 for none, and how many names there are.

    missing: what none means. There may be a name for each row: no list is made of them.
    """
    kinds = values.astype("category").cat
    names = pa.array(kinds.categories.astype(str), pa.string())
    if missing is not None and missing not in kinds.categories:
        names = pa.concat_arrays([names, pa.array([missing])])
    places = np.empty(len(names) + 1, np.int64)
    places[pc.array_sort_indices(names).to_numpy()] = np.arange(len(names))
    places[-1] = -1 if missing is None else places[pc.index(names, missing).as_py()]
    return places[np.asarray(kinds.codes, np.int64)], len(names)
