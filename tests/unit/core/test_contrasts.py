"""Within-group contrasts: by hand, and at their rates on groups in which nothing differs."""

import numpy as np
import pytest

from board.core.groups.contrasts import contrasts, sides, with_rates, within_difference


def test_winners_are_above_the_mean_of_their_group_and_equal_groups_have_none():
    groups = np.array([0, 0, 0, 1, 1, -1, 2, 2])
    rewards = np.array([0.0, 0.5, 1.0, 1.0, 1.0, 9.0, np.nan, 1.0])
    own = sides(groups, rewards)
    assert own.groups.tolist() == [0, -1, 0, -1, -1, -1, -1, -1]
    assert own.won[2] == 1
    assert own.won[0] == 0


def test_a_contrast_is_the_mean_over_groups_of_winners_less_losers():
    groups = np.repeat(np.arange(6), 4)
    rewards = np.tile([1.0, 1.0, 0.0, 0.0], 6)
    lengths = np.tile([3.0, 5.0, 1.0, 1.0], 6) + groups * 100
    said = np.flatnonzero(np.tile([1, 0, 0, 0], 6))
    own = sides(groups, rewards)
    (length,) = contrasts(own, "numbers", {"length": lengths})
    assert (length.difference, length.groups) == (pytest.approx(3.0), 6)
    # Groups that all differ by the same say nothing of how others would.
    assert np.isnan([length.low, length.high]).all()
    (word,) = contrasts(own, "words", {"check": said})
    assert (word.winners, word.losers, word.difference) == (0.5, 0.0, 0.5)
    assert contrasts(sides(groups[:16], rewards[:16]), "numbers", {"length": lengths[:16]}) == []


def test_the_interval_covers_and_few_of_what_does_not_differ_is_found():
    rng, groups = np.random.default_rng(0), np.repeat(np.arange(40), 8)
    own = sides(groups, rng.random(320))
    nothing = {f"x{i}": rng.normal(size=320) for i in range(2000)}
    found = with_rates(contrasts(own, "numbers", nothing))
    covered = np.mean([one.low <= 0 <= one.high for one in found])
    assert 0.945 <= covered <= 0.98  # rather too wide
    assert sum(one.rate < 0.05 for one in found) <= 3


def test_what_winners_have_is_found_among_much_that_does_not_differ():
    rng, groups = np.random.default_rng(1), np.repeat(np.arange(40), 8)
    rewards = rng.random(320)
    own = sides(groups, rewards)
    features = {f"x{i}": rng.normal(size=320) for i in range(500)}
    features["cheat"] = rewards + rng.normal(0, 0.2, 320)
    first = with_rates(contrasts(own, "numbers", features))[0]
    assert first.feature == "cheat"
    assert first.rate < 1e-6


@pytest.mark.parametrize("groups", [8, 60])
def test_the_interval_of_a_difference_within_groups_covers_at_its_rate(groups):
    draw = np.random.default_rng(3)
    covered = 0
    for _ in range(1000):
        # The truth differs between groups, as do the numbers with and without it.
        truth = 0.3 + 0.2 * draw.normal(size=groups)
        n, m = draw.integers(1, 7, groups), draw.integers(1, 7, groups)
        gaps = truth + draw.normal(size=groups) * np.sqrt(1 / n + 1 / m)
        own = within_difference(gaps, n * m / (n + m))
        covered += own.low <= 0.3 <= own.high
    assert 0.925 < covered / 1000 < 0.999  # rather too wide, most of all of few groups


def test_a_difference_within_fewer_groups_than_five_is_not_given():
    own = within_difference(np.ones(4), np.ones(4))
    assert own.groups == 4
    assert not np.isfinite([own.difference, own.low, own.high]).any()
    own = within_difference(np.array([1.0, 1, 1, 1, 4]), np.array([1.0, 1, 1, 1, 2]))
    assert own.difference == pytest.approx(2.0)
