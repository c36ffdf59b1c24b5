"""The reward of logs that have its parts alone: their sum where the trainer says so, else a choice."""

import json
import math
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from read_formats import run_at, run_of, sample_run
from written_logs import write_lines

from board.analysis.rollout import open_rollout
from board.core.metrics.reward_sum import RewardSum, reward_from_text, reward_text
from board.query.open_run import Follower, OpenOptions, Run

CASE = Path(__file__).parents[4] / "shared/cases/reports/05_sparse_none_rewards/run"
PARTS = [
    {"right": 1.0, "form": 0.5},
    {"right": 0.0, "form": 0.25},
    {"right": 1.0, "form": None},
    {"right": None, "form": 1.0},
]
WEIGHTS = {"right": 1.0, "form": 2.0}


def total(parts: dict[str, float | None], weights: dict[str, float]) -> float | None:
    scored = [value * weights[name] for name, value in parts.items() if value is not None]
    return sum(scored) if scored else None


def rows(steps: int = 3) -> list[dict[str, object]]:
    return [
        {"step": step, "response": f"{step} {place}", "rewards": parts}
        for step in range(steps)
        for place, parts in enumerate(PARTS)
    ]


def run_with(folder: Path, trainer: list[float], options: OpenOptions | None = None) -> Run:
    """A run of `rows` beside a trainer's reward of each step."""
    metrics = [{"step": step, "reward": value} for step, value in enumerate(trainer)]
    write_lines(folder / "run" / "metrics.jsonl", metrics)
    return run_of(folder, rows(len(trainer)), options)


def mean(weights: dict[str, float]) -> float:
    return sum(total(parts, weights) or 0.0 for parts in PARTS) / len(PARTS)


ONES = dict.fromkeys(WEIGHTS, 1.0)


def test_the_reward_is_the_sum_of_its_parts_where_the_trainers_reward_agrees(tmp_path):
    run = run_with(tmp_path, [mean(ONES)] * 3)
    assert run.reward is not None
    assert run.reward.summary == (
        "reward is the sum of the parts right and form; it agrees with the trainer's reward at 3 of 3 "
        "steps"
    )
    assert run.of_step(1)["reward"].tolist() == [total(parts, ONES) for parts in PARTS]
    assert run.steps["reward_mean"].tolist() == pytest.approx([mean(ONES)] * 3)
    (note,) = [one for one in run.problems if one.field == "reward"]
    assert note.severity == "note"
    assert note.reason == run.reward.summary


def test_without_a_trainers_reward_or_with_another_one_there_is_none(tmp_path):
    for folder, trainer in (("none", []), ("other", [7.0, 8.0, 9.0])):
        run = run_with(tmp_path / folder, trainer) if trainer else run_of(tmp_path / folder, rows())
        assert run.reward is not None
        assert run.reward.total is None
        assert "reward" not in run.columns
        assert ("0 of 3 steps" in run.reward.summary) == bool(trainer)


def test_a_chosen_reward_is_that_of_every_question(tmp_path):
    chosen = OpenOptions(reward=RewardSum((*WEIGHTS.items(),)))
    run = run_with(tmp_path, [mean(ONES)] * 3, chosen)
    expected = [total(parts, WEIGHTS) for parts in PARTS]
    assert run.of_step(0)["reward"].tolist() == expected
    assert run.where("reward > 1.5").rollout_count == 3 * sum((one or 0) > 1.5 for one in expected)
    assert "cause" in run.columns
    assert [open_rollout(run, 2, n).record.scores["reward"] for n in range(4)] == expected
    assert run.reward is not None
    assert "right + 2 × form, as chosen; it agrees with the trainer's reward at 0" in (
        run.reward.summary
    )


def test_a_rollout_without_any_part_has_no_reward(tmp_path):
    lines = [*rows(1), {"step": 0, "response": "x", "rewards": {"right": None, "form": None}}]
    run = run_of(tmp_path, lines, OpenOptions(reward=RewardSum((("right", 1.0), ("form", 1.0)))))
    assert math.isnan(run.of_step(0)["reward"].iloc[-1])


def test_parts_that_a_run_lacks_are_said_and_not_taken(tmp_path):
    run = run_with(tmp_path, [mean(ONES)] * 2, OpenOptions(reward=RewardSum((("wrong", 1.0),))))
    assert run.reward is not None
    assert run.reward.summary.startswith("the run has no part wrong of the reward; reward is the")
    assert run.reward.total == RewardSum((("right", 1.0), ("form", 1.0)))


def test_recorded_weights_count(tmp_path):
    for place, weights in enumerate(([1.0, 2.0], {"form": 2.0})):
        folder = tmp_path / str(place)
        settings = {"config": {"reward_weights": weights}}
        write_lines(folder / "run" / "run-1.json", [settings])
        run = run_with(folder, [mean(WEIGHTS)] * 2)
        assert run.reward is not None
        assert run.reward.total == RewardSum((("right", 1.0), ("form", 2.0)))


def test_a_recorded_reward_is_never_replaced(tmp_path):
    lines = [one | {"reward": 5.0} for one in rows(1)]
    run = run_of(tmp_path, lines, OpenOptions(reward=RewardSum((("right", 1.0),))))
    assert run.reward is None
    assert set(run.of_step(0)["reward"]) == {5.0}


def test_the_reward_comes_when_the_trainer_writes_its_own(tmp_path):
    follower, info = Follower(), run_of(tmp_path, rows()).info
    assert "reward" not in follower.run(info).columns
    values = [{"step": step, "reward": mean(ONES)} for step in range(3)]
    write_lines(tmp_path / "run" / "metrics.jsonl", values)
    info = run_at(tmp_path / "run").info
    assert "reward" in follower.run(info).columns


def test_the_bundled_run_of_trl_has_its_reward():
    run = sample_run("grpo_calculator_trl")
    assert run.reward is not None
    assert run.reward.summary.endswith("at 60 of 60 steps")
    assert run.rollouts["reward"].notna().all()


def test_what_trl_logs_beside_rewards_is_no_part_where_the_trainer_names_the_parts(tmp_path):
    folder = tmp_path / "run"
    source = Path(str(sample_run("grpo_calculator_trl").info.path))
    shutil.copytree(source, folder)
    import pyarrow.parquet as pq

    for path in folder.glob("completions/*.parquet"):
        table = pq.read_table(path)
        pq.write_table(table.append_column("seconds", table["advantage"]), path)
    run = run_at(folder)
    assert run.reward is not None
    assert run.reward.total is not None
    assert {name for name, _ in run.reward.total.parts} == {"correct", "tool_errors"}


@pytest.mark.skipif(not CASE.exists(), reason="needs the shared cases")
def test_parts_that_abstain_are_left_out_of_the_sum():
    run = run_at(CASE)
    rollouts = run.rollouts
    parts = rollouts[["rewards.math_reward", "rewards.code_reward"]]
    assert (rollouts["reward"] == parts.sum(axis=1)).all()
    assert run.steps.set_index("step")["rewards.code_reward_n"].to_dict().get(3, 0) == 0
    assert "unscored" not in set(rollouts["cause"].dropna())


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(
    lambda name: name == name.strip()
)


@given(st.dictionaries(names, st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_a_choice_of_the_reward_is_read_as_it_was_written(parts):
    chosen = RewardSum((*parts.items(),))
    assert reward_from_text(reward_text(chosen)) == chosen


@pytest.mark.parametrize("text", ["a:nan", "a:inf", " , "])
def test_a_reward_that_is_none_is_refused(text):
    with pytest.raises(ValueError, match="expected parts"):
        reward_from_text(text)


def test_a_weight_may_be_left_out():
    assert reward_from_text("a:b,c:0.5") == RewardSum((("a:b", 1.0), ("c", 0.5)))
    assert reward_from_text("") is None
    assert json.dumps(reward_text(None)) == '""'
