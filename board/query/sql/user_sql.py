"""SQL that a user writes: one SELECT over the views of a run, which can read nothing else.

The views are rollouts, steps, groups, prompts, problems and metrics; docs/sql.md describes them.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager, suppress
from decimal import Decimal
from typing import Any, Final, cast

import duckdb
import pyarrow as pa

from board.errors import ChoiceError, UnreadableError
from board.index import segments
from board.index.manifest import BrokenIndexError
from board.query.database import Database, create_table, quoted
from board.query.run import Run
from board.query.run_rows import RunRows
from board.query.sql.exact_numbers import holds_number_texts
from board.query.trainer.metrics import TrainerMetrics

_PROBLEM_COLUMNS: Final = ("path", "line", "field", "reason", "hint", "severity", "count")
_METRICS: Final = re.compile(r"\bmetrics\b", re.IGNORECASE)
_ADDRESS_COLUMNS: Final = frozenset(("offset", "size", segments.PART))
DEFAULT_TIMEOUT: Final = 60.0
"""Seconds."""


def asks_for_metrics(statement: str) -> bool:
    """Whether a statement may need the view `metrics`, whose files are read for it."""
    return _METRICS.search(statement) is not None


def select(
    run: Run,
    statement: str,
    timeout: float = DEFAULT_TIMEOUT,
    trainer: TrainerMetrics | None = None,
    *,
    limit: int | None = None,
) -> pa.Table:
    """The rows of one SELECT over the views `rollouts`, `steps`, `groups`, `prompts`, `problems` and
    `metrics`.

    Args:
        run: not narrowed to a split or environment.
        statement: in DuckDB's SQL.
        timeout: in seconds, after which the statement is stopped.
        trainer: what `metrics` has; None: nothing.
        limit: at most so many rows, the first ones; None: all.

    Raises:
        ChoiceError: the statement is not a SELECT, is wrong, reads something else, or takes too long.
        UnreadableError: the index is damaged or was deleted.
    """
    readable = [] if run.index_folder is None else [run.index_folder]
    with closing(Database(readable)) as database:
        opened = database.cursor()
        query = _only_select(opened, statement)
        try:
            create_views(run, database)
            metrics = (trainer or TrainerMetrics()).long_table()
            create_table(database.cursor(), "main", "metrics", metrics)
        except (duckdb.Error, BrokenIndexError) as error:
            reason = f"the index of {run.info.name} can't be read: open the run again"
            raise UnreadableError(f"{reason} ({error})") from error
        with _stopped_after(timeout, opened) as expired:
            try:
                rows = opened.sql(query)
                rows = rows if limit is None else rows.limit(limit)
                return _told_apart(_as_numbers(rows.to_arrow_table()))
            except duckdb.InterruptException:
                if not expired.is_set():  # Ctrl-C
                    raise KeyboardInterrupt from None
                raise ChoiceError(f"the statement took more than {timeout:g} seconds") from None
            except duckdb.Error as error:
                raise ChoiceError(_reason(error)) from error


def _told_apart(table: pa.Table) -> pa.Table:
    """The table with columns of equal names as `a` and `a_1`: a row has one value of each name."""
    names: list[str] = []
    for name in table.column_names:
        written = [name, *(f"{name}_{number}" for number in range(1, len(names) + 1))]
        names.append(next(one for one in written if one not in names))
    return table.rename_columns(names)


def _as_numbers(table: pa.Table) -> pa.Table:
    """The table with decimals, which DuckDB gives for `1.5` and for a sum of whole numbers, as floats and
    as int64. Whole numbers beyond that stay decimals, with all digits.
    """
    for place, field in enumerate(table.schema):
        if pa.types.is_decimal(field.type):
            is_whole = field.type.scale == 0
            with suppress(pa.ArrowInvalid):
                values = table.column(place).cast(pa.int64() if is_whole else pa.float64())
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


def create_views(run: Run, database: Database) -> None:
    """Creates the views for a whole run, which is not narrowed, in the schema `main` of a database of its
    own.

    Raises duckdb.Error and BrokenIndexError where the index can't be read.
    """
    rows, cursor = run.rows.in_database(database), database.cursor()
    values = {name: _exact(rows, name) for name in run.columns if name not in _ADDRESS_COLUMNS}
    values |= {name: rows.whole_text(name) for name in segments.TEXT_NAMES[:-1]}
    is_hashed = segments.PROMPT_KEY in rows.names
    values |= {"file": "path", "prompt_key": "prompt_key" if is_hashed else "NULL::BIGINT"}
    selected = ", ".join(f"{value} AS {quoted(name)}" for name, value in values.items())
    cap = run.options.max_per_step
    condition = "true" if cap is None else f"position < {cap}"
    cursor.execute(f"""
        CREATE VIEW main.rollouts AS SELECT {selected} FROM {rows.view()} WHERE {condition}
    """)
    create_table(
        cursor,
        "main",
        "steps",
        run.step_table(quantiles=True),
    )
    # NULL in place of a column of which nothing is recorded.
    group_id, reward, split = (
        name if name in run.columns else f"CAST(NULL AS {kind})"
        for name, kind in (("group_id", "VARCHAR"), ("reward", "DOUBLE"), ("split", "VARCHAR"))
    )
    cursor.execute(f"""
        CREATE VIEW main.groups AS
        SELECT step, coalesce({split}, 'train') AS split, {group_id} AS group_id, count(*) AS rollouts,
            count({reward}) AS scored, avg({reward}) AS reward_mean, stddev_pop({reward}) AS reward_std,
            min({reward}) AS reward_min, max({reward}) AS reward_max
        FROM main.rollouts WHERE {group_id} IS NOT NULL GROUP BY ALL
    """)
    cursor.execute(f"""
        CREATE VIEW main.prompts AS
        SELECT prompt_key, any_value(prompt) AS prompt, count(*) AS rollouts,
            count(DISTINCT step) AS steps, min(step) AS first_step, max(step) AS last_step,
            avg({reward}) AS reward_mean, min({reward}) AS reward_min, max({reward}) AS reward_max
        FROM main.rollouts WHERE prompt_key IS NOT NULL GROUP BY prompt_key
    """)
    problems = [{name: getattr(one, name) for name in _PROBLEM_COLUMNS} for one in run.problems]
    types = {"line": pa.int64(), "count": pa.int64()}
    schema = pa.schema([(name, types.get(name, pa.string())) for name in _PROBLEM_COLUMNS])
    create_table(cursor, "main", "problems", pa.Table.from_pylist(problems, schema))


def _exact(rows: RunRows, name: str) -> str:
    """SQL for a column: whole numbers that a DOUBLE does not hold are whole numbers, or their digits as
    texts where they have more than 64 bits.
    """
    if not holds_number_texts(rows.column(name)):
        return rows.value(name)
    digits, kind = rows.frame_value(name), rows.exact_type(name)
    if pa.types.is_integer(kind):
        return f"CAST({digits} AS {'BIGINT' if kind == pa.int64() else 'UBIGINT'})"
    others = f"{digits} IS NOT NULL AND NOT regexp_full_match({digits}, '[-+]?[0-9]+')"
    counted = rows.table(
        f"SELECT count(*) AS n FROM {rows.unnumbered()} AS rollouts WHERE {others}"
    )
    return rows.value(name) if counted["n"][0].as_py() else digits


def plain_rows(table: pa.Table) -> list[dict[str, Any]]:
    """One dict per row as JSON has it: dates, intervals and the like as text, None where NULL."""
    columns = [[_plain(value) for value in _values(column)] for column in table.columns]
    names = table.column_names
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _values(column: pa.ChunkedArray) -> list[Any]:
    """The values of a column; as Arrow writes them where Python has none such, as a date after 9999."""
    try:
        return column.to_pylist()
    except (ValueError, OverflowError, pa.ArrowException):
        return [*map(_value, column)]


def _value(scalar: pa.Scalar) -> Any:
    try:
        return scalar.as_py()
    except (ValueError, OverflowError, pa.ArrowException):
        return str(_as_text(scalar))


def _as_text(scalar: pa.Scalar) -> Any:
    """What Arrow writes for a value, and the number behind it where Arrow writes nothing."""
    for kind in (pa.string(), pa.int64(), pa.int32()):
        try:
            return scalar.cast(kind).as_py()
        except pa.ArrowException:
            continue
    return f"a value of type {scalar.type} that can't be shown"


def _plain(value: object) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Decimal):
        return float(value) if value.as_tuple().exponent else int(value)
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return [_plain(one) for one in cast("list[object]", value)]
    if isinstance(value, Mapping):
        return {str(k): _plain(one) for k, one in cast("Mapping[object, object]", value).items()}
    return str(value)
