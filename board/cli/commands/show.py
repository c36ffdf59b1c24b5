"""`rollout-board show`: one rollout with everything that is recorded of it or follows from it."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import pandas as pd

from board.analysis.rollout import OpenRollout, open_rollout
from board.cli import output
from board.cli.opened_runs import open_run
from board.core.tokens.pieces import PLACEHOLDER, PLACEHOLDER_SIGN
from board.query.open_run import Run


def show(args: argparse.Namespace) -> int:
    """Prints one rollout whole."""
    run = open_run(args)
    row = run.row(args.step, args.index)
    document = _document(run, row, open_rollout(run, args.step, args.index))
    if args.json:
        output.print_json(document)
    else:
        _print_rollout(document)
    return 0


def _document(run: Run, row: pd.Series[Any], rollout: OpenRollout) -> dict[str, Any]:
    """A rollout as one JSON object; arrays are [R] unless they were recorded otherwise."""
    record = rollout.record
    return {
        "run": run.info.name,
        "step": rollout.step,
        "index": rollout.index,
        "file": run.info.path_of(run.info.files[int(row["file"])]),
        "line": int(row["line"]),
        "ids": dict(record.ids),
        "texts": dict(record.texts),
        "messages": list(record.messages),
        "segments": list(record.segments),
        "scores": dict(record.scores),
        "prompt_ids": _whole_numbers(record.prompt_ids),
        "prompt_tokens": rollout.prompt_tokens,
        "response_ids": _whole_numbers(record.response_ids),
        "tokens": [PLACEHOLDER_SIGN if t == PLACEHOLDER else t for t in rollout.tokens],
        "tokens_are_ids": rollout.tokens_are_ids,
        "pad_tokens": record.pad_tokens,
        "metrics": {name: values.tolist() for name, values in rollout.metrics.items()},
        "extras": dict(record.extras),
        "remarks": [asdict(remark) for remark in rollout.remarks],
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
    if tokens := whole["tokens"]:
        # An array of another length has no place beside them.
        aligned = {name: v for name, v in whole["metrics"].items() if len(v) == len(tokens)}
        rows = [
            {"#": i, "token": repr(token), **{name: v[i] for name, v in aligned.items()}}
            for i, token in enumerate(tokens)
        ]
        print("\n== tokens")
        output.print_table(rows, ("#", "token", *aligned))
    for remark in whole["remarks"]:
        print(f"\n{remark['severity']}: {remark['reason']}; {remark['hint']}")
