"""Two runs and several seeds: each interval and each alarm holds its rate on simulated runs."""

import numpy as np
import pytest

from board.core.metrics.divergence import RATE, divergence, normal_deviates
from board.core.metrics.paired import false_discovery_rates
from board.core.metrics.planned import POWER, Plan, prompts_needed
from board.core.metrics.sample_size import variances
from board.core.metrics.seeds import (
    difference_of_runs,
    interquartile_interval,
    interquartile_mean,
    over_seeds,
    performance_profile,
)


def runs(rng, steps=80, groups=8, jump=0.0, at=40):
    """Difference of two runs at each step, with standard error and degrees of freedom."""
    values = rng.normal(size=(2, steps, groups)) + 0.5
    values[1, at:] += jump
    means, errors = values.mean(axis=2), values.std(axis=2, ddof=1) / np.sqrt(groups)
    error = np.sqrt((errors**2).sum(axis=0))
    freedom = np.full(steps, 2.0 * (groups - 1))
    return np.arange(1, steps + 1), means[1] - means[0], error, freedom


def test_runs_that_do_not_differ_raise_an_alarm_at_most_at_the_stated_rate():
    rng = np.random.default_rng(0)
    alarms = [divergence(*runs(rng)).step is not None for _ in range(600)]
    assert np.mean(alarms) <= RATE


def test_runs_that_differ_from_a_step_on_are_found_after_it():
    rng = np.random.default_rng(1)
    found = [divergence(*runs(rng, jump=1.0)) for _ in range(100)]
    assert all(one.step is not None for one in found)
    steps = [one.step for one in found if one.step is not None]
    assert np.mean([41 <= step <= 60 for step in steps]) >= 0.95
    assert np.median([one.since for one in found if one.since]) == pytest.approx(41, abs=3)
    assert np.median([one.difference for one in found if one.difference]) == pytest.approx(
        1, abs=0.3
    )


def test_steps_without_an_error_say_nothing():
    steps, nothing = np.arange(3), np.full(3, np.nan)
    assert divergence(steps, np.ones(3), nothing, np.ones(3)).steps == 0
    assert divergence(steps, np.ones(3), np.zeros(3), np.ones(3)).step is None


@pytest.mark.parametrize("freedom", [3, 7, 30])
def test_deviates_of_students_t_are_normal(freedom):
    t = np.random.default_rng(2).standard_t(freedom, 200_000)
    z = normal_deviates(t, np.full(len(t), float(freedom)))
    levels = [0.005, 0.025, 0.5, 0.975, 0.995]
    np.testing.assert_allclose(np.quantile(z, levels), [-2.576, -1.96, 0, 1.96, 2.576], atol=0.06)


def test_the_interval_over_seeds_covers_at_its_rate():
    rng = np.random.default_rng(3)
    _, low, high = over_seeds(rng.normal(size=(4, 20_000)))
    assert np.mean((low <= 0) & (high >= 0)) == pytest.approx(0.95, abs=0.005)


def test_two_seeds_have_a_mean_and_no_interval():
    mean, low, high = over_seeds(np.array([[1.0, np.nan], [3.0, np.nan]]))
    assert mean[0] == 2.0
    assert np.isnan([mean[1], *low, *high]).all()


def test_the_interquartile_mean_leaves_out_a_quarter_at_each_end():
    assert interquartile_mean(np.array([100.0, 1.0, 2.0, -50.0])) == 1.5
    assert interquartile_mean(np.array([1.0, 2.0, np.nan])) == 1.5
    # As scipy's trim_mean, which rliable calls: of 7 scores one is left out at each end.
    assert interquartile_mean(np.array([0.0, 1, 2, 3, 4, 7, 99])) == pytest.approx(17 / 5)
    assert np.isnan(interquartile_mean(np.array([np.nan])))


def test_runs_that_are_all_alike_or_two_have_no_interval():
    assert np.isnan(interquartile_interval(np.zeros((2, 3)))).all()
    assert np.isnan(interquartile_interval(np.ones((4, 3)))).all()
    mean, low, high = over_seeds(np.ones((4, 1)))
    assert (mean[0], np.isnan([low[0], high[0]]).all()) == (1, True)


def test_groups_of_runs_differ_by_welchs_interval():
    first, second = np.array([0.1, 0.2, 0.3]), np.array([0.5, 0.6, 0.55, 0.5])
    value, low, high = difference_of_runs(first, second)
    # By scipy.stats.ttest_ind(second, first, equal_var=False).confidence_interval()
    assert (value, low, high) == pytest.approx((0.3375, 0.1251608, 0.5498392), rel=5e-3)
    assert np.isnan(difference_of_runs(first[:2], second)).all()


def test_a_profile_is_the_share_of_scores_above_each_threshold():
    scores = np.array([[0.0, 1.0], [0.5, np.nan]])
    shares = performance_profile(scores, np.array([-1.0, 0.0, 0.5, 1.0]))
    np.testing.assert_allclose(shares, [1, 2 / 3, 1 / 3, 0])


def test_rates_of_false_discoveries_are_those_of_benjamini_and_hochberg():
    # By hand: 4 values; 0.03 is third of four, 0.04 fourth.
    rates = false_discovery_rates(np.array([0.04, 0.01, np.nan, 0.03, 0.02]))
    np.testing.assert_allclose(rates, [0.04, 0.04, np.nan, 0.04, 0.04])
    np.testing.assert_allclose(false_discovery_rates(np.array([0.5, 0.01])), [0.5, 0.02])


@pytest.mark.parametrize("is_paired", [True, False])
def test_as_many_prompts_as_are_said_to_be_needed_show_the_difference(is_paired):
    rng, rollouts, step = np.random.default_rng(5), 4, 0.4
    groups = rng.normal(0, 1, 4000)[:, None] + rng.normal(0, 1.5, (4000, rollouts))
    own = variances(
        groups.mean(axis=1),
        groups.var(axis=1, ddof=1),
        np.full(4000, rollouts),
        np.repeat(np.arange(40), 100),
    )
    assert own is not None
    assert (own.between, own.within) == pytest.approx((1, 2.25), rel=0.1)
    count, shown = prompts_needed(Plan(own, step), rollouts, is_paired=is_paired).count, []
    for _ in range(800):
        prompts = rng.normal(0, 1, count)
        others = prompts if is_paired else rng.normal(0, 1, count)
        first, second = (
            (level + rng.normal(0, 1.5, (rollouts, count))).mean(axis=0)
            for level in (prompts, others + step)
        )
        error = np.sqrt((first.var(ddof=1) + second.var(ddof=1)) / count)
        if is_paired:
            error = (second - first).std(ddof=1) / np.sqrt(count)
        shown.append(abs(second.mean() - first.mean()) > 1.96 * error)
    assert POWER - 0.05 < np.mean(shown) < POWER + 0.1


def test_variances_need_groups_of_two_rollouts_and_steps_of_two_groups():
    one = np.array([1.0])
    assert variances(one, one, np.array([4]), np.array([1])) is None
    two = np.array([1.0, 2.0])
    assert variances(two, two * np.nan, np.array([1, 1]), np.array([1, 1])) is None
