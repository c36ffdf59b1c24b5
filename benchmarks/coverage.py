"""How often intervals hold the truth and tests raise false alarms; writes docs/statistics.md's table.

    python benchmarks/coverage.py [--runs 200] [--only NAME]

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
SIMULATIONS: Final[tuple[Callable[[int], Iterator[Row]], ...]] = (
    simulated_groups.winners_and_losers,
    simulated_groups.numbers_of_winners,
    simulated_groups.intervals_of_contrasts,
    simulated_groups.rewards_of_phrases,
    simulated_groups.prompts_of_a_run,
    simulated_runs.prompts_of_two_runs,
    simulated_runs.divergences,
    simulated_runs.seeds,
    simulated_runs.planned_differences,
    simulated_steps.bands,
    simulated_steps.single_shares,
    simulated_steps.labels,
    simulated_steps.changes,
    simulated_steps.ends,
)


def table_of(rows: Sequence[Row]) -> str:
    """A line for each number that is shown and what is measured of it, over its settings."""
    lines = [
        "| shown | promised | settings | measured | furthest off in |",
        "|---|---|---|---|---|",
    ]
    order = {(row.shown, row.kind): place for place, row in reversed([*enumerate(rows)])}
    ranked = sorted(rows, key=lambda row: order[row.shown, row.kind])
    for _, same in groupby(ranked, key=lambda row: order[row.shown, row.kind]):
        alike = sorted(same, key=lambda row: row.share)
        lines.append(_line(alike))
    return "\n".join(lines)


def _line(alike: Sequence[Row]) -> str:
    low, high = alike[0], alike[-1]
    promises = {
        "covers": "holds in 95 %" + (", conservative" if high.most == 1 else ""),
        "false alarms": f"at most {high.most:.0%} false alarms",
        "found": "found in about 80 %" if "sample-size" in low.shown else "found in 80 % or more",
    }
    worst = high if low.kind == "false alarms" else low
    measured = f"{low.share:.1%} to {high.share:.1%}" if len(alike) > 1 else f"{low.share:.1%}"
    cells = (low.shown, promises[low.kind], f"{len(alike)}", measured, worst.setting)
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Runs the simulations, prints each row, and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--only", help="one simulation alone; writes nothing")
    args = parser.parse_args()
    rows: list[Row] = []
    for simulate in SIMULATIONS:
        if args.only in (None, simulate.__name__):
            for row in simulate(args.runs):
                mark = " " if row.holds else "!"
                print(f"{mark} {row.share:6.1%} {row.kind}: {row.shown}, {row.setting}", flush=True)
                rows.append(row)
    if args.only is None:
        text = DOCUMENT.read_text(encoding="utf-8")
        before, _, rest = text.partition(_BEGIN)
        _, _, after = rest.partition(_END)
        table = f"{_BEGIN}\n\n{table_of(rows)}\n\n{_END}"
        DOCUMENT.write_text(before + table + after, encoding="utf-8")
    sys.exit(not all(row.holds for row in rows))


if __name__ == "__main__":
    main()
