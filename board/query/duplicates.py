"""Further copies of rollouts in a log, found by the hash that each row has.

Equal texts alone make no copy, since a policy may say the same twice. A copy is a row whose id another
row has, a whole step of a file that another file holds too, or rows at the beginning of a buffer that
are the end of the buffer written before. Which of them a framework writes its reader says.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Final

import duckdb
import numpy as np
import pyarrow as pa

from board.core.arrays import BoolArray
from board.formats import reader_named
from board.formats.base import Repeats
from board.index.repeat_keys import BY_FILE, BY_ID, NO_KEY, overlap
from board.index.segments import REPEAT_KEY
from board.query.attempts import RunFiles

if TYPE_CHECKING:
    from board.query.run_rows import RunRows

_BATCH_ROWS: Final = 60_000
_SCHEMA: Final = pa.schema(
    [(name, pa.int64()) for name in ("place", "file", "step", "line", "part", "key")]
)
"""place: number of the file in the run; file: its id."""
_BY_ID: Final = """
SELECT file, step, line, part FROM candidates WHERE key <> 0
QUALIFY row_number() OVER (PARTITION BY key ORDER BY place DESC, line DESC, part DESC) > 1
"""
# A dump: a file's lines of one step. One whose lines are all alike may be equal to another by chance.
_DUMPS: Final = """
SELECT place, file, step, list(key ORDER BY line, part) AS keys,
    count(DISTINCT key) > 1 AND bool_and(key <> 0) AS tells
FROM candidates GROUP BY ALL
"""
_ALIKE: Final = f"""
SELECT DISTINCT unnest(list(file)) AS file FROM ({_DUMPS}) GROUP BY step, keys
HAVING count(*) > 1 AND len(keys) > 1
"""
# Dumps that an earlier file holds too, from the first step on that both hold.
_COPIED_STEPS: Final = f"""
WITH dumps AS ({_DUMPS}),
pairs AS (
    SELECT later.file, step, bool_and(later.keys = earlier.keys AND later.tells)
        OVER (PARTITION BY earlier.place, later.place ORDER BY step) AS is_copy
    FROM dumps AS earlier JOIN dumps AS later USING (step) WHERE earlier.place < later.place)
SELECT file, step, line, part
FROM candidates SEMI JOIN (SELECT file, step FROM pairs WHERE is_copy) USING (file, step)
"""
# Dumps that hold the lines of several other files, of each all, and none else.
_MERGED_FILES: Final = """
WITH counts AS (SELECT file, step, key, count(*) AS n FROM candidates GROUP BY ALL),
dumps AS (
    SELECT file, step, sum(n) AS lines, count(*) > 1 AND bool_and(key <> 0) AS tells
    FROM counts GROUP BY ALL),
inside AS (
    SELECT whole.file AS whole, part.file AS part, step
    FROM counts AS whole JOIN counts AS part USING (step, key)
    JOIN dumps AS of_whole ON (of_whole.file, of_whole.step) = (whole.file, step)
    JOIN dumps AS of_part ON (of_part.file, of_part.step) = (part.file, step)
    WHERE of_part.lines < of_whole.lines AND part.n <= whole.n
    GROUP BY ALL HAVING sum(part.n) = any_value(of_part.lines)),
sums AS (
    SELECT whole AS file, inside.step, key, sum(n) AS n
    FROM inside JOIN counts ON counts.file = inside.part AND counts.step = inside.step
    GROUP BY ALL),
merged AS (
    SELECT file, step FROM counts LEFT JOIN sums USING (file, step, key) JOIN dumps USING (file, step)
    GROUP BY ALL HAVING bool_and(tells AND counts.n = coalesce(sums.n, 0)))
SELECT file, step, line, part FROM candidates SEMI JOIN merged USING (file, step)
"""


def find_duplicates(rows: RunRows) -> pa.Table:
    """The rows that repeat another one: columns file (its id), step, line and part.

    Raises BrokenIndexError.
    """
    tables = [_SCHEMA.empty_table()]
    for kind, ids in _ids_of_kinds(rows.files).items():
        if kind in BY_ID:
            tables.append(_select(rows, _BY_ID, ids))
        elif kind in BY_FILE:
            query = _COPIED_STEPS if kind == "copied_steps" else _MERGED_FILES
            tables += (_select(rows, query, files) for files in _possible_copies(rows, kind, ids))
        else:
            tables += _overlaps(rows, kind, ids)
    return pa.concat_tables(table.select(["file", "step", "line", "part"]) for table in tables)


def _ids_of_kinds(run: RunFiles) -> dict[Repeats, list[int]]:
    """By how their framework repeats rollouts the ids of files, in their order."""
    by_kind: dict[Repeats, list[int]] = {}
    for state in run.states:
        kind = reader_named(state.reader).repeats
        if kind not in ("never", "unordered"):
            by_kind.setdefault(kind, []).append(state.id)
    return by_kind


def _select(
    rows: RunRows, query: str, ids: Sequence[int], steps: Collection[int] | None = None
) -> pa.Table:
    """What a query over the rows of some files gives. steps: of these alone."""
    with _candidates(rows, ids, steps) as cursor:
        return cursor.sql(query).to_arrow_table()


@contextmanager
def _candidates(
    rows: RunRows, ids: Sequence[int], steps: Collection[int] | None = None
) -> Generator[duckdb.DuckDBPyConnection]:
    """A cursor with the table `candidates`: the rows of some files that no resume wrote again."""
    key = f"coalesce({REPEAT_KEY}, {NO_KEY})" if REPEAT_KEY in rows.stored else f"{NO_KEY}::BIGINT"
    of_steps = "" if steps is None else f"AND step IN ({', '.join(map(str, steps))})"
    with rows.cursor() as cursor:
        cursor.execute(f"""
            CREATE TEMP TABLE candidates AS
            SELECT file AS place, file_id AS file, step, line, part, {key} AS key
            FROM ({rows.current(None if steps is None else (min(steps), max(steps)))})
            WHERE file_id IN ({", ".join(map(str, ids))}) {of_steps}
        """)
        yield cursor


def _possible_copies(rows: RunRows, kind: Repeats, ids: Sequence[int]) -> Iterator[list[int]]:
    """Files of a reader that share steps and may hold copies. Copies of whole steps begin at the first
    one that two files share, so that the files of ranks cost one step.
    """
    for by_step in _files_by_step(rows.files, ids).values():
        shared = {step: files for step, files in sorted(by_step.items()) if len(files) > 1}
        files = sorted({file for of_step in shared.values() for file in of_step})
        if files and kind == "copied_steps":
            files = _select(rows, _ALIKE, files, _first_shared(shared))["file"].to_numpy().tolist()
        if files:
            yield files


def _files_by_step(run: RunFiles, ids: Sequence[int]) -> dict[str, dict[int, list[int]]]:
    """By reader and step the files that hold it, and in which no resume wrote it again."""
    by_reader: dict[str, dict[int, list[int]]] = {}
    wanted = set(ids)
    for state in run.states:
        if state.id in wanted:
            of_reader = by_reader.setdefault(state.reader, {})
            for step, count in run.current_counts[state.id].items():
                if count:
                    of_reader.setdefault(step, []).append(state.id)
    return by_reader


def _first_shared(holders: Mapping[int, Sequence[int]]) -> set[int]:
    """The steps at which two files first hold a step together; holders: files by step, ascending."""
    first_of_group: dict[tuple[int, ...], int] = {}
    for step, files in holders.items():
        first_of_group.setdefault(tuple(files), step)
    first_of_pair: dict[tuple[int, int], int] = {}
    for group, step in first_of_group.items():
        for pair in combinations(group, 2):
            first_of_pair.setdefault(pair, step)
    return {*first_of_pair.values()}


def _overlaps(rows: RunRows, kind: Repeats, ids: Sequence[int]) -> Iterator[pa.Table]:
    """Rows at the beginning of each buffer that end the one before, a bounded number at a time."""
    with _candidates(rows, ids) as cursor:
        query = "FROM candidates ORDER BY place, line, part"
        before = _SCHEMA.empty_table()
        for batch in cursor.sql(query).to_arrow_reader(_BATCH_ROWS):
            table = pa.concat_tables([before, pa.Table.from_batches([batch])]).combine_chunks()
            starts = _buffer_starts(table, kind)
            if len(starts) > 2:  # the last one may go on in the next batch
                yield _overlapping(table.slice(0, starts[-1]), starts[:-1])
                table = table.slice(starts[-2])
            before = table
        yield _overlapping(before, _buffer_starts(before, kind))


def _buffer_starts(table: pa.Table, kind: Repeats) -> list[int]:
    """Where each buffer begins: one is a file, or a line."""
    changed = np.diff(table.column("file").to_numpy()) != 0
    if kind == "line_buffer":
        changed |= np.diff(table.column("line").to_numpy()) != 0
    return [0, *(np.flatnonzero(changed) + 1).tolist()] if table.num_rows else []


def _overlapping(table: pa.Table, starts: Sequence[int]) -> pa.Table:
    """The rows of buffers that end the one before. starts: of each buffer."""
    keys = table.column("key").to_numpy()
    is_copy: BoolArray = np.zeros(len(keys), bool)
    for first, second in pairwise(pairwise([*starts, len(keys)])):
        shared = overlap(keys[slice(*first)], keys[slice(*second)])
        is_copy[second[0] : second[0] + shared] = True
    return table.filter(pa.array(is_copy))
