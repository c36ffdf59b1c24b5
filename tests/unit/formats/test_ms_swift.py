import json

import pytest
from read_formats import DATA, assert_fields, json_lines, reasons, records, run_at
from written_logs import write_lines

FOLDER = DATA / "ms_swift"


def plain(shape: str) -> list[dict]:
    return json_lines(FOLDER / shape / "completions.jsonl")


def table_rows(shape: str) -> list[dict]:
    return [
        {key: column[i] for key, column in line.items()}
        for line in plain(shape)
        for i in range(len(line["prompt"]))
    ]


def assert_rows(result, expected, step_key):
    assert_fields(
        *(result, expected, "prompt"),
        step=lambda row: int(row[step_key]),
        response="completion",
        advantage="advantages",
        **{"rewards.Accuracy": "Accuracy", "rewards.Format": "Format"},
    )


def test_every_row_of_every_table_is_a_rollout():
    assert_rows(records(run_at(FOLDER / "megatron")), table_rows("megatron"), "gen_step")


def test_a_buffer_that_is_not_emptied_is_shown_once_at_the_step_that_wrote_it_first():
    run = run_at(FOLDER / "table")
    seen: list[dict] = []
    for row in table_rows("table"):
        if row["completion"] not in [other["completion"] for other in seen]:
            seen.append(row)
    assert_rows(records(run), seen, "step")
    assert (run.rollout_count, run.repeated) == (12, 22 - 12)
    assert run.steps["step"].tolist() == [1, 2, 3]
    assert run.steps["rollouts"].tolist() == [4, 4, 4]


def test_rows_of_their_own_have_their_reward():
    result = records(run_at(FOLDER / "rows"))
    assert_fields(result, plain("rows"), "reward", step="gen_step", response="completion")


def test_the_first_tables_have_messages_and_the_total():
    lines = plain("first")
    expected = [{k: column[i] for k, column in line.items()} for line in lines for i in range(2)]
    run = run_at(FOLDER / "first")
    assert_fields(
        *(records(run), expected, "reward"),
        step=lambda row: int(row["step"]),
        response="completion",
        prompt=lambda row: f"[user]\n{row['messages'][0]['content']}",
    )
    assert run.counts == {5: 2, 6: 2}
    assert run.problems == ()


def test_a_log_without_steps_is_shown_at_step_zero_and_says_so(tmp_path):
    messages = [{"role": "user", "content": "Wie viel ist 0+0?"}]
    line = json.dumps({"messages": messages, "completion": "0", "reward": 1.0}) + "\n"
    (tmp_path / "completions.jsonl").write_text(line * 4)
    run = run_at(tmp_path)
    assert run.counts == {0: 4}
    assert ("the log has no step", 4) in reasons(run)


@pytest.mark.parametrize("column", ["prompt", "Accuracy"])
def test_a_table_with_a_short_column_is_lost_and_no_value_moves(tmp_path, column):
    lines = plain("megatron")
    lines[0][column].pop()
    path = tmp_path / "completions.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    run = run_at(tmp_path)
    assert run.counts == {1: 4}
    assert reasons(run)[0] == ("the columns of the table are of unequal length", 1)


def test_what_stands_after_the_advantages_is_no_part_of_the_reward():
    run = run_at(FOLDER / "extras")
    first, second = plain("extras")
    rows = [{k: v[i] for k, v in first.items()} for i in range(4)]
    rows += [{k: v[i] for k, v in second.items()} for i in range(2, 6)]
    own = {"reward": "Accuracy", "ground_truth": "solution", "advantage": "advantages"}
    assert_fields(records(run), rows, "num_turns", **own)
    assert "rewards.num_turns" not in run.rollouts
    assert not any(reason.startswith("the log has reward parts") for reason, _ in reasons(run))


def test_a_null_is_a_reward_that_a_function_did_not_give(tmp_path):
    rewards = {"Accuracy": [1.0, 0.5], "Format": [0.25, None], "advantages": [1.0, -1.0]}
    asked = {"step": ["1", "1"], "prompt": ["Why?", "Why?"], "completion": ["because", "no"]}
    path = write_lines(tmp_path / "run" / "completions.jsonl", [asked | rewards])
    both, scored_by_one = records(run_at(path.parent))
    assert [one.scores.get("rewards.Format") for one in (both, scored_by_one)] == [0.25, None]
    assert "reward" not in both.scores
    assert "reward" not in scored_by_one.scores
