from __future__ import annotations

import numpy as np

from board.core.findings.trailing import baselines, onset, stretches, trailing_mean

NAN = float("nan")


def test_a_storm_does_not_become_the_calm_it_is_compared_with() -> None:
    values = np.array([1.0] * 10 + [50.0] * 40)
    found = baselines(values, 20, 5, odd=2.0)
    assert found[4] is None
    last = found[-1]
    assert last is not None
    assert (last.median, last.largest) == (1.0, 1.0)


def test_what_grows_slowly_is_its_own_baseline() -> None:
    found = baselines(1.1 ** np.arange(100), 20, 5, odd=2.0)[-1]
    assert found is not None
    assert found.largest == 1.1**98


def test_a_trailing_mean_leaves_out_what_is_not_recorded() -> None:
    found = trailing_mean(np.array([1.0, NAN, 3.0, NAN, NAN, 4.0]), 3)
    assert np.isnan(found[:2]).all()
    assert found[2] == 2.0
    assert np.isnan(found[4])


def test_stretches_bridge_as_many_calm_places_as_allowed() -> None:
    fires = np.array([0, 1, 1, 0, 1, 0, 0, 1], bool)
    badness = np.array([0, 1, 3, 0, 2, 0, 0, 9.0])
    found = [(s.first, s.last, s.worst, s.count) for s in stretches(fires, badness)]
    assert found == [(1, 4, 2, 3), (7, 7, 7, 1)]


def test_the_onset_is_the_first_place_in_the_window_beyond_by_itself() -> None:
    beyond = np.array([1, 0, 0, 0, 1, 1, 1], bool)
    assert onset(beyond, 6, 5) == 4
    assert onset(np.zeros(7, bool), 6, 5) == 6
