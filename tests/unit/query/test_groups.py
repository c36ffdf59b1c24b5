"""Groups by SQL: which are right by a part of the reward, and the shares of each step."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from written_logs import write_lines

from board.core.groups.statistics import CONVENTIONS, Groups, Outcome, by_step, pass_at_k_by_step
from board.index.discovery.discovered_runs import discover
from board.query.advantages import FORMULAS
from board.query.groups import groups_of_run
from board.query.open_run import open_run

NAN = float("nan")


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def floats(*values: float) -> np.ndarray:
    return np.array(values, np.float64)


def groups_by(
    folder: Path, steps: np.ndarray, codes: np.ndarray, rewards: np.ndarray, part: np.ndarray
) -> Groups:
    """The groups of a run of these rollouts; a code below 0 is no group."""
    rows: list[dict[str, Any]] = []
    for step, code, reward, right in zip(
        *(values.tolist() for values in (steps, codes, rewards, part)), strict=True
    ):
        row = {"step": step, "response": "r"}
        row |= {"group_id": f"g{code}"} if code >= 0 else {}
        row |= {"reward": reward} if reward == reward else {}
        row |= {"rewards": {"correct": right}} if right == right else {}
        rows.append(row)
    write_lines(folder / "run" / "log.jsonl", rows)
    found = groups_of_run(open_run(discover(folder).runs[0]))
    assert found is not None
    return found


def test_every_convention_has_a_formula() -> None:
    assert FORMULAS.keys() == CONVENTIONS.keys()


@pytest.mark.parametrize("never", [0.0, -1.0])
def test_nothing_is_right_by_a_part_that_no_rollout_ever_earned(
    never: float, tmp_path: Path
) -> None:
    part, rewards = floats(never, never, never, NAN), floats(0.5, 0.5, 0.5, 1)
    groups = groups_by(tmp_path, ints(1, 1, 1, 1), ints(0, 0, 1, 1), rewards, part)
    assert groups.outcomes.tolist() == [Outcome.ALL_WRONG, Outcome.MIXED]
    assert (groups.right.tolist(), groups.graded.tolist()) == ([0, 0], [2, 1])
    assert by_step(groups).solve_rate.tolist() == [0]


def test_all_is_right_by_a_part_that_every_rollout_earned(tmp_path: Path) -> None:
    ones, rewards = floats(1, 1, 1, 1), floats(0, 0, 0, 1)
    groups = groups_by(tmp_path, ints(1, 1, 1, 1), ints(0, 0, 1, 1), rewards, ones)
    assert groups.outcomes.tolist() == [Outcome.ALL_RIGHT, Outcome.MIXED]


def test_groups_of_unequal_size_with_failed_rollouts_are_those_of_a_plain_loop(
    tmp_path: Path,
) -> None:
    dice = np.random.default_rng(5)
    n = 240
    steps = np.sort(dice.integers(0, 4, n))
    codes = dice.integers(-1, 9, n)
    right = dice.choice([0.0, 1.0, NAN], n, p=[0.5, 0.4, 0.1])
    rewards = np.where(dice.random(n) < 0.15, NAN, np.where(right == 1, 2.0, 0.5))
    rewards[codes == 3] = 0.5  # equal, but not all of them are right
    groups = groups_by(tmp_path, steps, codes, rewards, right)
    found = by_step(groups)
    for place, step in enumerate(found.steps.tolist()):
        shares = dict.fromkeys(Outcome, 0)
        chances: dict[int, list[float]] = {1: [], 4: []}
        rates, effective, members = [], 0, 0
        for code in range(9):
            own = [i for i in range(n) if steps[i] == step and codes[i] == code]
            scores = [rewards[i] for i in own if rewards[i] == rewards[i]]
            fitted_convention = [right[i] for i in own if right[i] == right[i]]
            members += len(own)
            if fitted_convention:
                rates.append(sum(fitted_convention) / len(fitted_convention))
            for k, of_k in chances.items():
                if len(fitted_convention) >= k:
                    subsets = [*combinations(fitted_convention, k)]
                    of_k.append(sum(any(one) for one in subsets) / len(subsets))
            if len(scores) < 2:
                continue
            if len(set(scores)) > 1:
                shares[Outcome.MIXED] += 1
                effective += len(scores)
            elif fitted_convention and all(fitted_convention):
                shares[Outcome.ALL_RIGHT] += 1
            elif fitted_convention and not any(fitted_convention):
                shares[Outcome.ALL_WRONG] += 1
            else:
                shares[Outcome.OTHER] += 1
        compared = sum(shares.values())
        assert found.groups[place] == compared
        assert found.all_right[place] == pytest.approx(shares[Outcome.ALL_RIGHT] / compared)
        assert found.all_wrong[place] == pytest.approx(shares[Outcome.ALL_WRONG] / compared)
        assert found.other[place] == pytest.approx(shares[Outcome.OTHER] / compared)
        assert found.zero_std[place] == pytest.approx(1 - shares[Outcome.MIXED] / compared)
        assert (found.effective[place], found.rollouts[place]) == (effective, members)
        assert found.solve_rate[place] == pytest.approx(np.mean(rates))
        for k, of_k in chances.items():
            _, values = pass_at_k_by_step(groups, k)
            assert values[place] == pytest.approx(np.mean(of_k))
