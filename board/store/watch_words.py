"""How often a word, a phrase or a pattern is said over the steps of a training, and what it pays."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pandas as pd

from board.errors import ChoiceError
from board.store.rollout import said
from board.store.run import Run
from board.store.step_tokens import StepReader

_EXAMPLES: Final = 5
_COLUMNS: Final = ("index", "file", "line", "offset", "size", "env", "reward")


@dataclass(slots=True)
class Watched:
    """A pattern at one step in one environment. env: None where none is recorded.

    rollouts: that were read; hits: those in which it is said; times: how often in all. reward_hits,
    reward_misses: mean reward of rollouts with and without it, NaN where none is scored. examples:
    indices of the first hits.
    """

    step: int
    env: str | None
    rollouts: int = 0
    hits: int = 0
    times: int = 0
    reward_hits: float = float("nan")
    reward_misses: float = float("nan")
    examples: list[int] = field(default_factory=list[int])

    @property
    def share(self) -> float:
        """Of the rollouts, those in which it is said."""
        return self.hits / self.rollouts if self.rollouts else float("nan")


def compiled(text: str, *, regex: bool = False) -> re.Pattern[str]:
    """A phrase, or with regex a regular expression, case ignored. Raises ChoiceError on none."""
    try:
        return re.compile(text if regex else re.escape(text), re.IGNORECASE)
    except re.error as error:
        raise ChoiceError(f"{text!r} is no regular expression: {error}") from None


def watch(
    run: Run,
    pattern: re.Pattern[str],
    by: str = "response",
    steps: Sequence[int] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[Watched]:
    """One entry per step and environment, as it is read; who asks for no more stops the reading.

    by: whose words, as store.rollout.said has them. progress: called with rollouts done and in all.
    """
    table = run.chosen(_COLUMNS)
    wanted = [*run.counts] if steps is None else [*steps]
    of = table["step"].to_numpy()
    reader = StepReader(run)
    total, done = int(np.isin(of, wanted).sum()), 0
    for step in wanted:
        first, end = np.searchsorted(of, (step, step + 1)).tolist()
        rows = table.iloc[first:end]
        times = np.full(len(rows), -1)
        for place, record in reader.records(rows):
            times[place] = sum(len(pattern.findall(text)) for text in said(run, record, by))
        yield from _by_env(step, rows, times)
        done += len(rows)
        if progress is not None:
            progress(done, total)


def _by_env(step: int, rows: pd.DataFrame, times: np.ndarray) -> Iterator[Watched]:
    read = times >= 0
    rewards = (
        rows["reward"].to_numpy(np.float64, na_value=np.nan)
        if "reward" in rows
        else np.full(len(rows), np.nan)
    )
    envs = rows["env"].astype(object).to_numpy() if "env" in rows else np.full(len(rows), None)
    indices = rows["index"].to_numpy()
    for env in dict.fromkeys(None if pd.isna(name) else str(name) for name in envs):
        own = read & np.array([(None if pd.isna(x) else str(x)) == env for x in envs])
        hits = own & (times > 0)
        yield Watched(
            step,
            env,
            int(own.sum()),
            int(hits.sum()),
            int(times[own].sum()),
            _mean(rewards[hits]),
            _mean(rewards[own & ~hits]),
            indices[hits][:_EXAMPLES].tolist(),
        )


def _mean(values: np.ndarray) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")
