"""What compared runs say in one sentence, and where they stand over the steps that all of them have."""

import json
import math
import random

import numpy as np
import pytest
from read_formats import run_of, sample_run

from board.query.compare.answer import answer, answer_of, run_names, summary
from board.query.compare.ends import run_ends
from board.query.compare.paired import paired_runs
from board.query.compare.seeds import seed_groups

COMMON = "experiments_2026-11_Qwen2.5-7B-Instruct_grpo_gsm8k_hinted_"


def rows(steps, rate, prompts=range(10), groups=4, seed=0, **more):
    dice = random.Random(seed)
    return [
        {
            "step": step,
            "prompt": f"p{prompt}",
            "group_id": f"{step}-{prompt}",
            "response": "r" * 10,
            "reward": float(dice.random() < rate),
            "env": "even" if prompt % 2 else "odd",
            **more,
        }
        for step in steps
        for prompt in prompts
        for _ in range(groups)
    ]


def sentence(tmp_path, first, second, **options):
    runs = [run_of(tmp_path / name, part) for name, part in (("a", first), ("b", second))]
    return answer(paired_runs(*runs, **options)).sentence("A", "B")


def test_the_sentence_says_difference_interval_prompts_steps_and_answer():
    runs = [sample_run("grpo_arithmetic"), sample_run("resumed")]
    assert answer(paired_runs(*runs)).sentence("grpo_arithmetic", "resumed") == (
        "resumed - grpo_arithmetic: solve rate -0.007 (-0.044 to 0.034) on 48 prompts, steps 1 to 24: "
        "no difference seen"
    )


@pytest.mark.parametrize(
    ("rate", "end"), [(0.9, ": B is higher"), (0.1, ": B is lower"), (0.5, ": no difference seen")]
)
def test_the_answer_is_that_of_the_interval(tmp_path, rate, end):
    said = sentence(tmp_path, rows(range(1, 5), 0.5), rows(range(1, 5), rate, seed=1))
    assert said.startswith("B - A: solve rate ")
    assert said.endswith(end)


def test_few_shared_prompts_are_too_few_however_large_the_difference_is(tmp_path):
    said = sentence(tmp_path, rows([1], 0.0, range(5)), rows([1], 1.0, range(5)))
    assert said.endswith("on 5 prompts, step 1: too few shared prompts to tell")


@pytest.mark.parametrize(
    ("second", "why"),
    [
        (rows([9], 0.5), "no step is in both runs"),
        (rows([1], 0.5, range(90, 99)), "no prompt is in both runs"),
        ([{"step": 1, "response": "r", "reward": 1.0}], "prompts are not recorded in both runs"),
        ([{"step": 1, "prompt": "p1", "response": "r"}], "no reward is recorded in both runs"),
        (rows([1], 0.5, rewards={"other": 1.0}), "the rewards have different parts"),
    ],
)
def test_what_could_not_be_compared_is_said(tmp_path, second, why):
    said = sentence(tmp_path, rows([1], 0.5, rewards={"style": 1.0}), second)
    assert said.startswith(f"B - A: not compared: {why}")


def test_steps_are_matched_as_they_are_moved(tmp_path):
    said = sentence(tmp_path, rows([1, 2], 0.5), rows([101, 102], 0.5), shift=-100)
    assert "steps 1 to 2 of A, 101 to 102 of B" in said


def test_the_answer_alone_is_that_of_all_metrics():
    runs = [sample_run(name) for name in ("grpo_arithmetic", "resumed", "grpo_reward_hack")]
    answers = [answer_of(runs[0], run, "steps") for run in runs[1:]]
    assert answers == [answer(paired_runs(runs[0], run)) for run in runs[1:]]
    assert summary("x", answers) == (
        "Solve rate of 2 runs against x: no difference seen in 1, lower in 1"
    )


def test_runs_that_are_called_alike_are_named_by_their_paths(tmp_path):
    runs = [run_of(tmp_path / name, rows([1], 0.5)) for name in ("a", "b")]
    assert len({*run_names(runs)}) == 2


def test_ends_are_over_the_last_steps_that_all_runs_have(tmp_path):
    runs = [run_of(tmp_path / "a", rows(range(1, 31), 0.5))]
    runs += [run_of(tmp_path / "b", rows(range(105, 121), 0.5, seed=1))]
    assert [len(end.steps) for end in run_ends(runs, [0, 0], ["reward"])] == [0]
    assert math.isnan(run_ends(runs, [0, 0], ["reward"])[0].gaps[0].value)
    (end,) = run_ends(runs, [0, -100], ["reward"])
    assert end.steps_text == "steps 11 to 20"
    means = [run.steps.set_index("step")["reward_mean"] for run in runs]
    assert end.means[0].value == pytest.approx(means[0].loc[11:20].mean())
    assert end.means[1].value == pytest.approx(means[1].loc[111:120].mean())
    assert end.gaps[0].value == pytest.approx(end.means[1].value - end.means[0].value)


def test_intervals_of_ends_cover_the_truth_of_19_in_20_runs(tmp_path):
    run = run_of(tmp_path, rows(range(1, 401), 0.3))
    means = [
        run_ends([run.where(steps=(low, low + 9))], [0], ["reward"])[0] for low in range(1, 400, 10)
    ]
    covers = [end.means[0].low <= 0.3 <= end.means[0].high for end in means]
    assert np.mean(covers) >= 0.85


def test_a_narrowed_run_has_the_interval_of_the_run_that_would_hold_these_rollouts_alone(tmp_path):
    log = rows(range(1, 9), 0.4)
    narrowed = run_of(tmp_path / "a", log).where(envs=["odd"])
    alone = run_of(tmp_path / "b", [row for row in log if row["env"] == "odd"])
    ends = [run_ends([run], [0], ["reward"]) for run in (narrowed, alone)]
    assert [end.means for end in ends[0]] == [end.means for end in ends[1]]


def test_a_mean_without_groups_has_the_interval_over_its_steps(tmp_path):
    rewards = np.random.default_rng(0).normal(size=40).tolist()
    log = [{"step": s, "response": "r", "reward": reward} for s, reward in enumerate(rewards)]
    (end,) = run_ends([run_of(tmp_path / "a", log)], [0], ["reward"])
    value, low, high = end.means[0]
    assert value == pytest.approx(np.mean(rewards[-10:]))
    # Wider than of independent steps: that they are so has to be told by these steps, too.
    assert 2 * 1.96 / np.sqrt(10) < high - low < 6 * 1.96 / np.sqrt(10)
    (few,) = run_ends([run_of(tmp_path / "b", log[:19])], [0], ["reward"])
    assert np.isnan([few.means[0].low, few.means[0].high]).all()


def test_rewards_of_different_parts_are_not_subtracted_at_the_end(tmp_path):
    runs = [run_of(tmp_path / name, rows([1], 0.5, rewards={name: 1.0})) for name in ("a", "b")]
    (end,) = run_ends(runs, [0, 0], ["reward"])
    assert math.isfinite(end.means[1].value)
    assert math.isnan(end.gaps[0].value)


def test_groups_of_runs_with_settings_that_read_alike_have_different_names(tmp_path):
    runs = []
    for place, value in enumerate((1, "1", COMMON * 3 + "x", COMMON * 3 + "y")):
        runs.append(run_of(tmp_path / str(place), rows([1], 0.5)))
        (tmp_path / str(place) / "run" / "run-z.json").write_text(
            json.dumps({"config": {"model": value}})
        )
    runs = [run_of(tmp_path / str(place), rows([1], 0.5)) for place in range(4)]
    names = [group.name for group in seed_groups(runs, ["config.model"], "reward")]
    assert len({*names}) == 4
    assert all(len(name) <= 60 for name in names)
