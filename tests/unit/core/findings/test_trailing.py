import numpy as np

from board.core.findings.kl_rules import spikes
from board.core.findings.trailing import onset, periods, trailing_mean, worst_of

NAN = float("nan")
LIMITS = {"steps": 20, "least_steps": 5, "times": 3, "deviations": 6, "larger": 2, "least": 0}


def test_a_storm_does_not_become_the_calm_it_is_compared_with():
    values = np.array([1.0] * 10 + [50.0] * 40)
    result = spikes(values, LIMITS).bounds
    assert np.isnan(result[4])
    assert result[-1] == 3.0


def test_what_grows_slowly_is_its_own_baseline():
    result = spikes(1.1 ** np.arange(100), LIMITS | {"times": 1, "deviations": 0}).bounds[-1]
    assert result == 2 * 1.1**98


def test_a_trailing_mean_leaves_out_what_is_not_recorded():
    result = trailing_mean(np.array([1.0, NAN, 3.0, NAN, NAN, 4.0]), 3)
    assert np.isnan(result[:2]).all()
    assert result[2] == 2.0
    assert np.isnan(result[4])


def test_periods_bridge_as_many_calm_places_as_allowed():
    fires = np.array([0, 1, 1, 0, 1, 0, 0, 1], bool)
    badness = np.array([0, 1, 3, 0, 2, 0, 0, 9.0])
    result = [
        (p.first, p.last, p.worst, p.count, p.steps)
        for p in periods(10 + np.arange(8), fires, badness)
    ]
    assert result == [(1, 4, 2, 3, (12, 11, 14)), (7, 7, 7, 1, (17, 17, 17))]


def test_the_onset_of_a_jump_is_its_first_place_whatever_lies_just_before():
    values = np.array([0.1, 0.0, 0.1, 0.0, 0.1, 0.3, 1.0, 0.9, 1.0, 1.0])
    assert (
        onset(values, 0.25, 8, 5) == 6
    )  # 0.3 is beyond the bound, and nearer to before than to after
    values[7] = 0.2  # one calm place does not end it
    assert onset(values, 0.25, 8, 5) == 6


def test_the_onset_of_a_slow_growth_is_where_it_passes_the_bound():
    values = np.linspace(0.0, 1.0, 21)
    assert onset(values, 0.52, 15, 10) == 11


def test_without_a_place_beyond_the_bound_the_onset_is_where_the_mean_shows_it():
    assert onset(np.zeros(7), 0.5, 6, 5) == 6
    assert onset(np.full(7, NAN), 0.5, 6, 5) == 6


def test_the_worst_place_of_a_mean_is_among_those_it_is_of():
    assert worst_of(np.array([9.0, 1.0, NAN, 3.0, 2.0]), 4, 4) == 3
    assert worst_of(np.array([9.0, 3.0, 1.0, 3.0, 3.0]), 4, 4) == 4


def test_rollouts_of_the_strongest_periods_alone_are_named():
    steps = np.arange(400)
    fires = steps % 4 < 2  # 100 periods
    badness = np.random.default_rng(1).random(400)
    badness[200] = 2.0
    found = [*periods(steps, fires, badness, calm=0)]
    assert len(found) == 100
    assert [one.is_named for one in found if one.worst == 200] == [True]
    assert sum(one.is_named for one in found) == 32
    weakest = min(badness[one.worst] for one in found if one.is_named)
    assert all(badness[one.worst] <= weakest for one in found if not one.is_named)
    assert all(one.is_named for one in periods(steps[:100], fires[:100], badness[:100], calm=0))
