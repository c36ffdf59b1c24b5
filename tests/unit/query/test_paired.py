"""Two runs paired by prompt, at the steps that both have."""

import numpy as np
import pytest
from read_formats import run_of, sample_run

from board.query.compare.diverged import when_diverged
from board.query.compare.matching import matched_steps
from board.query.compare.paired import SOLVE_RATE, by_environment, paired_runs
from board.query.compare.seeds import differing_settings, seed_groups, usual_keys


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
    assert result.steps == ((3, 4), (3, 4))
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
    runs = [sample_run(name) for name in ("grpo_arithmetic", "grpo_reward_hack")]
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


def test_each_environment_has_its_difference_and_its_rate_of_false_discoveries(tmp_path):
    def rows(gain):
        return [
            {"step": s, "prompt": f"{env} {p}", "response": "r", "env": env, "reward": reward}
            for s in (1, 2)
            for env in ("easy", "hard")
            for p in range(12)
            for reward in [p / 20 + gain * (env == "hard")]
        ]

    easy, hard = by_environment(pair(tmp_path, rows(0.0), rows(0.5)), "reward")
    assert (easy.env, easy.paired.prompts, easy.paired.difference) == ("easy", 12, 0.0)
    assert hard.paired.difference == pytest.approx(0.5)
    assert hard.rate is not None
    assert easy.rate is not None
    assert hard.rate < 0.01 < easy.rate


def test_runs_are_matched_by_steps_tokens_or_time(tmp_path):
    def rows(steps, tokens, seconds):
        return [
            {
                "step": s,
                "prompt": "p",
                "response_tokens": list(range(tokens)),
                "timestamp": 100 + s * seconds,
            }
            for s in steps
        ]

    first = run_of(tmp_path / "a", rows(range(1, 9), 5, 10))
    second = run_of(tmp_path / "b", rows(range(3, 7), 10, 30))
    assert matched_steps(first, second, "steps") == ((3, 6), (3, 6))
    assert matched_steps(first, second, "time") == ((1, 8), (3, 5))


def test_when_two_runs_went_apart_is_a_step_after_it(tmp_path):
    import random

    random.seed(5)

    def rows(jump):
        return [
            {"step": s, "prompt": f"p{g}", "group_id": str(g), "response": "r", "reward": reward}
            for s in range(1, 41)
            for g in range(8)
            for _ in range(4)
            for reward in [random.gauss(0.5 + jump * (s > 20), 0.3)]
        ]

    first, other, same = (
        run_of(tmp_path / n, rows(j)) for n, j in (("a", 0), ("b", 0.5), ("c", 0))
    )
    apart = when_diverged(first, other, ["reward"])["reward"]
    assert apart.step is not None
    assert 20 < apart.step < 27
    assert apart.since == 21
    assert apart.paired == apart.steps == 40
    assert when_diverged(first, same, ["reward"])["reward"].step is None


def rewards_of_prompts(jump, seed, prompts, steps=100, groups=8):
    """Rollouts whose prompts are right with chances of their own, better by `jump` from step 31 on."""
    draw = np.random.default_rng(seed)
    chances = np.random.default_rng(7).beta(2, 2, (steps, groups))
    return [
        {
            "step": s,
            "prompt": f"{prompts} {s} {g}",
            "group_id": str(g),
            "response": "r",
            "reward": float(draw.random() < chances[s - 1, g] + jump * (s > 30)),
        }
        for s in range(1, steps + 1)
        for g in range(groups)
        for _ in range(8)
    ]


def test_a_small_difference_on_the_same_prompts_is_found_and_without_them_by_the_means_of_steps(
    tmp_path,
):
    first = run_of(tmp_path / "a", rewards_of_prompts(0, 1, "shared"))
    better = run_of(tmp_path / "b", rewards_of_prompts(0.1, 2, "shared"))
    found = when_diverged(first, better, ["reward"])["reward"]
    assert found.paired == 100
    assert found.step is not None
    assert found.earliest <= 31 <= found.latest
    assert found.difference == pytest.approx(0.1, abs=0.03)
    other = run_of(tmp_path / "c", rewards_of_prompts(0.3, 3, "others"))
    unpaired = when_diverged(first, other, ["reward"])["reward"]
    assert (unpaired.paired, unpaired.steps) == (0, 100)
    assert unpaired.step is not None
    filtered = when_diverged(first.where("step > 10"), better, ["reward"])["reward"]
    assert filtered.steps == 90


def test_runs_that_differ_in_their_seed_alone_are_one(tmp_path):
    import json

    runs = []
    for name, lr, seed in (("a", 0.1, 1), ("b", 0.1, 2), ("c", 0.1, 3), ("d", 0.2, 1)):
        rows = [{"step": s, "prompt": "p", "response": "r", "reward": float(seed)} for s in (1, 2)]
        (tmp_path / name / "run").mkdir(parents=True)
        (tmp_path / name / "run" / "run-z.json").write_text(
            json.dumps({"config": {"lr": lr, "seed": seed}})
        )
        runs.append(run_of(tmp_path / name, rows))
    assert differing_settings(runs) == {
        "config.lr": [0.1, 0.1, 0.1, 0.2],
        "config.seed": [1, 2, 3, 1],
    }
    assert usual_keys(runs) == ["config.lr"]
    together, alone = seed_groups(runs, ["config.lr"], "reward")
    assert (len(together.runs), together.mean.tolist()) == (3, [2.0, 2.0])
    assert together.low[0] < 2 < together.high[0]
    assert together.name == "lr = 0.1"
    assert alone.mean.tolist() == [1.0, 1.0]
    assert alone.interquartile[0] == 1.0
