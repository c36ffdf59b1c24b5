"""Updates an index to the files of a run, in batches of 64 MB.

The manifest is committed about every second: rows that were read are never read again, whatever happens
next, and readers see the index grow.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from board.core.problems import Problem, ProblemLog
from board.formats import mapping_text, source_of
from board.index import segments
from board.index.compaction import UnendedRows, merged
from board.index.discovery.discovered_runs import RunInfo
from board.index.discovery.packed import cut_problem, readable
from board.index.manifest import FileState, Manifest
from board.index.reading.batch import BatchResult, FileRead, Job, put_rows
from board.index.reading.file_changes import beginning_of, detect_change, state_after
from board.index.reading.file_steps import StepCounts
from board.index.reading.scan import PART_BYTES, PART_ROWS
from board.index.reading.shard import END_BYTES, Shard, count_newlines
from board.index.reading.workers import ChooseEngine, PendingBatch, local_engine
from board.index.storage import committed

SHARD_BYTES: Final = 64 << 20
_LAST_SHARD_BYTES: Final = 4 << 20
"""Shards become smaller towards the end of a log, so that nobody waits long for the last one, but no
smaller than this."""
_MAX_BATCH_FILES: Final = 1024
"""Files in one batch, however small they are."""


_COMMIT_SECONDS: Final = 1.0
_FIRST_STEPS_SECONDS: Final = 2.0
_STEPS_SHARE: Final = 8.0
"""During a build the step table is written again after so many times what that took."""
_SOON_SECONDS: Final = 2.0
"""But not when the build ends in so many seconds, and writes it anyway."""

Progress = Callable[[int, int], None]
"""Called with (bytes read, bytes in all) while a run is read."""
RefreshSteps = Callable[[Manifest], Manifest]
"""Writes the table of steps of a manifest; returns the manifest that names it, with no stale steps."""


@dataclass(frozen=True, slots=True)
class Extended:
    """An index that is up to date, and the files that could not be read just now."""

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
    rebuild: bool = False,
) -> Extended:
    """Reads new lines of a run's files, drops rows of deleted files, and commits. Needs the lock.

    key: what rows depend on besides the log; an index with another key is rebuilt, and any with rebuild.
    refresh: updates the table of steps. Raises BrokenIndexError where the index was damaged.
    """
    known = Manifest(key) if rebuild else committed(job.storage, key)
    job.storage.check(known)
    build = _Build(job, known, info, refresh, progress)
    ranges = list(build.plan())
    if ranges or build.changed:
        build.read(engine, ranges)
        build.finish()
    build.note_unended()
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
        self._files = {info.path_of(file): file for file in info.files}
        self._states = {state.id: state for state in manifest.files}
        self._stale = set(manifest.stale)
        self.log = ProblemLog()  # what could not be read just now
        self._tails = UnendedRows(job.storage, manifest.tails)
        self._leftover_rows: list[pa.Table] = []
        self._leftover_bytes = 0
        self._beginnings: dict[int, bytes] = {}
        self._words = {column.name for column in manifest.columns if column.words}
        self.manifest = manifest
        self._names = {*manifest.names}
        """Of the tables that were in a manifest since the last one was committed."""
        self._progress = progress
        self._done_before = self._done()
        self._begun_at = self._committed_at = self._steps_at = time.monotonic()
        self._steps_took = _FIRST_STEPS_SECONDS / _STEPS_SHARE
        self._line_at: dict[int, tuple[int, int]] = {}
        """By file, the last offset where a shard begins, and the number of the line there."""
        self.changed = manifest.total != info.bytes or bool(manifest.stale) or not manifest.whole

    def plan(self) -> Iterator[Shard]:
        """The unread ranges. Drops the rows of files that are gone or were replaced."""
        by_path = {state.path: state for state in self._states.values()}
        for path in [path for path in by_path if path not in self._files]:
            self._forget(by_path.pop(path))
        for path, listed in self._files.items():
            state = by_path.get(path)
            try:
                file = self._files[path] = readable(listed)
                change = None if state is None else detect_change(state, file)
            except OSError as error:
                self._note_unreadable(path, error.strerror or str(error))
                continue
            if (problem := cut_problem(path, listed, file)) is not None:
                self.log.add(problem)
            if state is not None and change == "replaced":
                self._forget(state)
                state = None
            if state is None:
                number = self.manifest.next_id
                self.manifest = replace(self.manifest, next_id=number + 1)
                state = self._states[number] = FileState(number, path, file.reader)
            elif change != "grown":
                if file.inode != state.inode:
                    self._states[state.id] = replace(state, inode=file.inode)
                continue
            yield Shard(
                file.path,
                path,
                file.reader,
                state.consumed,
                file.size,
                named=self._info.path / path,
                mapping=mapping_text(file.reader),
                joined=self._info.is_joined,
                file_id=state.id,
                run=file.run,
            )

    def _note_unreadable(self, path: str, reason: str, is_damaged: bool = False) -> None:
        hint = "" if is_damaged else "was it moved or its permissions changed?"
        self.log.add(Problem(path, None, None, f"can't be read: {reason}", hint))

    def note_unended(self) -> None:
        """Notes the last lines that are waited for: torn, in files that were changed a moment ago."""
        for state in self._states.values():
            is_waited_for = state.tail is None and state.consumed < state.size
            file = self._files.get(state.path)
            if (
                is_waited_for
                and file is not None
                and state.mtime_ns
                and source_of(file.path).appends
            ):
                reason = "the last line has no end yet and is not shown"
                size = state.size - state.consumed
                hint = f"its {size:,} bytes are still being written, or were cut off"
                self.log.add(Problem(state.path, state.lines + 1, None, reason, hint, "note"))

    def _forget(self, state: FileState) -> None:
        self._mark_stale(state.all_tallies.values())
        self._states.pop(state.id)
        self._tails.put(state.id, None)
        self.changed = True

    def _mark_stale(self, counts: Iterable[StepCounts]) -> None:
        """The steps of these counts have to be aggregated again."""
        for one in counts:
            self._stale.update(one.counts())

    def read(self, choose: ChooseEngine, ranges: Sequence[Shard]) -> None:
        """Reads all ranges, with as many batches in flight as the engine allows."""
        self._report()
        waiting = deque(ranges)
        in_flight = deque[tuple[PendingBatch, list[Shard]]]()
        left = sum(shard.size for shard in ranges)
        with choose(self._job, left) as engine:
            while waiting or in_flight:
                if waiting and (shards := self._next_batch(waiting, left, engine.parallel)):
                    in_flight.append((engine.submit(shards), shards))
                    left -= sum(shard.size for shard in shards)
                while in_flight and (
                    in_flight[0][0].is_done()
                    or len(in_flight) >= engine.max_in_flight
                    or not waiting
                ):
                    reading, batch = in_flight.popleft()
                    result = reading.result()
                    done = (shards for later, shards in in_flight if later.is_done())
                    read_ahead = sum(shard.size for shards in done for shard in shards)
                    waiting.extend(self._unread_of_objects(batch, result))
                    self._take(result, read_ahead)

    def _next_batch(self, waiting: deque[Shard], left: int, parallel: int) -> list[Shard]:
        """Shards of about SHARD_BYTES in all, from all files in turn, so that the first steps of all
        ranks are read first. left: bytes that are in no batch yet.
        """
        size = SHARD_BYTES
        if parallel:
            size = min(size, max(left // (2 * parallel + 2), _LAST_SHARD_BYTES))
        batch: list[Shard] = []
        room = size
        while waiting and room > 0 and len(batch) < _MAX_BATCH_FILES:
            if batch and min(waiting[0].size, size) > room:
                break
            unread = waiting.popleft()
            if unread.file_id not in self._states:  # given up
                continue
            end = unread.end_of_piece(SHARD_BYTES if unread.is_object else size)
            self._store_beginning(unread)
            batch.append(replace(unread, end=end, first_line=self._first_line(unread)))
            room -= batch[-1].size
            if end != unread.end and not unread.is_object:
                waiting.append(replace(unread, start=end))
        return batch

    def _unread_of_objects(self, shards: Iterable[Shard], result: BatchResult) -> Iterator[Shard]:
        """The unread part of objects, which begins where the last line of a shard ended."""
        for shard, read in zip(shards, result.files, strict=True):
            state = self._states.get(shard.file_id)
            if not shard.is_object or state is None or read.failed is not None:
                continue
            unread = replace(shard, start=read.state.consumed, end=self._files[state.path].size)
            if shard.end == unread.end:
                continue
            if read.state.consumed == shard.start:  # no line ended up to the end of the object
                read.shard = replace(shard, end=unread.end)
            else:
                yield unread

    def _first_line(self, shard: Shard) -> int:
        """Number of the first line of a range, counted from the last offset whose number is known."""
        state = self._states[shard.file_id]
        read = (state.consumed, state.lines + 1)
        offset, line = max(self._line_at.get(shard.file_id, read), read)
        line += count_newlines(shard.path, offset, shard.start)
        self._line_at[shard.file_id] = (shard.start, line)
        return line

    def _store_beginning(self, shard: Shard) -> None:
        """Stores the first bytes of a file before its rows are read: if they were hashed afterwards, an
        edit in between would never be noticed.
        """
        state = self._states[shard.file_id]
        if state.consumed < END_BYTES and state.id not in self._beginnings:
            self._beginnings[state.id] = beginning_of(self._files[state.path])

    def _take(self, result: BatchResult, read_ahead: int) -> None:
        """Takes the result of a batch. read_ahead: bytes of later batches that are already read."""
        for file in result.files:
            self._take_file(file)
        segments_now = (*self.manifest.segments, *result.segments)
        self.manifest = replace(self.manifest, segments=segments_now)
        if result.leftover_rows is not None:
            self._leftover_rows.append(result.leftover_rows)
            self._leftover_bytes += result.leftover_rows.nbytes  # slow: asked once of each table
            rows = sum(table.num_rows for table in self._leftover_rows)
            if rows >= PART_ROWS or self._leftover_bytes >= PART_BYTES:
                self._write_leftover_rows()
        now = time.monotonic()
        if self._are_steps_due(now, self._done() + read_ahead):
            self._commit(with_steps=True)
        elif now - self._committed_at > _COMMIT_SECONDS:
            self._commit(with_steps=False)
        self._report()

    def _are_steps_due(self, now: float, done: int) -> bool:
        if now - self._steps_at <= _STEPS_SHARE * self._steps_took:
            return False
        # What the rest takes if it is read as fast as what was read by now.
        left = max(self._info.bytes - done, 0) / max(done - self._done_before, 1)
        return (now - self._begun_at) * left > _SOON_SECONDS

    def _done(self) -> int:
        return sum(state.consumed for state in self._states.values())

    def _report(self) -> None:
        if self._progress is not None:
            self._progress(min(self._done(), self._info.bytes), self._info.bytes)

    def _take_file(self, read: FileRead) -> None:
        state = self._states.get(read.shard.file_id)
        if state is None:  # given up below; its rows are dropped by the next commit
            return
        if read.shard.start != state.consumed:
            # What comes before was not read whole: with this read, it never would be.
            self._give_up(state)
            return
        file = self._files[state.path]
        if read.failed is not None:
            self._note_unreadable(state.path, read.failed, read.is_damaged)
        self._mark_stale(read.state.all_tallies.values())
        self._mark_stale([] if state.tail is None else state.tail.tallies.values())
        self._tails.put(state.id, read.tail_rows)
        beginning = self._beginnings.get(state.id, b"")
        self._states[state.id] = state = state_after(state, read, file, beginning)
        if state.consumed >= END_BYTES or read.shard.end == file.size:
            self._beginnings.pop(state.id, None)

    def _give_up(self, state: FileState) -> None:
        reason = "it changed while being read, or part of it could not be read"
        hint = "it is read again on the next refresh"
        self.log.add(Problem(state.path, None, None, reason, hint))
        self._forget(state)

    def finish(self) -> None:
        """Commits the last rows, and deletes files that no manifest names."""
        self._commit(with_steps=True, last=True)
        self._storage.tidy(self.manifest)
        if self._progress is not None:
            self._progress(self._info.bytes, self._info.bytes)

    def _commit(self, *, with_steps: bool, last: bool = False) -> None:
        """Replaces the manifest. last: everything was read."""
        self._gather()
        self.manifest = replace(self.manifest, whole=last)
        if with_steps:
            self._refresh_steps()
        self._storage.commit(self.manifest)
        self._storage.retire(self._names - self.manifest.names)
        self._names = {*self.manifest.names}
        self._committed_at = time.monotonic()

    def _gather(self) -> None:
        """Updates the manifest to all that was read."""
        self._write_leftover_rows()
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
        self._words = words
        self.manifest = self._refresh(self.manifest)
        self._stale = set()
        self._steps_at = time.monotonic()
        self._steps_took = max(self._steps_at - begun, _FIRST_STEPS_SECONDS / _STEPS_SHARE)

    def _write_leftover_rows(self) -> None:
        """Writes rows of batches that were too few for a segment of their own."""
        if self._leftover_rows:
            written = put_rows(self._storage, segments.joined(self._leftover_rows))
            self.manifest = replace(self.manifest, segments=(*self.manifest.segments, written))
            self._leftover_rows, self._leftover_bytes = [], 0
