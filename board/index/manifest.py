"""What an index says of itself: which files it was made from, how far they were read, its segments.

A manifest is one JSON document that is replaced as a whole: whoever reads it sees the index before a
change or after it, never between. Everything in it was checked when it was read; a manifest that can't
be used is as good as none, for an index is rebuilt from the log at any time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self, cast

import orjson

from board.core.metrics.own_metrics import index_key
from board.core.problems import Problem, ProblemLog
from board.errors import UnreadableError
from board.index.json_values import from_json
from board.index.reading.file_steps import StepCounts, StepEnds
from board.index.segments import Column, decode_columns, joined_columns

VERSION: Final = 42
"""Raised whenever what a scan finds in the same bytes changes: older indexes are then made again."""

_HEADER_KEYS: Final = ("attempt", "started", "start_step", "world_size", "rank")
NO_RANK: Final = -1
MOST_RANKS: Final = 4096
"""More ranks than this in one file are no ranks: its rows are counted as of one process."""


class BrokenIndexError(UnreadableError):
    """The index can't be used and has to be made again."""


class DeletedIndexError(BrokenIndexError):
    """The folder of the index, or the lock in it, was deleted under whoever builds it."""


@dataclass(frozen=True, slots=True)
class Tail:
    """What the last line of a file holds while no newline ends it: its rollout or its problem.

    ended: steps that it says are written.
    """

    tallies: Mapping[int, StepCounts] = field(default_factory=dict[int, StepCounts])
    problems: tuple[Problem, ...] = ()
    ended: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class FileState:
    """How far a file was read, and what of it is needed to read on.

    id: number of the file in the rows; a file that was replaced gets another. path: relative to the
    run's folder. size, mtime_ns, inode: as os.stat gave them before it was read. consumed: offset after
    the last line that was read and ended; lines: how many lines that are. head, ending: hashes of up to
    4 KiB at the beginning, and before `consumed`. sidecar_state: as in LogFile. header: of its header
    line. ended: steps that it says are written. closed: whether it says that nothing more follows, and
    nothing does.
    tallies: by rank (NO_RANK: the rows name none). tail: its unended last line.
    """

    id: int
    path: str
    reader: str
    size: int = 0
    mtime_ns: int = 0
    inode: int = 0
    consumed: int = 0
    lines: int = 0
    head: str = ""
    ending: str = ""
    header: Mapping[str, Any] | None = None
    ended: StepEnds = field(default_factory=StepEnds)
    closed: bool = False
    tallies: Mapping[int, StepCounts] = field(default_factory=dict[int, StepCounts])
    problems: tuple[Problem, ...] = ()
    tail: Tail | None = None
    sidecar_state: str = ""

    @property
    def rank(self) -> int | None:
        """The rank that the header names."""
        rank = self.header.get("rank") if self.header else None
        return rank if isinstance(rank, int) and not isinstance(rank, bool) else None

    @property
    def all_problems(self) -> tuple[Problem, ...]:
        """The problems, that of the unended last line included."""
        return self.problems if self.tail is None else (*self.problems, *self.tail.problems)

    @property
    def all_ended(self) -> tuple[int, ...]:
        """Steps that the file says are written, without those that a restart is about to write again."""
        steps = tuple(self.ended.current())
        return steps if self.tail is None else (*steps, *self.tail.ended)

    @property
    def all_tallies(self) -> Mapping[int, StepCounts]:
        """The tallies with the rollout of the unended last line."""
        if self.tail is None:
            return self.tallies
        return _summed(self.tallies, self.tail.tallies, self.ended)

    def plus(self, later: FileState) -> FileState:
        """The state after what was read further down, which is as much of the same file."""
        ended = self.ended.copy()
        ended.merge(later.ended)
        tallies = _summed(self.tallies, later.tallies, ended)
        return replace(
            self,
            consumed=later.consumed,
            lines=later.lines,
            ending=later.ending or self.ending,
            header=later.header if self.header is None else self.header,
            ended=ended,
            closed=later.closed or (self.closed and not later.tallies),
            tallies=tallies,
            problems=ProblemLog((*self.problems, *later.problems)).as_tuple(),
            tail=later.tail,
        )


def _summed(
    first: Mapping[int, StepCounts], later: Mapping[int, StepCounts], ended: StepEnds
) -> dict[int, StepCounts]:
    """The tallies by rank of both, of which `later` was written further down; ended: of both."""
    tallies = {rank: counts.copy() for rank, counts in first.items()}
    for rank, counts in later.items():
        is_known = rank in tallies or len(tallies) < MOST_RANKS
        own = tallies.setdefault(rank if is_known else NO_RANK, StepCounts())
        if not is_known:
            own.give_up_order()
        own.merge(counts, ended)
    for rank in tallies.keys() - later.keys():
        tallies[rank].merge(StepCounts(), ended)
    return tallies


def short_header(data: Mapping[str, Any]) -> dict[str, Any]:
    """What distinguishes attempts and ranks of a header line; values of other kinds are left out."""
    known_keys = {key: data.get(key) for key in _HEADER_KEYS}
    return {
        key: value[:200] if isinstance(value, str) else value
        for key, value in known_keys.items()
        if isinstance(value, str) or (isinstance(value, int | float) and abs(value) < 2**63)
    }


@dataclass(frozen=True, slots=True)
class Segment:
    """A table of rows. low, high: smallest and largest step. files: ids of the files it has rows of.
    schema: its columns, as encode_columns gives them. bytes: of the table in memory.
    """

    name: str
    rows: int
    low: int
    high: int
    files: tuple[int, ...]
    schema: str
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Manifest:
    """The whole index at one moment.

    key: what rows depend on besides the log: format version, reading options, vocabulary. segments: in
    the order they were made. tails: the segment of unended last lines, if there are any. steps: name of
    the step table. stale: steps whose row in it is older than the segments.
    rules: restarts and attempts that the step table was made with. total: bytes of all files, as
    they were found; done: of them, those the index covers. whole: whether its build finished.
    """

    key: str
    next_id: int = 0
    files: tuple[FileState, ...] = ()
    segments: tuple[Segment, ...] = ()
    tails: Segment | None = None
    steps: str | None = None
    stale: frozenset[int] = frozenset()
    rules: Mapping[str, int] = field(default_factory=dict[str, int])
    total: int = 0
    whole: bool = True

    @property
    def done(self) -> int:
        """Bytes of the log that were read."""
        return sum(state.consumed if state.tail is None else state.size for state in self.files)

    @property
    def columns(self) -> tuple[Column, ...]:
        """Columns of all rows, in the order they first appeared."""
        schemas = dict.fromkeys(segment.schema for segment in self.all_segments)
        return joined_columns(column for schema in schemas for column in decode_columns(schema))

    @property
    def all_segments(self) -> tuple[Segment, ...]:
        """The segments, the one of unended lines included."""
        return self.segments if self.tails is None else (*self.segments, self.tails)

    @property
    def names(self) -> frozenset[str]:
        """Names of all tables."""
        steps = () if self.steps is None else (self.steps,)
        rows = (segment.name for segment in self.all_segments)
        return frozenset((*rows, *steps))

    def renamed(self, names: Mapping[str, str]) -> Self:
        """The manifest with its tables under other names, by those that they have."""

        def with_name(segment: Segment) -> Segment:
            return replace(segment, name=names[segment.name])

        return replace(
            self,
            segments=tuple(map(with_name, self.segments)),
            tails=None if self.tails is None else with_name(self.tails),
            steps=None if self.steps is None else names[self.steps],
        )

    def _with_schemas(self, translate: Callable[[str], str]) -> Self:
        """The manifest with the schema of each segment translated."""

        def translated(segment: Segment) -> Segment:
            return replace(segment, schema=translate(segment.schema))

        tails = None if self.tails is None else translated(self.tails)
        return replace(self, segments=tuple(map(translated, self.segments)), tails=tails)

    def to_bytes(self) -> bytes:
        """The manifest as one JSON document."""
        schemas = list(dict.fromkeys(segment.schema for segment in self.all_segments))
        places = {schema: str(place) for place, schema in enumerate(schemas)}
        manifest = self._with_schemas(places.__getitem__)  # each once: a build has many segments
        document = {"version": _version(), "schemas": schemas, "manifest": manifest}
        return orjson.dumps(document, _encoded, orjson.OPT_NON_STR_KEYS)

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """What to_bytes gave. Raises BrokenIndexError on anything else."""
        try:
            data = orjson.loads(content)
            if data["version"] != _version():
                raise BrokenIndexError("of another version")
            schemas = from_json(tuple[str, ...], data["schemas"])
            for schema in schemas:
                decode_columns(schema)
            return from_json(cls, data["manifest"])._with_schemas(lambda n: schemas[int(n)])
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise BrokenIndexError(str(error)) from error


def _version() -> int | str:
    """Of what a scan finds: a user may want other aggregates of arrays of their own."""
    own = index_key()
    return f"{VERSION};{own}" if own else VERSION


def _encoded(value: object) -> object:
    """What JSON has for a value that orjson does not know."""
    if isinstance(value, StepCounts):
        return value.to_json()
    if isinstance(value, frozenset):
        return sorted(cast("frozenset[int]", value))
    raise TypeError(type(value).__name__)
