"""rLLM's telemetry: lines of events, of which those from a trajectory's start to its end are one row."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Final

from board.errors import RecordError
from board.formats.io.lines import Line, read_lines
from board.formats.io.locations import Location
from board.formats.io.remote import RemoteLocation
from board.formats.parse import object_at, parse_whole
from board.formats.sources import DamagedError, Row, Source

_NAME: Final = re.compile(r"[0-9]{8}_[0-9]{6}_[0-9a-f]{8}\.ndjson")


class TrajectoryEvents(Source):
    """A row for each trajectory: `trajectory` with its `steps`, and `episode`."""

    suffixes = ()
    appends = False
    by_layout = False

    def takes(self, path: PurePath | RemoteLocation) -> bool:
        return _NAME.fullmatch(path.name) is not None

    def lines(self, path: Location) -> Iterator[Line]:
        """The trajectories that have ended, and lines that are no events as they are."""
        episode: Mapping[str, Any] = {}
        trajectory: dict[str, Any] = {}
        number = 0
        for line in read_lines(path):
            try:
                event, _ = parse_whole(line.text or b"")
            except RecordError:
                yield Line(number, 1, line.text)
                number += 1
                continue
            kind, data = event.get("type"), object_at(event, "data")
            if kind == "episode.start":
                episode = data
            elif kind == "trajectory.start":
                trajectory = {**data, "steps": []}
            elif kind == "trajectory.step" and trajectory:
                trajectory["steps"].append(data)
            elif kind == "trajectory.end" and trajectory:
                record = {"episode": episode, "trajectory": trajectory | data}
                yield Row(number, 1, None, record=record)
                number += 1

    def fetch(self, path: Location, offset: int, size: int) -> Line:
        return next(self.fetch_many(path, [(offset, size)]))

    def fetch_many(self, path: Location, places: Sequence[tuple[int, int]]) -> Iterator[Line]:
        wanted = {offset for offset, _ in places}
        rows = [line for line in self.lines(path) if line.offset in wanted]
        if len(rows) < len(wanted):
            raise DamagedError("it has fewer trajectories than before")
        return iter(rows)


TRAJECTORY_EVENTS: Final = TrajectoryEvents()
