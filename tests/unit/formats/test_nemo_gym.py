import json

import numpy as np
import pandas as pd
import pytest
from read_formats import DATA, json_lines, opened, reasons, records, run_at

FOLDER = DATA / "nemo_gym"
MAIN, FAILURES = FOLDER / "adder_rollouts.jsonl", FOLDER / "adder_rollouts_failures.jsonl"


@pytest.fixture(scope="module")
def lines():
    return [*json_lines(MAIN), *json_lines(FAILURES)]


def spoken(line: dict) -> list[str]:
    return [
        part["text"]
        for item in line["response"]["output"]
        if item["type"] == "message"
        for part in item["content"]
    ]


def test_every_row_is_that_of_the_files(lines):
    run = run_at(FOLDER)
    assert run.counts == {0: len(lines)}
    for record, line in zip(records(run), lines, strict=True):
        task, rollout = line["_ng_task_index"], line["_ng_rollout_index"]
        assert record.ids["group_id"] == str(task)
        assert record.ids["rollout_id"].split("-a")[0] == f"{task}-{rollout}"
        assert record.ids["env"] == line["agent_ref"]["name"]
        assert all(text in record.texts["response"] for text in spoken(line))
        assert record.texts.get("ground_truth") == line.get("expected_answer")
        assert record.extras.get("num_tools") == line.get("num_tools")
    assert record.ids["rollout_id"] == "2-1-a1"


def test_rewards_and_their_means_are_those_of_the_main_file():
    run = run_at(FOLDER)
    expected = pd.DataFrame(json_lines(MAIN))
    assert [r.scores["reward"] for r in records(run)[:5]] == expected["reward"].tolist()
    assert run.steps["reward_mean"].tolist() == pytest.approx([expected["reward"].mean()])
    parts = pd.DataFrame([r for r in expected["reward_components"] if isinstance(r, dict)])
    for name in ("right", "form"):
        assert run.steps[f"rewards.{name}_mean"].tolist() == pytest.approx([parts[name].mean()])


def test_the_placeholder_reward_of_a_failure_is_no_reward():
    for record in records(run_at(FOLDER))[5:]:
        assert "reward" not in record.scores
        assert record.extras["error"] == "judge_failed"


def test_inputs_without_a_response_are_no_rollouts():
    (left_out,) = [
        p for p in run_at(FOLDER).problems if p.path.endswith("materialized_inputs.jsonl")
    ]
    assert "of no format read here" in left_out.reason


def test_a_log_without_steps_says_so_and_nothing_else_is_wrong():
    message = [
        reason for reason, _ in reasons(run_at(FOLDER)) if "of no format read here" not in reason
    ]
    assert set(message) == {"the log has no step"}


def test_reasoning_calls_results_and_images_stand_in_their_place():
    record = records(run_at(FOLDER))[0]
    assert [m["role"] for m in record.messages] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    assert record.texts["prompt"] == "[system]\nUse the tool.\n\n[user]\n0+2? [image png 300 B]"
    assert record.texts["response"] == (
        "[assistant]\n[reasoning]\nadd 0 and 2\n[/reasoning]\n"
        '[tool call] add({"a": 0, "b": 2})\n\n[tool]\n{"sum": 2}\n\n[assistant]\n2\u2028.'
    )


def test_instructions_and_a_plain_input_are_the_prompt():
    assert records(run_at(FOLDER))[4].texts["prompt"] == "[system]\nBe short.\n\n[user]\n2+2?"


def test_the_token_limit_ends_a_response():
    result = records(run_at(FOLDER))
    assert result[4].texts["finish_reason"] == "max_output_tokens"
    assert [r.scores["is_truncated"] for r in result[:5]] == [0, 0, 0, 0, 1]


def test_the_tokens_of_all_calls_are_one_sequence(lines):
    for rollout, line in zip(opened(run_at(FOLDER))[:4], lines, strict=False):
        calls = [i for i in line["response"]["output"] if "generation_token_ids" in i]
        whole = calls[-1]["prompt_token_ids"] + calls[-1]["generation_token_ids"]
        first = len(calls[0]["prompt_token_ids"])
        record = rollout.record
        assert record.prompt_ids.values().tolist() == whole[:first]
        assert record.response_ids.values().tolist() == whole[first:]
        assert record.tokens["loss_mask"].values().tolist() == [1, 1, 0, 0, 1, 1, 1]
        logprobs = record.tokens["sampling_logprobs"].values()
        given = [np.nan, np.nan]
        expected = calls[0]["generation_log_probs"] + given + calls[1]["generation_log_probs"]
        np.testing.assert_array_equal(logprobs, expected)
        assert [(s["start"], s["end"], s["role"]) for s in record.segments] == [
            (0, 2, "assistant"),
            (2, 4, "tool"),
            (4, 7, "assistant"),
        ]


def test_tokens_of_a_rewritten_history_are_left_out_and_named(read_line, lines):
    line = json.loads(json.dumps(lines[0]))
    line["response"]["output"][-1]["prompt_token_ids"][0] = 99
    record = read_line("nemo_gym", line)
    assert record.response_ids is None
    assert record.texts["response"]
    assert "changed between" in next(
        m.reason for m in record.remarks if m.field == "generation_token_ids"
    )


def test_logprobs_of_another_length_are_left_out_and_nothing_is_shifted(read_line, lines):
    line = json.loads(json.dumps(lines[0]))
    line["response"]["output"][1]["generation_log_probs"].pop()
    values = read_line("nemo_gym", line).tokens["sampling_logprobs"].values()
    assert np.isnan(values).tolist() == [True] * 4 + [False] * 3


@pytest.mark.parametrize(
    ("output", "text"),
    [
        ([], None),
        (None, None),
        ([{"type": "web_search_call", "id": "w", "action": {"query": "x"}}], "web_search_call"),
        ([{"type": "mcp_call", "name": "look", "arguments": "{}"}], "[tool call] look({})"),
        ([{"type": "message", "role": "assistant", "content": "plain"}], "plain"),
        (["no object", 3], None),
        ([{"type": "reasoning", "summary": [], "encrypted_content": "gAAA"}], "[encrypted]"),
    ],
)
def test_outputs_of_every_kind_are_read(read_line, lines, output, text):
    line = lines[4] | {"response": {"output": output}}
    result = read_line("nemo_gym", line).texts.get("response")
    assert result is None if text is None else text in result


def test_a_response_that_is_no_object_costs_the_response_alone(read_line, lines):
    record = read_line("nemo_gym", lines[4] | {"response": None, "agent_ref": "x"})
    assert record.scores["reward"] == 0.0
    assert "response" not in record.texts


def test_the_last_of_several_transitions_is_the_whole_history(tmp_path):
    asked, message = {"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}
    line = {
        "responses_create_params": {"input": [asked], "temperature": 0.5},
        "response": {
            "output": [[asked, message], [asked, message, asked, message]],
            "model": "tiny",
        },
        "reward": 1.0,
    }
    (tmp_path / "a.jsonl").write_text(json.dumps(line))
    (record,) = records(run_at(tmp_path))
    assert record.texts["prompt"] == "[user]\nq"
    assert len(record.messages) == 4
    assert (record.extras["model"], record.extras["temperature"]) == ("tiny", 0.5)


def test_what_the_model_was_given_goes_before_what_a_task_calls_so(tmp_path):
    line = {
        "responses_create_params": {"input": "given"},
        "response": {"output": [], "usage": {"input_tokens": 7}},
        "reward": 1.0,
        "prompt": "of the task",
        "input_tokens": 3,
    }
    (tmp_path / "a.jsonl").write_text(json.dumps(line))
    (record,) = records(run_at(tmp_path))
    assert record.texts["prompt"] == "[user]\ngiven"
    assert record.extras["input_tokens"] == 7
    assert record.extras["task.prompt"] == "of the task"
    assert record.extras["task.input_tokens"] == 3


@pytest.mark.parametrize("holder", ["line", "response"])
def test_the_patch_that_a_model_made_is_a_column(read_line, holder):
    metadata = {"metadata": {"model_patch": "diff --git"}}
    line = {"responses_create_params": {"input": "q"}, "response": {"output": []}, "reward": 0}
    if holder == "line":
        line |= metadata
    else:
        line["response"] |= metadata
    assert read_line("nemo_gym", line).extras["model_patch"] == "diff --git"
