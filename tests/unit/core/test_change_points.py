"""The scan for changes: what it must find, where, and what it must not call a change."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from board.core.metrics.change_points import LEAST, changes, critical_value

RATE = 1e-3


def found(values: np.ndarray, *, spread: bool = False) -> list[tuple[int, str]]:
    of_spread = np.full(len(values), spread)
    result = changes(values, np.full(len(values), RATE), of_spread)
    return [(one.place, one.kind) for one in result]


@given(
    seed=st.integers(0, 10**6),
    length=st.integers(40, 300),
    share=st.floats(0.3, 0.7),
    scale=st.sampled_from([1e-6, 1.0, 1e6]),
    sign=st.sampled_from([-1, 1]),
    gaps=st.booleans(),
)
def test_a_change_of_twelve_standard_deviations_is_found_at_its_place(
    seed, length, share, scale, sign, gaps
):
    """Whatever the unit and the level of the series, and where steps have no value."""
    dice, place = np.random.default_rng(seed), int(share * length)
    values = dice.normal(size=(1, length))
    values[:, place:] += 12 * sign
    if gaps:
        values[:, [3, length - 2]] = np.nan
    places = [at for at, _ in found(scale * (values + 50))]
    assert places
    assert min(abs(at - place) for at in places) <= 1


def test_series_without_a_change_have_one_as_seldom_as_is_asked():
    for length in (20, 40, 120):
        values = np.random.default_rng(length).normal(size=(2000, length))
        assert (
            len({one.series for one in changes(values, np.full(2000, RATE), np.full(2000, True))})
            <= 8
        )


@pytest.mark.parametrize("size", [6.0, 16.0])
def test_what_is_learnt_smoothly_is_seldom_a_change(size):
    dice, places = np.random.default_rng(1), np.arange(120) / 120
    middle = dice.uniform(0.2, 0.8, (300, 1))
    values = dice.normal(size=(300, 120)) + size / (1 + np.exp(-(places - middle) / 0.15))
    assert (
        len({one.series for one in changes(values, np.full(300, RATE), np.full(300, False))}) <= 12
    )


def test_one_outlier_is_no_level_and_a_constant_has_no_change():
    values = np.random.default_rng(2).normal(size=(200, 80))
    values[:, 40] += 30
    values[100:] = 7.5
    assert not found(values)


def test_a_constant_that_is_another_one_is_a_change():
    values = np.where(np.arange(40) < 25, 8.0, 4.0)[None]
    assert found(values) == [(25, "level")]


def test_a_spread_that_is_eight_times_as_large_is_found():
    values = np.random.default_rng(3).normal(size=(50, 320))
    values[:, 160:] *= 8
    result = changes(values, np.full(50, RATE), np.full(50, True))
    near = {one.series for one in result if one.kind == "spread" and abs(one.place - 160) <= 6}
    assert len(near) >= 30


def test_too_few_values_tell_nothing():
    values = np.where(np.arange(LEAST - 1) < 6, 0.0, 100.0)[None]
    assert not found(values)


@given(count=st.integers(12, 50_000), rate=st.floats(1e-9, 0.05))
def test_rarer_false_alarms_take_more(count, rate):
    assert critical_value(count, "level", rate / 2) > critical_value(count, "level", rate)


def grown(values: np.ndarray) -> list[tuple[int, int, str]]:
    rate, every = np.full(len(values), RATE), np.full(len(values), True)
    result = changes(values, rate, ~every, every)
    return [(one.series, one.place, one.kind) for one in result]


@given(
    seed=st.integers(0, 10**6),
    length=st.integers(60, 200),
    slope=st.floats(2.0, 4.0),
    sign=st.sampled_from([-1, 1]),
)
def test_growth_that_goes_on_is_found_near_its_begin(seed, length, slope, sign):
    dice, place = np.random.default_rng(seed), length // 2
    values = dice.normal(size=(1, length))
    values += sign * slope * np.clip(np.arange(length) - place + 1, 0, None)
    found_at = [at for _, at, _ in grown(values)]
    assert found_at
    assert min(abs(at - place) for at in found_at) <= 5


def test_a_series_that_always_grows_as_fast_has_no_change():
    dice, places = np.random.default_rng(2), np.arange(100)
    values = dice.normal(size=(500, 100)) + places * dice.uniform(-3, 3, (500, 1))
    assert len({series for series, _, _ in grown(values)}) <= 5


def test_two_levels_in_turn_are_each_a_change():
    values = np.full((1, 60), 54.0)
    values[0, 20:34] = 108.0
    assert {place for place, _ in found(values)} == {20, 34}
