"""Intervals cover what they are of at their nominal rate, also with few groups and shares near 0."""

import numpy as np
import pytest

from board.core.metrics.intervals import (
    interval_of_means,
    mean_interval,
    share_interval,
    student_t,
    two_values,
)

SAMPLES = 3000


def clustered_error(values: np.ndarray) -> float:
    """Of the mean of [groups, rollouts], as query.steps has it."""
    groups = len(values)
    sums = (values - values.mean()).sum(axis=1)
    return float(np.sqrt(groups / (groups - 1) * (sums**2).sum()) / values.size)


def coverage(draw, truth: float, groups: int, *, is_share: bool) -> float:
    values = [draw(groups) for _ in range(SAMPLES)]
    means = np.array([own.mean() for own in values])
    errors = np.array([clustered_error(own) for own in values])
    sizes = np.full(SAMPLES, float(values[0].size if is_share else groups))
    interval = share_interval if is_share else mean_interval
    low, high = interval(means, errors, sizes)
    return float(np.mean((low <= truth) & (truth <= high)))


@pytest.mark.parametrize("groups", [4, 8, 32])
def test_the_interval_of_a_mean_of_groups_covers_it_in_95_of_100_samples(groups):
    rng = np.random.default_rng(groups)

    def draw(groups: int) -> np.ndarray:
        return 1.0 + rng.normal(size=(groups, 1)) + rng.normal(size=(groups, 8))

    assert 0.935 <= coverage(draw, 1.0, groups, is_share=False) <= 0.97


@pytest.mark.parametrize("groups", [8, 32])
def test_the_interval_of_a_share_covers_it_in_at_least_93_of_100_samples(groups):
    rng = np.random.default_rng(groups)

    def draw(groups: int) -> np.ndarray:
        chance = rng.beta(1, 9, size=(groups, 1))
        return (rng.random((groups, 8)) < chance).astype(float)

    assert 0.93 <= coverage(draw, 0.1, groups, is_share=True) <= 0.999


def test_a_share_of_none_has_an_upper_bound_and_stays_within_0_and_1():
    low, high = share_interval(np.array([0.0, 1.0]), np.zeros(2), np.array([8.0, 8.0]))
    assert low[0] == 0
    assert high[1] == 1
    assert 0 < high[0] < 0.5 < low[1] < 1


def test_shares_of_groups_that_are_alike_count_as_fewer_rollouts():
    share, count = np.array([0.5, 0.0]), np.array([64.0, 64.0])
    low, high = share_interval(share, np.array([0.5 / 8, 0.0]), count)  # as if independent
    wider_low, wider_high = share_interval(share, np.array([0.5 / 4, 0.0]), count)
    assert wider_low[0] < low[0]
    assert (wider_high > high).all()


def test_a_mean_of_two_values_has_the_interval_of_a_share_and_others_that_of_a_mean():
    rng = np.random.default_rng(0)
    for low, high in ((0.0, 1.0), (-1.0, 1.0), (2.0, 7.0)):
        values = low + (high - low) * (rng.random((30, 6)) < 0.4)
        mean, std = values.mean(axis=1), values.std(axis=1, ddof=1)
        ends = values.min(axis=1), values.max(axis=1)
        assert two_values(mean, std, np.full(30, 6.0), *ends) == (low, high)
        values[3, :3] = [low, high, (low + high) / 2]
        mean, std = values.mean(axis=1), values.std(axis=1, ddof=1)
        assert two_values(mean, std, np.full(30, 6.0), *ends) is None
    assert (
        two_values(*(np.zeros(3), np.zeros(3), np.full(3, 6.0), np.zeros(3), np.zeros(3))) is None
    )
    share, error = np.array([0.0, 0.25]), np.array([0.0, 0.2])
    groups, count = np.full(2, 8.0), np.full(2, 64.0)
    scaled = interval_of_means(2 * share - 1, 2 * error, groups, count, (-1.0, 1.0))
    for end, expected in zip(scaled, share_interval(share, error, count, groups), strict=True):
        np.testing.assert_allclose(end, 2 * expected - 1)
    assert np.isnan(interval_of_means(share, error, groups, count, None)[0][0])  # a point is none


def test_fewer_than_two_groups_and_no_rollouts_have_no_interval():
    half, error = np.array([0.5, 0.5]), np.array([0.1, 0.1])
    assert np.isnan(mean_interval(half, error, np.array([1.0, 0.0]))).all()
    assert np.isnan(share_interval(np.array([np.nan]), np.array([np.nan]), np.array([0.0]))).all()


def test_bounds_of_students_t_are_those_of_the_tables():
    freedom = np.array([1, 2, 3, 5, 10, 30, 120])
    table = [12.706, 4.303, 3.182, 2.571, 2.228, 2.042, 1.980]
    np.testing.assert_allclose(student_t(freedom), table, rtol=2e-3)
