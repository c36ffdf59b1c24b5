"""Intervals hold the truth, and tests find chance at their rates: the simulations of docs/statistics.md.

A few runs of each: what they can tell is coarse; the table there has many.
"""

import pytest

from benchmarks import (
    simulated_fresh,
    simulated_groups,
    simulated_runs,
    simulated_steps,
    simulated_tails,
    simulated_uneven,
)

SIMULATIONS = (
    (simulated_groups.winners_and_losers, 6),
    (simulated_groups.numbers_of_winners, 8),
    (simulated_groups.intervals_of_numbers, 40),
    (simulated_groups.intervals_of_contrasts, 100),
    (simulated_groups.rewards_of_phrases, 60),
    (simulated_groups.prompts_of_a_run, 12),
    (simulated_runs.divergences, 40),
    (simulated_runs.seeds, 20),
    (simulated_runs.prompts_of_two_runs, 40),
    (simulated_steps.bands, 50),
    (simulated_steps.single_shares, 25),
    (simulated_steps.changes, 40),
    (simulated_steps.labels, 25),
    (simulated_steps.ends, 60),
    (simulated_runs.planned_differences, 6),
    (simulated_runs.wandering_seeds, 10),
    (simulated_runs.rates_over_runs, 8),
    (simulated_steps.means_of_tasks, 20),
    (simulated_steps.differences_of_ends, 25),
    (simulated_uneven.words, 12),
    (simulated_uneven.winners, 5),
    (simulated_uneven.environments, 8),
    (simulated_uneven.labels, 10),
    (simulated_uneven.skewed_seeds, 15),
    (simulated_fresh.fresh_series, 12),
    (simulated_fresh.fresh_prompts, 20),
    (simulated_tails.tails_of_prompts, 20),
    (simulated_tails.tails_of_groups, 15),
    (simulated_tails.phrases_over_steps, 3),
)


@pytest.mark.parametrize(
    ("simulate", "runs"), SIMULATIONS, ids=lambda one: getattr(one, "__name__", "")
)
def test_every_interval_and_test_keeps_its_promise(simulate, runs):
    rows = [*simulate(runs)]
    assert rows
    broken = [f"{row.shown}, {row.setting}: {row.share:.0%}" for row in rows if not row.holds]
    assert not broken
