"""Two runs paired by prompt, at the steps that both have."""

import pytest
from read_formats import run_of

from board.cli.runs import find_run
from board.query.compare.paired import SOLVE_RATE, paired_runs
from board.query.open_run import open_run


def lines(steps, reward, prompts=range(4), **more):
    return [
        {"step": s, "prompt": f"p{p}", "response": "r", "reward": reward(s, p), **more}
        for s in steps
        for p in prompts
    ]


def pair(tmp_path, first, second):
    runs = [run_of(tmp_path / name, rows) for name, rows in (("a", first), ("b", second))]
    return paired_runs(*runs)


def test_prompts_that_both_saw_are_compared_at_the_steps_that_both_have(tmp_path):
    first = lines(range(1, 5), lambda s, p: float(p % 2))
    second = lines(range(3, 9), lambda s, p: 1.0 if s < 5 else 0.0, prompts=range(1, 6))
    result = pair(tmp_path, first, second)
    assert result.steps == (3, 4)
    assert len(result.keys) == 3
    reward = result.differences["reward"]
    assert (reward.prompts, reward.won, reward.lost, reward.equal) == (3, 1, 0, 2)
    assert reward.difference == pytest.approx(1 / 3)
    assert result.differences[SOLVE_RATE].won == 1


def test_runs_without_a_common_step_or_prompt_have_no_differences(tmp_path):
    first = lines([1], lambda s, p: 1.0)
    assert pair(tmp_path / "x", first, lines([5], lambda s, p: 1.0)).steps is None
    other = pair(tmp_path / "y", first, lines([1], lambda s, p: 1.0, prompts=[7, 8]))
    assert (other.differences, len(other.keys)) == ({}, 0)


def test_rewards_of_different_parts_are_said_and_common_parts_come_first(tmp_path):
    first = lines([1, 2], lambda s, p: 1.0 * p, rewards={"correct": 1.0, "format": 0.5})
    second = lines([1, 2], lambda s, p: 2.0 * p, rewards={"correct": 0.0, "effort": 0.5})
    result = pair(tmp_path, first, second)
    assert "A: correct, format; B: correct, effort" in result.reward_note
    names = [name for name in result.differences if name.startswith("reward")]
    assert names == ["rewards.correct", "reward"]
    assert result.differences["rewards.correct"].lost == 4


def test_the_hacked_run_is_worse_at_what_is_correct():
    """grpo_reward_hack was paid for effort, not for being right."""
    runs = [open_run(find_run(name)) for name in ("grpo_arithmetic", "grpo_reward_hack")]
    result = paired_runs(*runs)
    correct = result.differences["rewards.correct"]
    assert correct.prompts == 48
    assert correct.high < 0
    assert result.reward_note


def test_halves_of_one_run_do_not_differ(tmp_path):
    import random

    random.seed(3)
    rows = lines(range(1, 21), lambda s, p: float(random.random() < 0.2 + p / 10), range(8))
    halves = [rows[0::2], rows[1::2]]
    every = [
        [{**row, "prompt": row["prompt"]} for row in rows if random.random() < 0.5] for _ in halves
    ]
    reward = pair(tmp_path, *every).differences["reward"]
    assert reward.low <= 0 <= reward.high
