from __future__ import annotations

import numpy as np

from board.core.groups.environments import curves_from


def env_curves(steps, envs, names, values):
    known = np.isfinite(values)
    return curves_from(steps, envs, names, np.where(known, values, 0.0), known)


def test_an_env_called_all_is_not_the_mean_over_all() -> None:
    found = env_curves(
        np.array([1, 1, 1, 2]), np.array([0, 1, 1, -1]), ["all", "math"], np.array([4.0, 1, 1, 9])
    )
    assert found.names == ["all", "math"]
    assert np.array_equal(found.means, [[4.0, np.nan], [1.0, np.nan]], equal_nan=True)
    assert found.overall.tolist() == [2.0, 9.0]
    assert found.counts.tolist() == [[1, 0], [2, 0]]


def test_a_value_that_is_missing_is_no_zero() -> None:
    found = env_curves(np.array([1, 1]), np.array([0, 0]), ["a"], np.array([np.nan, 3.0]))
    assert (found.means.tolist(), found.overall.tolist()) == ([[3.0]], [3.0])
