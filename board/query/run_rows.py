"""The rollouts of a run and their columns as SQL.

`visible` leaves out what a resumed training wrote again, and further copies of a rollout. `view` joins
the rows of several logs, and has the `position` of each rollout in its step, which is its index.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
# pyarrow ships without types.

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal

import numpy as np
import pyarrow as pa

from board.index import segments
from board.index.repeat_keys import lines_and_parts
from board.index.segments import Column
from board.index.table_files import StepRange
from board.query import joins
from board.query.database import Database
from board.query.duplicates import Duplicates
from board.query.index_views import IndexViews
from board.query.rollout_columns import GAP, metrics_of

_ORDER: Final = "rank NULLS LAST, file, line, part"
# A preview without a whole text is the text, unless it is of token ids without a vocabulary.
_TEXT_OF_PREVIEW: Final = """CASE WHEN NOT (starts_with({0}, '⟨')
    AND regexp_full_match({0}, '(⟨[0-9?]+⟩)*(⟨[0-9?]*)?…?')) THEN {0} END"""
_LAST: Final = np.iinfo(np.int64).max
_NAN: Final = "CAST('nan' AS DOUBLE)"


class RunRows:
    """The rollouts of a whole run. columns: of its table of rollouts.

    Everything that asks the index raises BrokenIndexError.
    """

    def __init__(
        self,
        index: IndexViews,
        duplicates: Mapping[int, Duplicates],
        columns: Sequence[Column],
    ) -> None:
        self.index, self.columns = index, columns
        self.is_joined = bool(index.joins.sides)
        self._duplicates = duplicates
        self._by_name = {column.name: column for column in columns}
        self._created: dict[str, str] = {}

    def in_database(self, database: Database) -> RunRows:
        """The same with views in another database."""
        index = self.index
        views = IndexViews(database, index.storage, index.manifest, index.run)
        return RunRows(views, self._duplicates, self.columns)

    @property
    def metrics(self) -> tuple[str, ...]:
        """Columns that make a curve."""
        return metrics_of(self.columns)

    @property
    def names(self) -> frozenset[str]:
        """Columns of `view`."""
        return self.index.names | {"position"}

    def visible(self, steps: StepRange | None = None) -> str:
        """A statement for the rows that count, before they are joined. steps: as IndexViews.current."""
        current = self.index.current(steps)
        if not self._duplicates:
            return current
        return f"FROM ({current}) ANTI JOIN {self._create_once('duplicates')} USING (file_id, line, part)"

    def view(self, steps: StepRange | None = None) -> str:
        """The rollouts, in parentheses. steps: as IndexViews.current."""
        source, order = self.visible(steps), _ORDER
        if self.is_joined:
            pairs, sides = self._create_once("pairs"), self.index.joins.sides
            source = joins.merged_rows(sides, source, pairs, sorted(self.index.names))
            order = "side, own_rank NULLS LAST, file, line, part"
        return f"""(
            SELECT *, row_number() OVER (PARTITION BY step ORDER BY {order}) - 1 AS position
            FROM ({source}))"""

    def _create_once(self, name: Literal["duplicates", "pairs"]) -> str:
        """The name of a table that is created when it is first needed."""
        with self.index.lock:
            if name not in self._created:
                make = self._duplicates_table if name == "duplicates" else self._pairs_table
                self._created[name] = self.index.create(name, make())
            return self._created[name]

    def _duplicates_table(self) -> pa.Table:
        duplicates = self._duplicates.items()
        files = np.concatenate([np.full(len(one.codes), number) for number, one in duplicates])
        lines, parts = lines_and_parts(np.concatenate([one.codes for _, one in duplicates]))
        return pa.table({"file_id": files, "line": lines, "part": parts})

    def _pairs_table(self) -> pa.Table:
        rows = self.index.table(joins.KEYS.format(self._keys(), self.visible()))
        return self.index.joins.pairs_table(rows)

    def _keys(self) -> str:
        return ", ".join(name for name in segments.JOIN_KEYS if name in self.index.names)

    @property
    def hidden(self) -> str:
        """A statement for the rows that are neither visible nor of another run."""
        return f"""
            SELECT *, row_number() OVER (PARTITION BY step ORDER BY {_ORDER}) - 1 AS position
            FROM ({self.index.every}) ANTI JOIN ({self.visible()}) USING (file, line, part)
        """

    def joined_addresses(self, step: int) -> str:
        """A statement for where the rows of a step lie that are joined to another, by log."""
        return f"""
            SELECT file, line, "offset", size, part, lead_file, lead_line, lead_part
            FROM ({self.visible((step, step))}) JOIN {self._create_once("pairs")}
                USING (file, line, part)
            WHERE step = {step} ORDER BY side, {_ORDER}
        """

    @property
    def order(self) -> str:
        """What follows ORDER BY for the order by step and position; a position would take longer."""
        return "step, position" if self.is_joined else f"step, {_ORDER}"

    @property
    def key(self) -> str:
        """SQL for a value by which rollouts are in that order."""
        if self.is_joined:
            return "row(step, position)"
        return f"row(step, coalesce(rank, {_LAST}), file, line, part)"

    def stored_names(self, columns: Iterable[str]) -> list[str]:
        """The columns of the view that these columns of the run are made of, and the step."""
        wanted = {*columns, "step"}
        if GAP in wanted:
            wanted |= {"reward", "ref_reward"}
        found = (self._by_name.get(name, Column(name)) for name in sorted(wanted))
        every = (name for column in found for name in segments.stored_names(column))
        return [name for name in every if name in self.names]

    def value(self, name: str) -> str:
        """SQL for a column of the run: NULL where it is not recorded, also where the log says NaN."""
        column = self._by_name.get(name, Column(name))
        if name == "index":
            return "position"
        if name == GAP:
            return f"{_number('reward')} - {_number('ref_reward')}"
        stored = [one for one in segments.stored_names(column) if one in self.names]
        if not stored:
            return f"CAST(NULL AS {'VARCHAR' if column.words else 'DOUBLE'})"
        if name in segments.FIXED:
            is_exact = column.texts or name in segments.WHOLE_NUMBERS
            return quoted(stored[0]) if is_exact else _number(stored[0])
        if column.words:
            texts = (f"CAST({quoted(one)} AS VARCHAR)" for one in reversed(stored))
            return f"coalesce({', '.join(texts)})"
        numbers = (f"TRY_CAST({quoted(one)} AS DOUBLE)" for one in stored)
        return f"nullif(coalesce({', '.join(numbers)}), {_NAN})"

    def whole_text(self, name: str) -> str:
        """SQL for a whole text, one of segments.TEXT_NAMES; NULL where it is not recorded."""
        if name == segments.ANY_TEXT:
            texts = [*map(self.whole_text, segments.TEXT_NAMES[:-1])]
            if segments.MESSAGES in self.names:
                others = f"list_transform({quoted(segments.MESSAGES)}, lambda m: m.text)"
                texts.append(f"nullif(array_to_string({others}, chr(10)), '')")
            return f"concat_ws(chr(10), {', '.join(texts)})"
        texts = [quoted(segments.WHOLE + name)] if segments.WHOLE + name in self.names else []
        if name in self.names:
            texts.append(_TEXT_OF_PREVIEW.format(quoted(name)))
        return f"coalesce({', '.join(texts)})" if texts else "CAST(NULL AS VARCHAR)"


def _number(name: str) -> str:
    return f"nullif({quoted(name)}, {_NAN})"


def quoted(name: str) -> str:
    """A name of a column in SQL."""
    return '"' + name.replace('"', '""') + '"'
