"""A step's rollouts by environment."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from board.core.metrics.definitions import is_zero_std
from board.index.group_ids import group_codes
from board.query.stored_rows import numbers


def table_of_step(rows: pd.DataFrame, metrics: Sequence[str]) -> pd.DataFrame:
    """A step's rollouts by environment: one row for all, then one for each.

    Columns: scope ("all" or "env"), env (empty for all), rollouts, the means of `metrics`, and
    without_gradient, the share of groups of equal rewards, where groups are recorded.
    """
    parts = [("all", "", rows)]
    parts += [("env", str(name), own) for name, own in rows.groupby("env", observed=True)]
    return pd.DataFrame([_summary(*part, metrics) for part in parts])


def _summary(
    scope: str, name: str, rows: pd.DataFrame, metrics: Sequence[str]
) -> dict[str, object]:
    found: dict[str, object] = {"scope": scope, "env": name, "rollouts": len(rows)}
    for metric in metrics:
        values = numbers(rows, metric)
        known = values[np.isfinite(values)]
        found[metric] = float(known.mean()) if len(known) else float("nan")
    if "group_id" in rows and "reward" in rows:
        codes, rewards = group_codes(rows), numbers(rows, "reward")
        groups = np.unique(codes[codes >= 0])
        equal = [is_zero_std(rewards[codes == group]) for group in groups]
        told = [one for one in equal if one is not None]
        found["without_gradient"] = sum(told) / len(told) if told else float("nan")
    return found
