from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from read_formats import DATA, assert_fields, json_lines, records, run_at

from board.errors import RecordError
from board.formats.base import LineContext
from board.formats.frameworks.verl import VerlReader

FOLDER = DATA / "verl"


def plain(path: str) -> list[dict]:
    return json_lines(FOLDER / path)


def test_every_row_is_that_of_the_file_and_steps_are_in_natural_order():
    run = run_at(FOLDER / "v0")
    expected = [*plain("v0/2.jsonl"), *plain("v0/10.jsonl")]
    names = {"prompt": "input", "response": "output", "rollout_id": "request_id", "reward": "score"}
    assert_fields(records(run), expected, **names)
    assert run.counts == {2: 4, 10: 4}
    assert run.steps["reward_mean"].tolist() == [0.75, 0.25]


def test_numbers_and_flags_written_as_text_are_numbers_and_flags():
    run = run_at(FOLDER / "text")
    assert run.rollouts["reward"].tolist() == [1.0, 0.25, 0.25, 0.25]
    assert run.rollouts["acc"].tolist() == [0.0, 1.0, 0.0, 1.0]
    assert run.rollouts["num_turns"].tolist() == [2.0] * 4
    truths = [r.texts.get("ground_truth") for r in records(run)]
    assert truths == [row["gts"] for row in plain("text/3.jsonl")] == ["0", "0", None, "1"]


def test_a_uid_names_the_group():
    run, expected = run_at(FOLDER / "v1"), plain("v1/1.jsonl")
    assert_fields(
        *(records(run), expected),
        rollout_id="uid",
        group_id=lambda row: row["uid"].partition("_")[0],
        ground_truth="gts",
        reward="score",
    )


def test_a_validation_folder_is_an_evaluation():
    run = run_at(FOLDER / "validation")
    assert [r.ids["split"] for r in records(run)] == ["eval"] * 3
    assert run.rollouts["reward"].tolist() == [0.0, 0.5, 1.0]
    assert run.rollouts["logged.reward"].tolist() == [0.0, 0.5, 1.0]
    assert run.rollouts["acc"].tolist() == [0.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("uid", "group", "rollout"),
    [
        ("x_y_3_0_1", "x_y_3", "x_y_3_0_1"),
        ("plain", "plain", None),
        ("a_b", "a_b", None),
        (7, "7", None),
    ],
)
def test_a_uid_is_the_prompts_unless_it_counts_rollouts(read_line, uid, group, rollout):
    line = {"input": "i", "output": "o", "score": 1, "step": 1, "uid": uid}
    record = read_line("verl", line)
    assert record.ids.get("group_id") == group
    assert record.ids.get("rollout_id") == rollout
    logged = read_line("verl", {**line, "group_id": "g", "request_id": "r"})
    assert (logged.ids["group_id"], logged.ids["rollout_id"]) == ("g", "r")
    assert logged.extras["uid"] == uid


@given(st.lists(st.sampled_from(["a-1", "b-2", "s_0_0", "s_1_0", None]), min_size=1, max_size=12))
def test_groups_by_uid_are_the_same_wherever_a_log_is_cut(uids):
    lines = [{"input": "i", "output": "o", "score": 1, "step": 1, "uid": uid} for uid in uids]
    reader, at = VerlReader(), LineContext(Path("run/1.jsonl"))
    together = reader.read_columns(lines, at)
    alone = [reader.record(line, at).ids for line in lines]
    for name in ("group_id", "rollout_id"):
        assert together[name] == [ids.get(name) for ids in alone]


def test_a_line_without_any_step_is_lost(read_line):
    line = {"input": "i", "output": "o", "score": 1}
    with pytest.raises(RecordError, match="step is missing"):
        read_line("verl", line)
    assert read_line("verl", line, path="run/7.jsonl").step == 7


@pytest.mark.parametrize("message", ["True", "False"])
def test_a_response_that_is_the_word_true_is_a_text(read_line, message):
    line = {"input": message, "output": message, "gts": message, "score": message, "step": 1}
    record = read_line("verl", line)
    assert record.texts == dict.fromkeys(("prompt", "response", "ground_truth"), message)
    assert record.scores["reward"] == (message == "True")
    assert not record.remarks
