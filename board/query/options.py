"""How a run is opened, and the columns that are made for a log that lacks them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final

from board.core.metrics.reward_sum import RewardSum
from board.core.records import ReadOptions
from board.index.segments import Column
from board.query.columns import prompt_as_group_sql, reward_sum_sql


@dataclass(frozen=True, slots=True)
class OpenOptions:
    """max_per_step: at most so many rollouts of each step are shown (None: all). group_by_prompt: where
    the log has no group_id, rollouts of a step with equal prompts are a group. reward: what it is made of
    where the log has its parts alone (None: their sum, where the trainer's reward agrees).
    """

    read: ReadOptions = field(default_factory=ReadOptions)
    max_per_step: int | None = None
    group_by_prompt: bool = False
    reward: RewardSum | None = None


@dataclass(frozen=True, slots=True)
class RewardSource:
    """How the reward is got of a run whose log has none. parts: names of what there is of it, in the
    order of the log. total: what the reward is, None where nothing says so. summary: in a sentence.
    """

    parts: tuple[str, ...]
    total: RewardSum | None
    summary: str


@dataclass(frozen=True, slots=True)
class Derived:
    """Columns of a run that its log does not have: groups of equal prompts, and a sum of rewards."""

    group_by_prompt: bool = False
    reward: RewardSum | None = None

    def lacking_in(self, columns: Sequence[Column]) -> Derived:
        """Those of them that a log of these columns lacks, and that can be made of them."""
        names = {column.name for column in columns}
        by_prompt = self.group_by_prompt and "group_id" not in names and "prompt" in names
        return Derived(by_prompt, None if "reward" in names else self.reward)

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns themselves."""
        groups = (Column("group_id", texts=True, words=True),) if self.group_by_prompt else ()
        return groups if self.reward is None else (*groups, Column("reward", numbers=True))

    def sql(self, columns: Sequence[Column], names: Collection[str]) -> str:
        """What follows the other columns of a SELECT. columns: of the log; names: as stored."""
        sql = f", {prompt_as_group_sql(names)} AS group_id" if self.group_by_prompt else ""
        if self.reward is not None:
            sql += f", {reward_sum_sql(self.reward, columns, names)} AS reward"
        return sql


AS_LOGGED: Final = Derived()
"""None of them."""
