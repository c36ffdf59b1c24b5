"""The command `sql`: one SELECT over a run, printed or written to a Parquet file."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, cast

import pyarrow.parquet as pq

from board.cli import output
from board.cli.opened_runs import opened
from board.cli.runs import find_run
from board.errors import ChoiceError
from board.query.user_sql import select


def main(args: argparse.Namespace) -> int:
    """Prints what a SELECT gives, or writes it."""
    table = select(opened(find_run(args.run, args.source)), args.statement, args.timeout)
    if args.parquet is not None:
        try:
            pq.write_table(table, args.parquet)
        except OSError as error:
            raise ChoiceError(f"{args.parquet} can't be written: {error}") from error
        output.say(f"{table.num_rows} rows in {args.parquet}")
        return 0
    rows = [{name: _plain(value) for name, value in row.items()} for row in table.to_pylist()]
    output.print_rows(args, rows, table.column_names)
    return 0


def _plain(value: object) -> Any:
    """A value as JSON has it: dates, intervals and the like as text."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return [_plain(one) for one in cast("list[object]", value)]
    if isinstance(value, Mapping):
        return {str(k): _plain(one) for k, one in cast("Mapping[object, object]", value).items()}
    return str(value)
