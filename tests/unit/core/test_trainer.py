"""The trainer against the rollouts: shifted steps, differences, names, and what explains a spike."""

import math
from dataclasses import replace

import numpy as np
import pytest

from board.core.metrics.trainer import (
    SAME,
    TOPICS,
    Means,
    agreement,
    detect_shift,
    explaining_column,
)

STEPS = np.arange(1, 31)
REWARDS = np.sin(STEPS) + 2


def means(values=REWARDS, steps=STEPS, column="reward", weighting="rollouts") -> Means:
    counts = np.full(len(steps), 8)
    return Means(column, weighting, steps, np.asarray(values), np.full(len(steps), 0.5), counts)


def test_equal_means_agree_at_every_step():
    one = agreement("trainer/reward", STEPS, REWARDS * (1 + 1e-5), [means()])
    assert not one.differs.any()
    assert one.summary == "trainer/reward and reward (mean over rollouts) agree at all 30 steps"


def test_a_step_differs_by_more_than_two_per_cent_and_a_hundredth_of_the_spread():
    theirs = REWARDS.copy()
    theirs[4] += 0.02 * theirs[4] + 0.004  # less than both bounds together
    theirs[9] += 0.1
    one = agreement("trainer/reward", STEPS, theirs, [means()])
    assert STEPS[one.differs].tolist() == [10]
    assert one.steps[one.worst] == 10
    assert "differ at 1 of 30 steps, most at step 10: trainer " in one.summary


def test_what_is_missing_of_the_trained_rollouts_is_said():
    one = agreement("trainer/reward", STEPS, REWARDS + 0.3, [means()])
    one = replace(one, missing=(2,) * 30)
    assert one.words(0).endswith("over 8 of 10 recorded: 2 are missing")


def test_the_mean_that_comes_closest_is_compared():
    tokens = means(REWARDS + 0.5, column="k3_mean", weighting="tokens")
    rollouts = means(REWARDS, column="k3_mean")
    one = agreement("trainer/kl", STEPS, REWARDS + 0.5, [rollouts, tokens])
    assert (one.weighting, one.differs.any()) == ("tokens", np.False_)


def test_steps_that_only_one_has_are_not_compared():
    assert agreement("trainer/reward", STEPS + 100, REWARDS, [means()]) is None
    gap = REWARDS.copy()
    gap[3] = math.nan
    one = agreement("trainer/reward", STEPS, gap, [means()])
    assert 4 not in one.steps


@pytest.mark.parametrize("shift", [-1, 0, 1])
def test_the_shift_of_a_trainer_that_counts_from_another_step_is_found(shift):
    curves = {"reward": (STEPS - shift, REWARDS)}
    assert detect_shift(curves, {"reward": [means()]}) == (shift, "reward")


def test_no_shift_is_found_where_nothing_or_too_little_is_in_both():
    assert detect_shift({"loss": (STEPS, REWARDS)}, {"reward": [means()]}) == (0, "")
    few = {"reward": (STEPS[:3] - 1, REWARDS[:3])}
    assert detect_shift(few, {"reward": [means()]}) == (0, "")


def test_a_mean_that_is_off_by_a_constant_is_not_moved():
    rising = STEPS * 0.25
    curves = {"reward": (STEPS, rising + 0.25 + 0.05 * np.sin(STEPS))}
    assert detect_shift(curves, {"reward": [means(rising)]}) == (0, "")


def test_a_flat_reward_shows_no_shift():
    flat = np.ones(30)
    assert detect_shift({"reward": (STEPS, flat)}, {"reward": [means(flat)]})[0] == 0


def test_a_spike_is_explained_by_what_stands_out_most():
    kl, length = np.full(30, 0.1) + REWARDS / 100, 100 + REWARDS
    kl[11] = 5.0
    length[20] = 200
    curves = {"k3_mean": kl, "response_tokens": length}
    assert explaining_column(STEPS, curves, 12) == "k3_mean"
    assert explaining_column(STEPS, curves, 21) == "response_tokens"
    assert explaining_column(STEPS, curves, 99) is None


def test_rounding_of_a_constant_explains_no_spike():
    ratio = np.ones(30)
    ratio[11] += 1e-5
    kl = 0.1 + REWARDS / 100
    curves = {"importance_ratio_mean": ratio, "k3_mean": kl}
    assert explaining_column(STEPS, curves, 12) == "k3_mean"


NAMES = {
    "TRL": {
        "Loss": "loss",
        "Gradient norm": "grad_norm",
        "Learning rate": "learning_rate",
        "Clip fraction": "clip_ratio/low_mean",
        "KL": "kl",
        "Entropy": "entropy",
    },
    "verl": {
        "Loss": "actor/pg_loss",
        "Gradient norm": "actor/grad_norm",
        "Learning rate": "actor/lr",
        "Clip fraction": "actor/pg_clipfrac",
        "KL": "actor/kl_loss",
        "Entropy": "actor/entropy",
    },
    "prime-rl": {
        "Loss": "loss/mean",
        "Gradient norm": "optim/grad_norm",
        "Learning rate": "optim/lr",
        "Clip fraction": "is_masked/all/mean",
        "KL": "mismatch_kl/all/mean",
        "Entropy": "entropy/all/mean",
    },
    "slime": {
        "Loss": "train/loss",
        "Gradient norm": "train/grad_norm",
        "Learning rate": "train/lr-pg_0",
        "Clip fraction": "train/pg_clipfrac",
        "KL": "train/kl_loss",
        "Entropy": "train/entropy_loss",
    },
    "Tinker": {
        "Learning rate": "optim/lr",
        "KL": "optim/kl_sample_train_v1",
        "Entropy": "optim/entropy",
    },
}
"""By framework what it calls the metric of each chart, from its source (docs/trainer_metrics.md)."""


@pytest.mark.parametrize("framework", NAMES)
def test_the_usual_charts_are_found_by_the_names_of_each_framework(framework):
    names = [f"trainer/{name}" for name in NAMES[framework].values()]
    found = {topic.title: own[0] for topic in TOPICS if (own := topic.of(names))}
    assert found == {title: f"trainer/{name}" for title, name in NAMES[framework].items()}


@pytest.mark.parametrize(
    ("column", "name"),
    [
        ("reward", "reward"),
        ("reward", "critic/score/mean"),
        ("reward", "env/all/reward/total"),
        ("reward", "rollout/raw_reward"),
        ("reward", "train/agg/effective/agent/reward/mean"),
        ("response_tokens", "completions/mean_length"),
        ("response_tokens", "response_length/mean"),
        ("response_tokens", "rollout/response_len/mean"),
        ("entropy_mean", "actor/entropy"),
    ],
)
def test_means_of_rollouts_are_found_by_the_names_of_trainers(column, name):
    assert SAME[column].of([f"trainer/{name}"]) == [f"trainer/{name}"]


@pytest.mark.parametrize(
    "name", ["eval/reward", "rewards/correct/mean", "reward_std", "val/reward"]
)
def test_evaluations_and_parts_are_not_the_reward_of_training(name):
    assert SAME["reward"].of([f"trainer/{name}"]) == []
