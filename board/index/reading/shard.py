"""A byte range of a log file, and what it holds: plain data that any process can be given."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false
# pyarrow ships without types.

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from board.core.problems import Problem
from board.formats.base import Event
from board.formats.io.locations import Location

END_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class Shard:
    """Lines of `path` that begin in [start, end), to be read by the reader of that name.

    first_line: 1-based number of the line at `start`. shown: the path as problems name it. named: the
    path that the framework gave the file, where `path` is an unpacked copy of it; None: the same. Files
    that are no lines of text are read whole, whatever `start` says. mapping: the text of the mapping file
    that the reader was made of, since other processes have not seen it; empty: it is another reader.
    joined: whether the rows get the keys by which they are joined with those of other logs.
    """

    path: Location
    shown: str
    reader: str
    start: int = 0
    end: int | None = None
    first_line: int = 1
    named: Location | None = None
    mapping: str = ""
    joined: bool = False

    @property
    def origin(self) -> Location:
        """Where the framework wrote the file."""
        return self.named or self.path


@dataclass(frozen=True, slots=True)
class ShardIndex:
    """What a shard, or a part of one, holds.

    table: one row per rollout, in file order, as `store.segments` stores rows. events: header,
    step_end and close lines. consumed: offset after the last line that a newline ends. lines: how many
    lines that are. last_bytes: up to END_BYTES before `consumed`. tail: what the last line holds when no
    newline ends it yet: it is read again when the file grows, and its index is of that line alone.
    """

    shard: Shard
    table: pa.Table
    events: tuple[Event, ...]
    problems: tuple[Problem, ...]
    consumed: int
    lines: int
    last_bytes: bytes = b""
    tail: ShardIndex | None = None


def digest(content: bytes) -> str:
    """Hash of a few bytes, as text."""
    return hashlib.blake2b(content, digest_size=12).hexdigest()
