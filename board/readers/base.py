"""What a reader is: the one thing that knows a framework's files. Everything else sees Records.

To read a new framework's files: write one file beside this one with a class that has these three
members, add an instance to READERS in `board/readers/__init__.py`, and test it against a file that
the framework's own code wrote.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from board.core.options import ReadOptions
from board.core.records import Record
from board.readers.places import Place


@dataclass(frozen=True, slots=True)
class Event:
    """A line that is no rollout: what a writer says about its file, a step or its end."""

    kind: Literal["header", "step_end", "close"]
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Head:
    """The beginning of a file, for a reader to recognise: its path and its first usable records."""

    path: Place
    records: Sequence[Mapping[str, Any]]


class Reader(Protocol):
    """Knows one on-disk format of rollouts, one JSON object per line."""

    name: str
    """Short name, as in `rollout-board runs --json`."""
    title: str
    """Name on screen."""

    def recognises(self, head: Head) -> bool:
        """Whether the records are of this format; decides by content, never by the folder's name."""
        ...

    def read(self, line: Mapping[str, Any], options: ReadOptions) -> Record | Event:
        """The rollout or event of one parsed line; its arrays may be RawNumbers.

        Raises RecordError when the line can't be used. Values that can't be used are left out of the
        Record and named in its remarks.
        """
        ...
