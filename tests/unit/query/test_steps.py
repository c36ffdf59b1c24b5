"""The table of steps against numpy, one step at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from plain_steps import plain_steps

from board.core.metrics.definitions import base_name
from board.index import segments
from board.index.discovery.discovered_runs import RunInfo
from board.index.discovery.run_info import LogFile
from board.index.manifest import FileState, Manifest
from board.index.reading.batch import put_rows, tallies_of
from board.index.storage import MemoryStorage
from board.query import steps
from board.query.open_run import indexed_run, with_steps

NAN = float("nan")


def steps_of(rows: pd.DataFrame) -> pd.DataFrame:
    """The table of steps of a run of these rollouts."""
    plain = rows.astype(object).where(rows.notna(), None).to_dict("records")
    table = segments.table_of(
        [
            {"file": 0, "line": line, "offset": line, "size": 1}
            | {str(name): value for name, value in row.items() if value is not None}
            for line, row in enumerate(plain, 1)
        ]
    )
    storage = MemoryStorage()
    state = FileState(0, "x.jsonl", "native", size=1, consumed=1, tallies=tallies_of(table))
    stale = frozenset(rows["step"].tolist())
    manifest = Manifest("k", 1, (state,), (put_rows(storage, table),), stale=stale, total=1)
    log = LogFile(Path("x.jsonl"), "native", 1, 0, 0)
    info = RunInfo("made", Path(), (log,), (), Path())
    storage.commit(with_steps(storage, manifest, info))
    return indexed_run(storage, info).steps


def rows(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame(columns)


@pytest.mark.parametrize("chunk", [60, 10_000])
@pytest.mark.parametrize("seed", range(3))
def test_every_statistic_of_a_step_is_numpys(seed, chunk, monkeypatch):
    monkeypatch.setattr(steps, "_CHUNK_ROLLOUTS", chunk)
    random = np.random.default_rng(seed)
    n = 200
    rollouts = rows(
        step=random.choice([0, 10, 20, 35], n),
        reward=random.choice([1.0, 0.5, 1e5, NAN, -3.25], n),
        k3_mean=random.normal(size=n) * 1e-5,
        group_id=random.choice(["a", "b", "c", None], n),
        rank=random.integers(0, 3, n),
    )
    rollouts.loc[rollouts["step"] == 20, "k3_mean"] = NAN
    expected = plain_steps(rollouts, ["reward", "k3_mean"])
    pd.testing.assert_frame_equal(steps_of(rollouts), expected, rtol=1e-9)


def test_the_spread_of_one_rollout_is_missing_and_not_zero():
    assert np.isnan(steps_of(rows(step=[1], reward=[2.0]))["reward_std"][0])


def test_a_step_without_a_value_is_missing_and_not_zero():
    found = steps_of(rows(step=[1, 1, 2], reward=[NAN, NAN, 0.0]))
    assert np.isnan(found["reward_mean"][0])
    assert np.isnan(found["reward_q50"][0])
    assert found["reward_n"].tolist() == [0, 1]
    assert found["reward_mean"][1] == 0


def test_steps_are_in_ascending_order_whatever_the_order_of_the_rows():
    assert steps_of(rows(step=[20, 3, 100]))["step"].tolist() == [3, 20, 100]


def test_a_step_of_groups_of_one_has_no_share_of_groups_without_gradient():
    found = steps_of(
        rows(step=[1, 1, 2, 2], group_id=["a", "b", "a", "a"], reward=[1.0, 1.0, 0.0, 0.0])
    )
    assert np.isnan(found["zero_std_group_fraction"][0])
    assert found["zero_std_group_fraction"][1] == 1


def test_without_groups_there_is_no_column_of_groups():
    assert "groups" not in steps_of(rows(step=[1], reward=[1.0]))


def test_only_the_boards_own_means_lose_their_ending():
    assert base_name("k3_mean") == "k3"
    assert base_name("reward") == "reward"
    assert base_name("reward_mean") == "reward_mean"
    assert base_name("group_reward_mean") == "group_reward_mean"
