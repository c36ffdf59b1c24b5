"""SQL that a user writes: one SELECT over the views of a run, which can read nothing else."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportMissingTypeStubs=false
# pyarrow ships without types.

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import duckdb
import pyarrow as pa

from board.errors import ChoiceError, UnreadableError
from board.index.manifest import BrokenIndexError
from board.query.database import Database
from board.query.run import Run
from board.query.views import create_views

DEFAULT_TIMEOUT: Final = 60.0
"""Seconds."""


def select(run: Run, statement: str, timeout: float = DEFAULT_TIMEOUT) -> pa.Table:
    """The rows of one SELECT over the views `rollouts`, `steps`, `groups`, `prompts` and `problems`.

    Args:
        run: not narrowed to a split or environment.
        statement: in DuckDB's SQL.
        timeout: in seconds, after which the statement is stopped.

    Raises:
        ChoiceError: the statement is no SELECT, is wrong, reads something else, or takes too long.
        UnreadableError: the index is damaged or was deleted.
    """
    readable = [] if run.index_folder is None else [run.index_folder]
    with Database(readable) as database:
        opened = database.cursor()
        query = _only_select(opened, statement)
        try:
            create_views(run, database)
        except (duckdb.Error, BrokenIndexError) as error:
            reason = f"the index of {run.info.name} can't be read: open the run again"
            raise UnreadableError(f"{reason} ({error})") from error
        with _stopped_after(timeout, opened) as expired:
            try:
                return _without_decimals(opened.sql(query).to_arrow_table())
            except duckdb.InterruptException:
                if not expired.is_set():  # Ctrl-C
                    raise KeyboardInterrupt from None
                raise ChoiceError(f"the statement took more than {timeout:g} seconds") from None
            except duckdb.Error as error:
                raise ChoiceError(_reason(error)) from error


def _without_decimals(table: pa.Table) -> pa.Table:
    """The table with decimals as floats: DuckDB gives them for `1.5` and for a sum of whole numbers."""
    for place, field in enumerate(table.schema):
        if pa.types.is_decimal(field.type):
            values = table.column(place).cast(pa.float64())
            table = table.set_column(place, field.name, values)
    return table


def _only_select(opened: duckdb.DuckDBPyConnection, statement: str) -> str:
    try:
        statements = opened.extract_statements(statement)
    except duckdb.Error as error:
        raise ChoiceError(_reason(error)) from error
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise ChoiceError("give one SELECT statement: the run can be read, not changed")
    return statements[0].query


@contextmanager
def _stopped_after(seconds: float, opened: duckdb.DuckDBPyConnection) -> Generator[threading.Event]:
    """Interrupts what the connection executes after so many seconds; the event says that it did."""
    expired = threading.Event()

    def stop() -> None:
        expired.set()
        opened.interrupt()

    timer = threading.Timer(seconds, stop)
    timer.start()
    try:
        yield expired
    finally:
        timer.cancel()


def _reason(error: duckdb.Error) -> str:
    """DuckDB's message as it is: it marks the place of a mistake, and names what comes close."""
    return str(error).strip()
