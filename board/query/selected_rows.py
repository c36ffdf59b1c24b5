"""What a run needs of the rows of some of its rollouts: see board.query.selection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from board.index.stored_rows import StoredRows
from board.index.table_files import StepRange


class SelectedRows(Protocol):
    """Rows of some rollouts of a run."""

    def stored_rows(
        self,
        steps: StepRange | None,
        columns: Sequence[str] | None,
    ) -> StoredRows:
        """Those of a range of steps (None: of all), by step and index. Raises UnreadableError.

        columns: of the run's; None: all.
        """
        ...
