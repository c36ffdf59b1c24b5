"""The table of steps against numpy, one step at a time."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from plain_steps import plain_steps
from read_formats import run_of

from board.core.metrics.definitions import base_name
from board.index.segments import Column
from board.query import database, steps
from board.query.columns import metrics_of

NAN = float("nan")


def steps_of(folder: Path, **columns: Any) -> pd.DataFrame:
    """The table of steps of a run of these rollouts, by column."""
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    known = ({name: v for name, v in row.items() if v is not None and v == v} for row in rows)
    return run_of(folder, [{"response": "r", **row} for row in known]).steps


@pytest.mark.parametrize("chunk", [60, 10_000])
@pytest.mark.parametrize("seed", range(2))
def test_every_statistic_of_a_step_is_numpys(tmp_path, seed, chunk, monkeypatch):
    monkeypatch.setattr(steps, "_CHUNK_VALUES", chunk)
    random = np.random.default_rng(seed)
    n = 200
    step = np.sort(random.choice([0, 10, 20, 35], n))
    columns = {
        "step": step.tolist(),
        "reward": random.choice([1.0, 0.5, 1e5, NAN, -3.25], n).tolist(),
        "level": np.where(step == 20, NAN, random.normal(size=n) * 1e-5).tolist(),
        "group_id": random.choice(["a", "b", "c", None], n).tolist(),
        "rank": random.integers(0, 3, n).tolist(),
    }
    result = steps_of(tmp_path, **columns)
    metrics = ["reward", "level"]
    expected = plain_steps(pd.DataFrame(columns), metrics)
    pd.testing.assert_frame_equal(result[[*expected]], expected, rtol=1e-9)


def test_what_a_step_has_no_value_for_is_missing_and_not_zero(tmp_path):
    result = steps_of(tmp_path, step=[1, 1, 2], reward=[NAN, NAN, 0.0])
    assert np.isnan(result.loc[0, ["reward_mean", "reward_q50", "reward_std"]].tolist()).all()
    assert result["reward_n"].tolist() == [0, 1]
    assert result["reward_mean"][1] == 0
    assert np.isnan(result["reward_std"][1])  # of one rollout
    assert "groups" not in result


def test_a_step_of_groups_of_one_has_no_share_of_groups_without_gradient(tmp_path):
    groups = {"group_id": ["a", "b", "a", "a"], "reward": [1.0, 1.0, 0.0, 0.0]}
    result = steps_of(tmp_path, step=[1, 1, 2, 2], **groups)
    assert np.isnan(result["zero_std_group_fraction"][0])
    assert result["zero_std_group_fraction"][1] == 1


def test_only_the_boards_own_means_lose_their_ending():
    assert base_name("k3_mean") == "k3"
    for name in ("reward", "reward_mean", "group_reward_mean"):
        assert base_name(name) == name


def test_numbers_that_tell_rollouts_apart_make_no_curve():
    ids = ("sample_idx", "taskId", "dataset.index", "request-uid", "id", "ID")
    curves = ("reward", "rewards.idx", "valid", "fluid", "idx_share", "tool_calls")
    stored = [Column(name, numbers=True) for name in (*ids, *curves)]
    assert {*metrics_of(stored)} == {*curves}


def test_steps_without_any_metric_are_counted(tmp_path):
    run = run_of(tmp_path, [{"type": "sample", "step": step, "messages": []} for step in (1, 1, 2)])
    narrowed = run.where("step >= 1")
    assert (run.metrics, dict(run.counts), dict(narrowed.counts)) == (
        (),
        {1: 2, 2: 1},
        {1: 2, 2: 1},
    )
    for table in (run.steps, narrowed.steps, narrowed.step_table(quantiles=True).to_pandas()):
        assert table["rollouts"].tolist() == [2, 1]


def test_quantiles_of_many_metrics_in_one_step_fit_into_the_memory(tmp_path, monkeypatch):
    values = np.random.default_rng(1).random((20_000, 40)).round(3)
    columns = {f"m{number}": column for number, column in enumerate(values.T)}
    frame = pd.DataFrame({"step": 1, "response": "r", **columns})
    run = run_of(tmp_path, frame.to_dict("records"))
    monkeypatch.setattr(database, "MEMORY_LIMIT", "24MB")
    monkeypatch.setattr(steps, "_CHUNK_VALUES", 80_000)
    with closing(database.Database()) as small:
        result = steps.steps_table(replace(run, rows=run.rows.in_database(small)))
    assert result["m39_q50"].to_pylist() == [pytest.approx(np.median(values[:, 39]))]
