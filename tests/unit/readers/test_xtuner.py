from __future__ import annotations

import json

import pandas as pd
import pytest
from read_formats import DATA, opened, reasons, records, run_at

from board.store.discovery import discover

FOLDER = DATA / "xtuner" / "exp"
FILES = {
    (0, "eval"): "eval_rollout/eval_rollout_0.jsonl",
    (1, "train"): "train_rollout/train_rollout_1.jsonl",
    (2, "eval"): "eval_rollout/eval_rollout_2.jsonl",
    (2, "train"): "train_rollout/train_rollout_2.jsonl",
    (10, "train"): "train_rollout/train_rollout_10.jsonl",
}


def plain(name: str) -> list[dict]:
    """All lines but the summary."""
    lines = (FOLDER / name).read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in lines if line][1:]


@pytest.fixture(scope="module")
def run():
    return run_at(FOLDER)


def test_every_row_and_value_is_that_of_the_files(run):
    found = records(run)
    for (step, split), name in FILES.items():
        own = [r for r in found if (r.step, r.ids["split"]) == (step, split)]
        for record, row in zip(own, plain(name), strict=True):
            assert record.texts["response"] == row["response"]
            assert record.texts["ground_truth"] == row["label"]
            assert record.texts["finish_reason"] == row["finish_reason"]
            assert record.texts["prompt"].endswith(row["prompt"][-1]["content"])
            assert record.ids["rollout_id"] == str(row["rollout_id"])
            assert record.ids["group_id"] == str(row["group_id"])
            assert record.ids["env"] == row["task_name"]
            assert record.scores["reward"] == row["reward"]
            for part in {"acc", "format"} & row["reward_payload"].keys():
                assert record.scores[f"rewards.{part}"] == row["reward_payload"][part]
            for key in ("status", "data_source", "prompt_len", "response_len"):
                assert record.extras[key] == row[key]
            assert record.extras.get("error") == row["error_msg"]


def test_the_summary_is_no_rollout_and_no_problem(run):
    assert run.rollout_count == sum(len(plain(name)) for name in FILES.values()) == 16
    assert reasons(run) == []


def test_steps_have_the_means_that_the_files_own_summaries_say(run):
    table = run.steps.set_index("step")
    assert table.index.tolist() == [0, 1, 2, 10]
    for step in (1, 10):
        head = (FOLDER / FILES[(step, "train")]).read_text(encoding="utf-8").split("\n")[0]
        assert table.loc[step, "reward_mean"] == json.loads(head)["reward_mean"]
    both = [r["reward"] for split in ("train", "eval") for r in plain(FILES[(2, split)])]
    assert table.loc[2, "reward_mean"] == pd.Series(both).mean()


def test_an_agents_conversation_is_shown_with_its_tool_call(run):
    rollout = next(r for r in opened(run) if r.record.messages)
    agent = rollout.line["agent"]
    assert list(rollout.record.messages) == agent["messages"]
    assert rollout.record.extras["agent"]["tool_turns"] == agent["tool_turns"] == 1
    assert sum(bool(r.messages) for r in records(run)) == 3


def test_older_files_of_four_keys_and_no_summary_are_read():
    folder = DATA / "xtuner" / "older"
    content = (folder / "train_rollout_0.jsonl").read_text("utf-8")
    rows = [json.loads(line) for line in content.split("\n") if line]
    found = records(run_at(folder))
    assert len(found) == len(rows) == 2
    for record, row in zip(found, rows, strict=True):
        assert (record.step, record.scores["reward"]) == (0, row["reward"])
        said = (record.texts["prompt"], record.texts["response"], record.texts["ground_truth"])
        assert said == (row["prompt"], row["response"], row["label"])


def test_four_keys_under_another_name_are_not_taken_for_a_rollout(tmp_path):
    old = DATA / "xtuner" / "older" / "train_rollout_0.jsonl"
    (tmp_path / "data.jsonl").write_bytes(old.read_bytes())
    assert discover(tmp_path).runs == ()


def test_a_bare_nan_in_a_payload_costs_only_itself(tmp_path):
    row = {"response": "r", "reward": 1.0, "reward_payload": {"score": 1.0, "acc": float("nan")}}
    path = tmp_path / "train_rollout_4.jsonl"
    path.write_text(json.dumps({"reward_mean": float("nan")}) + "\n" + json.dumps(row) + "\n")
    (record,) = records(run_at(tmp_path))
    assert record.scores == {"reward": 1.0}
