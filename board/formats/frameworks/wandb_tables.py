"""W&B tables on disk: media/table/<name>_<number>_<hash>.table.json, columns and rows of a few rollouts.

Tables of TRL (wandb.Table of its completions), verl (`ValidationGenerationsLogger`: a row per step, and
all rows before again in each table), prime-rl (samples) and Atropos (text and score) are known by their
columns; see table_rows.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from board.errors import RecordError
from board.formats.base import Head, LineContext, Reader
from board.formats.fields import Fields, at_step
from board.formats.mapping import row_as_dict
from board.formats.parse import is_list, is_object
from board.formats.sources import JSON_DOCUMENT
from board.formats.table_rows import (
    fields_of_row,
    holds_rollouts,
    rollouts_of_row,
    with_missing_rewards,
)


class WandbTableReader(Reader):
    """Reads tables of rollouts that W&B wrote to its run's folder."""

    name = "wandb_table"
    title = "W&B tables"
    left_out: Mapping[str, str] = {"columns": "the names of the columns"}
    sources = (JSON_DOCUMENT,)
    repeats = "same_id"
    layout = re.compile(
        r"(?:files/)?media/table/(?:(?P<split>train|val|eval|test)/)?"
        r"(?:[^/]+/)*[^/]+?_(?P<step>[0-9]+)_[0-9a-f]+\.table\.json"
    )

    def recognises(self, head: Head) -> bool:
        """Columns of which one holds what was generated, and rows."""
        return any(
            is_list(names := record.get("columns"))
            and is_list(record.get("data"))
            and holds_rollouts(names)
            for record in head.records
        )

    def rows(self, line: Mapping[str, Any], at: LineContext) -> Sequence[Mapping[str, Any]]:
        """Each row, of verl's each numbered rollout of a row."""
        names, data = line.get("columns"), line.get("data")
        if not is_list(names) or not is_list(data):
            raise RecordError("it is no table", hint="lists of columns and data")
        rows = [row for row in (row_as_dict(names, row) for row in data) if is_object(row)]
        complete = with_missing_rewards(rows)
        return [rollout for row in complete for rollout in rollouts_of_row(row)]

    def read(self, line: Mapping[str, Any], at: LineContext) -> Fields:
        fields = fields_of_row(line)
        fields["split"] = at.split or "train"
        step = fields.pop("step", None)
        return at_step(fields, at.step if step is None else step)
