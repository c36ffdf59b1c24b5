"""A run narrowed to environments is the run that would hold their rollouts alone."""

from __future__ import annotations

from pathlib import Path

import pytest
import written_logs

from board.analysis.step_tokens import read_step
from board.errors import UnreadableError
from board.index.discovery.discovered_runs import discover, location_of
from board.query.open_run import Follower, Run, open_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    root = tmp_path_factory.mktemp("narrowed")
    written_logs.native_run(root / "run")
    (info,) = discover(location_of(str(root))).runs
    return open_run(info)


def test_a_rollout_keeps_its_index_and_is_found_by_it(run: Run) -> None:
    found = run.where(envs=["code"])
    rows = found.of_step(20)
    assert rows["index"].tolist() == [1, 3, 5, 7]
    assert found.row(20, 7)["rollout_id"] == rows["rollout_id"].iloc[-1]
    assert read_step(found, 20).indices.tolist() == [1, 3, 5, 7]


def test_no_choice_is_the_run_itself_and_no_such_environment_has_no_steps(run: Run) -> None:
    assert run.where(envs=[]) is run
    assert run.where(envs=["mars"]).rollout_count == 0
    assert len(run.where(envs=["mars"]).steps) == 0


def test_another_choice_is_another_version(run: Run) -> None:
    versions = {run.where(envs=envs).version for envs in ([], ["code"], ["math"])}
    assert len(versions) == 3


@pytest.mark.parametrize("text", ["reward > 0.5 and env == code", 'response contains "1"'])
def test_a_filter_leaves_the_run_that_holds_these_rollouts_alone(run: Run, text: str) -> None:
    rows = run.rollouts
    holds = (rows["reward"] > 0.5) & (rows["env"] == "code")
    own = rows[rows["response"].str.contains("1") if "contains" in text else holds]
    found = run.where(text)
    assert 0 < len(own) < len(rows)
    assert found.rollout_count == len(own)
    assert found.rollouts["rollout_id"].tolist() == own["rollout_id"].tolist()
    assert found.steps["reward_mean"].tolist() == pytest.approx(
        own.groupby("step")["reward"].mean().tolist()
    )


def test_a_filter_and_environments_hold_together_in_either_order(run: Run) -> None:
    one, other = (
        run.where(envs=["code"]).where("reward > 0.5"),
        run.where("reward > 0.5").where(envs=["code"]),
    )
    assert one.rollouts["rollout_id"].tolist() == other.rollouts["rollout_id"].tolist()
    assert 0 < one.rollout_count < run.rollout_count
    assert (
        (one.envs, one.expression) == (other.envs, other.expression) == (("code",), "reward > 0.5")
    )


def test_a_filter_that_holds_for_none_has_no_steps(run: Run) -> None:
    assert len(run.where("reward > 1e9").steps) == 0


def test_a_second_filter_is_told_from_the_first(run: Run) -> None:
    one = run.where("reward > 0.5")
    both = one.where("env == code")
    assert both.version != run.where("env == code").version
    rows = run.rollouts
    own = rows[(rows["reward"] > 0.5) & (rows["env"] == "code")]
    assert both.rollouts["rollout_id"].tolist() == own["rollout_id"].tolist()


def test_a_damaged_index_is_an_error_once_and_then_made_again(tmp_path: Path) -> None:
    written_logs.native_run(tmp_path / "run")
    (info,) = discover(location_of(str(tmp_path))).runs
    found = Follower(persist=True).run(info)
    assert found.index_folder is not None
    for segment in found.index_folder.glob("rows-*.parquet"):
        segment.write_bytes(b"\0" * segment.stat().st_size)
    with pytest.raises(UnreadableError, match="reload"):
        assert found.where(envs=["code"]).steps.empty
    assert Follower(persist=True).run(info).where(envs=["code"]).rollout_count == 16
