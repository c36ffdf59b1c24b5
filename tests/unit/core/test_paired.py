"""Paired differences: their sign, their counts, and how often their interval covers the truth."""

from itertools import product
from statistics import NormalDist

import numpy as np
import pytest

from board.core.metrics.paired import paired_difference, sign_flip_p


def test_the_difference_is_the_mean_of_b_minus_a_over_prompts_that_both_have():
    nan = float("nan")
    one = paired_difference(np.array([1.0, 0.0, -0.25, nan]))
    assert one.prompts == 3
    assert one.difference == pytest.approx(0.25)
    assert (one.won, one.lost, one.equal) == (1, 1, 1)


@pytest.mark.parametrize("deltas", [[1.0], [1.0, 1.0], [0.1, 0.4, 0.2, 0.3, 0.5]])
def test_fewer_than_six_prompts_have_a_difference_and_neither_interval_nor_p(deltas):
    one = paired_difference(np.array(deltas))
    assert one.difference == pytest.approx(np.mean(deltas))
    assert (one.low, one.high, one.p) == (None, None, None)
    assert one.no_interval == "no interval: fewer than 6 prompts"
    none = paired_difference(np.array([]))
    assert (none.prompts, none.difference, none.low) == (0, None, None)


def test_differences_that_are_all_alike_have_a_p_and_no_interval():
    one = paired_difference(np.zeros(50))
    assert (one.difference, one.low, one.p, one.equal) == (0.0, None, 1.0, 50)
    one = paired_difference(np.ones(6))
    assert (one.low, one.p, one.won) == (None, 2 / 2**6, 6)
    assert one.no_interval


def test_p_is_the_share_of_all_flips_of_signs_that_are_as_extreme():
    rng = np.random.default_rng(0)
    for count in (6, 11):
        deltas = np.round(rng.normal(0.3, 1, count), 1)
        signs = np.array([*product([1, -1], repeat=count)])
        extreme = np.abs(signs @ np.abs(deltas)) >= abs(deltas.sum()) - 1e-9
        assert paired_difference(deltas).p == pytest.approx(extreme.mean())
    deltas = rng.normal(0.4, 1, 13)
    signs = np.array([*product([1, -1], repeat=13)])
    extreme = np.abs(signs @ np.abs(deltas)) >= abs(deltas.sum()) - 1e-9
    assert sign_flip_p(deltas) == pytest.approx(extreme.mean(), abs=0.02)


def test_p_of_many_prompts_is_small_where_they_differ_and_about_students_t():
    rng = np.random.default_rng(1)
    for count in (400, 2000):
        deltas = rng.normal(0, 1, count)
        z = abs(deltas.mean()) * np.sqrt(count) / deltas.std(ddof=1)
        normal = 2 * (1 - NormalDist().cdf(z))
        assert sign_flip_p(deltas) == pytest.approx(normal, abs=0.03)
        assert sign_flip_p(deltas + 1) < 1e-10


def test_the_same_numbers_give_the_same_interval():
    rng = np.random.default_rng(1)
    first, second = rng.random((2, 40))
    assert paired_difference(second - first) == paired_difference(second - first)


def test_pairing_tells_runs_apart_that_their_means_alone_do_not():
    rng = np.random.default_rng(0)
    difficulty = rng.random(100)
    first, second = difficulty, difficulty + 0.05 + 0.02 * rng.normal(size=100)
    one = paired_difference(second - first)
    unpaired = 1.96 * np.sqrt(first.var(ddof=1) / 100 + second.var(ddof=1) / 100)
    assert one.low > 0
    assert one.difference < unpaired
