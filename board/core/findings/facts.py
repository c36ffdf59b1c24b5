"""What rules look at: a run's curves, a few numbers of each step, and what was read of its tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from board.core.arrays import BoolArray, FloatArray, IntArray
from board.core.findings.finding import Evidence
from board.core.findings.series import Changes
from board.core.findings.trailing import Period, periods

if TYPE_CHECKING:  # a command that makes facts of the log alone needs none of these
    from board.core.findings.digest import Digest
    from board.core.groups.environments import EnvCurves
    from board.core.groups.statistics import FitCounts, Groups
    from board.core.metrics.trainer import Agreement


@dataclass(frozen=True, slots=True)
class StepChecks:
    """Arrays [S], ascending by step; NaN and 0 where a step has nothing of it.

    rollouts: of the step. scored: those with a reward; lowest, highest: of these. clock: the latest
    timestamp. pairs: grouped rollouts of which reward and length are known; xx, yy, xy: sums of squares
    and products of what is left of reward (x) and length (y) after their group's means. rank_steps,
    ranks: (step, rank) of every rank that has a rollout at a step.
    """

    steps: IntArray
    rollouts: IntArray
    scored: IntArray
    lowest: FloatArray
    highest: FloatArray
    clock: FloatArray
    pairs: IntArray
    xx: FloatArray
    yy: FloatArray
    xy: FloatArray
    rank_steps: IntArray
    ranks: IntArray


@dataclass(frozen=True, slots=True)
class Copy:
    """A rollout that the log holds twice: the one at (step, index), first seen at `of`."""

    step: int
    index: int
    of: int
    rank: int | None


@dataclass(frozen=True, slots=True)
class CopiedFile:
    """A file that holds the rollouts of another one alone: they are counted once. steps: of these the
    first and the last.
    """

    path: str
    original: str
    rollouts: int
    steps: tuple[int, int]


ExpectedAdvantages = Callable[[int, str], tuple[FloatArray, BoolArray]]
"""Of a step and a convention: [n] its advantages of the rollouts, [n] whether recorded ones differ."""


@dataclass(frozen=True, slots=True)
class StepRows:
    """The rollouts of one step, [n]. indices: their places within the step. columns: numbers, NaN where
    not recorded; those that the run does not record are absent. read_groups, read_envs: [n] the place of
    each one's group in Facts.groups, and of its environment in Facts.env_rewards, -1 for none.
    """

    indices: IntArray
    columns: Mapping[str, FloatArray]
    read_groups: Callable[[], IntArray]
    read_envs: Callable[[], IntArray]


@dataclass(frozen=True, slots=True)
class FailuresBy:
    """Failures of rollouts by what they may have in common: those of infrastructure, timeouts, and
    unknown ones. Steps without any have 0 throughout.

    kind: "rank", "env" or "tool". values: [V] names of those that have a failure, the most first. among:
    how many values there are at all. rollouts, failed: [V, S]; prompts: [V, S] how many different ones
    failed. all_rollouts, all_failed: [S] of any value.
    """

    kind: str
    values: Sequence[str]
    among: int
    rollouts: IntArray
    failed: IntArray
    prompts: IntArray
    all_rollouts: IntArray
    all_failed: IntArray


@dataclass(frozen=True, slots=True)
class FailedRows:
    """The same rollouts of one step, [n]. evidence: a few words from the log. rewards: NaN where not
    recorded. values: by kind, None where a rollout has none.
    """

    indices: IntArray
    causes: Sequence[str]
    evidence: Sequence[str]
    rewards: FloatArray
    values: Mapping[str, Sequence[str | None]]


@dataclass(frozen=True, slots=True)
class RewardModes:
    """The reward that most rollouts of each step have, and how many, [S]; NaN and 0 without rewards.

    with_reward: [S] how many rollouts have a reward, and of how many different prompts these are.
    """

    values: FloatArray
    counts: IntArray
    with_reward: Callable[[float], tuple[IntArray, IntArray]]


@dataclass(frozen=True, slots=True)
class Relation:
    """Something that holds between columns of each rollout. words: what, as "acc is [score = 1]".
    columns: which; rows, broken: [S] rollouts that have all of them, and of these those for which it does
    not hold. broken_of: reads the indices of the latter of a step.
    """

    words: str
    columns: Sequence[str]
    rows: IntArray
    broken: IntArray
    broken_of: Callable[[int], Sequence[int]]


def _no_failures(step: int) -> FailedRows:
    return FailedRows(np.empty(0, np.int64), (), (), np.empty(0), {})


@dataclass(frozen=True)
class Facts:
    """steps: [S] ascending. curves: columns of the table of steps, [S], NaN where not recorded.

    rows_of: reads the rollouts of a step, for what a finding names of them. checks: of the same steps,
    None for a run without rollouts. groups: of all steps, None where no group or no reward is recorded.
    fit: of recorded advantages, None where none is; expected_advantages: those of a step.
    env_rewards: by environment, None without rewards. parts: columns of the reward's parts.
    world_sizes: by step, how many ranks write, where the log says so. growing: steps that are still
    written. copies: rollouts that are there twice; copied_files: files that are not counted. rewritten:
    (first step, last step, rollouts) that were written again, None where none were; by_restart: by a
    process that names no launch of its own.
    trained_until: the newest step of the trainer's log, where what
    the sampler says is in another log that may be ahead; None where there is one log. digests: of steps
    whose tokens were read, in ascending order. trainer: what the trainer says of the same quantities.
    causes: by cause, [S] rollouts that failed by it. failures_by: of each kind that is recorded.
    failed_of: reads the failed rollouts of a step. reward_modes: None without rewards. index_changes:
    computes where the series of the index change, once, token_changes where those of what was read do;
    relations: what held between columns at first.
    """

    steps: IntArray
    curves: Mapping[str, FloatArray]
    rows_of: Callable[[int], StepRows]
    checks: StepChecks | None = None
    groups: Groups | None = None
    fit: FitCounts | None = None
    expected_advantages: ExpectedAdvantages | None = None
    env_rewards: EnvCurves | None = None
    parts: Sequence[str] = ()
    world_sizes: Mapping[int, int] = field(default_factory=dict[int, int])
    growing: frozenset[int] = frozenset()
    copies: Sequence[Copy] = ()
    copied_files: Sequence[CopiedFile] = ()
    rewritten: tuple[int, int, int] | None = None
    by_restart: bool = False
    trained_until: int | None = None
    digests: Sequence[Digest] = ()
    trainer: Sequence[Agreement] = ()
    causes: Mapping[str, IntArray] = field(default_factory=dict[str, IntArray])
    failures_by: Sequence[FailuresBy] = ()
    failed_of: Callable[[int], FailedRows] = _no_failures
    reward_modes: RewardModes | None = None
    index_changes: Callable[[], Changes] = Changes
    token_changes: Callable[[], Changes] = Changes
    relations: Callable[[], Sequence[Relation]] = tuple

    def curve(self, name: str) -> FloatArray | None:
        """[S] a curve; None where it is not recorded at all."""
        values = self.curves.get(name)
        return None if values is None or not np.isfinite(values).any() else values

    def top(
        self,
        step: int,
        column: str,
        count: int = 3,
        *,
        lowest: bool = False,
        beyond: float | None = None,
        among: BoolArray | None = None,
    ) -> tuple[Evidence, ...]:
        """The rollouts of a step with the largest (or lowest) values of a column.

        beyond: leaves out those that are not above it (or not below it). among: [n] those of the step
        that are asked for.
        """
        rows = self.rows_of(step)
        values = rows.columns.get(column, np.full(len(rows.indices), np.nan))
        keys = values if lowest else -values
        wanted = np.isfinite(values) & (True if among is None else among)
        if beyond is not None:
            wanted &= keys < (beyond if lowest else -beyond)
        order = np.argsort(keys, kind="stable")
        places = order[wanted[order]][:count].tolist()
        return tuple(Evidence(step, int(rows.indices[i]), value=float(values[i])) for i in places)

    def changes(self) -> Changes:
        """Where any series changes, those of what was read of tokens included."""
        return self.index_changes().with_others(self.token_changes())

    @property
    def read_steps(self) -> IntArray:
        """[digests] the steps whose tokens were read."""
        return np.array([digest.step for digest in self.digests], np.int64)

    def read_periods(
        self, fires: BoolArray, badness: FloatArray
    ) -> Iterator[tuple[Period, Digest, float]]:
        """Periods of steps whose tokens were read, with the digest and the badness of the worst step.

        fires, badness: [digests].
        """
        for period in periods(self.read_steps, fires, badness):
            yield period, self.digests[period.worst], float(badness[period.worst])
