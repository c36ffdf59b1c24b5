"""Numbers of training are of training's rollouts, whatever evaluations the log holds beside them."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from plain_steps import rows_of_split
from read_formats import info_at, run_of
from written_logs import native_sample, write_lines

from board.analysis.findings import diagnose
from board.core.records import ReadOptions
from board.errors import ChoiceError
from board.query import splits
from board.query.groups import run_groups
from board.query.open_run import Follower, OpenOptions, Run
from board.query.prompts import Compared, comparable_rollouts, prompt_table, run_prompts
from board.query.splits import chosen_split, splits_of


def samples(steps: Iterable[int], split: str | None, *, reward: float = 0.0, count: int = 4):
    for step in steps:
        for index in range(count):
            row = native_sample(step, 0, index)
            del row["rank"]
            row["reward"] += reward
            row["rollout_id"] = f"{split}-{row['rollout_id']}"
            yield row if split is None else {**row, "split": split}


TRAINED = [*samples((1, 2, 3, 5, 6), None), *samples((7, 8), "train")]
EVALUATED = [*samples((0, 3, 4, 6), "eval", reward=50.0, count=2)]


def logged(*rows: dict[str, Any]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: row["step"])


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Run]:
    """A run of training alone, and the same with evaluations."""
    root = tmp_path_factory.mktemp("splits")
    alone = run_of(root / "alone", logged(*TRAINED))
    return alone, run_of(root / "both", logged(*TRAINED, *EVALUATED))


def assert_same_steps(one: Run, other: Run) -> None:
    pd.testing.assert_frame_equal(
        one.step_table(quantiles=True).to_pandas(), other.step_table(quantiles=True).to_pandas()
    )
    assert one.counts == other.counts
    assert one.metrics == other.metrics


def test_numbers_of_training_are_unmoved_by_evaluations(runs):
    alone, both = runs
    assert splits_of(both).keys() == {"train", "eval"}
    assert_same_steps(chosen_split(both), alone)
    assert (both.steps["reward_q100"] > 40).any()


def test_groups_and_prompts_of_training_are_unmoved_by_evaluations(runs):
    alone, train = runs[0], chosen_split(runs[1])
    mine, others = run_groups(train), run_groups(alone)
    np.testing.assert_array_equal(mine.by_step.zero_std, others.by_step.zero_std)
    np.testing.assert_array_equal(mine.groups.size, others.groups.size)
    ours, theirs = run_prompts(train), run_prompts(alone)
    np.testing.assert_array_equal(ours.keys, theirs.keys)
    both = [prompt_table(run, ours.keys.tolist()) for run in (train, alone)]
    assert repr(both[0]["rewards"].tolist()) == repr(both[1]["rewards"].tolist())


def test_a_step_of_evaluations_alone_is_no_step_of_training(runs):
    train, evaluated = chosen_split(runs[1]), chosen_split(runs[1], "eval")
    assert train.steps["step"].tolist() == [1, 2, 3, 5, 6, 7, 8]
    assert evaluated.steps["step"].tolist() == [0, 3, 4, 6]
    assert evaluated.steps["reward_mean"].min() > 40
    assert train.rollout_count + evaluated.rollout_count == runs[1].rollout_count


@pytest.mark.parametrize("name", ["train", "eval"])
def test_splits_and_environments_narrow_in_either_order_alike(runs, name):
    first = runs[1].where(split=name).where(envs=["code"])
    then = runs[1].where(envs=["code"]).where(split=name)
    rows = runs[1].rollouts
    own = rows[(rows["env"] == "code") & rows_of_split(rows["split"], name)]
    for run in (first, then):
        assert (run.envs, run.split) == (("code",), name)
        assert run.frame(("rollout_id",))["rollout_id"].tolist() == own["rollout_id"].tolist()
    pd.testing.assert_frame_equal(
        first.step_table(quantiles=True).to_pandas(),
        then.step_table(quantiles=True).to_pandas(),
        check_like=True,
    )


def test_the_group_of_a_rollout_that_names_no_split_is_found_among_trainings(runs):
    train = chosen_split(runs[1])
    own = train.row(1, 0)
    compared = Compared(None, 0, own["group_id"], None)
    rows, _ = comparable_rollouts(train, 1, compared, (), 10)
    same = train.of_step(1).query("index > 0")["group_id"] == own["group_id"]
    assert rows.set_index("index")["same_group"].to_dict() == dict(
        zip(same.index, same.tolist(), strict=True)
    )
    assert same.any()


def test_a_run_of_one_split_is_that_split(tmp_path):
    run = run_of(tmp_path, logged(*EVALUATED))
    assert chosen_split(run) is run
    assert [*splits_of(run)] == ["eval"]
    assert chosen_split(run, "eval") is run
    with pytest.raises(ChoiceError, match="no split 'train'; it has eval"):
        chosen_split(run, "train")


def test_a_run_that_names_no_split_is_of_training(tmp_path):
    run = run_of(tmp_path, logged(*samples((1, 2), None)))
    assert splits_of(run) == {"train": {1: 4, 2: 4}}
    assert chosen_split(run) is run


def test_a_split_called_all_is_not_all_of_them(tmp_path):
    run = run_of(tmp_path, logged(*samples((1, 2), "train"), *samples((1, 2), "all", count=2)))
    assert chosen_split(run, "all") is run
    assert chosen_split(run, splits.written("all")).rollout_count == 4
    for name in ("all", "=all", "==all", "train"):
        assert splits.meant(splits.written(name)) == name


def test_without_training_the_largest_split_is_shown(tmp_path):
    rows = logged(*samples((1, 2), "val_a", count=2), *samples((1, 2), "val_b", count=3))
    assert chosen_split(run_of(tmp_path, rows)).rollout_count == 6


def test_following_a_growing_log_gives_what_reading_it_anew_gives(tmp_path):
    rows = logged(*TRAINED, *EVALUATED)
    path = tmp_path / "run" / "log.jsonl"
    follower = Follower(persist=True)
    for end in (9, 30):  # without splits first, then in the middle of steps
        write_lines(path, rows[:end])
        info = info_at(tmp_path)
        grown = follower.run(info)
        assert grown.index_folder is not None
        anew = Follower(OpenOptions(ReadOptions(("<none>",)))).run(info)
        for name in splits_of(anew):
            assert_same_steps(grown.where(split=name), anew.where(split=name))


def test_findings_of_training_are_unmoved_by_evaluations(runs):
    alone, train = diagnose(runs[0]), diagnose(chosen_split(runs[1]))
    assert [f.rule for f in alone.findings] == [f.rule for f in train.findings]
    assert [f.value for f in alone.findings] == [f.value for f in train.findings]


def test_evaluation_by_one_rank_is_no_stopped_rank(tmp_path):
    rows = [native_sample(step, rank, 0) for step in range(1, 12) for rank in range(2)]
    own = [row | {"split": "eval"} for row in rows if row["rank"] == 0 or row["step"] == 1]
    run = run_of(tmp_path, logged(*rows, *own))
    alone = run_of(tmp_path / "other", logged(*own))
    assert "stopped_rank" in {f.rule for f in diagnose(alone).findings}
    assert "stopped_rank" not in {f.rule for f in diagnose(run.where(split="eval")).findings}
