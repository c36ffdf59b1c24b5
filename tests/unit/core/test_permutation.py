"""What shuffles within groups give: exactly, against all shuffles, and never below its level."""

from itertools import combinations, product

import numpy as np
import pytest

from board.core.groups.permutation import number_p, presence_p


def every_shuffle(sizes: list[int], wins: list[int]) -> np.ndarray:
    """[shuffles, rollouts] who wins, in each way to deal the wins of the groups."""
    of_groups = [
        [np.isin(np.arange(size), chosen) for chosen in combinations(range(size), win)]
        for size, win in zip(sizes, wins, strict=True)
    ]
    return np.array([np.concatenate(one) for one in product(*of_groups)], np.float64)


@pytest.mark.parametrize("seed", range(4))
def test_a_presence_has_the_chance_of_all_shuffles_that_are_no_likelier(seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 6, 4)
    wins = np.array([rng.integers(1, size) for size in sizes])
    shuffles = every_shuffle(sizes.tolist(), wins.tolist())
    features = (rng.random((30, int(sizes.sum()))) < rng.random((30, 1))).astype(np.float64)
    ends = np.cumsum(sizes)[:-1]
    having = np.array([[group.sum() for group in np.split(row, ends)] for row in features])
    totals = shuffles @ features.T
    p = presence_p(sizes, wins, having.astype(np.int64), totals[0].astype(np.int64))
    for feature, total in zip(p, totals.T, strict=True):
        values, counts = np.unique(total, return_counts=True)
        chance = dict(zip(values.tolist(), counts / len(total), strict=True))
        expected = sum(c for c in chance.values() if c <= chance[total[0]] * (1 + 1e-7))
        assert feature == pytest.approx(expected, abs=1e-12)


def test_a_number_has_about_the_share_of_all_shuffles_that_are_as_extreme():
    rng = np.random.default_rng(5)
    sizes, wins = [4, 3, 5, 4], [1, 2, 2, 2]
    groups, shuffles = np.repeat(np.arange(4), sizes), every_shuffle(sizes, wins)
    values = rng.lognormal(0, 2, (16, 3))
    means = np.array([values[groups == g].mean(axis=0) for g in range(4)])
    deviations = values - means[groups]
    totals = abs(shuffles @ deviations)
    for shuffle in (0, 7, 100):
        p = number_p(groups, shuffles[shuffle] > 0, deviations)
        exact = (totals >= totals[shuffle] - 1e-9).mean(axis=0)
        np.testing.assert_allclose(p, exact, atol=4 * np.sqrt(0.25 / 4999))


def test_a_number_that_no_shuffle_reaches_has_a_smaller_p_than_shuffles_can_tell():
    groups, won = np.repeat(np.arange(60), 8), np.tile([True, False] * 4, 60)
    deviations = np.where(won, 1.0, -1.0)[:, None]
    assert number_p(groups, won, deviations)[0] < 1e-10
    assert number_p(groups, won, 0 * deviations)[0] == 1
