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

from benchmarks import simulated_groups, simulated_runs, simulated_steps
from benchmarks.simulated import Row

DOCUMENT: Final = Path(__file__).parents[1] / "docs" / "statistics.md"
_BEGIN: Final = "<!-- written by benchmarks/coverage.py -->"
_END: Final = "<!-- end -->"
_HEAD: Final = (
    "| shown | promised | settings | measured | furthest off in |",
    "|---|---|---|---|---|",
)
_HEAD_LINES: Final = len(_HEAD)
Simulation = Callable[[int], Iterator[Row]]
SIMULATIONS: Final[dict[Simulation, int]] = {
    simulated_groups.winners_and_losers: 1,
    simulated_groups.numbers_of_winners: 1,
    simulated_groups.intervals_of_contrasts: 15,
    simulated_groups.rewards_of_phrases: 8,
    simulated_groups.prompts_of_a_run: 2,
    simulated_runs.prompts_of_two_runs: 5,
    simulated_runs.divergences: 6,
    simulated_runs.seeds: 5,
    simulated_runs.planned_differences: 3,
    simulated_steps.bands: 3,
    simulated_steps.single_shares: 5,
    simulated_steps.labels: 5,
    simulated_steps.changes: 2,
    simulated_steps.ends: 5,
}
"""Each with how many times as many runs the time allows."""


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


def _key(line: str) -> str:
    return "|".join(line.split("|")[:3])


def _line(alike: Sequence[Row]) -> str:
    low, high = alike[0], alike[-1]
    promises = {
        "covers": "holds in 95 %" + (", conservative" if high.most == 1 else ""),
        "false alarms": f"at most {high.most * 100:g} % false alarms",
        "found": "found in about 80 %" if "sample-size" in low.shown else "found in 80 % or more",
    }
    worst = high if low.kind == "false alarms" else low
    measured = f"{low.share:.1%} to {high.share:.1%}" if len(alike) > 1 else f"{low.share:.1%}"
    cells = (low.shown, promises[low.kind], f"{len(alike)}", measured, worst.setting)
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Runs the simulations, prints each row, and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--only", default="", help="names of simulations, separated by commas")
    args = parser.parse_args()
    rows: list[Row] = []
    for simulate, times in SIMULATIONS.items():
        if not args.only or simulate.__name__ in args.only.split(","):
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
