import json
import shutil

import pandas as pd
import pytest
import yaml
from read_formats import DATA, reasons, records, run_at

ART = DATA / "art"


def group_lines() -> list[tuple[int, str, int, int, dict]]:
    """(step, split, group, index, trajectory) of all lines."""
    result = []
    for step, split in ((0, "train"), (2, "train"), (2, "val"), (10, "train")):
        path = ART / "lines" / "trajectories" / split / f"{step:04d}.jsonl"
        for group, line in enumerate(path.read_text("utf-8").split("\n")):
            entries = json.loads(line)["trajectories"]
            result += [(step, split, group, i, entry) for i, entry in enumerate(entries)]
    return result


def table(version: str) -> pd.DataFrame:
    paths = sorted((ART / version / "trajectories").rglob("*.parquet"))
    paths.sort(key=lambda path: path.stem)
    return pd.concat([pd.read_parquet(path).assign(step=int(path.stem)) for path in paths])


def message_of(entry: dict) -> dict:
    inner = entry.get("message", entry)
    return {key: value for key, value in inner.items() if value is not None and key != "trainable"}


def test_every_trajectory_of_every_line_is_a_rollout():
    lines = run_at(ART / "lines")
    expected = group_lines()
    assert lines.rollout_count == len(expected) == 12
    for record, (step, split, group, index, entry) in zip(records(lines), expected, strict=True):
        assert record.step == step
        assert record.ids["split"] == split
        assert (record.ids["group_id"], record.ids["rollout_id"]) == (
            str(group),
            f"{group}-{index}",
        )
        assert record.scores["reward"] == entry["reward"]
        assert list(record.messages) == [message_of(m) for m in entry["messages_and_choices"]]
        for key, value in entry["metrics"].items():
            assert record.extras[f"metrics.{key}"] == value
        for key in ("metadata", "tools", "logs"):
            assert record.extras.get(key) == (entry[key] or None)
        histories = len(entry["additional_histories"]) or None
        assert record.extras.get("additional_histories") == histories
        finish = entry["messages_and_choices"][-1]["finish_reason"]
        assert record.texts["finish_reason"] == finish


def test_a_response_begins_at_the_models_own_first_message():
    record = next(
        r
        for r in records(run_at(ART / "lines"))
        if len(r.messages) == 4 and "tools" not in r.extras
    )
    assert record.texts["prompt"].endswith("[user]\n4+4?")
    assert record.texts["response"] == "Eight\u2028."
    assert record.scores["is_truncated"] == 1.0


@pytest.mark.parametrize("version", ["v1", "v2", "migrated"])
def test_every_row_of_a_table_with_a_trajectory_is_a_rollout(version):
    rows = table(version)
    rows = rows[rows["reward"].notna()]
    run = run_at(ART / version)
    result = records(run)
    assert run.steps["rollouts"].tolist() == rows.groupby("step").size().tolist()
    assert [r.step for r in result] == rows["step"].tolist()
    assert [r.scores["reward"] for r in result] == rows["reward"].tolist()
    assert [r.ids["group_id"] for r in result] == rows["group_index"].astype(str).tolist()
    for record, (_, row) in zip(result, rows.iterrows(), strict=True):
        if isinstance(histories := row.get("additional_histories"), str):
            assert record.extras["additional_histories"] == len(json.loads(histories))
        if row["messages"] is None:  # exchanges stand in their place
            continue
        expected = [message_of(m) for m in row["messages"]]
        for message in expected:
            if "tool_calls" in message:
                message["tool_calls"] = json.loads(message["tool_calls"])
        visible = [{k: v for k, v in m.items() if k in expected[0] or v} for m in record.messages]
        assert visible == expected
        metrics = json.loads(row["metrics"]) if isinstance(row["metrics"], str) else {}
        found_metrics = {k: v for k, v in record.extras.items() if k.startswith("metrics.")}
        assert found_metrics == {f"metrics.{k}": v for k, v in metrics.items()}
    by_step = rows.groupby("step")["reward"]
    assert run.steps["reward_mean"].tolist() == by_step.mean().tolist()
    # A group without a trajectory, of which the log holds a text.
    assert {one.severity for one in run.problems} <= {"note"}


def test_version_2_has_the_tokens_of_choices_as_pieces_or_ids():
    with_tokens = [r for r in records(run_at(ART / "v2")) if r.tokens and r.step < 11]
    pieces = [r for r in with_tokens if r.response_tokens is not None]
    assert {tuple(r.response_tokens or ()) for r in pieces} == {("It is", " 5."), ("It is", " 6.")}
    assert {tuple(r.tokens["sampling_logprobs"].values()) for r in pieces} == {(-0.5, -0.25)}
    ids = [r for r in with_tokens if r.response_ids is not None]
    assert [r.response_ids.values().tolist() for r in ids if r.response_ids] == [[11, 12, 13]] * 2
    assert ids[0].tokens["sampling_logprobs"].values().tolist() == [-1.0, -0.125, -0.75]
    assert (ids[0].ids["policy_version"], ids[0].extras["policy_version_end"]) == (8, 9)


def test_choices_without_log_probabilities_have_no_tokens():
    assert all(not r.tokens and r.response_tokens is None for r in records(run_at(ART / "lines")))


def groups_of_yaml() -> list[tuple[int, str, int, dict, dict]]:
    """(step, split, group, group's metadata, trajectory), by YAML's own safe loader."""
    result = []
    for step, split in ((0, "train"), (2, "train"), (2, "val"), (10, "train")):
        path = ART / "yaml" / "trajectories" / split / f"{step:04d}.yaml"
        for number, group in enumerate(yaml.safe_load(path.read_text("utf-8"))):
            reported = group["metadata"]
            result += [(step, split, number, reported, entry) for entry in group["trajectories"]]
    return result


def test_every_trajectory_of_every_yaml_file_is_a_rollout():
    run, expected = run_at(ART / "yaml"), groups_of_yaml()
    assert (run.rollout_count, run.problems) == (len(expected), ())
    for record, (step, split, group, reported, entry) in zip(records(run), expected, strict=True):
        assert (record.step, record.ids["split"]) == (step, split)
        assert record.ids["group_id"] == str(group)
        assert record.scores["reward"] == entry["reward"]
        assert list(record.messages) == [message_of(m) for m in entry["messages_and_choices"]]
        for key, value in entry["metrics"].items():
            assert str(record.extras[f"metrics.{key}"]) == str(value)  # NaN is no other NaN
        assert record.extras.get("metadata") == (entry["metadata"] or None)
        assert record.extras.get("group_metadata") == (reported or None)
        assert record.extras.get("logs") == (entry["logs"] or None)
    by_step = pd.DataFrame([(step, entry["reward"]) for step, *_, entry in expected]).groupby(0)
    assert run.steps["reward_mean"].tolist() == by_step[1].mean().tolist()


@pytest.fixture(scope="module")
def of_exchanges():
    result = [r for r in records(run_at(ART / "v2")) if r.step == 11]
    return dict(zip(("chat", "responses", "anthropic", "completions"), result, strict=True))


def test_calls_that_go_on_with_each_other_are_one_conversation(of_exchanges):
    record = of_exchanges["chat"]
    assert [m["role"] for m in record.messages] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    assert record.texts["prompt"] == "[system]\nUse the tool.\n\n[user]\n2+3?"
    assert '[tool call] add({"a": 2, "b": 3})' in record.texts["response"]
    assert record.texts["response"].endswith("[tool]\n5\n\n[assistant]\nIt is 5.")
    assert record.texts["finish_reason"] == "stop"
    assert record.response_tokens == ["<call>", "It", " is 5."]
    assert record.tokens["sampling_logprobs"].values().tolist() == [-1.0, -0.5, -0.25]


def test_a_call_of_its_own_is_another_history_and_counted(of_exchanges):
    assert of_exchanges["chat"].extras["additional_histories"] == 1
    assert "aside" not in of_exchanges["chat"].texts["response"]


def test_a_response_goes_on_with_the_one_that_its_request_names(of_exchanges):
    record = of_exchanges["responses"]
    assert record.texts["prompt"] == "[system]\nBe brief.\n\n[user]\n9+1?"
    response = record.texts["response"]
    parts = ("[reasoning]\nAdd.", '[tool call] add({"a": 9})', "[tool]\n10", "Ten, and then\u2028")
    places = [response.index(part) for part in parts]
    assert places == sorted(places)
    assert record.texts["finish_reason"] == "max_output_tokens"
    assert record.scores["is_truncated"] == 1.0


def test_blocks_of_anthropics_api_are_messages_with_thoughts_calls_and_images(of_exchanges):
    record = of_exchanges["anthropic"]
    assert record.texts["prompt"] == "[system]\nSee.\n\n[user]\nWhat is in it?[image 2 kB]"
    assert record.texts["response"] == (
        "[assistant]\n[reasoning]\nLook closer.\n[/reasoning]\n"
        '[tool call] zoom({"x": 1})\n\n[tool]\na cat\n\n[assistant]\nA cat.'
    )
    assert record.scores["is_truncated"] == 1.0
    assert record.response_ids.values().tolist() == [5, 6, 7]
    assert record.tokens["sampling_logprobs"].values().tolist() == [-0.5, -0.25, -0.125]


def test_a_completion_is_a_prompt_and_what_follows(of_exchanges):
    record = of_exchanges["completions"]
    assert (record.texts["prompt"], record.texts["response"]) == ("[user]\n1+1=", " 2")
    assert (record.scores["reward"], record.response_tokens) == (0.0, [" 2"])


def test_each_further_answer_to_a_call_is_a_history(read_line):
    answers = [{"finish_reason": "stop", "message": {"content": text}} for text in ("a", "b")]
    call = {"request": {"messages": [{"role": "user", "content": "?"}]}, "start_time": "1"}
    whole = {"exchanges": {"chat_completions": [{**call, "response": {"choices": answers}}]}}
    row = {"group_index": 0, "reward": 0.5, "trajectory_json": json.dumps(whole)}
    record = read_line("art", row, path="trajectories/train/0001.parquet")
    assert (record.texts["response"], record.extras["additional_histories"]) == ("b", 1)


def test_exchanges_of_which_no_conversation_can_be_made_are_named(read_line):
    whole = json.dumps({"exchanges": {"chat_completions": [{}], "messages": 3, "else": [1]}})
    row = {"group_index": 3, "reward": 0.5, "messages": None, "trajectory_json": whole}
    record = read_line("art", row, path="trajectories/test/0007.parquet")
    assert (record.step, record.ids["split"], record.scores["reward"]) == (7, "test", 0.5)
    assert [remark.field for remark in record.remarks] == ["exchanges"]


def test_a_file_elsewhere_has_no_step_and_says_so(tmp_path):
    shutil.copy(ART / "lines/trajectories/train/0002.jsonl", tmp_path / "copy.jsonl")
    run = run_at(tmp_path)
    assert run.rollout_count == 0
    assert reasons(run)[0][0] == "step is missing"


def test_what_is_no_trajectory_is_counted_and_costs_no_other(tmp_path):
    rows = [entry for step, *_, entry in group_lines() if step == 10]
    lines = [{"trajectories": [rows[0], "lost", rows[1]]}, {"trajectories": 3}, {"other": 1}]
    path = tmp_path / "trajectories" / "train" / "0004.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    run = run_at(tmp_path)
    assert run.rollout_count == 2
    assert sum(problem.count for problem in run.problems if problem.severity == "lost") == 3
