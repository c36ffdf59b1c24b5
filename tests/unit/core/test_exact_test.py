"""Fisher's exact test, by hand and at its rate."""

import numpy as np
import pytest

from board.core.metrics.exact_test import fisher_p, is_fisher_below, least_fisher_p


@pytest.mark.parametrize(
    ("table", "p"),
    [
        ((3, 4, 1, 4), 34 / 70),  # Fisher's tea: 1 + 16 + 16 + 1 of 70 as likely or less
        ((4, 4, 0, 4), 2 / 70),
        ((8, 8, 8, 8), 1.0),
        ((1, 10, 11, 14), 0.002759),
    ],
)
def test_p_is_that_of_tables_no_likelier_than_the_observed(table, p):
    assert fisher_p(*(np.array([one]) for one in table))[0] == pytest.approx(p, abs=1e-6)


def test_without_one_side_there_is_no_p():
    assert np.isnan(fisher_p(np.array([0]), np.array([0]), np.array([1]), np.array([2]))).all()


def test_of_equal_chances_no_more_than_the_rate_are_significant():
    draw = np.random.default_rng(0)
    first, second = draw.binomial(16, 0.4, 20_000), draw.binomial(16, 0.4, 20_000)
    total = np.full(20_000, 16)
    assert (fisher_p(first, total, second, total) < 0.05).mean() < 0.05


@pytest.mark.parametrize("bound", [1e-1, 1e-4, 1e-12])
def test_whether_p_is_below_a_bound_is_what_p_says(bound):
    draw = np.random.default_rng(1)
    totals = draw.integers(0, 40, (2, 5_000))
    right = [draw.binomial(total, draw.uniform(size=5_000)) for total in totals]
    tables = (right[0], totals[0], right[1], totals[1])
    assert (is_fisher_below(*tables, bound) == (fisher_p(*tables) < bound)).all()


def test_no_table_of_its_margins_has_a_smaller_p_than_the_least():
    draw = np.random.default_rng(2)
    totals = draw.integers(1, 9, (2, 200))
    right = [draw.binomial(total, 0.4) for total in totals]
    tables = (right[0], totals[0], right[1], totals[1])
    least = least_fisher_p(*tables)
    assert (least <= fisher_p(*tables)).all()
    for place in range(40):
        every = int(right[0][place] + right[1][place])
        firsts = np.arange(every + 1)
        kept = (firsts <= totals[0][place]) & (every - firsts <= totals[1][place])
        ones = np.ones(int(kept.sum()), np.int64)
        p = fisher_p(
            firsts[kept], totals[0][place] * ones, every - firsts[kept], totals[1][place] * ones
        )
        assert p.min() == pytest.approx(least[place])
