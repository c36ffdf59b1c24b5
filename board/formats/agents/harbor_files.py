"""The files of a trial of Harbor beside each other: what its agent wrote, and what came of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any, Final

from board.formats.io.lines import read_bytes, read_object
from board.formats.io.locations import Location, Objects, state_of
from board.formats.parse import as_object, object_at, objects_in

RESULT: Final = "result.json"
TRAJECTORY: Final = "trajectory.json"
MOST_BYTES: Final = 64 << 20
"""Of a file that belongs to a trajectory."""
_MOST_PARTS: Final = 100
_IS_PART: Final = re.compile(r"trajectory.*\.json")


def is_atif(line: Mapping[str, Any]) -> bool:
    """Whether a document is a trajectory in ATIF."""
    return str(line.get("schema_version", "")).startswith("ATIF-v") and "steps" in line


def file_name(reference: object) -> str:
    """The name of a file in the same folder; empty where there is none."""
    name = PurePosixPath(reference).name if isinstance(reference, str) else ""
    return name if name.endswith(".json") else ""


def siblings(log: Location, objects: Objects) -> Sequence[Location]:
    """Other trajectories in the folder of a trial's agent, of which some may be parts of it."""
    if log.parent.name != "agent":
        return ()
    if isinstance(log, Path):
        paths: Sequence[Location] = sorted(log.parent.glob("trajectory*.json"))
    else:
        paths = [o for o in objects.below(log.parent) if _IS_PART.fullmatch(o.name)]
    return [path for path in paths if path.name != log.name][:_MOST_PARTS]


def references_in_folder(log: Location) -> Mapping[str, frozenset[str]]:
    """By name of each trajectory of the same agent, the names of the files that it refers to."""
    if not isinstance(log, Path):
        return {}
    paths = [log, *siblings(log, Objects())]
    documents = {path.name: read_object(path, most_bytes=MOST_BYTES) for path in paths}
    return {name: frozenset(_names_in(d)) for name, d in documents.items() if is_atif(d)}


def _names_in(document: Mapping[str, Any]) -> Iterator[str]:
    """The names of the files that a trajectory refers to."""
    yield file_name(document.get("continued_trajectory_ref"))
    for step in objects_in(document.get("steps")):
        for result in objects_in(object_at(step, "observation").get("results")):
            for reference in objects_in(result.get("subagent_trajectory_ref")):
                yield file_name(reference.get("trajectory_path"))


def result_above(log: Location) -> Mapping[str, Any] | None:
    """The result of a trial, empty where it can't be used; None where there is none."""
    path = log.parent.parent / RESULT
    return read_object(path, most_bytes=MOST_BYTES) if _is_there(path) else None


def trajectory_below(log: Location) -> bool | None:
    """Whether the trajectory of a trial can be used; None where there is none."""
    path = log.parent / "agent" / TRAJECTORY
    return _is_usable(path) if _is_there(path) else None


def _is_usable(path: Location) -> bool:
    """Whether a file is a trajectory, or a list of them."""
    with suppress(OSError, ValueError, RecursionError):
        document: Any = json.loads(read_bytes(path, 0, min(state_of(path)[1], MOST_BYTES)))
        return any(map(is_atif, objects_in(document) or [as_object(document)]))
    return False


def _is_there(path: Location) -> bool:
    try:
        return state_of(path)[1] > 0
    except OSError:
        return False


def is_beside_main(log: Location) -> bool:
    """Whether the trajectory of the trial lies beside another file of its agent."""
    return _is_usable(log.parent / TRAJECTORY)
