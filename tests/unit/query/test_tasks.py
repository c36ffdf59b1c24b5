"""Tasks and environments by SQL are those of all rollouts, and no interval is of too few of them."""

import math
from itertools import count

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from read_formats import run_of

from board.query.environments import environment_means
from board.query.tasks import tasks_of

VALUES = st.none() | st.sampled_from([0.0, 1.0])
PARTS = st.none() | st.sampled_from([0.0, 0.25, 1.0])


def rollouts(values):
    one = st.tuples(st.none() | st.integers(0, 4), st.integers(0, 2), values)
    return st.lists(one, min_size=1, max_size=30)


@pytest.fixture(scope="module")
def run_with(tmp_path_factory):
    """Makes the run of rollouts of one step: number of the group, of the environment, reward."""
    folders = count()

    def made(own):
        rows = [
            {"step": 3, "prompt": f"q\np{group}", "response": "r", "env": f"e{env}"}
            | ({} if group is None else {"group_id": f"g{group}"})
            | ({} if reward is None else {"reward": reward})
            for group, env, reward in own
        ]
        return run_of(tmp_path_factory.mktemp(f"run{next(folders)}"), rows)

    return made


def frame_of(own):
    return pd.DataFrame(own, columns=["group", "env", "reward"]).astype({"reward": float})


@given(rollouts(VALUES) | rollouts(PARTS))
@settings(max_examples=25, deadline=None)
def test_every_rollout_with_a_group_is_in_one_task(run_with, own):
    rows = frame_of(own)
    tasks = tasks_of(run_with(own))
    if tasks is None or not tasks.by_group:
        assert rows["reward"].isna().all() or rows["group"].isna().all()
        return
    assert tasks.table["rollouts"].sum() + tasks.without == len(rows)
    assert tasks.without == rows["group"].isna().sum()
    by_group = rows.dropna(subset=["group"]).groupby("group")["reward"]
    for one in tasks.table.itertuples():
        values = by_group.get_group(int(one.task[1:]))
        assert one.scored == values.count()
        assert math.isclose(one.mean, values.mean()) or math.isnan(values.mean())
        assert np.isnan(one.low) == np.isnan(one.high)
        if values.count() < 2:
            assert np.isnan(one.low)
        elif not np.isnan(one.low):
            assert one.low <= one.mean <= one.high
    means = tasks.table["mean"].to_numpy()
    known = means[np.isfinite(means)]
    assert (np.diff(known) >= 0).all()
    assert np.isfinite(means[: len(known)]).all()


@given(rollouts(VALUES) | rollouts(PARTS))
@settings(max_examples=25, deadline=None)
def test_the_mean_of_an_environment_is_that_of_its_rollouts_with_a_value(run_with, own):
    rows, run = frame_of(own), run_with(own)
    if "reward" not in run.metrics:
        assert rows["reward"].isna().all()
        return
    table = environment_means(run)
    assert table["rollouts"].sum() == len(rows)
    for one in table.itertuples():
        values = rows["reward"][rows["env"] == int(one.env[1:])]
        assert one.n == values.count()
        assert math.isclose(one.mean, values.mean(), abs_tol=1e-12) or math.isnan(values.mean())
        if one.n < 2:
            assert np.isnan([one.low, one.high]).all()
        elif not np.isnan(one.low):
            assert one.low <= one.mean + 1e-12
            assert one.mean <= one.high + 1e-12


def test_tasks_without_a_group_are_told_by_their_prompts(tmp_path):
    rows = [
        {"step": 0, "prompt": f"p{n % 2}", "response": "r", "reward": float(n % 2)}
        for n in range(4)
    ]
    tasks = tasks_of(run_of(tmp_path, rows))
    assert not tasks.by_group
    assert tasks.table["prompt"].tolist() == ["p0", "p1"]
    assert tasks.table["mean"].tolist() == [0.0, 1.0]


def test_pass_rates_are_over_the_tasks_with_so_many_tries(tmp_path):
    rewards = {"a": [0, 1], "b": [0, 0], "c": [1]}
    rows = [
        {"step": 0, "prompt": name, "group_id": name, "response": "r", "reward": float(reward)}
        for name, own in rewards.items()
        for reward in own
    ]
    assert tasks_of(run_of(tmp_path, rows)).pass_rates() == {1: (0.5, 3), 2: (0.5, 2)}
