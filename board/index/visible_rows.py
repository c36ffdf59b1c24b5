"""What of an index is shown: rows in order, without what a later attempt or a restart wrote again."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
# pyarrow ships without types, and makes its compute functions when it is imported.

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from board.core.problems import Problem
from board.index import join_counts, segments
from board.index.attempts import growing_steps
from board.index.duplicates import find_duplicates
from board.index.index_rows import ORDER, IndexRows
from board.index.join_counts import JoinCount, JoinsFound
from board.index.joins import Arranged, Joins, put_together
from board.index.manifest import BrokenIndexError, FileState, Manifest
from board.index.row_order import index_within, numbered, order_of
from board.index.run_files import RunFiles
from board.index.segments import Column, whole_numbers
from board.index.shown_columns import GAP, metrics_of, with_derived
from board.index.step_counts import chunks, without
from board.index.storage import Storage
from board.index.stored_rows import StoredRows
from board.index.table_files import StepRange


class Shown:
    """The rollouts of an index that count.

    order: paths of the run's files; a file's place in it is its number in the rows. Files of the
    index that it does not name are left out.
    """

    def __init__(self, storage: Storage, manifest: Manifest, order: Sequence[str]) -> None:
        self._storage = storage
        self.manifest = manifest
        run = RunFiles.of(manifest, order)
        self.files, self.attempts, self.attempt_of = run.files, run.attempts, run.attempt_of
        self._number_of, self._superseded = run.number_of, run.superseded
        self._repeats = find_duplicates(storage, manifest, run)
        self.index = IndexRows(
            storage, manifest, self.files, self._number_of, self._superseded, self._repeats
        )
        self._joins = Joins({self._number_of[state.id]: state.reader for state in self.files})
        self.is_joined = bool(self._joins.sides)
        """Whether rollouts are made of the rows of several logs."""
        self._joined = JoinsFound()
        self._arranged: dict[StepRange | None, Arranged] = {}
        self.join_tables: Mapping[str, pa.Table] = {}
        """By kind (join_counts.KINDS) what is joined of each step."""
        if self.is_joined:
            self._joined = self._find_joined()
        has_rank = any(state.rank is not None for state in self.files)
        self.columns = with_derived(manifest.columns, has_rank=has_rank)

    @property
    def metrics(self) -> tuple[str, ...]:
        """Columns that make a curve, in the order of shown_columns.metrics_of."""
        return metrics_of(self.columns)

    @property
    def resumed_at(self) -> list[int]:
        """The steps, ascending, from which the training was resumed."""
        return self._superseded.resumed_at

    def growing(self) -> dict[int, tuple[int, ...]]:
        """By step the ranks that have not ended it, none where all have; see attempts.growing_steps."""
        if not any(attempt.world_size for attempt in self.attempts):
            return {}
        order = {attempt.name: number for number, attempt in enumerate(self.attempts)}
        newest: dict[int, int] = {}
        ended: dict[tuple[str, int], set[int]] = {}
        for (state, steps), name in zip(self.counts_by_file(), self.attempt_of, strict=True):
            number = -1 if name is None else order[name]
            for step, count in steps:
                if count:
                    newest[step] = max(newest.get(step, -1), number)
            if name is not None:
                for step in state.all_ended:
                    ended.setdefault((name, step), set()).add(state.rank or 0)
        return growing_steps(self.attempts, newest, ended)

    def world_sizes(self) -> dict[int, int]:
        """By step how many ranks write it, of the newest launch that does; steps of launches that do
        not say so are absent.
        """
        if not any(attempt.world_size for attempt in self.attempts):
            return {}
        order = {attempt.name: number for number, attempt in enumerate(self.attempts)}
        newest: dict[int, int] = {}
        for (_, steps), name in zip(self.counts_by_file(), self.attempt_of, strict=True):
            for step, count in steps:
                if count:
                    newest[step] = max(newest.get(step, -1), -1 if name is None else order[name])
        sizes = {step: self.attempts[n].world_size for step, n in newest.items() if n >= 0}
        return {step: size for step, size in sizes.items() if size}

    def stale(self) -> set[int]:
        """Steps whose rollouts are others than those that the table of steps was made of."""
        now, before = self.rules, self.manifest.rules
        if now == before:
            return {*self.manifest.stale}
        first = min(step for _, step in set(before.items()) ^ set(now.items()))
        every = (tally.counts() for state in self.files for tally in state.all_tallies.values())
        return {*self.manifest.stale, *(s for counts in every for s, _ in counts if s >= first)}

    def _find_joined(self) -> JoinsFound:
        """What is joined: as the index has it, and counted of steps whose rows are new."""
        held = self.counts()
        fresh = set(held)
        # The tables are of all files of the index: they are no help where one is not of this run.
        if self.manifest.steps is not None and len(self.files) == len(self.manifest.files):
            fresh &= self.stale()
        tables = list(self._counted_joins({step: held[step] for step in held if step in fresh}))
        if len(fresh) < len(held):
            steps = pa.array([step for step in held if step not in fresh], pa.int64())
            known = {kind: self._storage.get(name) for kind, name in self.manifest.joins.items()}
            tables.append(
                {
                    kind: table.filter(pc.is_in(table.column("step"), steps))
                    for kind, table in known.items()
                }
            )
        self.join_tables = join_counts.together(tables)
        return join_counts.found_in(self.join_tables, self._joins, self._number_of)

    def _counted_joins(self, counts: Mapping[int, int]) -> Iterator[Mapping[str, pa.Table]]:
        """What is joined of these steps (with the rows of each), a bounded number of rows at a time."""
        ids = np.zeros(max(self._number_of.values(), default=0) + 1, np.int64)
        ids[list(self._number_of.values())] = list(self._number_of)
        stored = [name for c in self.manifest.columns for name in segments.stored_names(c)]
        wanted = join_counts.columns_counted(("rank", *stored))
        for steps in chunks(counts):
            table = self.index.visible(steps, wanted)
            own = pc.is_in(table.column("step"), pa.array(list(counts), pa.int64()))
            yield join_counts.counted(self._joins, table.filter(own), ids)

    @property
    def join_counts(self) -> tuple[JoinCount, ...]:
        """How far each log but the first was joined to those before it; none where there is one."""
        return self._joined.counts

    def differences(self) -> Iterator[Problem]:
        """The values of which the logs that are joined say different things."""
        return join_counts.differences(self._joined, self._joins, {s.id: s for s in self.files})

    def joined_by_file(self) -> dict[str, int]:
        """By path how many rows are shown with those of another log; files without any are absent."""
        hidden = self._joined.hidden
        return {s.path: hidden[s.id].total() for s in self.files if s.id in hidden}

    def joined_places(self, step: int) -> dict[tuple[int, int, int], list[dict[str, int]]]:
        """By file, line and part of a row that is shown: where the rows stand that are joined to it."""
        if not self._joins.sides:
            return {}
        told = ("file", *segments.LOCATION, segments.PART)
        table = self.index.visible((step, step), [*told, "step", *segments.JOIN_KEYS])
        where = {name: whole_numbers(table, name, 0).tolist() for name in told}
        found: dict[tuple[int, int, int], list[dict[str, int]]] = {}
        pairs = self._joins.pairs(table)
        for other in pairs.others.tolist():
            row = int(pairs.lead[other])
            key = (where["file"][row], where["line"][row], where[segments.PART][row])
            found.setdefault(key, []).append({name: where[name][other] for name in where})
        return found

    @property
    def rules(self) -> dict[str, int]:
        """The rules as plain data: equal where the same rollouts are shown of the same lines."""
        found = self._superseded.as_plain
        for number, repeats in self._repeats.items():
            found |= {f"{number} {s} {n} repeats": s for s, n in repeats.counts.items()}
        return found

    def counts(self) -> dict[int, int]:
        """Shown rollouts by step, in ascending order."""
        total: dict[int, int] = {}
        for _, steps in self.counts_by_file():
            for step, count in steps:
                total[step] = total.get(step, 0) + count
        return dict(sorted(total.items()))

    def counts_by_file(self) -> Iterator[tuple[FileState, list[tuple[int, int]]]]:
        """For each file the shown rollouts of each step; a step comes once for each of its ranks."""
        for state, counts in self._superseded.standing:
            repeats = self._repeats.get(state.id)
            rest = counts if repeats is None else without(counts, repeats.counts)
            joined = self._joined.hidden.get(state.id)
            yield state, rest if joined is None else without(rest, joined)

    def superseded(self) -> Iterator[tuple[Problem, int]]:
        """A note for each file of which rollouts are superseded, with how many there are."""
        return self._superseded.notes()

    def repeated(self) -> Iterator[tuple[Problem, int]]:
        """A note for each file of which rollouts stand elsewhere too, with how many there are."""
        for state in self.files:
            repeats = self._repeats.get(state.id)
            if repeats is not None:
                count = sum(repeats.counts.values())
                reason = "rollouts already in the log were written again"
                hint = "each is shown once; repeats are only counted"
                yield Problem(state.path, None, None, reason, hint, "note", count), count

    def table(
        self,
        steps: StepRange | None = None,
        columns: Sequence[str] | None = None,
        *,
        superseded: bool = False,
        texts: bool = False,
    ) -> pa.Table:
        """The rows of a range of steps in their order, `file` being the number in the run.

        columns: of `self.columns`; None is all. superseded: the rows that are not shown instead. texts:
        with the columns of whole texts. Raises BrokenIndexError; the index is then made again when it is
        next opened.
        """
        with self._or_discarded():
            return self._read(steps, columns, superseded, texts)

    @contextmanager
    def _or_discarded(self) -> Generator[None]:
        """An index that turns out broken is made again when it is next opened."""
        try:
            yield
        except BrokenIndexError:
            self._storage.discard(self.manifest)
            raise

    def _read(
        self,
        steps: StepRange | None,
        columns: Sequence[str] | None,
        superseded: bool,
        texts: bool,
    ) -> pa.Table:
        wanted = [column.name for column in self.columns] if columns is None else columns
        names = self.stored_names(wanted)
        if texts:
            names += (segments.PROMPT_KEY, *segments.WHOLE_TEXTS)
            names += (segments.MESSAGES, segments.TOKEN_ROLES, "response_chars")
            names = list(dict.fromkeys(names))
        if not self._joins.sides or superseded:
            return self.index.visible(steps, names, superseded)
        if steps is not None and steps[0] == steps[1]:  # soon done, and there are many
            return self._joins.joined(self.index.visible(steps, names))
        if steps not in self._arranged:
            self._arranged[steps] = self._arrangement(steps)
        kept = [name for name in names if name not in segments.JOIN_KEYS]
        table = numbered(self.index.read(steps, kept), self.files, self._number_of)
        # Rows taken from many chunks are copied one chunk after the other.
        return put_together(table.combine_chunks(), self._arranged[steps])

    def _arrangement(self, steps: StepRange | None) -> Arranged:
        """Which of these `_rows` are shown and joined: found once, for it takes longer than to read."""
        table = self.index.read(steps, self.stored_names(()))
        places = np.flatnonzero(self.index.kept(table, steps))
        table = numbered(table, self.files, self._number_of).take(pa.array(places))
        order = order_of(table)
        found = self._joins.arranged(table.take(pa.array(order)).combine_chunks())
        return found.within(places[order].astype(np.int32))

    def stored_names(self, columns: Sequence[str], besides: Sequence[str] = ORDER) -> list[str]:
        """Columns of the index that these columns, and what is needed besides, are made of."""
        wanted = {*columns, *besides}
        if GAP in wanted:
            wanted |= {"reward", "ref_reward"}
        if self._joins.sides:
            wanted = self._joins.needed(wanted)
        by_name = {column.name: column for column in self.columns}
        held = [by_name.get(name, Column(name)) for name in sorted(wanted)]
        return [name for column in held for name in segments.stored_names(column)]

    def frame(
        self,
        steps: StepRange | None = None,
        columns: Sequence[str] | None = None,
        *,
        superseded: bool = False,
    ) -> pd.DataFrame:
        """As table, with each rollout's index within its step and the derived columns."""
        rows = self.stored_rows(steps, columns, superseded=superseded)
        return rows.frame(None if columns is None else {*columns, *ORDER, "index"})

    def stored_rows(
        self,
        steps: StepRange | None = None,
        columns: Sequence[str] | None = None,
        *,
        superseded: bool = False,
    ) -> StoredRows:
        """As `frame`, as they are stored: in a fraction of the time where few columns are looked at."""
        table = self.table(steps, columns, superseded=superseded)
        return StoredRows(self.columns, table, index_within(table.column("step").to_numpy()))
