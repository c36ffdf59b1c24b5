"""What one worker does: reads a batch of shards and puts their rows away.

`index_batch` is a plain function of plain data, the same in this process, in a second one, and on
another machine: it writes tables whose names nobody knows until its result is in a manifest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa

from board.core.records import ReadOptions
from board.core.tokens.vocabulary import Vocabulary
from board.formats.base import Event
from board.formats.sources import DamagedError
from board.index import segments
from board.index.discovery.run_info import digest
from board.index.manifest import MOST_RANKS, NO_RANK, FileState, Segment, Tail, short_header
from board.index.reading.file_steps import StepCounts, StepEnds
from board.index.reading.scan import PART_BYTES, PART_ROWS, index_shard
from board.index.reading.shard import Shard, ShardIndex
from board.index.repeat_keys import keys_of
from board.index.segments import PROMPT_KEY, WHOLE
from board.index.storage import Storage

MIN_SEGMENT_ROWS: Final = 4096
"""Fewer rows are not worth a file for each batch: it would cost as much as reading some MB."""
MIN_SEGMENT_BYTES: Final = 4 << 20
"""Of rows in memory; more are worth a file, however few rows they are."""


@dataclass(slots=True)
class FileRead:
    """What a batch read of one file. state: as if the file began with the shard; failed: why it could
    not be read; is_damaged: whether that lies in what the file holds.
    """

    shard: Shard
    state: FileState
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
    files: list[FileRead] = []
    written: list[Segment] = []
    tables: list[pa.Table] = []
    rows = size = 0
    for shard in batch:
        file = FileRead(shard, _beginning(shard))
        files.append(file)
        for part in _parts(file, job):
            _take(file, part)
            if part.table.num_rows:
                tables.append(with_file(part.table, shard.file_id))
                rows, size = rows + part.table.num_rows, size + part.table.nbytes
            if rows >= PART_ROWS or size >= PART_BYTES:
                # An error of the index's own disk is not the log's.
                written.append(put_rows(job.storage, segments.joined(tables)))
                tables, rows, size = [], 0, 0
    leftover = segments.joined(tables) if tables else None
    if leftover is not None and (rows >= min_rows or size >= MIN_SEGMENT_BYTES):
        written.append(put_rows(job.storage, leftover))
        leftover = None
    return BatchResult(tuple(written), tuple(files), leftover)


def _beginning(shard: Shard) -> FileState:
    return FileState(shard.file_id, shard.display_path, shard.reader, consumed=shard.start)


def _parts(file: FileRead, job: Job) -> Iterator[ShardIndex]:
    """The parts of a shard, as far as its file can be read."""
    try:
        yield from index_shard(file.shard, job.options, job.vocabulary)
    except OSError as error:
        file.failed = error.strerror or str(error)
        file.is_damaged = isinstance(error, DamagedError)


def with_file(table: pa.Table, file_id: int) -> pa.Table:
    """The rows with the number of their file."""
    return table.append_column("file", pa.array(np.full(table.num_rows, file_id, np.int64)))


def put_rows(storage: Storage, table: pa.Table) -> Segment:
    """Keeps rows, of which there is at least one, as a segment, without columns that hold nothing."""
    table = _with_prompt_keys(table)
    names = table.column_names
    table = table.select([n for n in names if table.column(n).null_count < table.num_rows])
    if any("\0" in name for name in names):  # DuckDB ends a name there
        table = table.rename_columns([n.replace("\0", "\ufffd") for n in table.column_names])
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
    import pyarrow.compute as pc

    prompts = pc.coalesce(*(table.column(name) for name in texts))
    encoded = prompts.combine_chunks().dictionary_encode()
    distinct: list[bytes | None] = encoded.dictionary.cast(pa.binary()).to_pylist()
    known = pa.array(keys_of(text or b"" for text in distinct), pa.int64())
    keys = pa.chunked_array([known.take(encoded.indices)])
    if PROMPT_KEY not in table.column_names:
        return table.append_column(PROMPT_KEY, keys)
    place = table.column_names.index(PROMPT_KEY)
    return table.set_column(place, PROMPT_KEY, pc.coalesce(table.column(place), keys))


def _take(file: FileRead, part: ShardIndex) -> None:
    """Adds what a part says beside its rows."""
    ended = StepEnds()
    for step, line in _ended_by(part.events):
        ended.add(step, 1, line)
    last = part.table.column("line")[-1].as_py() if part.table.num_rows else 0
    headers = (short_header(event.data) for event in part.events if event.kind == "header")
    tail = None
    if part.tail is not None:
        rows = part.tail.table
        steps = tuple(step for step, _ in _ended_by(part.tail.events))
        tail = Tail(tallies_of(rows), part.tail.problems, steps)
        file.tail_rows = with_file(rows, file.shard.file_id) if rows.num_rows else None
    own = replace(
        _beginning(file.shard),
        consumed=part.consumed,
        lines=part.lines,
        ending=digest(part.last_bytes),
        header=next(headers, None),
        ended=ended,
        closed=any(e.kind == "close" and e.line > last for e in part.events),
        tallies=tallies_of(part.table, ended),
        problems=part.problems,
        tail=tail,
    )
    file.state = file.state.plus(own)


def _ended_by(events: Sequence[Event]) -> list[tuple[int, int]]:
    """The steps that writers say are written, each with its line."""
    steps = [(event.data.get("step"), event.line) for event in events if event.kind == "step_end"]
    return [
        (int(step), line)
        for step, line in steps
        if isinstance(step, int | float)
        and not isinstance(step, bool)
        and abs(step) < 2**63
        and step == int(step)
    ]


def tallies_of(table: pa.Table, ended: StepEnds | None = None) -> dict[int, StepCounts]:
    """Rollouts by rank and step, in file order. ended: the steps that the same lines end."""
    if table.num_rows == 0:
        return {}
    steps = table.column("step").to_numpy()
    lines = table.column("line").to_numpy()
    ranks = np.full(len(steps), NO_RANK)
    if "rank" in table.column_names:
        ranks = table.column("rank").fill_null(pa.scalar(NO_RANK)).to_numpy()
    several = np.unique(ranks).tolist()
    is_known = len(several) <= MOST_RANKS
    if not is_known:
        ranks, several = np.full(len(steps), NO_RANK), [NO_RANK]
    tallies: dict[int, StepCounts] = {}
    for rank in several:
        tallies[rank] = StepCounts(ordered=is_known)
        tallies[rank].add_rows(steps[ranks == rank], lines[ranks == rank], ended)
    return tallies
