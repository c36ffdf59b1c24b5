"""Groups, prompts and environments of a run, from its index alone."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from board.core.advantages import AdvantageFit, fit_advantages
from board.core.environments import EnvCurves, env_curves
from board.core.groups import Grid, Groups, grid
from board.core.prompts import Visits, visits_of
from board.errors import ChoiceError
from board.store.findings import facts_of
from board.store.run import Run


def groups(run: Run) -> Groups | None:
    """The groups of all steps; None where no group_id or no reward is recorded."""
    return facts_of(run).groups


def advantage_fit(run: Run) -> AdvantageFit | None:
    """Recorded against recomputed advantages, one entry per rollout in the order of run.rollouts; None
    where rewards, groups or advantages are not recorded.
    """
    facts = facts_of(run)
    rewards, recorded = facts.columns.get("reward"), facts.columns.get("advantage")
    if rewards is None or recorded is None or facts.groups is None:
        return None
    return fit_advantages(rewards, recorded, facts.groups)


def step_grid(run: Run, step: int, column: str = "reward") -> tuple[Grid, list[str]]:
    """A step's groups x rollouts, and the groups' names row by row. Grid.rows are places in run.of_step.

    Raises NotFoundError for a step and ChoiceError for a column that is not there.
    """
    run.row(step, 0)
    rows = run.of_step(step)
    for name in ("group_id", column):
        if name not in rows:
            raise ChoiceError(f"{run.info.name} has no column {name!r}")
    codes, names = pd.factorize(rows["group_id"])
    values = rows[column].to_numpy(np.float64, na_value=np.nan)
    found = grid(codes.astype(np.int64), values)
    return found, [str(names[code]) for code in found.codes.tolist()]


def prompt_visits(run: Run) -> tuple[Visits, list[str]]:
    """Every prompt's steps, and the prompts' beginnings by code: prompts are told apart by the first
    characters that the index keeps. Raises ChoiceError where rewards or prompts are not recorded.
    """
    facts = facts_of(run)
    table = run.chosen(("prompt",))
    if "prompt" not in table or "reward" not in facts.columns:
        raise ChoiceError(f"{run.info.name} does not record prompts and rewards")
    codes, texts = pd.factorize(table["prompt"])
    visits = visits_of(facts.step_of, codes.astype(np.int64), facts.columns["reward"], facts.right)
    return visits, [str(text) for text in texts]


def environment_curves(run: Run, column: str = "reward") -> EnvCurves:
    """Means of a column by step and env. Raises ChoiceError where the run has no such column."""
    table = run.chosen(("env", column))
    if column not in table:
        raise ChoiceError(f"{run.info.name} has no column {column!r}")
    envs, names = _codes(table)
    values = table[column].to_numpy(np.float64, na_value=np.nan)
    return env_curves(table["step"].to_numpy(np.int64), envs, names, values)


def _codes(table: pd.DataFrame) -> tuple[npt.NDArray[np.int64], list[str]]:
    if "env" not in table:
        return np.full(len(table), -1, np.int64), []
    codes, names = pd.factorize(table["env"], sort=True)
    return codes.astype(np.int64), [str(name) for name in names]
