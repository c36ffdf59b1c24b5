"""Intervals of skewed values: what they hold, and where there is none."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from board.core.metrics.intervals import student_t
from board.core.metrics.paired import paired_difference
from board.core.metrics.skewed_means import (
    LEAST_UNBOUNDED,
    interval_by_clusters,
    interval_of_steps,
    interval_over_steps,
    skewed_mean_interval,
)


def groups_of(sigma: float, seed: int, groups: int = 4):
    """Means, errors and groups of 40 steps of lognormal values."""
    values = np.random.default_rng(seed).lognormal(0, sigma, (40, groups))
    error = values.std(axis=1, ddof=1) / np.sqrt(groups)
    return values.mean(axis=1), error, np.full(40, float(groups))


@given(st.lists(st.integers(-50, 50), min_size=4, max_size=40).filter(lambda x: len({*x}) > 1))
def test_the_interval_holds_that_of_students_t_and_turns_with_the_sign(numbers):
    values = np.array(numbers, float)
    low, high = skewed_mean_interval(values)
    reach = student_t(np.array(len(values) - 1.0)) * values.std(ddof=1) / np.sqrt(len(values))
    assert low <= values.mean() - reach + 1e-9
    assert high >= values.mean() + reach - 1e-9
    assert np.allclose(skewed_mean_interval(-values), (-high, -low))


def test_clusters_of_equal_size_have_the_interval_of_their_means():
    means = np.random.default_rng(0).lognormal(0, 1, 30)
    error, terms = means.std(ddof=1) / np.sqrt(30), (means - means.mean()) / 30
    third, count = np.array((terms**3).sum()), np.array(30.0)
    made = interval_by_clusters(np.array(means.mean()), np.array(error), third, count)
    assert np.allclose(made, skewed_mean_interval(means))


@pytest.mark.parametrize(("prompts", "most", "has"), [(19, np.inf, 0), (20, np.inf, 1), (6, 1, 1)])
def test_few_prompts_have_an_interval_where_differences_have_bounds(prompts, most, has):
    made = paired_difference(np.linspace(-0.5, 0.9, prompts), most)
    assert (made.low is not None) == bool(has)
    assert bool(made.no_interval) != bool(has)
    assert made.p is not None


@pytest.mark.parametrize(("sigma", "shown"), [(0.5, 1.0), (2.5, 0.0)])
def test_steps_of_very_skewed_means_have_no_interval(sigma, shown):
    runs = [groups_of(sigma, seed) for seed in range(20)]
    has = [np.isfinite(interval_of_steps(*run)[0]).all() for run in runs]
    over = [
        np.isfinite(interval_over_steps(mean[-10:], error[-10:], many[-10:], (mean, error))[0])
        for mean, error, many in runs
    ]
    assert abs(np.mean(has) - shown) <= 0.2
    assert abs(np.mean(over) - shown) <= 0.2


def test_few_steps_have_an_interval_of_enough_groups_alone():
    few, many = (groups_of(0.5, 0, groups) for groups in (4, LEAST_UNBOUNDED))
    assert np.isnan(interval_of_steps(*(x[:5] for x in few))[0]).all()
    assert np.isfinite(interval_of_steps(*(x[:5] for x in many))[0]).all()
