"""Further copies of rollouts in a log, found by the hash that each row has.

Equal texts alone make no copy, since a policy may say the same twice. A copy is a row whose id another
row has, a whole step of a file that another file holds too, or rows at the beginning of a buffer that
are the end of the buffer written before. Which of them a framework writes its reader says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any, Final

import duckdb
import numpy as np
import pyarrow as pa

from board.core.arrays import BoolArray
from board.core.problems import Problem
from board.formats import reader_named
from board.formats.base import Repeats
from board.index.manifest import FileState
from board.index.repeat_keys import BY_FILE, BY_ID, NO_KEY, overlap
from board.index.segments import LOCATION, PART, REPEAT_KEY
from board.query.attempts import RunFiles
from board.query.database import quoted

if TYPE_CHECKING:
    from board.query.run_rows import RunRows

_BATCH_ROWS: Final = 60_000
_SCHEMA: Final = pa.schema(
    [(name, pa.int64()) for name in ("place", "file", "step", "line", "part", "key")]
)
"""place: number of the file in the run; file: its id."""
_NAMES: Final = ("file", "step", "line", "part", "original")
_FOUND: Final = pa.schema([(name, pa.int64()) for name in _NAMES])
_MAY_BE_COPIED: Final = ("never", "unordered", "copied_steps")
_TELLING_ROWS: Final = 8
_TELLING_CHARS: Final = 100
"""Rollouts in any order are those of another file, and not alike by chance, where so many that differ
have responses of so many characters.
"""
_TELLING_SHORT_ROWS: Final = 16
"""The same, whatever their lengths."""
_EQUAL: Final = f"""
WITH contents AS (
    SELECT place, file, count(DISTINCT key) AS several,
        CASE WHEN {{is_beginning}} OR count(DISTINCT key) >= {_TELLING_SHORT_ROWS}
            OR count(DISTINCT key) FILTER (is_long) >= {_TELLING_ROWS}
            THEN hash(list(key ORDER BY key)) ELSE hash(list(key ORDER BY line, part)) END AS content
    FROM candidates GROUP BY place, file)
SELECT list(file ORDER BY place) AS files FROM contents
GROUP BY content HAVING count(*) > 1 AND (any_value(several) > 1 OR {{is_beginning}})
"""
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


_OF_PLACE: Final = frozenset((*LOCATION, PART, REPEAT_KEY, "file", "file_id"))
"""Columns in which a rollout differs from its copy in another file."""


def find_duplicates(rows: RunRows) -> pa.Table:
    """The rows that repeat another one: columns file (its id), step, line, part and original: the id of
    the file of which all of the row's file is a copy; null: only some rows are.

    Raises BrokenIndexError.
    """
    copies = _copied_files(rows)
    tables = [_rows_of_copies(rows, copies)] if copies else []
    for kind, ids in _ids_of_kinds(rows.files).items():
        ids = [file for file in ids if file not in copies]
        if kind in ("never", "unordered") or not ids:
            continue
        if kind in BY_ID:
            tables.append(_select(rows, _BY_ID, ids))
        elif kind in BY_FILE:
            query = _COPIED_STEPS if kind == "copied_steps" else _MERGED_FILES
            tables += (_select(rows, query, files) for files in _possible_copies(rows, kind, ids))
        else:
            tables += _overlaps(rows, kind, ids)
    chosen = [table.select([n for n in _NAMES if n in table.column_names]) for table in tables]
    return pa.concat_tables([_FOUND.empty_table(), *chosen], promote_options="default")


def counts_of(duplicates: pa.Table) -> dict[int, Counter[int]]:
    """By id of a file how many rollouts are copies at each step. duplicates: see find_duplicates."""
    copies: dict[int, Counter[int]] = {}
    files, steps = (duplicates[name].to_numpy().tolist() for name in ("file", "step"))
    for (file, step), count in Counter(zip(files, steps, strict=True)).items():
        copies.setdefault(file, Counter())[step] = count
    return copies


def notes_on(
    duplicates: pa.Table, counts: Mapping[int, Counter[int]], states: Iterable[FileState]
) -> Iterator[Problem]:
    """What is said of files with duplicates; counts: of these, by the file's id and step."""
    paths = {state.id: state.path for state in states}
    originals = dict(zip(*(duplicates[n].to_pylist() for n in ("file", "original")), strict=True))
    for number, path in paths.items():
        if number not in counts:
            continue
        if (original := originals[number]) is None:
            reason = "rollouts already in the log were written again"
            hint, severity = "each is shown once; repeats are only counted", "note"
        else:
            reason = f"the file is a copy: {paths[original]} holds all its rollouts too"
            hint, severity = "each is counted once; delete one of the two files", "partial"
        yield Problem(path, None, None, reason, hint, severity, counts[number].total())


def _copied_files(rows: RunRows) -> dict[int, int]:
    """The original of each file whose rollouts are all those of an earlier one, in every column.

    Files of which a framework writes buffers, merges or corrections are not looked at.
    """
    counts = rows.files.current_counts
    alike: dict[tuple[str, frozenset[tuple[int, int]]], list[int]] = {}
    for state in rows.files.states:
        reader, steps = reader_named(state.reader), counts[state.id]
        if reader.repeats in _MAY_BE_COPIED and steps.total() > 1:
            alike.setdefault((reader.title, frozenset(steps.items())), []).append(state.id)
    copies: dict[int, int] = {}
    for (_, steps), files in alike.items():
        first = min(step for step, _ in steps)
        if len(files) < 2:
            continue
        # The files of ranks differ in the first step.
        for likely in _equal_files(rows, files, {first}):
            for same in _equal_files(rows, likely, None):
                copies |= dict.fromkeys(same[1:], same[0])
    return copies


def _equal_files(
    rows: RunRows, files: Sequence[int], steps: Collection[int] | None
) -> Iterator[list[int]]:
    """Lists of files that hold the same rollouts, in the order of the run, these in any order where they
    can't be alike by chance; steps: at these alone, in any order.
    """
    query = _EQUAL.format(is_beginning=steps is not None)
    lists: list[Any] = _select(rows, query, files, steps, by_content=True)["files"].to_pylist()
    yield from lists


def _rows_of_copies(rows: RunRows, copies: Mapping[int, int]) -> pa.Table:
    """All rows of files that are copies, with the file of which they are."""
    table = _select(rows, "SELECT file, step, line, part FROM candidates", [*copies])
    files: list[Any] = table["file"].to_pylist()
    originals = [copies[file] for file in files]
    return table.append_column("original", pa.array(originals, pa.int64()))


def _ids_of_kinds(run: RunFiles) -> dict[Repeats, list[int]]:
    """By how their framework repeats rollouts the ids of files, in their order."""
    by_kind: dict[Repeats, list[int]] = {}
    for state in run.states:
        by_kind.setdefault(reader_named(state.reader).repeats, []).append(state.id)
    return by_kind


def _select(
    rows: RunRows,
    query: str,
    ids: Sequence[int],
    steps: Collection[int] | None = None,
    *,
    by_content: bool = False,
) -> pa.Table:
    """What a query over the rows of some files gives. steps: of these alone; by_content: by a hash of
    all that a row says.
    """
    with _candidates(rows, ids, steps, by_content=by_content) as cursor:
        return cursor.sql(query).to_arrow_table()


@contextmanager
def _candidates(
    rows: RunRows,
    ids: Sequence[int],
    steps: Collection[int] | None = None,
    *,
    by_content: bool = False,
) -> Generator[duckdb.DuckDBPyConnection]:
    """A cursor with the table `candidates`: the rows of some files that no resume wrote again."""
    key = f"coalesce({REPEAT_KEY}, {NO_KEY})" if REPEAT_KEY in rows.stored else f"{NO_KEY}::BIGINT"
    if by_content:
        names = sorted(rows.indexed - _OF_PLACE)
        key = f"CAST(hash({', '.join(map(quoted, names))}) >> 1 AS BIGINT)"
    is_long = f"response_chars >= {_TELLING_CHARS}" if "response_chars" in rows.stored else "false"
    of_steps = "" if steps is None else f"AND step IN ({', '.join(map(str, steps))})"
    with rows.cursor() as cursor:
        cursor.execute(f"""
            CREATE TEMP TABLE candidates AS
            SELECT file AS place, file_id AS file, step, line, part, {key} AS key, {is_long} AS is_long
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
        query = f"SELECT {', '.join(_SCHEMA.names)} FROM candidates ORDER BY place, line, part"
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
    # Of a numpy array Arrow makes one of its own by way of numpy.ma, which takes long to import.
    return table.filter(pa.array(is_copy)) if is_copy.any() else table.slice(0, 0)
