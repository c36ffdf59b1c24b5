"""A run for notebooks and scripts: its tables by SQL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from board.query.run import Run
from board.query.user_sql import DEFAULT_TIMEOUT, select

if TYPE_CHECKING:
    import pandas as pd


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
