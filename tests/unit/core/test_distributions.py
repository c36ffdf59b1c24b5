"""Student's t both ways: closed forms, and scipy where it is installed."""

import numpy as np
import pytest

from board.core.metrics.distributions import incomplete_beta, student_t_bound, student_t_p


def test_one_and_two_degrees_of_freedom_have_a_closed_form():
    t = np.array([0.0, 0.3, -1.0, 2.5, 40.0])
    np.testing.assert_allclose(student_t_p(t, 1.0), 1 - 2 * np.arctan(abs(t)) / np.pi, atol=1e-14)
    np.testing.assert_allclose(student_t_p(t, 2.0), 1 - abs(t) / np.sqrt(2 + t**2), atol=1e-14)
    np.testing.assert_allclose(student_t_bound(np.array([1.0, 2.0])), [12.7062047, 4.3026527])


def test_the_bound_has_its_probability_beyond_it_whatever_the_degrees_of_freedom():
    freedom = np.concatenate([np.arange(1, 60), 10.0 ** np.arange(2, 6), [1.2, 2.5]])
    for p in (0.05, 0.001):
        bounds = student_t_bound(freedom, p)
        np.testing.assert_allclose(student_t_p(bounds, freedom), p, rtol=1e-6)
        assert (np.diff(bounds[:59]) < 0).all()
    assert np.isnan(student_t_bound(np.array([0.5, np.nan]))).all()


def test_both_are_as_scipy_has_them():
    special = pytest.importorskip("scipy.special")
    rng = np.random.default_rng(0)
    a, b, x = 10 ** rng.uniform(-1, 3, 500), 10 ** rng.uniform(-1, 3, 500), rng.random(500)
    np.testing.assert_allclose(incomplete_beta(a, b, x), special.betainc(a, b, x), atol=1e-12)
    t, freedom = 5 * rng.normal(size=500), 10 ** rng.uniform(0, 4, 500)
    np.testing.assert_allclose(student_t_p(t, freedom), 2 * special.stdtr(freedom, -abs(t)), 1e-8)
