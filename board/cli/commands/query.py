"""The commands that print a run's tables: `steps`, `rollouts`, `metrics`, and `sql` for any other."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Final

import pyarrow as pa

from board.cli import output
from board.cli.opened_runs import (
    listed,
    listed_columns,
    narrowed_as_asked,
    of_environments,
    of_last_steps,
    of_split,
    open_for,
    open_run,
    options_of,
    trainer_metrics,
    where_as_asked,
)
from board.core.metrics.trainer import TOPICS
from board.errors import ChoiceError, NotFoundError
from board.index.segments import PART, TEXT_NAMES
from board.query import splits
from board.query.columns import known_column, rows_of
from board.query.open_run import Run
from board.query.predicate import parsed
from board.query.rollouts import Sorting, at_step, batches, rollout_table
from board.query.sql.limited_sql import Question, ask
from board.query.sql.user_sql import plain_rows

FIXED_STEP_KEYS: Final = (
    *("step", "rollouts", "reward_mean", "reward_std", "ref_reward_mean", "response_tokens_mean"),
    *("k1_mean", "k3_mean", "mismatch_kl_mean", "entropy_mean", "is_truncated_mean"),
    "zero_std_group_fraction",
)
"""Keys that every row of `steps --json` has, null where the log does not record them."""
_USUAL: Final = (
    *("step", "index", "split", "group_id", "env", "reward", "ref_reward", "advantage", "k3_mean"),
    *("mismatch_kl_mean", "entropy_mean", "response_tokens", "finish_reason"),
)
"""Columns of the table of rollouts; behind them come those that are asked for, and the response."""
_BATCH_ROLLOUTS: Final = 2048
_ENDS: Final = {"q00": "min", "q100": "max"}
"""Of the smallest and largest value of a rank."""


def steps(args: argparse.Namespace) -> int:
    """Prints one row per step."""
    names = [] if args.where else listed(args.columns)
    of_steps = narrowed_as_asked(open_for(args, names), args).step_table(quantiles=True)
    rows = [{**dict.fromkeys(FIXED_STEP_KEYS), **row} for row in rows_of(of_steps)]
    names = list(dict.fromkeys((*FIXED_STEP_KEYS, *of_steps.column_names)))
    means = [name for name in names if name.endswith("_mean") and name not in FIXED_STEP_KEYS]
    usual = [c for c in (*FIXED_STEP_KEYS, *means) if any(row[c] is not None for row in rows)]
    if args.columns is not None:
        names = usual = listed_columns(args.columns, names)
        rows = [{name: row[name] for name in names} for row in rows]
    output.print_rows(args, [rows], names, usual)
    return 0


def rollouts(args: argparse.Namespace) -> int:
    """Prints rollouts: filtered, then sorted, then cut to the limit."""
    asked = listed(args.columns)
    names = [*asked, *listed(args.sort)] if asked and not args.where else []
    run = of_environments(of_split(open_for(args, names), args.split or splits.ALL), args.env)
    if args.step is not None:
        run.row(args.step, 0, ("step",))  # raises for an unknown step
    hidden = ("offset", "size", PART)
    # As the run has them, whatever split it is narrowed to.
    names = [name for name in (run.whole or run).columns if name not in hidden]
    wanted = listed_columns(args.columns, (*names, *TEXT_NAMES))
    chosen, columns = _chosen(run, args), wanted or names
    sorting = Sorting(known_column(args.sort, names) if args.sort else "", args.desc)
    texts = [name for name in columns if name in TEXT_NAMES]
    tables: Iterable[pa.Table]
    if args.csv or args.jsonl:
        size = _BATCH_ROLLOUTS
        tables = batches(chosen, columns, texts, sorting, limit=args.limit, size=size)
    elif {*texts} - {*names}:
        raise ChoiceError("texts that the table does not hold go with --csv or --jsonl")
    else:
        tables = [rollout_table(chosen, columns, sorting, limit=args.limit)]
    paths = [run.info.path_of(file) for file in run.info.files]
    rows = map(rows_of, tables)
    if "file" in columns:
        rows = ([{**row, "file": paths[row["file"]]} for row in batch] for batch in rows)
    asked = parsed(run.columns, args.where).names if args.where else ()
    usual = dict.fromkeys(name for name in (*_USUAL, *asked, args.sort) if name != "response")
    usual_names = [name for name in (*usual, "response") if name in names]
    output.print_rows(args, rows, columns, wanted or usual_names)
    return 0


def _chosen(run: Run, args: argparse.Namespace) -> Run:
    """The rollouts that the step, the last steps and the filter choose."""
    of_steps = of_last_steps(run, args.last) if args.step is None else at_step(run, args.step)
    return where_as_asked(of_steps, args.where)


def metrics(args: argparse.Namespace) -> int:
    """Prints one row per step of the trainer's scalars, or their names."""
    run = open_run(args)
    trainer = trainer_metrics(run, args)
    for problem in trainer.problems:
        if problem.severity != "note":
            output.say(f"{problem.path}: {problem.reason}")
    if args.names:
        rows = [
            {"name": c.name, "file": c.source, "points": c.points, "last": c.last}
            for c in trainer.curves.values()
        ]
        output.print_rows(args, [rows], ("name", "file", "points", "last"))
        return 0
    if not trainer.curves:
        output.say(
            f"{run.info.name}: its folder has no metrics of the trainer; --metrics PATH reads them from "
            "elsewhere"
        )
    names = [*trainer.curves]
    usual = [name for topic in TOPICS for name in topic.of(names)]
    if args.columns is not None:
        names = usual = listed_columns(args.columns, names)
    of_steps = trainer.columns(names)
    ends = {f"{name}_{q}": f"{name}_{words}" for name in names for q, words in _ENDS.items()}
    titles = [ends.get(name, name) for name in of_steps]
    columns = ([None if v != v else v for v in own.tolist()] for own in of_steps.values())
    rows = [dict(zip(titles, row, strict=True)) for row in zip(*columns, strict=True)]
    rows = rows if args.last is None else rows[max(len(rows) - args.last, 0) :]
    output.print_rows(args, [rows], ["step", *names], ["step", *(usual or names)])
    return 0


def sql(args: argparse.Namespace) -> int:
    """Prints what a SELECT gives, or writes it."""
    run = open_run(args)
    metrics = args.metrics
    if metrics is not None and not metrics.exists():
        raise NotFoundError(f"--metrics {metrics} does not exist; give a file or a folder")
    question = Question(
        run.info,
        options_of(args),
        args.statement,
        args.timeout,
        metrics=metrics and metrics.absolute(),
        shift=args.metric_shift,
    )
    table = ask(question)
    if args.parquet is not None:
        import pyarrow.parquet as pq

        try:
            pq.write_table(table, args.parquet)
        except OSError as error:
            raise ChoiceError(f"{args.parquet} can't be written: {error}") from error
        output.say(f"{table.num_rows} rows in {args.parquet}")
        return 0
    output.print_rows(args, [plain_rows(table)], table.column_names)
    return 0
