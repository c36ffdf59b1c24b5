"""The commands that print data: runs, steps, rollouts, show, index."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from typing import Any, Final

import numpy as np
import pandas as pd

from board.cli import output
from board.cli.first_rollouts import first_rollouts, suffices
from board.cli.runs import default_root, find_run, no_runs, of_split, opened
from board.cli.where import Condition, known_column, matches, parse_filter
from board.core.expressions import Column, Expression, evaluate
from board.core.pieces import PLACEHOLDER, PLACEHOLDER_SIGN, joined
from board.core.problems import count_of
from board.errors import ChoiceError
from board.readers.locations import Location, location_of
from board.readers.mapping import PREFIX
from board.store import splits
from board.store.build import shown_path
from board.store.discovery import Discovery, RunInfo, discover
from board.store.engines import ChooseEngine, local
from board.store.rollout import OpenRollout, open_rollout, search
from board.store.run import Run, reader_titles
from board.store.table import ordered

FIXED_STEP_KEYS: Final = (
    *("step", "rollouts", "reward_mean", "reward_std", "ref_reward_mean", "response_tokens_mean"),
    *("k1_mean", "k3_mean", "mismatch_kl_mean", "entropy_mean", "is_truncated_mean"),
    "zero_std_group_fraction",
)
"""Keys that every row of `steps --json` has, null where the log does not record them."""

_STEP_COUNTS: Final = ("rollouts", "ranks", "groups")
_LOCATION: Final = ("offset", "size")
_WHOLE_TEXTS: Final = ("prompt", "response")
_ROLLOUT_COLUMNS: Final = (
    *("step", "index", "split", "group_id", "env", "reward", "ref_reward", "advantage", "k3_mean"),
    *("mismatch_kl_mean", "entropy_mean", "response_tokens", "finish_reason", "response"),
)
_SHOWN_PROBLEMS: Final = 3


def runs(args: argparse.Namespace) -> int:
    """Every run under a folder, each opened to be counted."""
    root = location_of(args.path) if args.path else default_root()
    found = discover(root)
    rows = [_run_row(info, root) for info in found.runs]
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


def _run_row(info: RunInfo, root: Location) -> dict[str, Any]:
    run = opened(info)
    return {
        "run": info.name,
        "path": str(info.path / info.only if info.only else info.path),
        "format": ", ".join(info.formats),
        "steps": len(run.steps),
        "rollouts": run.rollout_count,
        "bytes": info.bytes,
        "problems": count_of(run.problems, "lost") + count_of(run.problems, "partial"),
    }


def steps(args: argparse.Namespace) -> int:
    """One row per step."""
    run = of_split(opened(find_run(args.run, args.source)), args.split)
    absent: dict[str, Any] = dict.fromkeys(FIXED_STEP_KEYS)
    rows = [{**absent, **_counted(row)} for row in output.records_of(run.steps)]
    if args.json:
        output.print_json(rows)
        return 0
    means = [c for c in run.steps.columns if c.endswith("_mean") and c not in FIXED_STEP_KEYS]
    columns = [c for c in (*FIXED_STEP_KEYS, *means) if any(row[c] is not None for row in rows)]
    output.print_table(rows, columns)
    return 0


def _counted(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row with its counts as whole numbers: a table has them as others where some are missing."""
    return {
        name: int(value) if name in _STEP_COUNTS and value is not None else value
        for name, value in row.items()
    }


def rollouts(args: argparse.Namespace) -> int:
    """Rows of the run's table, filtered, then sorted, then cut to the limit."""
    asked = parse_filter(args.where) if args.where else ()
    conditions = () if isinstance(asked, Expression) else asked
    run = of_split(opened(find_run(args.run, args.source)), args.split or splits.ALL)
    if args.step is not None:
        run.row(args.step, 0)
    if args.step is None and args.limit is not None and suffices(asked, args.sort):
        rows = _first(run, asked, args)
    else:
        rows = _chosen(run, asked, args)
    records = output.records_of(rows)
    if args.json:
        output.print_json(records)
    else:
        columns = [str(name) for name in rows.columns]
        output.print_table(records, _table_columns(args, conditions, columns))
    return 0


def _chosen(
    run: Run, asked: tuple[Condition, ...] | Expression, args: argparse.Namespace
) -> pd.DataFrame:
    rows = _shown_rows(run, args.step)
    columns = [str(name) for name in rows.columns]
    conditions = () if isinstance(asked, Expression) else asked
    for condition in sorted(conditions, key=lambda c: c.column in _WHOLE_TEXTS):
        known_column(condition.column, columns)
        rows = rows[_where(run, rows, condition)]
    if isinstance(asked, Expression):
        rows = rows[_expressed(run, rows, asked)]
    if args.sort:
        rows = _sorted(rows, known_column(args.sort, columns), args.desc, args.limit)
    elif args.desc:
        rows = rows.iloc[::-1]
    return rows if args.limit is None else rows.head(args.limit)


def _first(
    run: Run, asked: tuple[Condition, ...] | Expression, args: argparse.Namespace
) -> pd.DataFrame:
    """As _chosen, of the run, in the time that so few rows take."""
    try:
        rows = first_rollouts(run, asked, args.sort, descending=args.desc, limit=args.limit)
    except TypeError:
        raise _without_order(args.sort) from None
    return _as_shown(run, rows)


def _shown_rows(run: Run, step: int | None) -> pd.DataFrame:
    """The table of a step, or of the run, as it is shown."""
    return _as_shown(run, run.rollouts if step is None else run.of_step(step))


def _as_shown(run: Run, rows: pd.DataFrame) -> pd.DataFrame:
    """With file names and without byte positions."""
    rows = rows.drop(columns=[c for c in _LOCATION if c in rows])
    names = [shown_path(run.info, file) for file in run.info.files]
    return rows.assign(file=[names[number] for number in rows["file"]])


def _sorted(rows: pd.DataFrame, column: str, descending: bool, limit: int | None) -> pd.DataFrame:
    try:
        return ordered(rows, column, descending=descending, limit=limit)
    except TypeError:
        raise _without_order(column) from None


def _without_order(column: str) -> ChoiceError:
    return ChoiceError(f"{column} holds numbers and text, which have no common order")


def _where(run: Run, rows: pd.DataFrame, condition: Condition) -> pd.Series[bool]:
    """Which rows meet the condition; prompt and response are read whole, not from the preview."""
    if condition.column not in _WHOLE_TEXTS:
        return matches(rows[condition.column], condition)
    candidates = rows
    if condition.op == "contains":
        located = _located(run, rows)
        candidates = rows[search(run, located, condition.value)]
    places = zip(candidates["step"].tolist(), candidates["index"].tolist(), strict=True)
    texts = [_whole_text(run, step, index, condition.column) for step, index in places]
    found = pd.Series(texts, index=candidates.index, dtype=object)
    return matches(found.reindex(rows.index), condition)


def _expressed(run: Run, rows: pd.DataFrame, asked: Expression) -> list[bool]:
    """Which rows an expression holds for; what is not known of a row does not hold."""
    known = [str(name) for name in rows.columns]

    def column(name: str) -> Column:
        values = rows[known_column(name, known)]
        if name in _WHOLE_TEXTS:
            places = zip(rows["step"].tolist(), rows["index"].tolist(), strict=True)
            texts = [_whole_text(run, step, index, name) for step, index in places]
            return np.array(texts, object)
        if pd.api.types.is_numeric_dtype(values.dtype):
            return values.to_numpy(np.float64, na_value=np.nan)
        return values.astype(object).where(values.notna(), None).to_numpy()

    holds = evaluate(asked, column) == 1
    return [bool(held) for held in np.broadcast_to(holds, (len(rows),))]


def _located(run: Run, rows: pd.DataFrame) -> pd.DataFrame:
    """The same rollouts with their places in the log."""
    steps = rows["step"].unique()
    table = run.of_step(int(steps[0])) if len(steps) == 1 else run.rollouts
    return table.loc[rows.index]


def _whole_text(run: Run, step: int, index: int, column: str) -> str | None:
    found = open_rollout(run, step, index)
    if column in found.record.texts:
        return found.record.texts[column]
    tokens = found.tokens if column == "response" else found.prompt_tokens
    return joined(tokens) if tokens else None


def _table_columns(
    args: argparse.Namespace, conditions: tuple[Condition, ...], columns: list[str]
) -> list[str]:
    """The usual columns, with those that were asked for before the text."""
    asked = [condition.column for condition in conditions] + ([args.sort] if args.sort else [])
    usual = [name for name in _ROLLOUT_COLUMNS if name in columns]
    added = [name for name in dict.fromkeys(asked) if name not in usual]
    place = len(usual) - ("response" in usual)
    return [*usual[:place], *added, *usual[place:]]


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
        "file": shown_path(run.info, run.info.files[int(row["file"])]),
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
        from board.store import ray_engine  # late, as is what it imports: nothing else needs it

        return ray_engine.connected(args.address)
    if args.address is not None:
        raise ChoiceError("--address names a Ray cluster: it goes with --engine ray")
    return nullcontext(local)


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
