"""The runs in `rollout_samples` are what their README says: real, whole, and without foreign paths."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from exporters.examples.arithmetic import REWARDS

ROOT = Path(__file__).parents[3] / "rollout_samples"
RUNS = {"grpo_arithmetic": "honest", "grpo_reward_hack": "loophole"}
ARRAYS = ("logprobs", "sampling_logprobs", "ref_logprobs", "entropy")

each_run = pytest.mark.parametrize("run", RUNS)


@cache
def lines(run: str) -> list[dict[str, Any]]:
    files = sorted((ROOT / run).glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def samples(run: str) -> list[dict[str, Any]]:
    return [line for line in lines(run) if line["type"] == "sample"]


@each_run
def test_every_reward_follows_from_its_text(run: str) -> None:
    found = samples(run)
    texts = [sample["response"] for sample in found]
    truths = [sample["ground_truth"] for sample in found]
    for function in REWARDS[RUNS[run]]:
        expected = function(completions=texts, ground_truth=truths)
        assert [s["rewards"][function.__name__] for s in found] == pytest.approx(expected)
    totals = [sum(sample["rewards"].values()) for sample in found]
    assert [sample["reward"] for sample in found] == pytest.approx(totals)


@each_run
def test_every_step_is_whole_on_both_ranks(run: str) -> None:
    ends = [line for line in lines(run) if line["type"] == "step_end"]
    last = max(end["step"] for end in ends)
    assert sorted((end["step"], end["rank"]) for end in ends) == [
        (step, rank) for step in range(1, last + 1) for rank in (0, 1)
    ]
    assert {(end["records"], end["dropped"]) for end in ends} == {(16, 0)}
    assert len(samples(run)) == 32 * last
    assert last >= 100


@each_run
def test_every_array_is_as_long_as_its_response(run: str) -> None:
    for sample in samples(run):
        length = len(sample["response_ids"])
        for name in ARRAYS:
            assert isinstance(sample[name], float) or len(sample[name]) == length


@each_run
def test_groups_have_eight_rollouts_of_one_prompt(run: str) -> None:
    groups: dict[tuple[int, str], list[str]] = {}
    for sample in samples(run):
        groups.setdefault((sample["step"], sample["group_id"]), []).append(sample["prompt"])
    assert {(len(prompts), len(set(prompts))) for prompts in groups.values()} == {(8, 1)}


@each_run
def test_nothing_names_the_machine_it_ran_on(run: str) -> None:
    (document,) = (ROOT / run).glob("run-*.json")
    settings = json.dumps([document.read_text(), [x for x in lines(run) if x["type"] == "header"]])
    assert "/" not in settings.replace("\\n", "")
    assert "host" not in settings


def test_both_runs_fit_in_twenty_megabytes() -> None:
    assert sum(file.stat().st_size for file in ROOT.rglob("*") if file.is_file()) <= 20_000_000
