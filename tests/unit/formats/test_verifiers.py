import json
import shutil

import pytest
from read_formats import DATA, json_lines, reasons, records, run_at

from board.index.discovery.discovered_runs import discover
from board.query.open_run import Follower

OLD = DATA / "verifiers/id/outputs/evals/double-it--tiny/9d41c7e0"
NEW = DATA / "verifiers/example_id/outputs/evals/two-digits--tiny/5f2c9a10"
ROWS = DATA / "prime_rl/rows"


@pytest.fixture(scope="module", params=[OLD, NEW], ids=["id", "example_id"])
def written(request):
    return run_at(request.param), json_lines(request.param / "results.jsonl")


def test_every_row_and_score_is_that_of_the_file(written):
    run, expected = written
    result = records(run)
    assert [r.step for r in result] == [0] * len(expected)
    groups = [str(row.get("example_id", row.get("id"))) for row in expected]
    assert [r.ids["group_id"] for r in result] == groups
    assert [r.scores["reward"] for r in result] == [row["reward"] for row in expected]
    assert [r.texts["ground_truth"] for r in result] == [row["answer"] for row in expected]
    assert {r.ids["split"] for r in result} == {"eval"}


def test_messages_are_kept_and_their_texts_can_be_read(written):
    run, expected = written
    for record, row in zip(records(run), expected, strict=True):
        remaining = [
            {k: v for k, v in message.items() if v is not None}
            for message in [*row["prompt"], *row["completion"]]
        ]
        assert list(record.messages) == (remaining if row["completion"] else [])
        assert row["prompt"][-1]["content"] in record.texts["prompt"]
        for message in row["completion"]:
            assert message["content"] in record.texts["response"]


def test_tool_calls_that_are_json_in_texts_are_shown_as_calls():
    assert '[tool call] double({"a": 1})' in records(run_at(OLD))[2].texts["response"]
    assert '[tool call] add({"a": 12, "b": 30})' in records(run_at(NEW))[0].texts["response"]


def test_a_log_without_steps_says_so(written):
    run, expected = written
    assert ("the log has no step", len(expected)) in reasons(run)


def test_the_environment_is_that_of_the_metadata_which_is_shown_too(written):
    run, _ = written
    metadata = run.settings["metadata.json"]
    assert {r.ids["env"] for r in records(run)} == {metadata.get("env_id", metadata.get("env"))}


def test_metadata_that_changes_is_read_anew(tmp_path):
    shutil.copytree(NEW, tmp_path / "run")
    before = run_at(tmp_path / "run")
    (tmp_path / "run/metadata.json").write_text('{"env_id": "other"}')
    after = run_at(tmp_path / "run")
    assert before.info.files != after.info.files
    assert set(after.rollouts["env"]) == {"other"}


@pytest.mark.parametrize("content", [None, "{", "[1]", '{"env_id": 3}'])
def test_without_usable_metadata_no_environment_is_recorded(tmp_path, content):
    shutil.copytree(NEW, tmp_path / "run")
    (tmp_path / "run/metadata.json").unlink()
    if content is not None:
        (tmp_path / "run/metadata.json").write_text(content)
    run = run_at(tmp_path / "run")
    assert run.rollout_count == 6
    assert "env" not in run.rollouts


def test_an_empty_completion_is_an_empty_response_and_no_missing_one():
    failed = records(run_at(NEW))[5]
    assert failed.texts["response"] == ""
    assert failed.extras["error"] == "ValueError('broken pipe of the tool')"


def test_truncation_and_usage_are_columns():
    run, expected = run_at(NEW), json_lines(NEW / "results.jsonl")
    assert run.rollouts["is_truncated"].tolist() == [float(r["is_truncated"]) for r in expected]
    assert run.rollouts["finish_reason"].tolist() == [r["stop_condition"] for r in expected]
    usage = [r["token_usage"]["input_tokens"] for r in expected]
    assert run.rollouts["input_tokens"].tolist() == usage


def test_prime_rls_rows_have_the_step_and_split_of_their_path():
    run = run_at(ROWS)
    train = {
        step: json_lines(ROWS / f"rollouts/step_{step}/train_rollouts.jsonl") for step in (2, 10)
    }
    evaluated = json_lines(ROWS / "rollouts/step_10/eval_rollouts.jsonl")
    assert run.info.path == ROWS
    assert run.counts == {2: len(train[2]), 10: len(train[10]) + len(evaluated)}
    assert [r.ids["split"] for r in records(run)] == ["train"] * 4 + ["eval"] * 2 + ["train"] * 2
    result = [r.scores["reward"] for r in records(run)]
    assert result == [row["reward"] for row in [*train[2], *evaluated, *train[10]]]
    assert "the log has no step" not in dict(reasons(run))


def test_each_evaluation_is_a_run_whose_metadata_is_not_left_out():
    result = discover(DATA / "verifiers")
    of_results = [run.path for run in result.runs if run.formats == ("verifiers",)]
    assert sorted(of_results) == sorted([OLD, NEW])
    assert result.left_out == ()


LINE = {"example_id": 1, "prompt": "p", "completion": "c", "reward": 0.5, "timing": {}}


def test_texts_and_nulls_in_place_of_messages_are_read(read_line):
    assert read_line("verifiers", LINE).texts == {"prompt": "p", "response": "c"}
    failed = read_line("verifiers", LINE | {"completion": None, "reward": None, "error": "x"})
    assert "response" not in failed.texts
    assert "reward" not in failed.scores
    assert failed.extras["error"] == "x"


def test_a_tool_call_that_is_no_json_costs_nothing_else(read_line):
    reported = [{"role": "assistant", "content": "a", "tool_calls": ["{broken", "text", None]}]
    assert read_line("verifiers", LINE | {"completion": reported}).texts["response"] == "a"


def test_a_summary_without_texts_is_no_log(tmp_path):
    (tmp_path / "results.jsonl").write_text('{"example_id": 1, "reward": 1.0, "timing": {}}\n')
    result = discover(tmp_path)
    assert result.runs == ()
    assert "metrics, not rollouts" in result.left_out[0].reason


def test_an_evaluation_is_called_by_its_environment_and_model_where_one_is_so(tmp_path):
    for name in ("a1b2", "c3d4"):
        shutil.copytree(OLD, tmp_path / "one" / name if name == "a1b2" else tmp_path / "two" / name)
    names = {run.name for run in discover(tmp_path).runs}
    assert names == {"one/double-it · tiny", "two/double-it · tiny"}
    shutil.copytree(OLD, tmp_path / "two" / "e5f6")
    names = {run.name for run in discover(tmp_path / "two").runs}
    assert names == {"c3d4", "e5f6"}
    assert [run.name for run in discover(OLD).runs] == ["double-it · tiny"]


def test_the_model_and_how_it_was_sampled_are_columns(tmp_path):
    shutil.copytree(OLD, tmp_path / "run")
    path = tmp_path / "run/metadata.json"
    metadata = json.loads(path.read_text())
    path.write_text(json.dumps(metadata | {"sampling_args": {"temperature": 0.3}}))
    result = records(run_at(tmp_path / "run"))
    assert {r.extras["model"] for r in result} == {metadata["model"]}
    assert {r.extras["temperature"] for r in result} == {0.3}


def test_the_tools_that_a_task_offers_are_shown(read_line):
    tools = [{"type": "function", "function": {"name": "add"}}]
    line = {"id": 1, "prompt": "p", "completion": "c", "reward": 1, "task": "t"}
    record = read_line("verifiers", {**line, "info": {"oai_tools": tools}})
    assert record.extras["tools"] == tools


@pytest.mark.parametrize("folder", ["step_{}", "global_step_{}", "checkpoint-{}", "iter{}"])
def test_results_in_folders_of_steps_are_at_these_steps(folder, tmp_path):
    for step in (5, 20):
        target = tmp_path / "evals" / folder.format(step)
        shutil.copytree(NEW, target)
    (info,) = discover(tmp_path).runs
    assert dict(Follower().run(info).counts) == {5: 6, 20: 6}


def test_a_line_with_a_step_of_its_own_is_of_training_at_that_step(tmp_path):
    line = {"example_id": 0, "prompt": "p", "completion": "c", "reward": 1.0, "metrics": {"m": 1}}
    lines = [json.dumps(line | {"step": step, "is_completed": True}) for step in (4, 5)]
    (tmp_path / "rollouts.jsonl").write_text("\n".join(lines) + "\n")
    result = records(run_at(tmp_path))
    assert [record.step for record in result] == [4, 5]
    assert {record.ids["split"] for record in result} == {"train"}
