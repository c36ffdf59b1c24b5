"""Brings an index in step with the files of a run, a batch of 64 MB after the other.

Every second or so the manifest is replaced: what was read stays read, whatever happens next, and
whoever reads the index sees it grow.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
# pyarrow ships without types, and makes its compute functions when it is imported.

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from board.core.problems import Problem, ProblemLog
from board.index import segments
from board.index.compaction import UnendedRows, merged
from board.index.discovery.discovered_runs import RunInfo
from board.index.discovery.log_file import LogFile
from board.index.discovery.packed import cut_problem, readable
from board.index.manifest import FileState, Manifest
from board.index.reading.batch import BatchResult, FileRead, Work, put_rows
from board.index.reading.commit_timer import CommitTimer, Progress
from board.index.reading.file_changes import beginning_of, detect_change, state_after
from board.index.reading.file_steps import StepCounts
from board.index.reading.scan import PART_BYTES, PART_ROWS
from board.index.reading.shard import END_BYTES
from board.index.reading.unread_ranges import UnreadRange, count_newlines
from board.index.reading.workers import ChooseEngine, Job, PendingBatch, local_engine
from board.index.storage import committed

SHARD_BYTES: Final = 64 << 20
_LAST_SHARD_BYTES: Final = 4 << 20
"""Shards become smaller towards the end of a log, so that nobody waits long for the last one, but no
smaller than this."""
_MAX_BATCH_FILES: Final = 1024
"""Files in one batch, however small they are."""


RefreshSteps = Callable[[Manifest], Manifest]
"""Makes the table of steps of a manifest, which is then named in it, and in which nothing is stale."""


_Batch = list[tuple[UnreadRange, Work]]


@dataclass(frozen=True, slots=True)
class _InFlight:
    reading: PendingBatch
    batch: _Batch

    @property
    def size(self) -> int:
        """Bytes, once they are unpacked."""
        return sum(unread.size_to(work.shard.end or 0) for unread, work in self.batch)


@dataclass(frozen=True, slots=True)
class Extended:
    """An index that was brought in step, and the files that could not be read just now."""

    manifest: Manifest
    problems: tuple[Problem, ...]


def extend(
    job: Job,
    key: str,
    info: RunInfo,
    refresh: RefreshSteps,
    progress: Progress | None = None,
    engine: ChooseEngine = local_engine,
    *,
    anew: bool = False,
) -> Extended:
    """Reads what is new in the files of a run, forgets what is gone, and commits. Needs the lock.

    key: what rows depend on besides the log; an index of another key is made again, as any is with
    anew. refresh: brings the table of steps in step. Raises BrokenIndexError where the index was damaged.
    """
    known = None if anew else committed(job.storage)
    if known is not None:
        job.storage.check(known)
    build = _Build(
        job, known if known and known.key == key else Manifest(key), info, refresh, progress
    )
    ranges = list(build.plan())
    if ranges or build.changed:
        build.read(engine, ranges)
        build.finish()
    return Extended(build.manifest, build.log.as_tuple())


class _Build:
    """One pass over the files of a run."""

    def __init__(
        self,
        job: Job,
        manifest: Manifest,
        info: RunInfo,
        refresh: RefreshSteps,
        progress: Progress | None,
    ) -> None:
        self._job, self._storage = job, job.storage
        self._refresh = refresh
        self._info = info
        self._found = {info.path_of(file): file for file in info.files}
        self._states = {state.id: state for state in manifest.files}
        self._stale = set(manifest.stale)
        self.log = ProblemLog()  # what could not be read just now
        self._tails = UnendedRows(job.storage, manifest.tails)
        self._rest: list[pa.Table] = []
        self._beginnings: dict[int, bytes] = {}
        self._words = {column.name for column in manifest.columns if column.words}
        self.manifest = manifest
        self._names = {*manifest.names}
        """Of the tables that were in a manifest since the last one was committed."""
        self._timer = CommitTimer(info.bytes, self._done(), progress)
        self._line_at: dict[int, tuple[int, int]] = {}
        """By file, the last offset where a shard begins, and the number of the line there."""
        self._read_ahead = 0
        """Bytes that were read and wait for those before them."""
        self.changed = manifest.total != info.bytes or bool(manifest.stale) or not manifest.whole

    def plan(self) -> Iterator[UnreadRange]:
        """What is to be read; files that are gone or replaced are forgotten."""
        by_path = {state.path: state for state in self._states.values()}
        for path in [path for path in by_path if path not in self._found]:
            self._forget(by_path.pop(path))
        for path, found in self._found.items():
            state = by_path.get(path)
            try:
                file = self._found[path] = readable(found)
                change = None if state is None else detect_change(state, file)
            except OSError as error:
                self._unreadable(path, error.strerror or str(error))
                continue
            if (problem := cut_problem(path, file)) is not None:
                self.log.add(problem)
            if state is not None and change == "replaced":
                self._forget(state)
                state = None
            if state is None:
                yield self._begin(path, file)
            elif change == "grown":
                yield self._unread(path, file, state)
            elif file.inode != state.inode:
                self._states[state.id] = replace(state, inode=file.inode)

    def _unreadable(self, path: str, reason: str, is_damaged: bool = False) -> None:
        hint = "" if is_damaged else "was it moved or its permissions changed?"
        self.log.add(Problem(path, None, None, f"can't be read: {reason}", hint))

    def _begin(self, path: str, file: LogFile) -> UnreadRange:
        number = self.manifest.next_id
        self.manifest = replace(self.manifest, next_id=number + 1)
        self._states[number] = FileState(number, path, file.reader)
        return self._unread(path, file, self._states[number])

    def _unread(self, path: str, file: LogFile, state: FileState) -> UnreadRange:
        named = self._info.path / path
        return UnreadRange(file, state.id, path, state.consumed, named, self._info.is_joined)

    def _forget(self, state: FileState) -> None:
        self._touch(state.all_tallies.values())
        self._states.pop(state.id)
        self._tails.put(state.id, None)
        self.changed = True

    def _touch(self, tallies: Iterable[StepCounts]) -> None:
        for tally in tallies:
            self._stale.update(step for step, _ in tally.counts())

    def read(self, choose: ChooseEngine, ranges: Sequence[UnreadRange]) -> None:
        """Reads all ranges, with as many batches in flight as the engine takes."""
        self._timer.report(self._done())
        waiting = deque(ranges)
        in_flight = deque[_InFlight]()
        left = sum(unread.size for unread in ranges)
        with choose(self._job, left) as engine:
            while waiting or in_flight:
                if waiting and (batch := self._next_batch(waiting, left, engine.parallel)):
                    read = _InFlight(engine.submit([work for _, work in batch]), batch)
                    in_flight.append(read)
                    left -= read.size
                while in_flight and (
                    in_flight[0].reading.is_done()
                    or len(in_flight) >= engine.max_in_flight
                    or not waiting
                ):
                    waiting.extend(self._take_first(in_flight))

    def _take_first(self, in_flight: deque[_InFlight]) -> list[UnreadRange]:
        """Takes the result of the first batch; what is left of objects of which it read a shard."""
        first = in_flight.popleft()
        result = first.reading.result()
        self._read_ahead = sum(batch.size for batch in in_flight if batch.reading.is_done())
        left = list(_left_of_objects(first, result))
        self._take(result)
        return left

    def _next_batch(self, waiting: deque[UnreadRange], left: int, parallel: int) -> _Batch:
        """Shards of about SHARD_BYTES in all, those of all files in turn, so that the first steps of all
        ranks are read first. What follows them in their files waits. left: bytes in no batch yet.
        """
        size = SHARD_BYTES
        if parallel:
            size = min(size, max(left // (parallel + 1), _LAST_SHARD_BYTES))
        batch: _Batch = []
        room = size
        while waiting and room > 0 and len(batch) < _MAX_BATCH_FILES:
            if batch and min(waiting[0].size, size) > room:
                break
            unread = waiting.popleft()
            if unread.id not in self._states:  # given up
                continue
            is_object = unread.is_object_above(SHARD_BYTES)
            end = unread.end_of_shard(SHARD_BYTES if is_object else size)
            self._keep_beginning(unread)
            batch.append((unread, unread.work_to(end, self._first_line(unread))))
            room -= unread.size_to(end)
            if end < unread.file.size and not is_object:
                waiting.append(unread.after(end))
        return batch

    def _first_line(self, unread: UnreadRange) -> int:
        """Number of its first line: counted from the last offset at which that is known."""
        state = self._states[unread.id]
        read = (state.consumed, state.lines + 1)
        offset, line = max(self._line_at.get(unread.id, read), read)
        line += count_newlines(unread.file.path, offset, unread.start)
        self._line_at[unread.id] = (unread.start, line)
        return line

    def _keep_beginning(self, unread: UnreadRange) -> None:
        """Keeps the first bytes of a file from before they are read as rows: were they hashed afterwards,
        an edit that came in between would be taken for what the rows say, and never be noticed.
        """
        if self._states[unread.id].consumed < END_BYTES and unread.id not in self._beginnings:
            self._beginnings[unread.id] = beginning_of(unread.file)

    def _take(self, result: BatchResult) -> None:
        for found in result.files:
            self._take_file(found)
        kept = (*self.manifest.segments, *result.segments)
        self.manifest = replace(self.manifest, segments=kept)
        if result.rest is not None:
            self._rest.append(result.rest)
            rows, size = (sum(sizes) for sizes in zip(*map(_size, self._rest), strict=True))
            if rows >= PART_ROWS or size >= PART_BYTES:
                self._put_rest()
        due = self._timer.next_commit(self._done() + self._read_ahead)
        if due is not None:
            self._commit(with_steps=due == "steps")
        self._timer.report(self._done())

    def _done(self) -> int:
        return sum(state.consumed for state in self._states.values())

    def _take_file(self, found: FileRead) -> None:
        state = self._states.get(found.work.file_id)
        if state is None:  # given up below; its rows go with the next commit
            return
        if found.work.shard.start != state.consumed:
            # What comes before was not read whole: with this read, it never would be.
            self._give_up(state)
            return
        file = self._found[state.path]
        if found.failed is not None:
            self._unreadable(state.path, found.failed, found.is_damaged)
        self._touch(found.tallies.values())
        if state.tail is not None:
            self._touch(state.tail.tallies.values())
        if found.tail is not None:
            self._touch(found.tail.tallies.values())
        self._tails.put(state.id, found.tail_rows)
        beginning = self._beginnings.get(state.id, b"")
        self._states[state.id] = state = state_after(state, found, file, beginning)
        if state.consumed >= END_BYTES or found.work.shard.end == file.size:
            self._beginnings.pop(state.id, None)

    def _give_up(self, state: FileState) -> None:
        reason = "it changed while being read, or part of it could not be read"
        self.log.add(
            Problem(state.path, None, None, reason, "it is read again on the next refresh")
        )
        self._forget(state)

    def finish(self) -> None:
        """Commits what was read, and cleans up."""
        self._commit(with_steps=True, last=True)
        self._storage.tidy(self.manifest)
        self._timer.report(self._info.bytes)

    def _commit(self, *, with_steps: bool, last: bool = False) -> None:
        """Puts the manifest as it stands in place of the one before. last: everything was read."""
        self._gather()
        self.manifest = replace(self.manifest, whole=last)
        if with_steps:
            self._refresh_steps()
        self._storage.commit(self.manifest)
        self._storage.retire(sorted(self._names - self.manifest.names))
        self._names = {*self.manifest.names}
        self._timer.committed()

    def _gather(self) -> None:
        """Makes the manifest one of all that was read."""
        self._put_rest()
        self._names |= self.manifest.names
        self.manifest = replace(
            self.manifest,
            files=tuple(self._states.values()),
            segments=tuple(merged(self._storage, self.manifest.segments, self._states)),
            tails=self._tails.segment(),
            total=self._info.bytes,
            stale=frozenset(self._stale),
        )

    def _refresh_steps(self) -> None:
        begun = time.monotonic()
        words = {column.name for column in self.manifest.columns if column.words}
        if self._words - words:  # what was text is numbers now: every step has a mean more
            self.manifest = replace(self.manifest, steps=None)
            self._touch([t for s in self._states.values() for t in s.all_tallies.values()])
            self.manifest = replace(self.manifest, stale=frozenset(self._stale))
        self._words = words
        self.manifest = self._refresh(self.manifest)
        self._stale = set()
        self._timer.step_table_written(begun)

    def _put_rest(self) -> None:
        """Writes what is left of batches."""
        if self._rest:
            written = put_rows(self._storage, segments.joined(self._rest))
            self.manifest = replace(self.manifest, segments=(*self.manifest.segments, written))
            self._rest = []


def _left_of_objects(read: _InFlight, result: BatchResult) -> Iterator[UnreadRange]:
    """What is left of objects of which a shard was read: where it ends is known only now."""
    for (unread, work), found in zip(read.batch, result.files, strict=True):
        if found.failed is not None or not unread.is_object_above(SHARD_BYTES):
            continue
        if found.consumed == unread.start:  # no line ended up to the end of the object
            found.work = unread.work_to(unread.file.size, work.shard.first_line)
        elif work.shard.end != unread.file.size:
            yield unread.after(found.consumed)


def _size(table: pa.Table) -> tuple[int, int]:
    """Rows and bytes."""
    return table.num_rows, table.nbytes
