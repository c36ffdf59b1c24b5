"""The command `rollouts`: rows of the run's table, filtered, then sorted, then cut to the limit."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from board.cli import output
from board.cli.columns import known_column, named_columns
from board.cli.runs import find_run, of_environments, of_split, opened
from board.core.expression_tree import Expression
from board.errors import ChoiceError
from board.store import segments, splits
from board.store.expressed import narrow, parsed, with_texts
from board.store.read_texts import WHOLE_TEXTS, read_texts
from board.store.run import Run
from board.store.step_records import PLACES
from board.store.table import order_by, places_by
from board.store.whole_run import FrameRows, Rows, rows_of_run

_USUAL: Final = (
    *("step", "index", "split", "group_id", "env", "reward", "ref_reward", "advantage", "k3_mean"),
    *("mismatch_kl_mean", "entropy_mean", "response_tokens", "finish_reason", "response"),
)
_AT_ONCE: Final = 256
"""Rollouts whose whole texts are in memory."""
Places = npt.NDArray[np.intp]


def rollouts(args: argparse.Namespace) -> int:
    """Prints the rollouts that were asked for."""
    run = of_split(opened(find_run(args.run, args.source)), args.split or splits.ALL)
    run = of_environments(run, args.env)
    if args.step is not None:
        run.row(args.step, 0)
    rows = rows_of_run(run) if args.step is None else FrameRows(run.of_step(args.step))
    asked = parsed(run, args.where) if args.where else None
    names = _names(run)
    wanted = named_columns(args.columns, (*names, *WHOLE_TEXTS)) if args.columns else []
    places = _ordered(run, rows, _among(run, rows, asked, args.last), args)
    if args.csv or args.jsonl:
        _print_whole(run, rows, places, wanted or names, as_csv=args.csv)
        return 0
    if set(wanted) & set(WHOLE_TEXTS) - set(names):
        raise ChoiceError("texts that the table does not hold go with --csv or --jsonl")
    records = output.records_of(_named(run, rows.at(places)).reindex(columns=wanted or names))
    if args.json:
        output.print_json(records)
    else:
        output.print_table(records, wanted or _table_columns(asked, args.sort, names))
    return 0


def _names(run: Run) -> list[str]:
    """Columns of the table, as the run has them whatever split it is narrowed to."""
    return [
        name for name in (run.whole or run).columns if name not in ("offset", "size", segments.PART)
    ]


def _among(
    run: Run, rows: Rows, asked: Expression | None, last: int | None
) -> npt.NDArray[np.bool_]:
    """[rows] which are of the last steps and which the filter holds for."""
    steps = sorted(run.counts)[-last:] if last else []
    among = np.ones(len(rows), bool) if last is None else rows["step"].isin(steps).to_numpy(bool)
    if asked is None:
        return among
    narrowed = narrow(run, rows, asked, among)
    return with_texts(run, rows, asked, narrowed)


def _ordered(
    run: Run, rows: Rows, among: npt.NDArray[np.bool_], args: argparse.Namespace
) -> Places:
    """The places of the rows that are shown, in the order in which they are."""
    if not args.sort:
        places = np.flatnonzero(among)
        return (places[::-1] if args.desc else places)[: args.limit]
    column = known_column(args.sort, _names(run))
    order: dict[str, Any] = {"descending": args.desc, "limit": args.limit}
    if column == "file":
        files = _files(run)
        places = np.flatnonzero(among)
        names = pd.Series([files[number] for number in rows["file"].iloc[places].tolist()])
        return places[order_by(names, **order)][: args.limit]
    if column not in rows:  # of another split than the one shown
        return np.flatnonzero(among)[: args.limit]
    try:
        return places_by(rows, column, among, **order)[: args.limit]
    except TypeError:
        reason = f"{column} holds numbers and text, which have no common order"
        raise ChoiceError(reason) from None


def _files(run: Run) -> list[str]:
    return [run.info.path_of(file) for file in run.info.files]


def _named(run: Run, rows: pd.DataFrame) -> pd.DataFrame:
    """With names of files in the place of their numbers."""
    files = _files(run)
    return rows.assign(file=[files[number] for number in rows["file"]])


def _print_whole(run: Run, rows: Rows, places: Places, columns: list[str], *, as_csv: bool) -> None:
    """As CSV or as JSON lines, with texts in full."""
    batches = _whole(run, rows, places, columns)
    (output.print_csv if as_csv else output.print_json_lines)(batches, columns)


def _whole(
    run: Run, rows: Rows, places: Places, columns: list[str]
) -> Iterator[list[dict[str, Any]]]:
    texts = [name for name in columns if name in WHOLE_TEXTS]
    for first in range(0, len(places), _AT_ONCE):
        batch = places[first : first + _AT_ONCE]
        frame = _named(run, rows.at(batch)).reindex(columns=columns)
        if texts:
            whole = read_texts(run, rows.at(batch, PLACES), texts)
            frame = frame.assign(**{name: pd.Series(whole[name], frame.index) for name in texts})
        yield output.records_of(frame)


def _table_columns(asked: Expression | None, sort: str | None, names: list[str]) -> list[str]:
    """The usual columns, with those that were asked for before the text."""
    wanted = [*(asked.names if asked else ()), *([sort] if sort else [])]
    usual = [name for name in _USUAL if name in names]
    added = [name for name in dict.fromkeys(wanted) if name in names and name not in usual]
    place = len(usual) - ("response" in usual)
    return [*usual[:place], *added, *usual[place:]]
