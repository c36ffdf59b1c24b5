"""What an index would keep of the steps of a narrowed or capped run, made of its rollouts."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false
# pyarrow ships without types.

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from board.store import step_parts

if TYPE_CHECKING:
    from board.store.opened_run import Run


def made_part(run: Run, kind: str) -> pa.Table | None:
    """One of step_parts.KINDS of all steps of the run, in ascending order; None without a rollout."""
    tables = [
        step_parts.part_of(kind, rows, run.metrics)
        for rows in run.pieces(step_parts.columns_of(kind, run.metrics))
    ]
    return step_parts.loaded(tables)
