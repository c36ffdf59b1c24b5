"""The commands that print data: runs, steps, rollouts, show, index."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from typing import Any, Final

import pandas as pd

from board.analysis.rollout import OpenRollout, open_rollout
from board.cli import output
from board.cli.columns import named_columns
from board.cli.rollouts import rollouts
from board.cli.runs import default_root, find_run, narrowed_as_asked, no_runs, of_split, opened
from board.core.problems import count_of
from board.core.tokens.pieces import PLACEHOLDER, PLACEHOLDER_SIGN
from board.errors import ChoiceError
from board.formats.io.locations import location_of
from board.formats.mapping import PREFIX
from board.index.discovery.discovered_runs import Discovery, RunInfo, discover
from board.index.workers import ChooseEngine, local_engine
from board.query.open_run import Run, reader_titles
from board.query.run_counts import counts_of

FIXED_STEP_KEYS: Final = (
    *("step", "rollouts", "reward_mean", "reward_std", "ref_reward_mean", "response_tokens_mean"),
    *("k1_mean", "k3_mean", "mismatch_kl_mean", "entropy_mean", "is_truncated_mean"),
    "zero_std_group_fraction",
)
"""Keys that every row of `steps --json` has, null where the log does not record them."""

_STEP_COUNTS: Final = ("rollouts", "ranks", "groups")
_SHOWN_PROBLEMS: Final = 3


def runs(args: argparse.Namespace) -> int:
    """Every run under a folder with what it holds."""
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


def steps(args: argparse.Namespace) -> int:
    """One row per step."""
    run = narrowed_as_asked(of_split(opened(find_run(args.run, args.source)), args.split), args)
    absent: dict[str, Any] = dict.fromkeys(FIXED_STEP_KEYS)
    rows = [{**absent, **_counted(row)} for row in output.records_of(run.steps)]
    rows = rows if args.last is None else rows[max(len(rows) - args.last, 0) :]
    names = list(dict.fromkeys((*FIXED_STEP_KEYS, *map(str, run.steps.columns))))
    wanted = named_columns(args.columns, names) if args.columns else []
    if wanted:
        rows = [{name: row[name] for name in wanted} for row in rows]
    if args.json:
        output.print_json(rows)
    elif args.jsonl:
        output.print_json_lines([rows], names)
    elif args.csv:
        output.print_csv([rows], wanted or names)
    else:
        output.print_table(rows, wanted or _usual(rows, names))
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


def show(args: argparse.Namespace) -> int:
    """One rollout with everything that is recorded of it or follows from it."""
    run = opened(find_run(args.run, args.source))
    row = run.row(args.step, args.index)
    whole = rollout_document(run, row, open_rollout(run, args.step, args.index))
    if args.json:
        output.print_json(whole)
    else:
        _print_rollout(whole)
    return 0


def rollout_document(run: Run, row: pd.Series[Any], found: OpenRollout) -> dict[str, Any]:
    """A rollout as one JSON object; arrays are [R] unless they were recorded otherwise."""
    record = found.record
    return {
        "run": run.info.name,
        "step": found.step,
        "index": found.index,
        "file": run.info.path_of(run.info.files[int(row["file"])]),
        "line": int(row["line"]),
        "ids": dict(record.ids),
        "texts": dict(record.texts),
        "messages": list(record.messages),
        "segments": list(record.segments),
        "scores": dict(record.scores),
        "prompt_ids": _whole_numbers(record.prompt_ids),
        "prompt_tokens": found.prompt_tokens,
        "response_ids": _whole_numbers(record.response_ids),
        "tokens": [PLACEHOLDER_SIGN if t == PLACEHOLDER else t for t in found.tokens],
        "tokens_are_ids": found.tokens_are_ids,
        "pad_tokens": record.pad_tokens,
        "metrics": {name: values.tolist() for name, values in found.metrics.items()},
        "extras": dict(record.extras),
        "remarks": [asdict(remark) for remark in found.remarks],
    }


def _whole_numbers(array: Any) -> list[int | None] | None:
    if array is None:
        return None
    return [int(n) if n == n and abs(n) != float("inf") else None for n in array.values()]


def _print_rollout(whole: Mapping[str, Any]) -> None:
    place = f"{whole['file']}:{whole['line']}"
    head = [("run", whole["run"]), ("step", whole["step"]), ("index", whole["index"])]
    output.print_fields([*head, ("line", place), *whole["ids"].items(), *whole["scores"].items()])
    for name, text in whole["texts"].items():
        print(f"\n== {name}\n{output.printable(text)}")
    _print_tokens(whole)
    for remark in whole["remarks"]:
        print(f"\n{remark['severity']}: {remark['reason']}; {remark['hint']}")


def _print_tokens(whole: Mapping[str, Any]) -> None:
    """Tokens and their metrics; an array of another length has no place beside them."""
    tokens = whole["tokens"]
    if not tokens:
        return
    aligned = {name: v for name, v in whole["metrics"].items() if len(v) == len(tokens)}
    rows = [
        {"#": i, "token": repr(token), **{name: v[i] for name, v in aligned.items()}}
        for i, token in enumerate(tokens)
    ]
    print("\n== tokens")
    output.print_table(rows, ("#", "token", *aligned))


def index(args: argparse.Namespace) -> int:
    """Builds or extends the index of a run, and says what it covers."""
    begun = time.monotonic()
    with _engine(args) as engine:
        run = opened(find_run(args.run, args.source), persist=True, engine=engine)
    document = {
        "run": run.info.name,
        "index": None if run.index_folder is None else str(run.index_folder),
        "bytes": run.info.bytes,
        "bytes_read": run.done,
        "steps": len(run.steps),
        "rollouts": run.rollout_count,
        "problems": count_of(run.problems, "lost") + count_of(run.problems, "partial"),
        "seconds": round(time.monotonic() - begun, 3),
    }
    if args.json:
        output.print_json(document)
    else:
        output.print_fields([*document.items()])
    return 0


def _engine(args: argparse.Namespace) -> AbstractContextManager[ChooseEngine]:
    """What `--engine` and `--address` ask for."""
    if args.engine == "ray":
        from board.index import ray_engine  # late, as is what it imports: nothing else needs it

        return ray_engine.connected(args.address)
    if args.address is not None:
        raise ChoiceError("--address names a Ray cluster: it goes with --engine ray")
    return nullcontext(local_engine)


def _say_left_out(found: Discovery) -> None:
    for problem in found.left_out[:_SHOWN_PROBLEMS]:
        output.say(f"left out: {problem.path}: {problem.reason}")
    if len(found.left_out) > _SHOWN_PROBLEMS:
        output.say(f"and {len(found.left_out) - _SHOWN_PROBLEMS} more files")


COMMANDS: Final[Mapping[str, Callable[[argparse.Namespace], int]]] = {
    "runs": runs,
    "steps": steps,
    "rollouts": rollouts,
    "show": show,
    "index": index,
}
