"""Looks a run over: gathers what the rules of core.findings need, and runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from board.core.findings import TOKEN_RULES, find
from board.core.findings.digest import Digest, digest
from board.core.findings.facts import Copy, Facts
from board.core.findings.finding import Finding
from board.core.findings.thresholds import Thresholds, changed, parse
from board.core.metrics import REWARD_PART
from board.core.records import FloatArray
from board.errors import ChoiceError, UnreadableError
from board.store.run import Run
from board.store.step_tokens import COLUMNS, ReadTokens, StepReader

Progress = Callable[[int, int], None]
"""Called with bytes read and bytes to read; raising from it stops the reading."""

_COLUMNS: Final = (
    *("reward", "advantage", "response_tokens", "is_truncated", "rank", "timestamp"),
    *("k3_mean", "entropy_mean"),
)
_SAME: Final = ("split", "response_tokens", "reward", "response")
_LEAST_STEPS: Final = 8
_REFINEMENTS: Final = 24
"""Steps that are read besides, to tell at which one something began."""


@dataclass(frozen=True, slots=True)
class Budget:
    """How much of the token arrays is read. rollouts: of each step at most, whole groups evenly spread;
    bytes: of the log in all; steps evenly spread where that is not enough for all.
    """

    rollouts: int = 64
    bytes: int = 256 << 20


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """findings: the worst first. steps_read: whose tokens were looked at, of `steps`; rollouts_read."""

    findings: tuple[Finding, ...]
    steps_read: int
    steps: int
    rollouts_read: int


def default_thresholds() -> dict[str, dict[str, float]]:
    """Those of the package: core/findings/thresholds.toml."""
    packaged = resources.files("board.core.findings").joinpath("thresholds.toml")
    return parse(packaged.read_text(encoding="utf-8"))


def read_thresholds(path: Path) -> dict[str, dict[str, float]]:
    """The package's thresholds with what a file changes. Raises UnreadableError or ChoiceError."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadableError(f"{path} can't be read: {error}") from error
    try:
        return changed(default_thresholds(), parse(text))
    except ChoiceError as error:
        raise ChoiceError(f"{path}: {error}") from error


def diagnose(
    run: Run,
    thresholds: Thresholds | None = None,
    *,
    tokens: bool = True,
    budget: Budget | None = None,
    progress: Progress | None = None,
) -> Diagnosis:
    """What the rules find in a run. tokens: whether to read token arrays, which the rules in
    core.findings.TOKEN_RULES need; without, the index alone is looked at.

    A step at which something of the tokens begins is told exactly where the step before it was read;
    where steps were passed over, those between are looked at, half by half.
    """
    limits = thresholds or default_thresholds()
    facts = facts_of(run)
    if not tokens or not len(facts.steps):
        return Diagnosis(tuple(find(facts, limits)), 0, len(facts.steps), 0)
    chosen = _Chosen(run, budget or Budget(), progress)
    digests = {step: chosen.digest(step) for step in chosen.steps}
    findings = find(_with(facts, digests), limits)
    for _ in range(_REFINEMENTS):
        between = _between(facts.steps, digests, findings)
        if not between:
            break
        digests |= {step: chosen.digest(step) for step in between}
        findings = find(_with(facts, digests), limits)
    read = sum(found.read for found in digests.values())
    return Diagnosis(tuple(findings), len(digests), len(facts.steps), read)


def _with(facts: Facts, digests: Mapping[int, Digest]) -> Facts:
    return replace(facts, digests=tuple(digests[step] for step in sorted(digests)))


def _between(
    steps: npt.NDArray[np.int64], digests: Mapping[int, Digest], findings: Iterable[Finding]
) -> set[int]:
    """Steps in the middle between one where something of the tokens holds and the one read before."""
    read = np.array(sorted(digests))
    found: set[int] = set()
    for finding in findings:
        if finding.rule not in TOKEN_RULES or finding.first_step is None:
            continue
        place = int(np.searchsorted(read, finding.first_step))
        before = int(read[place - 1]) if place else int(steps[0]) - 1
        unread = steps[(steps > before) & (steps < finding.first_step)]
        if len(unread):
            found.add(int(unread[len(unread) // 2]))
    return found


class _Chosen:
    """Which rollouts of which steps are read, and their digests."""

    def __init__(self, run: Run, budget: Budget, progress: Progress | None) -> None:
        self._budget, self._progress = budget, progress
        self._reader = StepReader(run, ReadTokens(roles=False, texts=True))
        self._table = run.chosen((*COLUMNS, "group_id"))
        self._of = self._table["step"].to_numpy()
        steps, counts = np.unique(self._of, return_counts=True)
        sizes = np.add.reduceat(
            self._table["size"].to_numpy(np.float64), np.searchsorted(self._of, steps)
        )
        each = sizes * np.minimum(budget.rollouts / counts, 1.0)
        share = min(1.0, budget.bytes / max(float(each.sum()), 1.0))
        count = max(int(len(steps) * share), min(len(steps), _LEAST_STEPS))
        places = np.unique(np.linspace(0, len(steps) - 1, count).round().astype(int))
        self.steps: list[int] = steps[places].tolist()
        self._total = int(each[places].sum())
        self._done = 0

    def digest(self, step: int) -> Digest:
        first, end = np.searchsorted(self._of, (step, step + 1)).tolist()
        rows = self._table.iloc[first:end]
        groups = _codes(rows)
        places = _sample(groups, self._budget.rollouts)
        chosen = rows.iloc[places]
        tokens = self._reader.read(step, chosen)
        of_index = dict(zip(chosen["index"].tolist(), groups[places].tolist(), strict=True))
        own = np.array([of_index[index] for index in tokens.indices.tolist()], np.int64)
        broken = tokens.numbers.get("broken", np.zeros(len(tokens.indices)))
        self._done += int(chosen["size"].sum())
        if self._progress is not None:
            self._progress(min(self._done, self._total), self._total)
        return digest(tokens, own, broken, len(rows))


def _codes(rows: pd.DataFrame) -> npt.NDArray[np.int64]:
    """[rollouts] a number per group, -1 where a rollout has none."""
    if "group_id" not in rows:
        return np.full(len(rows), -1, np.int64)
    return pd.factorize(rows["group_id"])[0].astype(np.int64)


def _sample(groups: npt.NDArray[np.int64], most: int) -> npt.NDArray[np.intp]:
    """Places of at most so many rollouts: whole groups, evenly spread, or evenly spread rollouts."""
    if len(groups) <= most:
        return np.arange(len(groups))
    if (groups < 0).any():
        return np.linspace(0, len(groups) - 1, most).round().astype(np.intp)
    size = np.bincount(groups)
    count = max(int(most // max(size.mean(), 1)), 1)
    wanted = np.linspace(0, len(size) - 1, min(count, len(size))).round().astype(np.int64)
    return np.flatnonzero(np.isin(groups, wanted))[:most].astype(np.intp)


def facts_of(run: Run) -> Facts:
    """What the index says of a run, without a look at its log."""
    parts = [name for name in run.columns if name.startswith(REWARD_PART)]
    table = run.chosen((*_COLUMNS, *parts, "group_id", "env"))
    numbers = [
        c for c in (*_COLUMNS, *parts) if c in table and pd.api.types.is_numeric_dtype(table[c])
    ]
    steps = run.steps["step"].to_numpy(np.int64)
    return Facts(
        steps=steps,
        curves=_Curves(run.steps),
        step_of=table["step"].to_numpy(np.int64),
        index_of=table["index"].to_numpy(np.int64),
        columns={name: table[name].to_numpy(np.float64, na_value=np.nan) for name in numbers},
        group_codes=_category_codes(table, "group_id"),
        env_codes=_category_codes(table, "env"),
        env_names=_category_names(table, "env"),
        world_sizes=run.shown.world_sizes(),
        growing=frozenset(steps[-1:].tolist()) & frozenset(run.missing_ranks),
        copies=tuple(_copies(run)),
        rewritten=_rewritten(run),
    )


class _Curves(Mapping[str, FloatArray]):
    """Columns of the table of steps as numbers, converted when they are asked for."""

    def __init__(self, table: pd.DataFrame) -> None:
        self._table = table

    def __getitem__(self, name: str) -> FloatArray:
        return pd.to_numeric(self._table[name]).to_numpy(np.float64, na_value=np.nan)

    def __iter__(self) -> Any:
        return iter(self._table.columns)

    def __len__(self) -> int:
        return len(self._table.columns)


def _category_codes(table: pd.DataFrame, name: str) -> npt.NDArray[np.int64]:
    """[n] -1 where a rollout has none; empty where the run has no such column."""
    if name not in table:
        return np.zeros(0, np.int64)
    return np.asarray(table[name].cat.codes, np.int64)


def _category_names(table: pd.DataFrame, name: str) -> tuple[str, ...]:
    return tuple(map(str, table[name].cat.categories)) if name in table else ()


def _copies(run: Run) -> list[Copy]:
    """Rollouts of one step with the same id that are the same: same length, reward and beginning.

    The same id alone may be of one trajectory that was cut into several training samples, and training
    and evaluation count from 0 alike.
    """
    if "rollout_id" not in run.columns:
        return []
    table = run.chosen(("rollout_id",))
    known = table[table["rollout_id"].notna()]
    twice = known[known.duplicated(["step", "rollout_id"], keep=False)]
    if twice.empty:
        return []
    steps = twice["step"].unique().tolist()
    rows = pd.concat([run.of_step(int(step)) for step in steps])
    keys = ["step", "rollout_id", *(c for c in _SAME if c in rows)]
    rows = rows[rows["rollout_id"].notna()]
    first = rows.groupby(keys, dropna=False, observed=True)["index"].transform("min")
    again = rows[rows["index"] > first]
    ranks = again["rank"].tolist() if "rank" in again else [None] * len(again)
    places = zip(again["step"], again["index"], first[again.index], ranks, strict=True)
    return [
        Copy(int(step), int(index), int(of), None if pd.isna(rank) else int(rank))
        for step, index, of, rank in places
    ]


def _rewritten(run: Run) -> tuple[int, int, int] | None:
    if not run.superseded:
        return None
    steps = run.superseded_rollouts()["step"]
    return int(steps.min()), int(steps.max()), run.superseded
