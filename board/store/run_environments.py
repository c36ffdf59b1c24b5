"""The environments of a run and its metrics by environment, from its index alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from board.core.environments import ByEnvironment, by_environment
from board.core.metrics import is_zero_std
from board.store.run import Run
from board.store.run_groups import numbers

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RunEnvironments:
    """steps, codes: [n] of each rollout, ordered by step and index; a code below 0 is no environment.

    names: by code, in alphabetical order. rollouts: [names].
    """

    steps: IntArray
    codes: IntArray
    names: tuple[str, ...]
    rollouts: IntArray

    def means(self, run: Run, column: str) -> ByEnvironment:
        """A metric by environment; run: the run that these are of."""
        values = numbers(run.chosen((column,)), column)
        return by_environment(self.steps, self.codes, values, len(self.names))


def run_environments(run: Run) -> RunEnvironments | None:
    """The environments of all steps; None where the run names none."""
    if "env" not in run.columns:
        return None
    table = run.chosen(("env",))
    codes = np.asarray(table["env"].cat.codes, np.int64)
    names = tuple(str(name) for name in table["env"].cat.categories)
    counts = np.bincount(codes[codes >= 0], minlength=len(names))
    return RunEnvironments(table["step"].to_numpy(np.int64), codes, names, counts)


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
        equal = [
            is_zero_std(numbers(group, "reward"))
            for _, group in rows.groupby("group_id", observed=True)
        ]
        told = [one for one in equal if one is not None]
        found["without_gradient"] = sum(told) / len(told) if told else float("nan")
    return found
