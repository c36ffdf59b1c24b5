"""Which rollouts of an index count: without what a later attempt or a restart wrote again, and copies."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportAttributeAccessIssue=false
# pyarrow ships without types, and makes its compute functions when it is imported.

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from board.core.problems import Problem
from board.index.manifest import FileState, Manifest
from board.index.storage import Storage
from board.query import join_counts
from board.query.attempts import growing_steps
from board.query.database import Database
from board.query.duplicates import find_duplicates
from board.query.index_views import IndexViews
from board.query.join_counts import JoinCount, JoinsFound
from board.query.rollout_columns import with_derived
from board.query.run_files import RunFiles
from board.query.run_rows import RunRows, quoted
from board.query.step_counts import chunks, without


class VisibleRows:
    """The rollouts of an index that count, as `rows`.

    order: paths of the run's files; a file's place in it is its number in the rows. Files of the
    index that it does not name are left out. Raises BrokenIndexError.
    """

    def __init__(
        self, database: Database, storage: Storage, manifest: Manifest, order: Sequence[str]
    ) -> None:
        run = RunFiles.of(manifest, order)
        self.files, self.attempts, self.attempt_of = run.files, run.attempts, run.attempt_of
        self._superseded = run.superseded
        self.index = IndexViews(database, storage, manifest, run)
        self._duplicates = find_duplicates(self.index)
        has_rank = any(state.rank is not None for state in self.files)
        columns = with_derived(manifest.columns, has_rank=has_rank)
        self.rows = RunRows(self.index, self._duplicates, columns)
        self.join_tables: Mapping[str, pa.Table] = {}
        """By kind (join_counts.KINDS) what is joined of each step."""
        self._joined = JoinsFound()
        if self.rows.is_joined:
            self.join_tables = self._find_joined()
            self._joined = join_counts.found_in(self.join_tables, self.index.joins, run.number_of)

    @property
    def manifest(self) -> Manifest:
        """What the index says of itself."""
        return self.index.manifest

    @property
    def resumed_at(self) -> list[int]:
        """The steps, ascending, from which the training was resumed."""
        return self._superseded.resumed_at

    def growing(self) -> dict[int, tuple[int, ...]]:
        """By step the ranks that have not ended it, none where all have; see attempts.growing_steps."""
        if not any(attempt.world_size for attempt in self.attempts):
            return {}
        ended: dict[tuple[str, int], set[int]] = {}
        for state, name in zip(self.files, self.attempt_of, strict=True):
            if name is not None:
                for step in state.all_ended:
                    ended.setdefault((name, step), set()).add(state.rank or 0)
        return growing_steps(self.attempts, self._newest_attempts(), ended)

    def world_sizes(self) -> dict[int, int]:
        """By step how many ranks write it, of the newest launch that does; steps of launches that do
        not say so are absent.
        """
        if not any(attempt.world_size for attempt in self.attempts):
            return {}
        newest = self._newest_attempts().items()
        sizes = {step: self.attempts[n].world_size for step, n in newest if n >= 0}
        return {step: size for step, size in sizes.items() if size}

    def _newest_attempts(self) -> dict[int, int]:
        """By step the number of the newest attempt that wrote it, -1 for files that name none."""
        numbers = {attempt.name: number for number, attempt in enumerate(self.attempts)}
        newest: dict[int, int] = {}
        for (_, steps), name in zip(self.counts_by_file(), self.attempt_of, strict=True):
            number = -1 if name is None else numbers[name]
            for step, count in steps:
                if count:
                    newest[step] = max(newest.get(step, -1), number)
        return newest

    def stale(self) -> set[int]:
        """Steps whose rollouts are others than those that the table of steps was made of."""
        now, before = self.rules, self.manifest.rules
        if now == before:
            return {*self.manifest.stale}
        first = min(step for _, step in set(before.items()) ^ set(now.items()))
        every = (tally.counts() for state in self.files for tally in state.all_tallies.values())
        return {*self.manifest.stale, *(s for counts in every for s, _ in counts if s >= first)}

    def _find_joined(self) -> Mapping[str, pa.Table]:
        """What is joined: as the index has it, and counted of steps whose rows are new."""
        counts, manifest = self.counts(), self.manifest
        fresh = set(counts)
        # The tables are of all files of the index: they are no help where one is not of this run.
        if manifest.steps is not None and len(self.files) == len(manifest.files):
            fresh &= self.stale()
        tables = list(self._counted_joins({s: n for s, n in counts.items() if s in fresh}))
        if len(fresh) < len(counts):
            steps = pa.array([step for step in counts if step not in fresh], pa.int64())
            stored = {kind: self.index.storage.get(name) for kind, name in manifest.joins.items()}
            tables.append(
                {
                    kind: table.filter(pc.is_in(table.column("step"), steps))
                    for kind, table in stored.items()
                }
            )
        return join_counts.together(tables)

    def _counted_joins(self, counts: Mapping[int, int]) -> Iterator[Mapping[str, pa.Table]]:
        """What is joined of these steps (with the rows of each), a bounded number of rows at a time."""
        names = join_counts.columns_counted(self.index.names)
        selected = ", ".join(map(quoted, names))
        for first, last in chunks(counts):
            steps = ", ".join(str(step) for step in counts if first <= step <= last)
            table = self.index.table(f"""
                SELECT {selected} FROM ({self.rows.visible((first, last))}) WHERE step IN ({steps})
                ORDER BY step, rank NULLS LAST, file, line, part
            """)
            yield join_counts.counted(self.index.joins, table)

    @property
    def join_counts(self) -> tuple[JoinCount, ...]:
        """How far each log but the first was joined to those before it; none where there is one."""
        return self._joined.counts

    def differences(self) -> Iterator[Problem]:
        """The values of which the logs that are joined say different things."""
        files = {state.id: state for state in self.files}
        return join_counts.differences(self._joined, self.index.joins, files)

    def joined_by_file(self) -> dict[str, int]:
        """By path how many rows are shown with those of another log; files without any are absent."""
        hidden = self._joined.hidden
        return {s.path: hidden[s.id].total() for s in self.files if s.id in hidden}

    @property
    def rules(self) -> dict[str, int]:
        """The rules as plain data: equal where the same rollouts are shown of the same lines."""
        found = self._superseded.as_plain
        for number, copies in self._duplicates.items():
            found |= {f"{number} {s} {n} repeats": s for s, n in copies.counts.items()}
        return found

    def counts(self) -> dict[int, int]:
        """Rollouts by step, in ascending order."""
        total: dict[int, int] = {}
        for _, steps in self.counts_by_file():
            for step, count in steps:
                total[step] = total.get(step, 0) + count
        return dict(sorted(total.items()))

    def counts_by_file(self) -> Iterator[tuple[FileState, list[tuple[int, int]]]]:
        """For each file the visible rollouts of each step; a step comes once for each of its ranks."""
        for state, counts in self._superseded.standing:
            copies = self._duplicates.get(state.id)
            own = counts if copies is None else without(counts, copies.counts)
            joined = self._joined.hidden.get(state.id)
            yield state, own if joined is None else without(own, joined)

    def superseded(self) -> Iterator[tuple[Problem, int]]:
        """A note for each file of which rollouts are superseded, with how many there are."""
        return self._superseded.notes()

    def repeated(self) -> Iterator[tuple[Problem, int]]:
        """A note for each file of which rollouts stand elsewhere too, with how many there are."""
        for state in self.files:
            copies = self._duplicates.get(state.id)
            if copies is not None:
                count = sum(copies.counts.values())
                reason = "rollouts already in the log were written again"
                hint = "each is shown once; repeats are only counted"
                yield Problem(state.path, None, None, reason, hint, "note", count), count
