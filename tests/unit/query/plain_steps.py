"""The table of steps and shares of a run by numpy and pandas, one step at a time."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from board.core.groups.right import right_rule
from board.core.metrics.definitions import base_name, is_zero_std
from board.query import splits
from board.query.steps import QUANTILES

NAN = float("nan")


def plain_steps(rows: pd.DataFrame, metrics: Sequence[str]) -> pd.DataFrame:
    """The table of rollouts, with the columns of metrics that any of them has."""
    table = pd.DataFrame([{"step": s, **_of(own, metrics)} for s, own in rows.groupby("step")])
    empty = [n.removesuffix("_n") for n in table if n.endswith("_n") and not table[n].any()]
    return table.drop(
        columns=[
            f"{stem}_{s}"
            for stem in empty
            for s in ("mean", "std", "n", "se", "groups", "even", *QUANTILES)
        ]
    )


def _of(rows: pd.DataFrame, metrics: Sequence[str]) -> dict[str, Any]:
    result: dict[str, Any] = {"rollouts": len(rows)}
    for name in metrics:
        stem, values = base_name(name), rows[name].dropna().to_numpy(np.float64)
        result[f"{stem}_mean"] = values.mean() if len(values) else NAN
        result[f"{stem}_std"] = values.std(ddof=1) if len(values) > 1 else NAN
        result[f"{stem}_n"] = len(values)
        result |= _error(rows, name, stem)
        for suffix, q in QUANTILES.items():
            result[f"{stem}_{suffix}"] = np.quantile(values, q) if len(values) else NAN
    if "rank" in rows:
        result["ranks"] = rows["rank"].nunique()
    if {"group_id", "reward"} <= {*rows}:
        groups = [*_groups(rows)]
        known = [zero for zero in map(is_zero_std, groups) if zero is not None]
        result["groups"] = len(groups) or NAN
        result["zero_std_group_fraction"] = np.mean(known) if known else NAN
    return result


def _error(rows: pd.DataFrame, name: str, stem: str) -> dict[str, Any]:
    """The error of the mean, clustered by group; a rollout without one is a group of its own."""
    known = rows[rows[name].notna()]
    deviations = known[name].astype(float) - known[name].astype(float).mean()
    keys = pd.Series([f"row {i}" for i in range(len(known))], known.index, object)
    if "group_id" in known:
        split = known["split"].astype(object) if "split" in known else pd.Series("", known.index)
        own = known["group_id"].astype(object)
        named = own.astype(str) + " " + split.where(split.notna() & (split != ""), "train")
        keys = named.where(own.notna(), keys)
    sums = deviations.groupby(keys).sum()
    sizes, count = deviations.groupby(keys).size(), len(sums)
    even = len(known) ** 2 / (sizes**2).sum() if count else NAN
    error = np.sqrt(even / (even - 1) * (sums**2).sum()) / len(known) if count > 1 else NAN
    return {f"{stem}_se": error, f"{stem}_groups": count, f"{stem}_even": even}


def _groups(rows: pd.DataFrame) -> Iterator[np.ndarray]:
    """The rewards of each group."""
    split = rows["split"].astype(object) if "split" in rows else pd.Series(None, rows.index, object)
    keys = [rows["group_id"].astype(object), split.where(split.notna(), "train")]
    for _, own in rows["reward"].groupby(keys):
        yield own.to_numpy(np.float64)


def rows_of_split(names: pd.Series, name: str) -> npt.NDArray[np.bool_]:
    """[rows] whether each is of the split. names: a column of the table of rollouts."""
    texts = names.astype(object).where(names.notna(), "")
    return ((texts == name) | ((texts == "") & (name == splits.TRAIN))).to_numpy(bool)


def solve_rates(rows: pd.DataFrame, own: pd.DataFrame) -> npt.NDArray[np.float64]:
    """By step of `own` the share of right rollouts among those that are judged, by the rule that the
    rewards of the run give; NaN where none is judged.
    """
    known = rows["reward"][np.isfinite(rows["reward"])]
    rule = right_rule("reward", Counter(known.tolist()), len(known))

    def judge(reward: float) -> float:
        return 1.0 if reward >= rule.right_from else 0.0 if reward <= rule.wrong_to else NAN

    graded = own["reward"].map(judge)
    return graded.groupby(own["step"]).mean().to_numpy()
