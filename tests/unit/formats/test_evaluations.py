"""Logs of evaluations: Inspect, lm-eval, human-eval, EvalPlus, Qwen-Math, W&B tables, hosted training."""

import json
import zipfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from read_formats import DATA, reasons, records, run_at

from board.analysis.audit import audit_all, audit_sample
from board.formats.evaluations.lm_eval import rewards_of
from board.formats.io import inspect_files
from board.index.discovery.discovered_runs import discover
from board.query.open_run import open_run

INSPECT = DATA / "inspect"


def inspect_file(suffix):
    (path,) = INSPECT.glob(f"*{suffix}")
    return path


@pytest.mark.parametrize(
    ("path", "samples"),
    [
        (inspect_file(".eval"), 6),  # packed by zstd
        (inspect_file(".json"), 2),
        (next((INSPECT / "older").glob("*.eval")), 6),  # by deflate
    ],
    ids=["eval", "json", "older"],
)
def test_samples_of_inspect_are_rollouts_graded_by_their_scorers(path, samples):
    result = records(run_at(path))
    assert len(result) == samples
    by_sample = {(r.ids["group_id"], r.extras["epoch"]): r for r in result}
    right = by_sample["s1", 1]
    assert right.scores["reward"] == right.scores["rewards.includes"] == 1
    assert right.scores["rewards.lengths.length"] == 23
    assert by_sample["s2", 1].scores["reward"] == 0
    assert by_sample["s2", 1].texts["finish_reason"] == "max_tokens"
    assert right.texts["prompt"].endswith("What is 1 + 1? End with ANSWER: n")
    assert '[tool call] add({"x": 1, "y": 1})' in right.texts["response"]
    assert right.texts["response"].endswith("The sum is 2.\nANSWER: 2")
    assert {r.extras["model"] for r in result} == {"mockllm/model"}
    assert {r.ids["env"] for r in result} == {"tiny_math"}
    if samples == 6:
        failed = by_sample["s3", 2]
        assert "reward" not in failed.scores
        assert failed.extras["error"]


def test_each_log_of_inspect_is_a_run_called_by_its_task_and_model(tmp_path):
    names = {run.name for run in discover(INSPECT / "older").runs}
    assert names == {"tiny_math · model"}
    assert len(discover(INSPECT).runs) == 3


def test_an_eval_file_that_is_cut_off_is_named(tmp_path):
    content = inspect_file(".eval").read_bytes()
    (tmp_path / "a.eval").write_bytes(content[: len(content) // 2])
    result = discover(tmp_path)
    assert not result.runs
    assert "not a complete zip file" in result.left_out[0].reason


def test_a_damaged_sample_costs_no_other(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.eval", "w") as archive:
        archive.writestr("header.json", json.dumps({"eval": {"task": "t", "model": "m"}}))
        sample = {"id": 1, "epoch": 1, "messages": [{"role": "user", "content": "q"}], "scores": {}}
        archive.writestr("samples/1_epoch_1.json", json.dumps(sample))
        archive.writestr("samples/2_epoch_1.json", "{")
    run = open_run(discover(tmp_path).runs[0])
    assert len(records(run)) == 1
    assert any(problem.severity == "lost" for problem in run.problems)


def lines_of(name):
    return [
        json.loads(x)
        for p in sorted((DATA / name).rglob("samples_*.jsonl"))
        for x in p.read_text().splitlines()
    ]


def test_lm_eval_lines_are_graded_by_their_first_metric_and_a_choice_is_the_likeliest():
    runs = [open_run(info) for info in discover(DATA / "lm_eval").runs]
    result = [record for run in runs for record in records(run)]
    assert len(result) == len(lines_of("lm_eval")) == 14
    assert {r.ids["env"] for r in result} == {"gsm8k_mini", "mc_mini"}
    choice = next(r for r in result if r.ids["group_id"] == "mc_mini 0")
    assert choice.texts["response"] == "frog"  # of -6, -6 and -5.25
    assert choice.extras["choices"] == {"shark": -6.0, "whale": -6.0, "frog": -5.25}
    assert choice.scores["reward"] == choice.scores["rewards.acc"] == 0
    assert {r.ids["group_id"] for r in result if r.ids["env"] == "gsm8k_mini"} == {
        f"gsm8k_mini {n} {name}" for n in range(3) for name in ("strict-match", "flexible-extract")
    }
    chat = next(r for r in result if r.texts["prompt"].startswith("[system]\nBe brief."))
    assert chat.scores["reward"] == 1
    assert chat.extras["filter"] == "strict-match"


def test_a_metric_of_several_repeats_is_no_reward_of_one(tmp_path):
    line = next(line for line in lines_of("lm_eval") if line["filter"] != "none")
    line["resps"] = [["a", "b"]]
    (tmp_path / "samples_x.jsonl").write_text(json.dumps(line) + "\n")
    result = records(run_at(tmp_path))
    assert [r.texts["response"] for r in result] == ["a", "b"]
    assert all("reward" not in r.scores for r in result)
    assert {r.extras["metric.exact_match"] for r in result} == {line["exact_match"]}


def test_documents_of_lighteval_have_their_response_tokens_and_metrics():
    result = records(run_at(DATA / "lighteval"))
    assert [record.scores["reward"] for record in result] == [0, 1, 0, 1]
    assert [record.scores["rewards.extractive_match"] for record in result] == [0.5] * 4
    assert result[1].texts["response"] == result[1].texts["ground_truth"] == "The sum is 2."
    assert result[1].texts["prompt"] == "Question: what is 1 plus 1?\nAnswer:"
    assert result[1].response_ids.values().tolist() == [11, 12, 14]
    assert result[1].ids["group_id"] == "lighteval|sums|0 1"


def test_verdicts_of_early_evalplus_are_rollouts_without_programs():
    result = records(run_at(DATA / "evalplus_early"))
    assert [record.ids["group_id"] for record in result] == [
        f"HumanEval/{task}" for task in (0, 0, 1, 1, 2, 2)
    ]
    assert [record.scores["rewards.base"] for record in result] == [0, 1, 1, 1, 0, 0]
    assert [record.scores["reward"] for record in result] == [0, 1, 1, 0, 0, 0]
    assert result[3].extras["plus_status"] == "failed"
    assert not any("response" in record.texts for record in result)


def test_programs_of_human_eval_and_evalplus_are_right_where_they_passed():
    for path in sorted((DATA / "human_eval").glob("*.jsonl")):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        rewards = [record.scores["reward"] for record in records(run_at(path))]
        assert rewards == [line["passed"] for line in lines]
    document = json.loads((DATA / "evalplus/samples_eval_results.json").read_text())
    samples = [one for own in document["eval"].values() for one in own]
    result = records(run_at(DATA / "evalplus"))
    assert {r.step for r in result} == {0}
    assert [r.texts["response"] for r in result] == [one["solution"] for one in samples]
    assert [r.scores["reward"] for r in result] == [
        one["base_status"] == one["plus_status"] == "pass" for one in samples
    ]


def test_each_sample_of_a_qwen_math_line_is_a_rollout_of_its_problem():
    run = run_at(DATA / "qwen_math")
    result = records(run)
    paths = sorted((DATA / "qwen_math").rglob("*e-1.jsonl"))
    expected = [
        (path.parent.name, line["question"], code, score)
        for path in paths
        for line in map(json.loads, path.read_text().splitlines())
        for code, score in zip(line["code"], line["score"], strict=True)
    ]
    assert [
        (r.ids["env"], r.texts["prompt"], r.texts["response"], r.scores["reward"]) for r in result
    ] == expected
    assert {r.extras["temperature"] for r in result} == {0.6}


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("trl", {10: 4, 20: 4}),
        ("verl", {0: 2, 5: 2, 10: 2}),  # each table holds those before as well
        ("prime_rl", {0: 3, 10: 3}),
        ("atropos", {0: 8, 1: 4}),
    ],
)
def test_wandb_tables_give_each_rollout_once(name, counts):
    run = run_at(DATA / "wandb_tables" / name)
    assert {**run.counts} == counts
    assert all(record.texts["response"] for record in records(run))


def test_columns_of_a_table_are_the_records_own():
    first = records(run_at(DATA / "wandb_tables/trl"))[0]
    assert (first.scores["advantage"], first.scores["rewards.format_reward"]) == (0.7, 0.5)
    first = records(run_at(DATA / "wandb_tables/atropos"))[0]
    assert first.texts["prompt"].endswith("<|im_start|>assistant\n")
    assert first.texts["response"] == "4<|im_end|>"
    result = records(run_at(DATA / "wandb_tables/verl"))
    assert {record.ids["split"] for record in result} == {"eval"}
    assert [record.scores["reward"] for record in result] == [1, 0, 1, 1, 1, 1]
    result = records(run_at(DATA / "wandb_tables/prime_rl"))
    assert [record.scores["reward"] for record in result] == [1, 1, 0.33] * 2


def test_messages_of_hosted_training_may_be_json_in_texts():
    first, second = records(run_at(DATA / "prime_hosted"))
    assert (first.texts["prompt"], first.texts["response"]) == ("[user]\n2+2?", "4")
    assert '[tool call] search({"query":"prime"})' in second.texts["response"]
    assert [(r.step, r.scores["reward"]) for r in (first, second)] == [(0, 0.8), (0, 1.0)]


def test_nothing_of_an_evaluation_is_lost():
    for name in ("lm_eval/canned__echo-1", "evalplus", "qwen_math", "prime_hosted"):
        run = run_at(DATA / name)
        assert all(problem.severity == "note" for problem in run.problems), reasons(run)


ERRORS = st.sampled_from(
    ["mae", "mse", "rmse", "wer", "perplexity", "word_perplexity", "nll", "loss"]
)
BETTER = st.sampled_from(["acc", "exact_match", "f1", "bleu"])


@given(st.lists(ERRORS, unique=True, max_size=3), st.lists(BETTER, unique=True, max_size=2))
def test_of_metrics_of_which_less_is_better_none_is_the_reward(errors, better):
    names = [*errors, *better]
    said = rewards_of({name: float(n) for n, name in enumerate(names)})
    assert said.get("reward") == (float(len(errors)) if better else None)


def eval_file(folder: Path, count: int) -> Path:
    folder.mkdir()
    messages = [{"role": "user", "content": "How much?"}, {"role": "assistant", "content": "Two."}]
    with zipfile.ZipFile(folder / "2026-01-01T00-00-00+00-00_task_id.eval", "w") as archive:
        archive.writestr("header.json", json.dumps({"eval": {"task": "t"}, "plan": {}}))
        for number in range(count):
            sample = {"id": number, "epoch": 1, "messages": messages, "scores": {}}
            archive.writestr(f"samples/{number}_epoch_1.json", json.dumps(sample))
    return folder


def test_work_on_an_archive_grows_with_its_samples_and_not_with_their_square(tmp_path, monkeypatch):
    looked_at: Counter[str] = Counter()
    read_content, read_members = inspect_files._content, zipfile.ZipFile.infolist

    def content(*arguments):
        looked_at["members read"] += 1
        return read_content(*arguments)

    def members(archive):
        found = read_members(archive)
        looked_at["members looked through"] += len(found)
        return found

    monkeypatch.setattr(inspect_files, "_content", content)
    monkeypatch.setattr(zipfile.ZipFile, "infolist", members)
    seen = []
    for count in (50, 200):
        looked_at.clear()
        run = run_at(eval_file(tmp_path / str(count), count))
        assert run.rollout_count == count
        audit_all(run, lambda done, total: None)
        audit_sample(run)
        seen.append(dict(looked_at))
    few, many = seen
    assert all(many[kind] <= 4.2 * few[kind] for kind in few), seen
