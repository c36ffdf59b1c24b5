"""What an index says of itself: which files it was made from, how far they were read, its segments.

A manifest is one JSON document that is replaced as a whole: whoever reads it sees the index before a
change or after it, never between. Everything in it was checked when it was read; a manifest that can't
be used is as good as none, for an index is rebuilt from the log at any time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self, cast

import orjson

from board.core.problems import Problem
from board.errors import UnreadableError
from board.index.reading.file_steps import StepCounts
from board.index.segments import Column, decode_columns, encode_columns

VERSION: Final = 16
"""Raised whenever what a scan finds in the same bytes changes: older indexes are then made again."""

_HEADER_KEYS: Final = ("attempt", "started", "start_step", "world_size", "rank")
NO_RANK: Final = -1


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
    line. ended: steps that it says are written. tallies: by rank (NO_RANK: the rows name none). tail:
    its unended last line.
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
    ended: StepCounts = field(default_factory=StepCounts)
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
        """Steps that the file says are written."""
        steps = tuple(step for step, _ in self.ended.counts())
        return steps if self.tail is None else (*steps, *self.tail.ended)

    @property
    def all_tallies(self) -> dict[int, StepCounts]:
        """The tallies with the rollout of the unended last line."""
        if self.tail is None or not self.tail.tallies:
            return dict(self.tallies)
        counts = dict(self.tallies)
        for rank, tail in self.tail.tallies.items():
            whole = counts[rank].copy() if rank in counts else StepCounts()
            whole.merge(tail)
            counts[rank] = whole
        return counts

    @property
    def has_more(self) -> bool:
        """Whether there are bytes after the last line that was read and ended."""
        return self.size > self.consumed

    def to_json(self) -> dict[str, Any]:
        """As JSON; what is empty is left out."""
        data: dict[str, Any] = {
            "id": self.id,
            "path": self.path,
            "reader": self.reader,
            "at": [self.size, self.mtime_ns, self.inode, self.consumed, self.lines],
            "ends": [self.head, self.ending],
        }
        if self.sidecar_state:
            data["beside"] = self.sidecar_state
        if self.header is not None:
            data["header"] = dict(self.header)
        if self.ended.counts():
            data["ended"] = self.ended.to_json()
        data["tallies"] = _tallies_to_json(self.tallies)
        if self.problems:
            data["problems"] = [_problem_to_json(problem) for problem in self.problems]
        if self.tail is not None:
            problems = [_problem_to_json(problem) for problem in self.tail.problems]
            tallies = _tallies_to_json(self.tail.tallies)
            data["tail"] = {"tallies": tallies, "problems": problems, "ended": self.tail.ended}
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """What to_json gave."""
        size, mtime_ns, inode, consumed, lines = map(int, data["at"])
        head, ending = map(str, data["ends"])
        tail = data.get("tail")
        return cls(
            int(data["id"]),
            str(data["path"]),
            str(data["reader"]),
            *(size, mtime_ns, inode, consumed, lines),
            head,
            ending,
            data.get("header"),
            StepCounts.from_json(data.get("ended", {})),
            _tallies_from_json(data["tallies"]),
            tuple(map(_problem_from_json, data.get("problems", ()))),
            None
            if tail is None
            else Tail(
                _tallies_from_json(tail["tallies"]),
                tuple(map(_problem_from_json, tail["problems"])),
                tuple(map(int, tail["ended"])),
            ),
            str(data.get("beside", "")),
        )


def short_header(data: Mapping[str, Any]) -> dict[str, Any]:
    """Of a header line what tells attempts and ranks apart; values of other kinds are not kept."""
    known_keys = {key: data.get(key) for key in _HEADER_KEYS}
    return {
        key: value[:200] if isinstance(value, str) else value
        for key, value in known_keys.items()
        if isinstance(value, str | int | float) and abs(_size(value)) < 2**63
    }


def _size(value: str | float) -> float:
    return 0 if isinstance(value, str) else value


def _tallies_to_json(tallies: Mapping[int, StepCounts]) -> list[Any]:
    return [[rank, counts.to_json()] for rank, counts in tallies.items()]


def _tallies_from_json(data: list[Any]) -> dict[int, StepCounts]:
    return {int(rank): StepCounts.from_json(counts) for rank, counts in data}


def _problem_to_json(problem: Problem) -> list[Any]:
    return [
        *(problem.path, problem.line, problem.field, problem.reason),
        *(problem.hint, problem.severity, problem.count, problem.lines),
    ]


def _problem_from_json(data: list[Any]) -> Problem:
    path, line, name, reason, hint, severity, count, *more = data
    if severity not in ("lost", "partial", "note"):
        raise ValueError(f"{severity!r} is no severity")
    return Problem(
        str(path),
        None if line is None else int(line),
        None if name is None else str(name),
        *(str(reason), str(hint), severity, int(count)),
        tuple(map(int, more[0]))
        if more
        else (),  # an index that was made before has the first alone
    )


@dataclass(frozen=True, slots=True)
class Segment:
    """A table of rows. low, high: smallest and largest step. files: ids of the files it has rows of.
    bytes: of the table in memory.
    """

    name: str
    rows: int
    low: int
    high: int
    files: tuple[int, ...]
    columns: tuple[Column, ...]
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Manifest:
    """The whole index at one moment.

    key: what rows depend on besides the log: format version, reading options, vocabulary. segments: in
    the order they were made. tails: the segment of unended last lines, if there are any. steps: name of
    the step table. stale: steps whose row in it is older than the segments, None: all of them.
    rules: restarts and attempts that the step table was made with. total: bytes of all files, as
    they were found; done: of them, those the index covers. whole: whether its build came to its end.
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
        by_name: dict[str, Column] = {}
        seen: set[tuple[Column, ...]] = set()
        for segment in self.all_segments:
            if segment.columns in seen:
                continue
            seen.add(segment.columns)
            for column in segment.columns:
                known = by_name.get(column.name)
                by_name[column.name] = column if known is None else known.joined(column)
        return tuple(by_name.values())

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

    def to_bytes(self) -> bytes:
        """As one JSON document."""
        schemas: dict[str, int] = {}
        segments = [_segment_to_json(segment, schemas) for segment in self.segments]
        tails = None if self.tails is None else _segment_to_json(self.tails, schemas)
        return orjson.dumps(
            {
                "version": VERSION,
                "key": self.key,
                "next_id": self.next_id,
                "total": self.total,
                "whole": self.whole,
                "steps": self.steps,
                "stale": sorted(self.stale),
                "rules": self.rules,
                "schemas": list(schemas),
                "segments": segments,
                "tails": tails,
                "files": [state.to_json() for state in self.files],
            }
        )

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """What to_bytes gave. Raises BrokenIndexError on anything else."""
        try:
            data = cast("dict[str, Any]", orjson.loads(content))
            if data["version"] != VERSION:
                raise BrokenIndexError("of another version")
            schemas = [decode_columns(text) for text in data["schemas"]]
            tails = data["tails"]
            return cls(
                str(data["key"]),
                int(data["next_id"]),
                tuple(map(FileState.from_json, data["files"])),
                tuple(_segment_from_json(entry, schemas) for entry in data["segments"]),
                None if tails is None else _segment_from_json(tails, schemas),
                None if data["steps"] is None else str(data["steps"]),
                frozenset(map(int, data["stale"])),
                {str(place): int(step) for place, step in data["rules"].items()},
                int(data["total"]),
                bool(data["whole"]),
            )
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            raise BrokenIndexError(str(error)) from error


def _segment_to_json(segment: Segment, schemas: dict[str, int]) -> list[Any]:
    schema = schemas.setdefault(encode_columns(segment.columns), len(schemas))
    numbers = segment.rows, segment.low, segment.high
    return [segment.name, *numbers, list(segment.files), schema, segment.bytes]


def _segment_from_json(data: list[Any], schemas: list[tuple[Column, ...]]) -> Segment:
    name, rows, low, high, files, schema, size = data
    numbers = int(rows), int(low), int(high)
    columns = schemas[int(schema)]
    return Segment(str(name), *numbers, tuple(map(int, files)), columns, int(size))
