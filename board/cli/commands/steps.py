"""`rollout-board steps`: the metrics of each step of a run."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any, Final

from board.cli import output
from board.cli.opened_runs import narrowed_as_asked, of_split, opened
from board.cli.runs import find_run

FIXED_STEP_KEYS: Final = (
    *("step", "rollouts", "reward_mean", "reward_std", "ref_reward_mean", "response_tokens_mean"),
    *("k1_mean", "k3_mean", "mismatch_kl_mean", "entropy_mean", "is_truncated_mean"),
    "zero_std_group_fraction",
)
"""Keys that every row of `steps --json` has, null where the log does not record them."""
_STEP_COUNTS: Final = ("rollouts", "ranks", "groups")


def main(args: argparse.Namespace) -> int:
    """Prints one row per step."""
    run = narrowed_as_asked(of_split(opened(find_run(args.run, args.source)), args.split), args)
    absent: dict[str, Any] = dict.fromkeys(FIXED_STEP_KEYS)
    rows = [{**absent, **_counted(row)} for row in output.records_of(run.steps)]
    rows = rows if args.last is None else rows[max(len(rows) - args.last, 0) :]
    names = list(dict.fromkeys((*FIXED_STEP_KEYS, *map(str, run.steps.columns))))
    wanted = output.named_columns(args.columns, names) if args.columns else []
    if wanted:
        rows = [{name: row[name] for name in wanted} for row in rows]
    output.print_rows(args, rows, wanted or names, wanted or _usual(rows, names))
    return 0


def _usual(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[str]:
    """What a terminal has room for: means, where there are any."""
    means = [name for name in names if name.endswith("_mean") and name not in FIXED_STEP_KEYS]
    return [c for c in (*FIXED_STEP_KEYS, *means) if any(row[c] is not None for row in rows)]


def _counted(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row with its counts as whole numbers: a table has them as others where some are missing."""
    return {
        name: int(value) if name in _STEP_COUNTS and value is not None else value
        for name, value in row.items()
    }
