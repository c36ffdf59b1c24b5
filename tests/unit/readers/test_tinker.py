from __future__ import annotations

import json
import math

import pandas as pd
import pytest
from read_formats import DATA, records, run_at

from board.store.discovery import discover

RUN = DATA / "tinker" / "run"
FILES = (
    "iteration_000000/train",
    "iteration_000002/eval_aime",
    "iteration_000002/eval_gsm8k",
    "iteration_000002/train",
    "iteration_000010/train",
)


def plain() -> list[dict]:
    contents = [(RUN / f"{name}_rollout_summaries.jsonl").read_text("utf-8") for name in FILES]
    return [json.loads(line) for text in contents for line in text.split("\n") if line]


@pytest.fixture(scope="module")
def run():
    return run_at(RUN)


def test_every_row_and_value_is_that_of_the_files(run):
    for record, row in zip(records(run), plain(), strict=True):
        assert record.step == row["iteration"]
        assert record.ids["split"] == row["split"].split("/")[0]
        reward = None if math.isnan(row["total_reward"]) else row["total_reward"]
        assert record.scores.get("reward") == reward
        assert record.ids.get("policy_version") == row["sampling_client_step"]
        assert record.ids.get("env") == (", ".join(row["tags"]) or None)
        assert record.extras["final_reward"] == row["final_reward"]
        assert record.extras["final_ob_len"] == row["final_ob_len"]
        assert json.dumps(record.extras["steps"]) == json.dumps(row["steps"])
        assert record.extras["turns"] == len(row["steps"])
        assert record.extras["ac_len"] == sum(step["ac_len"] for step in row["steps"])
        assert record.extras["ob_len"] == row["steps"][0]["ob_len"]
        for name, value in row["trajectory_metrics"].items():
            assert record.extras[f"metrics.{name}"] == value
        assert record.texts.get("prompt") is record.texts.get("response") is None


def test_steps_have_the_means_of_the_files(run):
    by_step = pd.DataFrame(plain()).groupby("iteration")
    assert run.steps["step"].tolist() == list(by_step.groups) == [0, 2, 10]
    assert run.steps["rollouts"].tolist() == by_step.size().tolist()
    assert run.steps["reward_mean"].tolist() == by_step["total_reward"].mean().tolist()


def test_groups_of_two_evaluations_are_never_one(run):
    ids = run.rollouts[run.rollouts["step"] == 2][["group_id", "rollout_id"]]
    expected = [
        (f"{name}-{row['group_idx']}" if name else str(row["group_idx"]), row["traj_idx"])
        for row in plain()
        if row["iteration"] == 2
        for name in [row["split"].partition("/")[2]]
    ]
    assert ids["group_id"].tolist() == [group for group, _ in expected]
    assert ids["rollout_id"].tolist() == [f"{group}-{index}" for group, index in expected]


def test_metrics_of_steps_are_means_over_the_steps_that_have_them(read_line):
    steps = [
        {"ac_len": 4, "metrics": {"valid": 1.0}},
        {"ac_len": 2, "metrics": {"valid": 0.0, "late": 3, "stop/max_sampled_tokens": 1.0}},
    ]
    row = {**plain()[0], "steps": steps}
    record = read_line("tinker", row)
    metrics = {k: v for k, v in record.extras.items() if k.startswith("step_metrics.")}
    assert metrics == {"step_metrics.valid": 0.5, "step_metrics.late": 3.0}
    assert record.texts["finish_reason"] == "max_sampled_tokens"
    assert record.scores["is_truncated"] == 1.0


def test_lengths_that_are_no_numbers_are_not_recorded(read_line):
    row = {**plain()[0], "steps": [{"ac_len": 4}, {"ac_len": None}]}
    assert "ac_len" not in read_line("tinker", row).extras


def test_why_a_rollout_ended_tells_whether_it_was_cut_off(run):
    cut = [r.scores.get("is_truncated") for r in records(run)]
    reasons = [row["steps"][-1]["metrics"] for row in plain()]
    assert cut == [float("stop/max_tokens" in metrics) for metrics in reasons]


def test_without_an_iteration_the_step_is_the_folders(read_line):
    row = {k: v for k, v in plain()[0].items() if k != "iteration"}
    path = "iteration_000007/train_rollout_summaries.jsonl"
    assert read_line("tinker", row, path=path).step == 7


def test_metrics_and_logtrees_are_passed_over():
    found = discover(RUN)
    left_out = {problem.path for info in found.runs for problem in info.left_out}
    assert left_out | {p.path for p in found.left_out} == {"metrics.jsonl"}
