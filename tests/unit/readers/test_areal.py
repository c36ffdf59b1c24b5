from __future__ import annotations

import json
import math

import pandas as pd
import pytest
from read_formats import DATA, records, run_at

TRIAL = DATA / "areal" / "trial0"
FILES = {
    0: ("rollout/0/0", "rollout/0/1"),
    1: ("rollout/1/2",),
    2: ("eval-rollout/2/0", "eval-rollout/2/1", "rollout/2/2", "rollout/2/3"),
    10: ("rollout/10/11",),
}


def plain() -> list[dict]:
    """All rows by step and file, with the split of their folder."""
    rows = []
    for name in (name for names in FILES.values() for name in names):
        split = "eval" if name.startswith("eval") else "train"
        content = (TRIAL / f"{name}.jsonl").read_text("utf-8")
        rows += [{**json.loads(line), "split": split} for line in content.split("\n") if line]
    return rows


@pytest.fixture(scope="module")
def run():
    return run_at(TRIAL)


def test_every_row_and_value_is_that_of_the_files(run):
    for record, row in zip(records(run), plain(), strict=True):
        assert record.step == row["tail_version"]
        assert record.texts == {"prompt": row["prompt"], "response": row["completion"]}
        reward = None if math.isnan(row["reward"]) else row["reward"]
        assert record.scores.get("reward") == reward
        assert record.ids["group_id"] == str(row["task_id"])
        assert record.ids["rollout_id"] == f"{row['task_id']}-{row['sample_idx']}"
        assert record.ids["split"] == row["split"]
        for key in ("seqlen", "prompt_len", "tail_version"):
            assert record.extras[key] == row[key]


def test_steps_have_the_means_of_the_files(run):
    frame = pd.DataFrame(plain())
    assert run.steps["step"].tolist() == [0, 1, 2, 10]
    by_step = frame.groupby("tail_version")
    assert run.steps["rollouts"].tolist() == by_step.size().tolist()
    assert run.steps["reward_mean"].tolist() == by_step["reward"].mean().tolist()


def test_a_version_that_the_prompts_tokens_have_is_no_policys(run):
    heads = [row["head_version"] for row in plain()]
    assert {-1, 0, 9} <= set(heads)
    expected = [None if head == -1 else head for head in heads]
    assert [r.ids.get("policy_version") for r in records(run)] == expected


def test_a_file_elsewhere_has_its_records_step(read_line):
    record = read_line("areal", plain()[-1], path="copy.jsonl")
    assert (record.step, record.ids["split"]) == (10, "train")


def test_without_a_tail_version_the_step_is_the_folders(read_line):
    row = {k: v for k, v in plain()[0].items() if k != "tail_version"}
    assert read_line("areal", row, path="rollout/7/0.jsonl").step == 7
