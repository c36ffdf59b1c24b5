"""Paired differences: their sign, their counts, and how often their interval covers the truth."""

import numpy as np
import pytest

from board.core.metrics import paired
from board.core.metrics.paired import paired_difference


def test_the_difference_is_the_mean_of_b_minus_a_over_prompts_that_both_have():
    nan = float("nan")
    one = paired_difference(np.array([1.0, 0.0, -0.25, nan]))
    assert one.prompts == 3
    assert one.difference == pytest.approx(0.25)
    assert (one.won, one.lost, one.equal) == (1, 1, 1)


def test_one_prompt_has_no_interval_and_none_no_difference():
    one = paired_difference(np.array([1.0]))
    assert (one.difference, one.low, one.high) == (1.0, None, None)
    none = paired_difference(np.array([]))
    assert (none.prompts, none.difference, none.low) == (0, None, None)


def test_equal_runs_differ_by_nothing():
    one = paired_difference(np.zeros(50))
    assert (one.difference, one.low, one.high, one.equal) == (0.0, 0.0, 0.0, 50)


def test_the_same_numbers_give_the_same_interval():
    rng = np.random.default_rng(1)
    first, second = rng.random((2, 40))
    assert paired_difference(second - first) == paired_difference(second - first)


@pytest.mark.parametrize("prompts", [16, 64])
def test_the_interval_covers_the_difference_in_about_95_of_100_samples(monkeypatch, prompts):
    monkeypatch.setattr(paired, "RESAMPLES", 500)
    rng, covered, samples = np.random.default_rng(prompts), 0, 1000
    for _ in range(samples):
        difficulty = rng.random(prompts)
        first = rng.binomial(8, difficulty) / 8
        second = rng.binomial(8, np.clip(difficulty + 0.1, 0, 1)) / 8
        truth = float((np.clip(difficulty + 0.1, 0, 1) - difficulty).mean())
        one = paired_difference(second - first)
        covered += one.low <= truth <= one.high
    assert 0.93 <= covered / samples <= 0.985


def test_pairing_tells_runs_apart_that_their_means_alone_do_not():
    rng = np.random.default_rng(0)
    difficulty = rng.random(100)
    first, second = difficulty, difficulty + 0.05 + 0.02 * rng.normal(size=100)
    one = paired_difference(second - first)
    unpaired = 1.96 * np.sqrt(first.var(ddof=1) / 100 + second.var(ddof=1) / 100)
    assert one.low > 0
    assert one.difference < unpaired
