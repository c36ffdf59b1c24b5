"""How often a word, a phrase or a pattern is said over the steps of a training, and what it pays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from board.store.patterns import Pattern
from board.store.run import Run
from board.store.speech import said
from board.store.step_records import PLACES, StepRecords

_EXAMPLES: Final = 240
_COLUMNS: Final = (*PLACES, "reward", "env")


@dataclass(slots=True)
class Watched:
    """A pattern at one step in one environment. env: None where none is recorded.

    rollouts: that were read and tell who said what; untold: that do not. hits: those in which it is
    said; times: how often in all. reward_hits, reward_misses: mean reward of rollouts with and without
    it, NaN where none is scored; scored_hits, scored_misses: how many of these are. examples: indices of
    the first hits.
    """

    step: int
    env: str | None
    rollouts: int = 0
    hits: int = 0
    times: int = 0
    reward_hits: float = float("nan")
    reward_misses: float = float("nan")
    examples: list[int] = field(default_factory=list[int])
    untold: int = 0
    scored_hits: int = 0
    scored_misses: int = 0

    @property
    def share(self) -> float:
        """Of the rollouts, those in which it is said."""
        return self.hits / self.rollouts if self.rollouts else float("nan")


def within_steps(entries: Sequence[Watched]) -> float:
    """Mean reward with it less that without, of rollouts of one step and environment; NaN where none
    has both.

    Over a run both the words and the reward change: means over all its steps would compare early
    rollouts with late ones. A step counts by n·m / (n + m) of its n hits and m misses.
    """
    pairs = [
        (one.reward_hits - one.reward_misses, one.scored_hits, one.scored_misses) for one in entries
    ]
    known = [(gap, n * m / (n + m)) for gap, n, m in pairs if n and m]
    total = sum(weight for _, weight in known)
    return sum(gap * weight for gap, weight in known) / total if total else float("nan")


def watch(
    run: Run,
    pattern: Pattern,
    by: str = "response",
    steps: Sequence[int] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[Watched]:
    """One entry per step and environment, as it is read; who asks for no more stops the reading.

    by: whose words, one of speech.SPEAKERS. progress: called with rollouts done and in all.
    """
    table = run.chosen(_COLUMNS)
    wanted = [*run.counts] if steps is None else [*steps]
    of = table["step"].to_numpy()
    records = StepRecords(run)
    total, done = int(np.isin(of, wanted).sum()), 0
    for step in wanted:
        first, end = np.searchsorted(of, (step, step + 1)).tolist()
        rows = table.iloc[first:end]
        spoken = _spoken(run, records, rows, by)
        yield from _by_env(step, rows, spoken.times(pattern))
        done += len(rows)
        if progress is not None:
            progress(done, total)


_NOT_READ: Final = -1
_NOT_TOLD: Final = -2


@dataclass(frozen=True, slots=True)
class _Spoken:
    """Of each row _NOT_READ, _NOT_TOLD or 0; and what was said, with the place of its row."""

    told: npt.NDArray[np.int64]
    places: npt.NDArray[np.int64]
    texts: list[str]

    def times(self, pattern: Pattern) -> npt.NDArray[np.int64]:
        """[rows] how often it is said; below 0 where that is not known."""
        times = self.told.copy()
        np.add.at(times, self.places, pattern.counts(self.texts))
        return times


def _spoken(run: Run, records: StepRecords, rows: pd.DataFrame, by: str) -> _Spoken:
    told = np.full(len(rows), _NOT_READ, np.int64)
    places: list[int] = []
    texts: list[str] = []
    for place, record in records.of(rows):
        spoken = said(run, record, by)
        told[place] = _NOT_TOLD if spoken is None else 0
        places += [place] * len(spoken or ())
        texts += [one.text for one in spoken or ()]
    return _Spoken(told, np.array(places, np.int64), texts)


def watch_step(
    run: Run, step: int, patterns: Sequence[Pattern], by: str = "response"
) -> list[list[Watched]]:
    """As `watch` of one step, for each of several patterns; the step is read once."""
    rows = run.of_step(step)
    spoken = _spoken(run, StepRecords(run), rows, by)
    return [[*_by_env(step, rows, spoken.times(pattern))] for pattern in patterns]


def _by_env(step: int, rows: pd.DataFrame, times: npt.NDArray[np.int64]) -> Iterator[Watched]:
    read = times >= 0
    rewards = (
        rows["reward"].to_numpy(np.float64, na_value=np.nan)
        if "reward" in rows
        else np.full(len(rows), np.nan)
    )
    envs = rows["env"].astype(object).to_numpy() if "env" in rows else np.full(len(rows), None)
    indices = rows["index"].to_numpy()
    for env in dict.fromkeys(None if pd.isna(name) else str(name) for name in envs):
        of_env = np.array([(None if pd.isna(x) else str(x)) == env for x in envs])
        own = read & of_env
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
            int((of_env & (times == _NOT_TOLD)).sum()),
            int(np.isfinite(rewards[hits]).sum()),
            int(np.isfinite(rewards[own & ~hits]).sum()),
        )


def _mean(values: np.ndarray) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")
