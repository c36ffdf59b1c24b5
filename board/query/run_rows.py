"""The rows of a run as views: those of the index that are shown, each with its position in its step.

`stored` has the rows of the index. `rows` leaves out those that a resumed training wrote again
(`superseded`) and further copies of a rollout (`repeats`), and has the columns of `stored`, but
`file` (number in the run) and `rank` (of the file's header where the row has none), and `path` (of the
file) and `position` (index within the step).
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
# pyarrow ships without types.

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import duckdb
import numpy as np
import pyarrow as pa

from board.index import segments
from board.index.database import Database, create_table
from board.index.manifest import NO_RANK
from board.index.repeat_keys import lines_and_parts
from board.index.row_order import index_within
from board.index.segments import Column
from board.index.shown_columns import GAP
from board.query.run import Run

_POSITION: Final = """row_number() OVER (
    PARTITION BY stored.step ORDER BY {rank} NULLS LAST, files.number, stored.line, {part}) - 1"""
# A preview without a whole text is the text, unless it is of token ids without a vocabulary.
_TEXT_OF_PREVIEW: Final = """CASE WHEN NOT (starts_with({0}, '⟨')
    AND regexp_full_match({0}, '(⟨[0-9?]+⟩)*(⟨[0-9?]*)?…?')) THEN {0} END"""
_LAST: Final = np.iinfo(np.int64).max
_NAN: Final = "CAST('nan' AS DOUBLE)"


@dataclass(eq=False)
class RunRows:
    """The views of one whole run. names: columns of `rows`."""

    database: Database
    run: Run
    schema: str = ""
    names: frozenset[str] = frozenset()

    @classmethod
    def of(cls, database: Database, run: Run) -> RunRows:
        """Creates the views of a run that is not narrowed. Raises duckdb.Error, BrokenIndexError."""
        found = cls(database, run)
        found.schema = database.add_schema(found)
        cursor = database.cursor()
        if run.shown.is_joined:
            table = run.shown.table(texts=True)
            position = index_within(table.column("step").to_numpy())
            paths = _texts(run.info.path_of(file) for file in run.info.files)
            table = table.append_column("position", pa.array(position))
            table = table.append_column("path", paths.take(table.column("file")))
            create_table(cursor, found.schema, "rows", table)
        else:
            _create_rows(cursor, found)
        described = cursor.execute(f"DESCRIBE {found.schema}.rows").fetchall()
        found.names = frozenset(name for name, *_ in described)
        return found

    @property
    def rows(self) -> str:
        """The name of the view."""
        return f"{self.schema}.rows"

    @property
    def order(self) -> str:
        """What follows ORDER BY for the order by step and position; a position would take longer."""
        if self.run.shown.is_joined:
            return "step, position"
        return f"step, rank NULLS LAST, file, line, {self.part}"

    @property
    def key(self) -> str:
        """SQL for a value by which rollouts are in that order."""
        if self.run.shown.is_joined:
            return "row(step, position)"
        return f"row(step, coalesce(rank, {_LAST}), file, line, {self.part})"

    @property
    def part(self) -> str:
        """SQL for the number of a rollout within its line."""
        return "coalesce(rollouts.part, 0)" if segments.PART in self.names else "CAST(0 AS BIGINT)"

    def value(self, column: Column) -> str:
        """SQL for a column of the run: NULL where it is not recorded, also where the log says NaN."""
        if column.name == "index":
            return "position"
        if column.name == GAP:
            return f"{_number('reward')} - {_number('ref_reward')}"
        held = [name for name in segments.stored_names(column) if name in self.names]
        if not held:
            return f"CAST(NULL AS {'VARCHAR' if column.words else 'DOUBLE'})"
        if column.name in segments.FIXED:
            is_exact = column.texts or column.name in segments.WHOLE_NUMBERS
            return quoted(held[0]) if is_exact else _number(held[0])
        if column.words:
            texts = (f"CAST({quoted(name)} AS VARCHAR)" for name in reversed(held))
            return f"coalesce({', '.join(texts)})"
        numbers = (f"TRY_CAST({quoted(name)} AS DOUBLE)" for name in held)
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


def _create_rows(cursor: duckdb.DuckDBPyConnection, found: RunRows) -> None:
    schema, run = found.schema, found.run
    held = _create_stored(cursor, found)
    create_table(cursor, schema, "files", _files(run))
    part = f"coalesce(stored.{segments.PART}, 0)" if segments.PART in held else "0"
    rank = "coalesce(stored.rank, files.rank)" if "rank" in held else "files.rank"
    raw_rank = f"coalesce(stored.rank, {NO_RANK})" if "rank" in held else str(NO_RANK)
    others = "".join(f", {name}" for name in ("rank",) if name in held)
    cursor.execute(f"""
        CREATE VIEW {schema}.rows AS
        SELECT stored.* EXCLUDE (file{others}), files.number AS file, files.path AS path, {rank} AS rank,
            {_POSITION.format(rank=rank, part=part)} AS position
        FROM {schema}.stored AS stored JOIN {schema}.files AS files ON stored.file = files.id
            {_without_superseded(cursor, schema, run, raw_rank)}
            {_without_repeats(cursor, schema, run, part)}
    """)


def _create_stored(cursor: duckdb.DuckDBPyConnection, found: RunRows) -> list[str]:
    """The rows of the index as they are stored, and the names of their columns."""
    schema, run = found.schema, found.run
    storage, names = run.shown.index.storage, run.shown.index.segments(None)
    if run.index_folder is not None and names:
        folder = found.database.link(schema, run.index_folder)
        paths = ", ".join(f"'{folder / name}'" for name in names)
        cursor.execute(
            f"CREATE VIEW {schema}.stored AS FROM read_parquet([{paths}], union_by_name = true)"
        )
    else:
        create_table(cursor, schema, "stored", segments.joined(map(storage.get, names)))
    return [name for name, *_ in cursor.execute(f"DESCRIBE {schema}.stored").fetchall()]


def _files(run: Run) -> pa.Table:
    """The files of the run: id in the index, number in the run, rank of the header, path."""
    index = run.shown.index
    rows = [(state.id, index.number_of[state.id], state.rank) for state in index.files]
    paths = _texts(state.path for state in index.files)
    return _numbers(rows, ("id", "number", "rank")).append_column("path", paths)


def _texts(texts: Iterable[str]) -> pa.Array:
    """Texts as UTF-8 can hold them."""
    return pa.array([text.encode("utf-8", "replace").decode() for text in texts], pa.string())


def _numbers(rows: list[tuple[int | None, ...]], names: tuple[str, ...]) -> pa.Table:
    columns = [*zip(*rows, strict=True)] if rows else [()] * len(names)
    return pa.table([pa.array(values, pa.int64()) for values in columns], [*names])


def _without_superseded(cursor: duckdb.DuckDBPyConnection, schema: str, run: Run, rank: str) -> str:
    """SQL that leaves out rows which a resumed training wrote again. A join that hides nothing would
    still keep filters from the files.
    """
    rows = [*run.shown.index.superseded.ranges()]
    if not rows:
        return ""
    table = _numbers([*rows], ("file", "rank", "before_line", "from_step"))
    create_table(cursor, schema, "superseded", table)
    return f"""
        ANTI JOIN {schema}.superseded AS s ON s.file = stored.file AND stored.step >= s.from_step
            AND stored.line < s.before_line AND (s.rank IS NULL OR s.rank = {rank})"""


def _without_repeats(cursor: duckdb.DuckDBPyConnection, schema: str, run: Run, part: str) -> str:
    """SQL that leaves out further copies of rollouts."""
    held = run.shown.index.repeats.items()
    if not held:
        return ""
    files = np.concatenate([np.full(len(one.codes), number) for number, one in held])
    lines, parts = lines_and_parts(np.concatenate([one.codes for _, one in held]))
    create_table(cursor, schema, "repeats", pa.table({"file": files, "line": lines, "part": parts}))
    return f"""
        ANTI JOIN {schema}.repeats AS r ON r.file = stored.file AND r.line = stored.line
            AND r.part = {part}"""
