"""The step table against numpy, one step at a time."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from board.core.metrics.definitions import is_zero_std
from board.index.step_statistics import QUANTILES, base_name, steps_table

NAN = float("nan")


def table(seed: int) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    n = 200
    frame = pd.DataFrame(
        {
            "step": random.choice([0, 10, 20, 35], n),
            "reward": random.choice([1.0, 0.5, 1e5, NAN, -3.25], n),
            "k3_mean": random.normal(size=n) * 1e-5,
            "group_id": random.choice(["a", "b", "c", None], n),
            "rank": random.integers(0, 3, n),
        }
    )
    frame.loc[frame["step"] == 20, "k3_mean"] = NAN
    return frame


@pytest.mark.parametrize("seed", range(5))
def test_every_statistic_of_a_step_is_numpys(seed):
    rollouts = table(seed)
    steps = steps_table(rollouts, ["reward", "k3_mean"])
    assert steps["step"].tolist() == [0, 10, 20, 35]
    for row in steps.to_dict("records"):
        of_step = rollouts[rollouts["step"] == row["step"]]
        assert row["rollouts"] == len(of_step)
        assert row["ranks"] == of_step["rank"].nunique()
        for stem, column in (("reward", "reward"), ("k3", "k3_mean")):
            values = of_step[column].dropna().to_numpy()
            assert row[f"{stem}_n"] == len(values)
            expected = {
                "mean": values.mean() if len(values) else NAN,
                "std": values.std(ddof=1) if len(values) > 1 else NAN,
                **{s: np.quantile(values, q) if len(values) else NAN for s, q in QUANTILES.items()},
            }
            for suffix, value in expected.items():
                np.testing.assert_allclose(
                    row[f"{stem}_{suffix}"], value, rtol=1e-9, err_msg=suffix
                )


@pytest.mark.parametrize("seed", range(5))
def test_the_share_of_groups_without_gradient_is_over_groups_that_can_be_compared(seed):
    rollouts = table(seed).iloc[:60]
    steps = steps_table(rollouts, ["reward"]).set_index("step")
    for step, of_step in rollouts.groupby("step"):
        groups = [
            g["reward"].to_numpy() for _, g in of_step.dropna(subset="group_id").groupby("group_id")
        ]
        known = [zero for zero in map(is_zero_std, groups) if zero is not None]
        assert steps.loc[step, "groups"] == len(groups)
        expected = np.mean(known) if known else NAN
        np.testing.assert_allclose(steps.loc[step, "zero_std_group_fraction"], expected)


def rows(**columns) -> pd.DataFrame:
    return pd.DataFrame(columns)


def test_the_spread_of_one_rollout_is_missing_and_not_zero():
    steps = steps_table(rows(step=[1], reward=[2.0]), ["reward"])
    assert np.isnan(steps["reward_std"][0])


def test_a_step_without_a_value_is_missing_and_not_zero():
    steps = steps_table(rows(step=[1, 1, 2], reward=[NAN, NAN, 0.0]), ["reward"])
    assert np.isnan(steps["reward_mean"][0])
    assert np.isnan(steps["reward_q50"][0])
    assert steps["reward_n"].tolist() == [0, 1]
    assert steps["reward_mean"][1] == 0


def test_steps_are_in_ascending_order_whatever_the_rows_order():
    assert steps_table(rows(step=[20, 3, 100, 3]), [])["step"].tolist() == [3, 20, 100]


def test_a_step_of_groups_of_one_has_no_share_of_groups_without_gradient():
    frame = rows(step=[1, 1, 2, 2], group_id=["a", "b", "a", "a"], reward=[1.0, 1, 0, 0])
    steps = steps_table(frame, ["reward"])
    assert np.isnan(steps["zero_std_group_fraction"][0])
    assert steps["zero_std_group_fraction"][1] == 1


def test_without_groups_there_is_no_column_of_groups():
    assert "groups" not in steps_table(rows(step=[1], reward=[1.0]), ["reward"])


def test_without_rollouts_there_are_no_steps():
    steps = steps_table(pd.DataFrame({"step": np.array([], np.int64)}), [])
    assert len(steps) == 0
    assert list(steps.columns) == ["step", "rollouts"]


def test_only_the_boards_own_means_lose_their_ending():
    assert base_name("k3_mean") == "k3"
    assert base_name("reward") == "reward"
    assert base_name("reward_mean") == "reward_mean"
    assert base_name("group_reward_mean") == "group_reward_mean"
