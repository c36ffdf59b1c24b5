"""The readers on files that other people's frameworks wrote, where these lie beside the checkout."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from read_formats import collection

from board.analysis.rollout import open_rollout
from board.index.discovery.discovered_runs import discover
from board.query.narrowing import where
from board.query.open_run import OpenOptions, open_run

FORMATS = collection()
pytestmark = pytest.mark.skipif(
    not FORMATS.is_dir(), reason=f"the collection of real log files is not at {FORMATS}"
)


@pytest.fixture(scope="module")
def poems():
    (info,) = discover(FORMATS / "rlloggingboard").runs
    return open_run(info)


@pytest.fixture(scope="module")
def lines() -> pd.DataFrame:
    path = FORMATS / "rlloggingboard" / "data.jsonl"
    rows = [json.loads(line) for line in path.read_bytes().split(b"\n") if line]
    frame = pd.DataFrame(rows)
    numeric = {"step": int, "reward": float, "ref_reward": float}
    return frame.astype({name: kind for name, kind in numeric.items() if name in frame})


def test_every_row_and_step_of_the_original_tools_file_opens(poems):
    assert poems.info.formats == ("rllb",)
    assert len(poems.rollouts) == 3000
    assert len(poems.steps) == 24
    assert poems.problems == ()


def test_its_steps_have_the_means_of_its_lines(poems, lines):
    by_step = lines.groupby("step")
    assert poems.steps["step"].tolist() == list(by_step.groups)
    assert poems.steps["rollouts"].tolist() == by_step.size().tolist()
    for name in ("reward", "ref_reward"):
        np.testing.assert_allclose(poems.steps[f"{name}_mean"], by_step[name].mean(), rtol=1e-12)
        np.testing.assert_allclose(poems.steps[f"{name}_std"], by_step[name].std(), rtol=1e-12)
        for q in (0.25, 0.5, 0.95):
            column = poems.steps[f"{name}_q{round(100 * q):02d}"]
            np.testing.assert_allclose(column, by_step[name].quantile(q), rtol=1e-12)


def test_its_rollouts_open_as_their_own_lines(poems, lines):
    for step in (0, 1100, 2300):
        of_step = lines[lines["step"] == step].reset_index(drop=True)
        for index in (0, len(of_step) // 2, len(of_step) - 1):
            texts = open_rollout(poems, step, index).record.texts
            for name in ("prompt", "response", "ref_response"):
                assert texts[name] == of_step.loc[index, name]


def test_its_texts_can_be_searched(poems, lines):
    word = lines["response"].iloc[17][:4]
    columns = ["prompt", "response", "ref_response"]
    expected = lines[columns].apply(lambda c: c.str.contains(word, regex=False)).any(axis=1)
    assert where(poems, f'any_text contains "{word}"').rollout_count == int(expected.sum()) > 0


def test_its_cap_holds(poems, lines):
    capped = open_run(poems.info, OpenOptions(max_per_step=10))
    assert capped.steps["rollouts"].max() == 10
    assert len(capped.rollouts) + capped.over_cap == len(lines)


def test_broken_files_are_refused_with_the_reason():
    (info,) = discover(FORMATS / "broken").runs
    reasons = {problem.path: problem.reason for problem in info.left_out}
    assert "git lfs pull" in reasons["lfs_pointer.jsonl"]


def test_of_a_file_with_shell_text_between_lines_all_rollouts_are_shown():
    path = FORMATS / "broken" / "shell_text_between_lines.jsonl"
    (info,) = discover(path).runs
    run = open_run(info)
    lines = path.read_bytes().split(b"\n")
    expected = [json.loads(line) for line in lines if line.startswith(b"{")]
    assert run.rollouts["reward"].tolist() == [row["reward"] for row in expected]
    lost = [problem.count for problem in run.problems if problem.severity == "lost"]
    assert sum(lost) == len([line for line in lines if line]) - len(expected) > 0


def plain(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_bytes().split(b"\n") if line]


@pytest.mark.parametrize("name", ["gsm8k", "math_python", "mcp_env"])
def test_every_row_of_verifiers_own_results_opens(name):
    (info,) = discover(FORMATS / "verifiers" / name).runs
    run, expected = open_run(info), plain(FORMATS / "verifiers" / name / "results.jsonl")
    assert run.rollouts["reward"].tolist() == [row["reward"] for row in expected]
    assert run.rollouts["group_id"].tolist() == [str(row["id"]) for row in expected]
    frame = pd.DataFrame(expected)
    for column in {"reward", "generation_ms", "correct_answer_reward_func"} & set(frame):
        np.testing.assert_allclose(run.steps[f"{column}_mean"], [frame[column].mean()])
    for index, row in enumerate(expected[:5]):
        texts = open_rollout(run, 0, index).record.texts
        assert row["prompt"][-1]["content"] in texts["prompt"]
        assert all(message["content"] in texts["response"] for message in row["completion"])
        assert ("[tool call]" in texts["response"]) == ("tool_calls" in str(row["completion"]))


def test_every_row_of_nemo_gyms_own_rollouts_opens():
    (info,) = discover(FORMATS / "nemo_gym").runs
    run = open_run(info)
    expected = [row for file in info.files for row in plain(file.path)]
    assert run.rollouts["reward"].tolist() == [row["reward"] for row in expected]
    for index, row in enumerate(expected):
        text = open_rollout(run, 0, index).record.texts["response"]
        for item in row["response"]["output"]:
            if item["type"] == "message":
                assert item["content"][0]["text"] in text
            elif item["type"] == "function_call":
                assert f"[tool call] {item['name']}({item['arguments']})" in text
            elif item["type"] == "function_call_output":
                assert item["output"] in text


def test_every_trace_of_prime_rls_stream_opens():
    (info,) = discover(FORMATS / "prime_rl").runs
    run = open_run(info)
    episodes = plain(FORMATS / "prime_rl" / "traces" / "stream" / "00000.jsonl")
    index = plain(FORMATS / "prime_rl" / "traces" / "stream.index.jsonl")
    ids = [trace["id"] for episode in episodes for trace in episode["traces"] or [episode]]
    assert run.rollouts["rollout_id"].tolist() == ids
    by_episode = run.rollouts.groupby(run.rollouts["episode"].fillna("episode-0003"))
    for row in index:
        if row["reward"] is not None:
            assert by_episode["reward"].mean()[row["id"]] == pytest.approx(row["reward"])
            assert by_episode["advantage"].mean()[row["id"]] == pytest.approx(row["advantage"])
            assert by_episode["response_tokens"].sum()[row["id"]] == row["output_tokens"]
    assert run.rollouts["error"].notna().sum() == 1


def test_no_file_of_another_format_is_taken_for_one_that_is_read():
    found = discover(FORMATS)
    assert {run.name: run.formats for run in found.runs} == {
        "broken": ("verifiers",),
        "nemo_gym": ("nemo_gym",),
        "prime_rl": ("episodes",),
        "rlloggingboard": ("rllb",),
        "verifiers/gsm8k": ("verifiers",),
        "verifiers/math_python": ("verifiers",),
        "verifiers/mcp_env": ("verifiers",),
        "verl": ("verl",),
        "xtuner": ("xtuner",),
    }
    on_disk = {path.relative_to(FORMATS).as_posix() for path in FORMATS.rglob("*.jsonl")}
    opened = {f.path.relative_to(FORMATS).as_posix() for run in found.runs for f in run.files}
    left_out = {problem.path for problem in found.left_out}
    assert on_disk - opened - left_out == {"broken/lfs_pointer.jsonl"}  # told of its run
    assert left_out == {"prime_rl/traces/stream.index.jsonl"}
    assert all(problem.reason for problem in found.left_out)


@pytest.mark.parametrize("where", ["xtuner", "xtuner/train_rollout_0.jsonl"])
def test_every_row_of_xtuners_older_file_opens(where):
    (info,) = discover(FORMATS / where).runs
    run = open_run(info)
    content = (FORMATS / "xtuner" / "train_rollout_0.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in content.split("\n") if line]
    assert (len(rows), run.steps["step"].tolist(), run.problems) == (32, [0], ())
    assert run.steps["reward_mean"].tolist() == [np.mean([row["reward"] for row in rows])]
    for index, row in enumerate(rows):
        record = open_rollout(run, 0, index).record
        assert record.texts == {
            "prompt": row["prompt"],
            "response": row["response"],
            "ground_truth": row["label"],
        }


def test_a_file_of_no_known_format_chosen_as_a_run_gives_a_reason_and_no_crash():
    found = discover(FORMATS / "broken" / "lfs_pointer.jsonl")
    assert found.runs == ()
    assert len(found.left_out) == 1
