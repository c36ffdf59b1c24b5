import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from board.core.metrics.recent import Recent, recent, window_of

NAN = float("nan")
STEPS = np.arange(1, 41)


def test_the_mean_is_of_ten_steps_and_the_change_from_the_ten_before():
    values = np.repeat([9.0, 1.0, 3.0, 9.0], 10)
    result = recent(STEPS, values, 30)
    assert (result.mean, result.change, result.error) == (3.0, 2.0, 0.0)
    assert not result.is_noise
    assert window_of(STEPS, 30).tolist() == list(range(21, 31))


def test_the_error_of_steps_that_are_alike_is_larger_than_that_of_independent_ones():
    rng, steps = np.random.default_rng(0), np.arange(200)
    for correlation in (0.0, 0.8):
        errors, changes = [], []
        for _ in range(60):
            values = rng.normal(size=200)
            for i in range(1, 200):
                values[i] += correlation * values[i - 1]
            found = recent(steps, values, 199)
            errors.append(found.error)
            changes.append(found.change)
        # Half of 95 % of chance, and a bit: few steps tell their correlation badly.
        assert 1.0 <= np.mean(errors) / np.std(changes) <= 1.9


@pytest.mark.parametrize(("change", "noise"), [(0.19, True), (0.21, False), (-0.21, False)])
def test_a_change_within_two_standard_errors_is_noise(change, noise):
    assert Recent(1.0, change, 0.1).is_noise is noise


@given(st.floats(1e-9, 1e9), st.floats(-1e-5, 1e-5))
def test_a_change_that_no_digit_shows_is_none(mean, part):
    """Such as -2.9e-10 of a mean of 4.98e-5: neither green nor red."""
    values = np.r_[np.full(20, mean), np.full(20, mean * (1 + part))]
    assert recent(STEPS, values, 30).change == 0
    assert recent(STEPS, np.r_[values[:20], values[:20] * 1.01], 30).change > 0


def test_fewer_than_twenty_steps_have_a_mean_and_no_change():
    result = recent(STEPS, np.arange(40.0), 19)
    assert (result.mean, result.change, result.error) == (13.5, None, None)


def test_what_is_not_recorded_is_left_out_and_never_zero():
    values = np.arange(40.0)
    values[[25, 38, 39]] = NAN
    assert recent(STEPS, values, 40).mean == pytest.approx(np.mean(np.arange(30.0, 38.0)))
    values[30:] = NAN
    assert recent(STEPS, values, 40) == Recent(None)
    values[30] = 7.0
    assert recent(STEPS, values, 40) == Recent(7.0)
