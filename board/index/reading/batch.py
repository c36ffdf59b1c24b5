"""What one worker does: reads a batch of shards and puts their rows away.

`index_batch` is a plain function of plain data, the same in this process, in a second one, and on
another machine: it writes tables whose names nobody knows until its result is in a manifest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from board.core.options import ReadOptions
from board.core.problems import Problem, ProblemLog
from board.core.tokens.vocabulary import Vocabulary
from board.formats.base import Event
from board.formats.sources import DamagedError
from board.index import segments
from board.index.manifest import NO_RANK, Segment, Tail, short_header
from board.index.reading.file_steps import StepCounts
from board.index.reading.scan import PART_BYTES, PART_ROWS, index_shard
from board.index.reading.shard import Shard, ShardIndex, digest
from board.index.segments import PROMPT_KEY, WHOLE
from board.index.storage import Storage
from board.index.whole_texts import key_of_text

MIN_SEGMENT_ROWS: Final = 4096
"""Fewer rows are not worth a file for each batch: it would cost as much as reading some MB."""
MIN_SEGMENT_BYTES: Final = 4 << 20
"""Of rows in memory; more are worth a file, however few rows they are."""
MOST_RANKS: Final = 4096
"""More ranks than this in one file are no ranks: its rows are counted as of one process."""


@dataclass(slots=True)
class FileRead:
    """What a batch found in one file; failed: why it could not be read.

    is_damaged: whether that lies in what the file holds.
    """

    shard: Shard
    consumed: int
    lines: int = 0
    ending: str | None = None
    header: dict[str, Any] | None = None
    ended: StepCounts = field(default_factory=StepCounts)
    tallies: dict[int, StepCounts] = field(default_factory=dict[int, StepCounts])
    problems: tuple[Problem, ...] = ()
    tail: Tail | None = None
    tail_rows: pa.Table | None = None
    failed: str | None = None
    is_damaged: bool = False


@dataclass(frozen=True, slots=True)
class BatchResult:
    """What was found in each file, segments that were written, and rows that are still to be written."""

    segments: tuple[Segment, ...]
    files: tuple[FileRead, ...]
    leftover_rows: pa.Table | None = None

    @property
    def rows(self) -> int:
        """How many rollouts were read."""
        left = 0 if self.leftover_rows is None else self.leftover_rows.num_rows
        return left + sum(segment.rows for segment in self.segments)


@dataclass(frozen=True, slots=True)
class Job:
    """What all batches of a run have in common."""

    storage: Storage
    options: ReadOptions
    vocabulary: Vocabulary | None


def index_batch(job: Job, batch: Sequence[Shard], min_rows: int = MIN_SEGMENT_ROWS) -> BatchResult:
    """Reads the shards one after the other. A file that can't be read is said to be so in the result.

    min_rows: fewer rows than these come back with the result instead of in a segment.
    """
    pending = _Pending(job.storage)
    files: list[FileRead] = []
    for shard in batch:
        file = FileRead(shard, shard.start)
        for part in _parts(file, job):
            # An error of the index's own disk is not the log's.
            pending.add(part.table, shard.file_id)
            _take(file, part)
        files.append(file)
    leftover = pending.leftover(min_rows)
    return BatchResult(tuple(pending.written), tuple(files), leftover)


def _parts(file: FileRead, job: Job) -> Iterator[ShardIndex]:
    """The parts of a shard, as far as its file can be read."""
    try:
        yield from index_shard(file.shard, job.options, job.vocabulary)
    except OSError as error:
        file.failed = error.strerror or str(error)
        file.is_damaged = isinstance(error, DamagedError)


class _Pending:
    """Rows that wait until there are enough for a segment."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._tables: list[pa.Table] = []
        self._rows = self._bytes = 0
        self.written: list[Segment] = []

    def add(self, table: pa.Table, file_id: int) -> None:
        if table.num_rows == 0:
            return
        self._tables.append(with_file(table, file_id))
        self._rows += table.num_rows
        self._bytes += table.nbytes
        if self._rows >= PART_ROWS or self._bytes >= PART_BYTES:
            self._write()

    def _write(self) -> None:
        self.written.append(put_rows(self._storage, segments.joined(self._tables)))
        self._tables, self._rows, self._bytes = [], 0, 0

    def leftover(self, min_rows: int) -> pa.Table | None:
        """The rows that are too few for a segment of their own; None where none are left."""
        if self._rows >= min_rows or self._bytes >= MIN_SEGMENT_BYTES:
            self._write()
        return segments.joined(self._tables) if self._rows else None


def with_file(table: pa.Table, file_id: int) -> pa.Table:
    """The rows with the number of their file."""
    return table.append_column("file", pa.array(np.full(table.num_rows, file_id, np.int64)))


def put_rows(storage: Storage, table: pa.Table) -> Segment:
    """Keeps rows, of which there is at least one, as a segment, without columns that hold nothing."""
    table = _with_prompt_keys(table)
    names = table.column_names
    table = table.select([n for n in names if table.column(n).null_count < table.num_rows])
    steps = table.column("step").to_numpy()
    files = np.unique(table.column("file").to_numpy()).tolist()
    schema = segments.encode_columns(segments.columns_of(table))
    name = storage.put("rows", table)
    low, high = int(steps.min()), int(steps.max())
    return Segment(name, table.num_rows, low, high, tuple(files), schema, table.nbytes)


def _with_prompt_keys(table: pa.Table) -> pa.Table:
    """The rows with a hash of each one's whole prompt, where they have none yet."""
    texts = [name for name in (WHOLE + "prompt", "prompt") if name in table.column_names]
    if not texts:
        return table
    prompts = pc.coalesce(*(table.column(name) for name in texts))
    encoded = prompts.combine_chunks().dictionary_encode()
    texts: list[Any] = encoded.dictionary.to_pylist()
    known = pa.array(map(key_of_text, texts), pa.int64())
    keys = pa.chunked_array([known.take(encoded.indices)])
    if PROMPT_KEY not in table.column_names:
        return table.append_column(PROMPT_KEY, keys)
    place = table.column_names.index(PROMPT_KEY)
    return table.set_column(place, PROMPT_KEY, pc.coalesce(table.column(place), keys))


def _take(file: FileRead, part: ShardIndex) -> None:
    """Adds what a part says beside its rows."""
    file.consumed, file.lines = part.consumed, part.lines
    file.ending = digest(part.last_bytes)
    for rank, counts in tallies_of(part.table).items():
        _merged(file.tallies, rank, counts)
    problems = ProblemLog(file.problems)
    problems.extend(part.problems)
    file.problems = problems.as_tuple()
    for event in part.events:
        _take_event(file, event)
    if part.tail is not None:
        _take_tail(file, part.tail)


def _take_tail(file: FileRead, tail: ShardIndex) -> None:
    file.tail = Tail(tallies_of(tail.table), tail.problems, _ended_by(tail.events))
    if tail.table.num_rows:
        file.tail_rows = with_file(tail.table, file.shard.file_id)


def _take_event(file: FileRead, event: Event) -> None:
    if event.kind == "header" and file.header is None:
        file.header = short_header(event.data)
    for step in _ended_by((event,)):
        file.ended.add(step, 1, 0)


def _ended_by(events: Sequence[Event]) -> tuple[int, ...]:
    steps = (event.data.get("step") for event in events if event.kind == "step_end")
    return tuple(_whole_steps(steps))


def _whole_steps(values: Iterator[object]) -> Iterator[int]:
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        if abs(value) < 2**63 and value == int(value):  # NaN fails the first, 2.5 the second
            yield int(value)


def _merged(tallies: dict[int, StepCounts], rank: int, later: StepCounts) -> None:
    if rank in tallies:
        tallies[rank].merge(later)
    elif len(tallies) < MOST_RANKS:
        tallies[rank] = later
    else:
        others = tallies.setdefault(NO_RANK, StepCounts())
        others.give_up_order()
        others.merge(later)


def tallies_of(table: pa.Table) -> dict[int, StepCounts]:
    """Rollouts by rank and step, in file order."""
    if table.num_rows == 0:
        return {}
    steps = table.column("step").to_numpy()
    lines = table.column("line").to_numpy()
    if "rank" not in table.column_names:
        alone = StepCounts()
        alone.add_rows(steps, lines)
        return {NO_RANK: alone}
    ranks = table.column("rank").fill_null(pa.scalar(NO_RANK)).to_numpy().copy()
    tallies: dict[int, StepCounts] = {}
    if len(np.unique(ranks)) > MOST_RANKS:
        ranks[:] = NO_RANK
        tallies[NO_RANK] = StepCounts()
        tallies[NO_RANK].give_up_order()
    for rank in np.unique(ranks).tolist():
        counts = tallies.get(rank, StepCounts())
        own = ranks == rank
        counts.add_rows(steps[own], lines[own])
        tallies[rank] = counts
    return tallies
