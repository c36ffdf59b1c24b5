"""The runs in `rollout_samples` are what their README says: real, whole, and without foreign paths."""

import json
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from read_formats import SAMPLES, info_at, real_run

from board.query.open_run import Run
from exporters.examples import calculator
from exporters.examples.arithmetic import REWARDS

GRPO = {"grpo_arithmetic": "honest", "grpo_reward_hack": "loophole"}
ARITHMETIC = {**GRPO, "ppo_critic": "honest", "resumed": "honest"}
CALCULATOR, BY_TRL = "grpo_calculator", "grpo_calculator_trl"
RUNS = (*ARITHMETIC, CALCULATOR)
ARRAYS = ("logprobs", "sampling_logprobs", "ref_logprobs", "entropy")
PPO_ARRAYS = ("old_logprobs", "values", "token_rewards", "advantages", "returns")
PPO_ARRAYS += ("is_masked", "is_masked_high", "is_masked_low")

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


def board_run(run: str) -> Run:
    return real_run(info_at(SAMPLES / run))


def array(sample: dict[str, Any], name: str) -> np.ndarray:
    """[R] of a token array, written as one number where it is constant."""
    return np.broadcast_to(np.array(sample[name], float), len(sample["response_ids"]))


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


@pytest.mark.parametrize(
    ("run", "ranks", "least"), [*((r, 2, 100) for r in GRPO), ("ppo_critic", 1, 40)]
)
def test_every_step_is_whole_on_every_rank(run, ranks, least):
    ends = pd.DataFrame(line for line in lines(run) if line["type"] == "step_end")
    last = ends["step"].max()
    places = ends[["step", "rank"]].sort_values(["step", "rank"]).values.tolist()
    assert places == [[step, rank] for step in range(1, last + 1) for rank in range(ranks)]
    assert (ends["records"] == 32 // ranks).all()
    assert not ends["dropped"].any()
    assert len(samples(run)) == 32 * last
    assert last >= least


@pytest.mark.parametrize("run", GRPO)
def test_groups_have_eight_rollouts_of_one_prompt(run):
    prompts = pd.DataFrame(samples(run)).groupby(["step", "group_id"])["prompt"]
    assert set(prompts.size()) == {8}
    assert set(prompts.nunique()) == {1}


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
    opened = board_run(run)
    # Of the resumed run the board notes which steps were written twice.
    assert not [problem for problem in opened.problems if problem.severity != "note"]
    assert opened.steps["complete"].all()


@pytest.mark.parametrize(
    ("run", "part", "gain"),
    [
        ("ppo_critic", "correct", 0.1),
        (CALCULATOR, "correct", 0.05),
        (CALCULATOR, "tool_errors", 0.05),
    ],
)
def test_training_raises_what_it_rewards(run, part, gain):
    scores = pd.DataFrame({"step": s["step"], "score": s["rewards"][part]} for s in samples(run))
    means = scores.groupby("step")["score"].mean()
    assert means[-10:].mean() > means[:10].mean() + gain


def test_token_rewards_and_returns_follow_from_log_probabilities_score_and_values():
    (document,) = (SAMPLES / "ppo_critic").glob("run-*.json")
    config = json.loads(document.read_text())["config"]
    for sample in samples("ppo_critic"):
        rewards, values = array(sample, "token_rewards"), array(sample, "values")
        kl = array(sample, "old_logprobs") - array(sample, "ref_logprobs")
        penalty = -config["kl_weight"] * kl
        penalty[-1] += sample["reward"]
        assert rewards == pytest.approx(penalty, abs=2e-5, rel=1e-3)
        advantage, value_after, expected = 0.0, 0.0, []
        for reward, value in zip(rewards[::-1], values[::-1], strict=True):
            delta = reward + config["gamma"] * value_after - value
            advantage = delta + config["gamma"] * config["gae_lambda"] * advantage
            expected.append(advantage + value)
            value_after = value
        assert array(sample, "returns") == pytest.approx(expected[::-1], abs=2e-4)


def test_masked_tokens_are_those_beyond_the_clip_range():
    beyond = 0
    for sample in samples("ppo_critic"):
        ratio = np.exp(array(sample, "logprobs") - array(sample, "old_logprobs"))
        sign = np.sign(array(sample, "advantages"))
        high, low = array(sample, "is_masked_high") != 0, array(sample, "is_masked_low") != 0
        assert (ratio[high] > 1.199).all()
        assert (sign[high] > 0).all()
        assert (ratio[low] < 0.801).all()
        assert (sign[low] < 0).all()
        assert ((high | low) == (array(sample, "is_masked") != 0)).all()
        beyond += int((high | low).sum())
    assert beyond > 0


def test_the_resumed_run_went_on_with_another_number_of_ranks_after_a_kill():
    headers = [line for line in lines("resumed") if line["type"] == "header"]
    closed = {line.get("rank") for line in lines("resumed") if line["type"] == "close"}
    shapes = sorted((h["attempt"], h["world_size"], h["rank"], h["start_step"]) for h in headers)
    first, second = sorted({h["attempt"] for h in headers})
    assert [shape[1:] for shape in shapes] == [(2, 0, 1), (2, 1, 1), (1, 0, 11)]
    assert (shapes[0][0], shapes[2][0]) == (first, second)
    assert closed == {0}  # the resumed rank's: who is killed says no goodbye
    written = {s["step"] for s in samples("resumed")}
    assert written == set(range(1, 25))


def test_the_resumed_steps_replace_those_of_the_killed_launch():
    opened = board_run("resumed")
    assert opened.superseded > 0
    assert opened.steps["rollouts"].tolist() == [32] * 24
    assert opened.steps["ranks"].tolist() == [2] * 10 + [1] * 14


def test_tool_results_are_marked_timed_and_outside_the_loss():
    assert {sample["env"] for sample in samples(CALCULATOR)} == set(calculator.ENVIRONMENTS)
    for sample in samples(CALCULATOR):
        results = [m for m in completion(sample) if m["role"] == "tool"]
        assert all(m["is_error"] == m["content"].startswith("{'error': ") for m in results)
        assert all(m["seconds"] > 0 for m in completion(sample) if not m.get("is_error"))
        mask = np.broadcast_to(sample.get("loss_mask", 1), len(sample["response_ids"]))
        for part in sample["segments"]:
            assert (mask[part["start"] : part["end"]] == (part["role"] == "assistant")).all()
        assert sample["segments"][-1]["end"] == len(sample["response_ids"])


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


def reported(messages: list[dict[str, Any]], rewards: dict[str, float]) -> tuple[Any, ...]:
    """What identifies a rollout in both logs."""
    texts = tuple(f"{message['role']}: {message['content']}" for message in messages)
    return texts, round(rewards["correct"], 3), round(rewards["tool_errors"], 3)


def test_trl_wrote_the_same_rollouts_by_itself():
    files = sorted((SAMPLES / BY_TRL / "completions").glob("*.parquet"))
    rows = [row for file in files for row in pd.read_parquet(file).to_dict("records")]
    theirs = [(row["step"], *reported([*row["prompt"], *row["completion"]], row)) for row in rows]
    ours = [(s["step"], *reported(s["messages"], s["rewards"])) for s in samples(CALCULATOR)]
    assert sorted(theirs) == sorted(ours)


def test_the_board_reads_what_trl_wrote_as_texts():
    opened = board_run(BY_TRL)
    assert not [problem for problem in opened.problems if problem.severity != "note"]
    assert opened.rollout_count == len(samples(CALCULATOR))
    ours = board_run(CALCULATOR)
    for column in ("rewards.correct_mean", "rewards.tool_errors_mean"):
        assert list(opened.steps[column]) == pytest.approx(list(ours.steps[column]), abs=1e-4)
    assert "reward_mean" not in opened.steps  # TRL writes no total
