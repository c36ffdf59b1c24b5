"""Groups made of all rollouts at once: what SQL is compared with."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pandas as pd

from board.core.arrays import FloatArray, IntArray
from board.core.groups.right import right_rule
from board.core.groups.statistics import Groups, outcomes_of


@dataclass(frozen=True)
class PlainGroups(Groups):
    """of_row: [rollouts] the group of each rollout, -1 where it has none."""

    of_row: IntArray


def groups_of(
    steps: IntArray,
    codes: IntArray,
    rewards: FloatArray,
    right: FloatArray | None = None,
) -> PlainGroups:
    """The groups of a run or of a step.

    steps, codes: [n] step and group of each rollout; a code below 0 is no group. rewards: [n], NaN
    where not scored. right: [n] 1 where the rollout is right, 0 where not, NaN where not judged; by
    default `is_right(rewards)`. All-right and all-wrong are told by `right`; where rewards are all
    equal and only some rollouts are right, the outcome is OTHER. Equality is exact, where TRL's
    frac_reward_zero_std lets the standard deviation be up to 1e-8 (torch.isclose, trl@f2cd577).
    """
    assessed = is_right(rewards) if right is None else right
    rows = pd.DataFrame({"step": steps, "code": codes, "reward": rewards, "right": assessed})
    grouped = rows[codes >= 0].groupby(["step", "code"])
    of_row = np.full(len(rows), -1, np.int64)
    of_row[codes >= 0] = grouped.ngroup()
    size, reward, solved = grouped.size(), grouped["reward"], grouped["right"]
    scored, graded = reward.count().to_numpy(np.int64), solved.count().to_numpy(np.int64)
    right_sums = solved.sum(min_count=1).to_numpy(np.float64)
    equal = (scored >= 2) & (reward.min() == reward.max()).to_numpy(bool)
    return PlainGroups(
        size.index.get_level_values("step").to_numpy(np.int64),
        size.index.get_level_values("code").to_numpy(np.int64),
        size.to_numpy(np.int64),
        scored,
        right_sums,
        graded,
        outcomes_of(scored, equal, graded, right_sums),
        reward.mean().to_numpy(np.float64),
        of_row,
    )


def is_right(rewards: FloatArray) -> FloatArray:
    """[n] 1 where a reward is right by the rule that all of them give, 0 where it is wrong, NaN where it
    is not judged or not scored.
    """
    known = rewards[np.isfinite(rewards)]
    rule = right_rule("reward", Counter(known.tolist()), len(known))
    result = np.full(len(rewards), np.nan)
    result[rewards >= rule.right_from] = 1.0
    result[rewards <= rule.wrong_to] = 0.0
    return result
