"""What rules look at: a run's curves, the numbers of its rollouts, and what was read of its tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from board.core.findings.digest import Digest
from board.core.findings.finding import Evidence
from board.core.groups import Groups, StepGroups, by_step, groups_of, right_part
from board.core.kl import FloatArray
from board.core.metrics import REWARD_PART

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Copy:
    """A rollout that the log holds twice: the one at (step, index), first seen at `of`."""

    step: int
    index: int
    of: int
    rank: int | None


@dataclass(frozen=True)
class Facts:
    """steps: [S] ascending. curves: columns of the table of steps, [S], NaN where not recorded.

    step_of, index_of: [n] of each rollout, ordered by step and index. columns: numbers of rollouts,
    [n]. group_codes: [n], -1 where a rollout has no group. env_codes: [n] places in
    env_names, -1 for none. world_sizes: by step, how many ranks write,
    where the log says so. growing: steps that are still written. copies: rollouts that are there twice.
    rewritten: (first step, last step, rollouts) that a resume wrote again, None without one.
    digests: of steps whose tokens were read, in ascending order.
    """

    steps: IntArray
    curves: Mapping[str, FloatArray]
    step_of: IntArray
    index_of: IntArray
    columns: Mapping[str, FloatArray] = field(default_factory=dict[str, FloatArray])
    group_codes: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    env_codes: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    env_names: Sequence[str] = ()
    world_sizes: Mapping[int, int] = field(default_factory=dict[int, int])
    growing: frozenset[int] = frozenset()
    copies: Sequence[Copy] = ()
    rewritten: tuple[int, int, int] | None = None
    digests: Sequence[Digest] = ()

    @cached_property
    def groups(self) -> Groups | None:
        """The groups of all steps; None where no group or no reward is recorded."""
        rewards = self.columns.get("reward")
        if rewards is None or len(self.group_codes) != len(rewards):
            return None
        return groups_of(self.step_of, self.group_codes, rewards, self.right)

    @cached_property
    def right(self) -> FloatArray | None:
        """[n] 1 where a rollout is right, by the part of the reward that says so; None without one."""
        if self.right_column is None:
            return None
        values = self.columns[self.right_column]
        known = np.isfinite(values)
        top = values[known].max() if known.any() else np.nan
        return np.where(known, (values >= top).astype(np.float64), np.nan)

    @cached_property
    def step_groups(self) -> StepGroups | None:
        """Groups by step; None where there are none."""
        return None if self.groups is None or not len(self.groups.steps) else by_step(self.groups)

    @cached_property
    def right_column(self) -> str | None:
        """The reward part that says whether an answer is right."""
        parts = [name.removeprefix(REWARD_PART) for name in self.parts]
        found = right_part(parts)
        return None if found is None else f"{REWARD_PART}{found}"

    @property
    def parts(self) -> list[str]:
        """Columns of the reward's parts."""
        return [name for name in self.columns if name.startswith(REWARD_PART)]

    def curve(self, name: str) -> FloatArray | None:
        """[S] a curve; None where it is not recorded at all."""
        values = self.curves.get(name)
        return None if values is None or not np.isfinite(values).any() else values

    def rows(self, step: int) -> slice:
        """Where the rollouts of a step stand."""
        return slice(
            int(np.searchsorted(self.step_of, step)),
            int(np.searchsorted(self.step_of, step, side="right")),
        )

    def top(
        self,
        step: int,
        column: str,
        count: int = 3,
        *,
        lowest: bool = False,
        beyond: float | None = None,
        among: npt.NDArray[np.bool_] | None = None,
    ) -> tuple[Evidence, ...]:
        """The rollouts of a step with the largest (or lowest) values of a column.

        beyond: leaves out those that are not above it (or not below it). among: [n] those asked for.
        """
        if column not in self.columns:
            return ()
        rows = self.rows(step)
        values = self.columns[column][rows]
        keys = values if lowest else -values
        wanted = np.isfinite(values)
        if beyond is not None:
            wanted &= keys < (beyond if lowest else -beyond)
        if among is not None:
            wanted &= among[rows]
        order = np.argsort(keys, kind="stable")
        order = order[wanted[order]][:count]
        return tuple(
            Evidence(step, int(self.index_of[rows][i]), value=float(values[i]))
            for i in order.tolist()
        )

    def rollouts(self, step: int, chosen: npt.NDArray[np.bool_], count: int = 3) -> list[int]:
        """Places in the table of the first rollouts of a step that are chosen. chosen: [n]."""
        rows = self.rows(step)
        return (rows.start + np.flatnonzero(chosen[rows])[:count]).tolist()

    def digest(self, step: int) -> Digest | None:
        """What was read of a step's tokens; None where it was not looked at."""
        return next((digest for digest in self.digests if digest.step == step), None)
