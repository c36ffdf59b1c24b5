"""`rollout-board runs`: every run under a folder with what it holds."""

from __future__ import annotations

import argparse
from typing import Any, Final

from board.cli import output
from board.cli.runs import default_root, no_runs, opened
from board.formats.io.locations import location_of
from board.formats.mapping import PREFIX
from board.index.discovery.discovered_runs import Discovery, RunInfo, discover
from board.query.open_run import reader_titles
from board.query.run_counts import counts_of

_SHOWN_PROBLEMS: Final = 3


def main(args: argparse.Namespace) -> int:
    """Lists the runs."""
    root = location_of(args.path) if args.path else default_root()
    found = discover(root)
    rows = [_run_row(info) for info in found.runs]
    if not rows:
        output.say(no_runs(found, root))
    else:
        _say_left_out(found)
    if args.json:
        output.print_json(rows)
    elif rows:
        # A mapping's name is made of its text, which says nothing to who reads it.
        titles = (reader_titles(info) for info in found.runs)
        shown = [
            {**row, "format": title} if str(row["format"]).startswith(PREFIX) else row
            for row, title in zip(rows, titles, strict=True)
        ]
        output.print_table(shown, tuple(rows[0]))
    return 0


def _run_row(info: RunInfo) -> dict[str, Any]:
    counts = counts_of(info, opened)
    return {
        "run": info.name,
        "path": str(info.path / info.only if info.only else info.path),
        "format": ", ".join(info.formats),
        "steps": counts.steps,
        "rollouts": counts.rollouts,
        "bytes": info.bytes,
        "problems": counts.problems,
    }


def _say_left_out(found: Discovery) -> None:
    for problem in found.left_out[:_SHOWN_PROBLEMS]:
        output.say(f"left out: {problem.path}: {problem.reason}")
    if len(found.left_out) > _SHOWN_PROBLEMS:
        output.say(f"and {len(found.left_out) - _SHOWN_PROBLEMS} more files")
