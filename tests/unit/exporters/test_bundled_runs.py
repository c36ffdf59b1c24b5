"""The runs in `rollout_samples` are what their README says: real, whole, and without foreign paths."""

import json
from functools import cache
from typing import Any

import pytest
from read_formats import SAMPLES, sample_run

from exporters.examples import calculator
from exporters.examples.arithmetic import REWARDS

GRPO = {"grpo_arithmetic": "honest", "grpo_reward_hack": "loophole"}
ARITHMETIC = {**GRPO, "ppo_critic": "honest", "resumed": "honest"}
CALCULATOR, BY_TRL = "grpo_calculator", "grpo_calculator_trl"
RUNS = (*ARITHMETIC, CALCULATOR)

each_run = pytest.mark.parametrize("run", RUNS)


@cache
def lines(run: str) -> list[dict[str, Any]]:
    """Of all files in a run; the last of a killed process may be torn."""
    result = []
    for file in sorted((SAMPLES / run).glob("*.jsonl")):
        *whole, remainder = file.read_text().split("\n")
        result += [json.loads(line) for line in whole]
        assert not remainder or run == "resumed"
    return result


def samples(run: str) -> list[dict[str, Any]]:
    return [line for line in lines(run) if line["type"] == "sample"]


def completion(sample: dict[str, Any]) -> list[dict[str, Any]]:
    """The messages behind the system's and the user's."""
    return sample["messages"][2:]


@each_run
def test_every_reward_follows_from_its_text_or_messages(run):
    result = samples(run)
    reported = completion if run == CALCULATOR else lambda sample: sample["response"]
    texts, truths = [*map(reported, result)], [sample["ground_truth"] for sample in result]
    for function in calculator.REWARDS if run == CALCULATOR else REWARDS[ARITHMETIC[run]]:
        expected = function(completions=texts, ground_truth=truths)
        assert [s["rewards"][function.__name__] for s in result] == pytest.approx(expected)
    totals = [sum(sample["rewards"].values()) for sample in result]
    assert [sample["reward"] for sample in result] == pytest.approx(totals)


@each_run
def test_nothing_names_the_machine_it_ran_on(run):
    documents = [path.read_text() for path in (SAMPLES / run).glob("run-*.json")]
    settings = json.dumps([documents, [x for x in lines(run) if x["type"] == "header"]])
    assert "/" not in settings.replace("\\n", "")
    assert "host" not in settings


def test_the_bundled_runs_are_small():
    megabytes = {CALCULATOR: 5, BY_TRL: 1, "ppo_critic": 6, "resumed": 3, **dict.fromkeys(GRPO, 8)}
    for name, most in megabytes.items():
        files = (SAMPLES / name).rglob("*.*")
        assert sum(file.stat().st_size for file in files) <= most * 1e6


@each_run
def test_the_board_opens_it_without_a_problem(run):
    opened = sample_run(run)
    # Of the resumed run the board notes which steps were written twice.
    assert not [problem for problem in opened.problems if problem.severity != "note"]
    assert opened.steps["complete"].all()


def test_the_resumed_steps_replace_those_of_the_killed_launch():
    opened = sample_run("resumed")
    assert opened.superseded > 0
    assert opened.steps["rollouts"].tolist() == [32] * 24
    assert opened.steps["ranks"].tolist() == [2] * 10 + [1] * 14


def test_what_a_calculator_returned_is_what_it_calculates():
    calls = 0
    for sample in samples(CALCULATOR):
        waiting: list[dict[str, Any]] = []
        for message in completion(sample):
            waiting += [call["function"] for call in message.get("tool_calls", [])]
            if message["role"] != "tool":
                continue
            function = waiting.pop(0)
            assert function["name"] == message["name"]
            if function["name"] == "calculate" and not message["is_error"]:
                expected = calculator.Calculator().calculate(**function["arguments"])
                assert message["content"] == expected
                calls += 1
    assert calls > 1000


def test_the_board_reads_what_trl_wrote_as_texts():
    opened = sample_run(BY_TRL)
    assert not [problem for problem in opened.problems if problem.severity != "note"]
    assert opened.rollout_count == len(samples(CALCULATOR))
    ours = sample_run(CALCULATOR)
    for column in ("reward_mean", "rewards.correct_mean", "rewards.tool_errors_mean"):
        assert list(opened.steps[column]) == pytest.approx(list(ours.steps[column]), abs=1e-4)
