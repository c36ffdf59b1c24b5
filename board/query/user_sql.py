"""SQL that a user writes: one SELECT over the views of a run, which can read nothing else.

The views are rollouts, steps, groups, prompts and problems; docs/sql.md describes them.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import duckdb
import pyarrow as pa

from board.errors import ChoiceError, UnreadableError
from board.index import segments
from board.index.manifest import BrokenIndexError
from board.query.database import Database, create_table, quoted
from board.query.run import Run

if TYPE_CHECKING:
    import pandas as pd

VIEW_COLUMNS: Final[Mapping[str, Mapping[str, str]]] = {
    "rollouts": {
        "step": "trainer step",
        "index": "position within the step, from 0: by rank, file and line",
        "rank": "rank of the trainer that wrote it",
        "group_id": "rollouts of one prompt that are compared with each other",
        "env": "environment",
        "file": "path of its file, relative to the run",
        "line": "line of the file, from 1; of a file of rows: the row",
        "prompt": "whole text of the prompt",
        "prompt_key": "hash of the whole prompt, equal in all runs",
        "response": "whole text of the response",
        "ref_response": "whole text of the reference response",
        "ground_truth": "what the right answer is",
    },
    "steps": {
        "step": "trainer step",
        "rollouts": "rollouts of the step",
        "M_mean": "mean of the metric M over the rollouts of the step",
        "M_std": "standard deviation, n - 1 in the denominator",
        "M_n": "rollouts that have a value",
        "M_q00": "smallest value; further M_q05, M_q25, M_q50, M_q75, M_q95 and M_q100",
        "groups": "groups of the step",
        "zero_std_group_fraction": "share of the groups of 2 rewards or more whose rewards are equal",
        "ranks": "ranks that wrote rollouts",
        "complete": "whether all ranks have ended the step",
    },
    "groups": {
        "step": "trainer step",
        "split": "train where the log names no split",
        "group_id": "as in rollouts",
        "rollouts": "rollouts of the group",
        "scored": "those with a reward",
        "reward_mean": "mean reward",
        "reward_std": "standard deviation, n in the denominator",
        "reward_min": "smallest reward",
        "reward_max": "largest reward",
    },
    "prompts": {
        "prompt_key": "hash of the whole prompt, by which prompts are told apart",
        "prompt": "whole text of the prompt",
        "rollouts": "rollouts of the run that answer it",
        "steps": "steps at which it occurs",
        "first_step": "the first of them",
        "last_step": "the last of them",
        "reward_mean": "mean reward",
        "reward_min": "smallest reward",
        "reward_max": "largest reward",
    },
    "problems": {
        "path": "file",
        "line": "first line, from 1",
        "field": "key of the record",
        "reason": "what is wrong",
        "hint": "what was expected, or what to do",
        "severity": "lost: not shown; partial: shown without a value; note: shown",
        "count": "how often",
    },
}
"""View -> column -> what it is. `rollouts` has every other column of the run's table too."""
_TEXTS: Final = ("prompt", "response", "ref_response", "ground_truth")
_ADDRESS_COLUMNS: Final = frozenset(("offset", "size", segments.PART))
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


def create_views(run: Run, database: Database) -> None:
    """Creates the views of VIEW_COLUMNS for a whole run, which is not narrowed, in the schema `main` of a
    database of its own.

    Raises duckdb.Error and BrokenIndexError where the index can't be read.
    """
    rows = run.rows.in_database(database)
    cursor, schema = database.cursor(), "main"
    values = {
        name: "path" if name == "file" else rows.value(name)
        for name in run.columns
        if name not in _ADDRESS_COLUMNS
    }
    values |= {name: rows.whole_text(name) for name in _TEXTS}
    values["prompt_key"] = (
        segments.PROMPT_KEY if segments.PROMPT_KEY in rows.names else "NULL::BIGINT"
    )
    selected = ", ".join(f"{value} AS {quoted(name)}" for name, value in values.items())
    cap = run.options.max_per_step
    condition = "" if cap is None else f"WHERE position < {cap}"
    cursor.execute(f"""
        CREATE VIEW {schema}.rollouts AS
        SELECT {selected} FROM {rows.view()} {condition}
    """)
    create_table(cursor, schema, "steps", pa.Table.from_pandas(run.steps, preserve_index=False))
    _create_groups(cursor, schema, run)
    _create_prompts(cursor, schema, run)
    create_table(cursor, schema, "problems", _problems(run))


def _problems(run: Run) -> pa.Table:
    names = tuple(VIEW_COLUMNS["problems"])
    rows = [{name: getattr(problem, name) for name in names} for problem in run.problems]
    types = {"line": pa.int64(), "count": pa.int64()}
    schema = pa.schema([(name, types.get(name, pa.string())) for name in names])
    return pa.Table.from_pylist(rows, schema)


def _create_groups(cursor: duckdb.DuckDBPyConnection, schema: str, run: Run) -> None:
    group_id, reward = _column(run, "group_id"), _column(run, "reward", "DOUBLE")
    split = f"coalesce({_column(run, 'split')}, 'train')"
    cursor.execute(f"""
        CREATE VIEW {schema}.groups AS
        SELECT step, {split} AS split, {group_id} AS group_id, count(*) AS rollouts,
            count({reward}) AS scored, avg({reward}) AS reward_mean, stddev_pop({reward}) AS reward_std,
            min({reward}) AS reward_min, max({reward}) AS reward_max
        FROM {schema}.rollouts WHERE {group_id} IS NOT NULL GROUP BY ALL
    """)


def _create_prompts(cursor: duckdb.DuckDBPyConnection, schema: str, run: Run) -> None:
    reward = _column(run, "reward", "DOUBLE")
    cursor.execute(f"""
        CREATE VIEW {schema}.prompts AS
        SELECT prompt_key, any_value(prompt) AS prompt, count(*) AS rollouts,
            count(DISTINCT step) AS steps, min(step) AS first_step, max(step) AS last_step,
            avg({reward}) AS reward_mean, min({reward}) AS reward_min, max({reward}) AS reward_max
        FROM {schema}.rollouts WHERE prompt_key IS NOT NULL GROUP BY prompt_key
    """)


def _column(run: Run, name: str, kind: str = "VARCHAR") -> str:
    """A column of `rollouts`, or what stands for it where nothing of it is recorded."""
    return name if name in run.columns else f"CAST(NULL AS {kind})"


@dataclass(frozen=True, slots=True)
class RunTables:
    """A run as it was when it was opened. Its views and their columns: docs/sql.md."""

    run: Run

    def sql(self, statement: str, timeout: float = DEFAULT_TIMEOUT) -> pd.DataFrame:
        """The rows of one SELECT, in DuckDB's SQL. timeout: in seconds.

        Raises:
            ChoiceError: the statement is no SELECT, is wrong, reads something else, or takes too long.
        """
        return select(self.run, statement, timeout).to_pandas()
