"""Which rollouts of an index count, how many, and why others do not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from board.core.problems import Problem
from board.index.manifest import Manifest
from board.index.storage import Storage
from board.query.attempts import RunFiles
from board.query.database import Database
from board.query.run_rows import RunRows


class VisibleRows:
    """The rollouts of an index that count, as `rows`: without what a later attempt or a restart wrote
    again, without copies, and those of several logs joined.

    order: paths of the run's files; a file's position in it is its number in the rows. Files of the
    index that it does not name are left out. counts: rollouts by step, ascending. joins: how the logs are
    joined. Raises BrokenIndexError.
    """

    def __init__(
        self, database: Database, storage: Storage, manifest: Manifest, order: Sequence[str]
    ) -> None:
        self.run = RunFiles(manifest, order)
        self.rows = RunRows(database, storage, manifest, self.run)
        self.joins = self.rows.join_summary()
        copies = self.rows.duplicates
        self._copies: dict[int, Counter[int]] = {}
        if copies.num_rows:
            counted = copies.group_by(["file", "step"]).aggregate([([], "count_all")])
            for file, step, count in zip(*(c.to_numpy().tolist() for c in counted), strict=True):
                self._copies.setdefault(file, Counter())[step] = count
        self._by_file: dict[int, Counter[int]] = {}
        total = Counter[int]()
        for number, counts in self.run.current_counts.items():
            for less in (self._copies, self.joins.hidden):
                if number in less:
                    counts = counts - less[number]
            self._by_file[number] = counts
            total.update(counts)
        self.counts = dict(sorted(total.items()))

    @property
    def manifest(self) -> Manifest:
        """What the index says about itself."""
        return self.rows.manifest

    def file_counts(self) -> dict[str, tuple[int, int, int]]:
        """By path: visible rollouts, and their first and last step; files without any are absent."""
        counts = {state.path: self._by_file[state.id] for state in self.run.files}
        return {path: (own.total(), min(own), max(own)) for path, own in counts.items() if own}

    def joined_files(self) -> dict[str, int]:
        """By path how many rows are shown with those of another log; files without any are absent."""
        hidden = self.joins.hidden
        return {s.path: hidden[s.id].total() for s in self.run.files if s.id in hidden}

    def missing_ranks(self) -> dict[int, tuple[int, ...]]:
        """By step the ranks that have not ended it, none where all have; see RunFiles.missing_ranks."""
        return self.run.missing_ranks(self._by_file)

    def world_sizes(self) -> dict[int, int]:
        """By step how many ranks write it, where the newest launch that does says so."""
        newest = self.run.newest_attempts(self._by_file).items()
        return {step: one.world_size for step, one in newest if one is not None and one.world_size}

    @property
    def rules(self) -> dict[str, int]:
        """The rules as plain data: equal where the same rollouts are shown of the same lines."""
        as_plain = self.run.rules
        for number, copies in self._copies.items():
            as_plain |= {f"{number} {step} {n} repeats": step for step, n in copies.items()}
        return as_plain

    def stale(self) -> set[int]:
        """Steps whose rollouts are others than those that the table of steps was made of."""
        now, before = self.rules, self.manifest.rules
        if now == before:
            return {*self.manifest.stale}
        first = min(step for _, step in set(before.items()) ^ set(now.items()))
        every = (counts for state in self.run.files for counts in state.all_tallies.values())
        return {*self.manifest.stale, *(s for c in every for s in c.counts() if s >= first)}

    def superseded(self) -> list[Problem]:
        """A note for each file of which rollouts are superseded; its count is how many."""
        return [*self.run.superseded()]

    def repeated(self) -> Iterator[Problem]:
        """A note for each file of which rollouts are elsewhere too; its count is how many."""
        reason = "rollouts already in the log were written again"
        hint = "each is shown once; repeats are only counted"
        for state in self.run.files:
            if count := self._copies.get(state.id, Counter()).total():
                yield Problem(state.path, None, None, reason, hint, "note", count)
