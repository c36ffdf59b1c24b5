"""How often intervals hold the truth and tests raise false alarms; writes docs/statistics.md's table.

    python benchmarks/coverage.py [--runs 100] [--only NAME,..]

Each simulation calls what pages and commands call, on data whose truth is known; seeds are fixed. Exits 1
where a promise is not kept. The tests run the same simulations with fewer runs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import (
    simulated_fresh,
    simulated_groups,
    simulated_runs,
    simulated_steps,
    simulated_tails,
    simulated_uneven,
)
from benchmarks.simulated import Row

DOCUMENT: Final = Path(__file__).parents[1] / "docs" / "statistics.md"
_BEGIN: Final = "<!-- written by benchmarks/coverage.py -->"
_END: Final = "<!-- end -->"
_HEAD: Final = (
    "| shown | promised | settings | measured | furthest off in | function |",
    "|---|---|---|---|---|---|",
)
_HEAD_LINES: Final = len(_HEAD)
Simulation = Callable[[int], Iterator[Row]]
SIMULATIONS: Final[dict[Simulation, int]] = {
    simulated_groups.winners_and_losers: 1,
    simulated_groups.numbers_of_winners: 2,
    simulated_groups.intervals_of_numbers: 10,
    simulated_groups.intervals_of_contrasts: 15,
    simulated_groups.rewards_of_phrases: 8,
    simulated_groups.prompts_of_a_run: 2,
    simulated_runs.prompts_of_two_runs: 5,
    simulated_runs.divergences: 6,
    simulated_runs.wandering_seeds: 2,
    simulated_runs.seeds: 5,
    simulated_runs.rates_over_runs: 4,
    simulated_runs.planned_differences: 5,
    simulated_runs.planned_by_a_log: 2,
    simulated_steps.bands: 3,
    simulated_steps.single_shares: 5,
    simulated_steps.labels: 5,
    simulated_steps.changes: 2,
    simulated_steps.means_of_tasks: 1,
    simulated_steps.differences_of_ends: 3,
    simulated_steps.ends: 5,
    simulated_uneven.words: 2,
    simulated_uneven.winners: 1,
    simulated_uneven.environments: 4,
    simulated_uneven.labels: 4,
    simulated_uneven.skewed_seeds: 3,
    simulated_fresh.fresh_series: 4,
    simulated_fresh.fresh_prompts: 4,
    simulated_fresh.rare_values: 3,
    simulated_tails.tails_of_prompts: 6,
    simulated_tails.tails_of_winners: 4,
    simulated_tails.tails_of_groups: 2,
    simulated_tails.phrases_over_steps: 2,
}
"""Each with how many times as many runs the time allows."""
MADE_BY: Final[dict[str, tuple[str, ...]]] = {
    "Winners and losers: rate": ("contrasts", "with_rates"),
    "Winners and losers: difference": ("contrasts",),
    "Winners and losers: difference of numbers": ("contrasts",),
    "Words: reward with minus without": ("within_difference",),
    "Words: rising and falling phrases": ("changed_phrases",),
    "Prompts: regressed, newly solved": ("fisher_p", "least_fisher_p", "false_discovery_rates"),
    "Compare: B - A on shared prompts": ("paired_difference",),
    "Compare: rate over environments": ("paired_difference", "false_discovery_rates"),
    "Compare: rate over runs": ("paired_difference", "false_discovery_rates"),
    "Compare: beyond chance from": ("divergence",),
    "Compare: since": ("divergence",),
    "Compare, runs grouped by settings: interquartile mean": ("interquartile_interval",),
    "Compare, runs grouped by settings: profile": ("profile_interval",),
    "Compare, runs grouped by settings: minus the first group": ("difference_of_runs",),
    "Compare, runs grouped by settings: band over runs": ("over_seeds",),
    "sample-size, same prompts": ("prompts_needed",),
    "sample-size, other prompts": ("prompts_needed",),
    "sample-size, share of prompts by the log": ("share_of_gains",),
    "Overview and exports: 95 % of the mean": ("interval_of_step_means",),
    "Overview and exports: 95 % of the mean, mostly without one": ("interval_of_step_means",),
    "Overview: mean of an environment; Compare: ends": ("interval_of_means",),
    "Overview: mean of an environment, values of any size": ("interval_by_clusters",),
    "Compare: ends, values of any size": ("interval_over_steps",),
    "Compare: ends, mostly without an interval": ("interval_over_steps",),
    "Compare: difference of ends": ("difference_of_estimates",),
    "Compare: ends of the trainer's metrics": ("reach_of_mean",),
    "Tasks, label shares, agreement: share": ("independent_share", "share_interval"),
    "Tasks: mean of other rewards": ("interval_by_moments",),
    "Groups: pass@k": ("pass_at_k_by_step",),
    "Labels: share of a label": ("label_shares",),
    "Labels: kappa": ("agreement",),
    "Overview: change of a tile": ("recent",),
    "Overview: environments that the mean hides": ("hidden",),
}
"""Which functions make what is shown; after a comma a number may have more than one row."""


def table_of(rows: Sequence[Row], before: str) -> str:
    """A line for each number that is shown and what is measured of it, over its settings. before: the
    table as it was, whose other lines stay.
    """
    order = {(row.shown, row.kind): place for place, row in reversed([*enumerate(rows)])}
    ranked = sorted(rows, key=lambda row: order[row.shown, row.kind])
    lines = {_key(line): line for line in before.splitlines()[_HEAD_LINES:]}
    for _, same in groupby(ranked, key=lambda row: order[row.shown, row.kind]):
        line = _line(sorted(same, key=lambda row: row.share))
        lines[_key(line)] = line
    return "\n".join((*_HEAD, *lines.values()))


def _name(simulate: Simulation) -> str:
    """Its module, without "simulated_", and its own: groups.winners_and_losers."""
    return f"{simulate.__module__.rpartition('_')[2]}.{simulate.__name__}"


def _key(line: str) -> str:
    return "|".join(line.split("|")[:3])


def _line(alike: Sequence[Row]) -> str:
    low, high = alike[0], alike[-1]
    promises = {
        "covers": "holds in 95 %" + (", conservative" if high.most == 1 else ""),
        "false alarms": f"at most {high.most * 100:g} % false alarms",
        "found": "found in about 80 %" if "sample-size" in low.shown else "found in 80 % or more",
        "no promise": "nothing (below)",
    }
    worst = low if low.kind in ("covers", "found") else high
    measured = f"{low.share:.1%} to {high.share:.1%}" if len(alike) > 1 else f"{low.share:.1%}"
    base = max((name for name in MADE_BY if low.shown.startswith(name)), key=len)
    made_by = ", ".join(f"`{name}`" for name in MADE_BY[base])
    cells = (low.shown, promises[low.kind], f"{len(alike)}", measured, worst.setting, made_by)
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Runs the simulations, prints each row, and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument(
        "--only", default="", help="simulations alone, such as runs.seeds,groups.rewards_of_phrases"
    )
    args = parser.parse_args()
    rows: list[Row] = []
    for simulate, times in SIMULATIONS.items():
        if not args.only or _name(simulate) in args.only.split(","):
            for row in simulate(times * args.runs):
                mark = " " if row.holds else "!"
                print(f"{mark} {row.share:6.1%} {row.kind}: {row.shown}, {row.setting}", flush=True)
                rows.append(row)
    text = DOCUMENT.read_text(encoding="utf-8")
    before, _, rest = text.partition(_BEGIN)
    table, _, after = rest.partition(_END)
    table = f"{_BEGIN}\n\n{table_of(rows, table.strip())}\n\n{_END}"
    DOCUMENT.write_text(before + table + after, encoding="utf-8")
    sys.exit(not all(row.holds for row in rows))


if __name__ == "__main__":
    main()
