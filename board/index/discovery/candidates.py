"""Which files and objects below a root may be logs, by their names alone."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Final

from board.core.problems import Problem, Severity
from board.errors import NotFoundError, UnreadableError
from board.formats import SOURCES, is_worth_a_look
from board.formats.base import layout_match
from board.formats.io.locations import Location, below, pure_path
from board.formats.io.remote import RemoteError, RemoteLocation
from board.index.discovery.ignored_files import IgnoredFileCounter, is_of_running
from board.index.discovery.mappings import Mappings
from board.index.discovery.packed import PACKED_SUFFIXES

NOT_READ: Final = (".jsonl.zip", ".jsonl.bz2", ".jsonl.xz")
PICKLES: Final = (".pkl", ".pickle")
_DUMPED: Final = re.compile(r"(global_step_[0-9]+_training_input|step_[0-9]+)\.pkl")
"""What SkyRL and ROLL call the pickles that they dump. Others lie beside logs, many, for other ends."""
_SUFFIXES: Final = tuple(suffix for source in SOURCES for suffix in source.suffixes)
_LOOKED_AT: Final = (*_SUFFIXES, *PACKED_SUFFIXES, *NOT_READ, *PICKLES)
MOST_FILES: Final = 100_000
"""Log files under one root; the cost of looking at each, a few times a minute, has to end somewhere."""


def candidates(
    root: Path, left_out: list[Problem], mappings: Mappings, beside: IgnoredFileCounter
) -> Iterator[Path]:
    """Files whose names, or mapping files, say that they may be logs; hidden folders are passed by.

    Folders that can't be listed, and links to folders, which are not followed, are added to left_out;
    the other files to beside.
    """

    def note(path: str, reason: str, severity: Severity) -> None:
        shown = Path(path).relative_to(root).as_posix()
        left_out.append(Problem(shown, None, None, reason, "", severity))

    def unlisted(error: OSError) -> None:
        note(str(error.filename), f"the folder can't be read: {error.strerror}", "lost")

    for folder, subfolders, names in os.walk(root, onerror=unlisted):
        beside.add_hidden(folder, subfolders)
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        for name in subfolders:
            if Path(folder, name).is_symlink():
                note(str(Path(folder, name)), "links to folders are not followed", "note")
        of_running = is_of_running(folder, subfolders)
        for name in names:
            if name.startswith("."):
                continue
            lower = name.lower()
            if not lower.endswith(_LOOKED_AT) or (of_running and lower.endswith(".jsonl")):
                beside.add(folder, name)
                continue
            path = Path(folder, name)
            own = mappings.of(path)
            if _is_worth_a_look(path) or (own is not None and layout_match(own.layout, path)):
                yield path
            else:
                beside.add(folder, name)


def listed(root: RemoteLocation, left_out: list[Problem]) -> list[RemoteLocation]:
    """All objects below `root`, or `root` itself, which may be an object.

    Objects whose names are no paths are added to left_out. Raises NotFoundError, UnreadableError.
    """
    try:
        found, odd = root.files()
    except RemoteError as error:
        if error.missing:
            raise NotFoundError(f"{root} does not exist: {error.strerror}") from error
        raise UnreadableError(f"{root} can't be read: {error.strerror}") from error
    if not found and not odd:
        raise NotFoundError(f"{root} holds no object; check the names of bucket and folder")
    if odd:
        reason = "names with empty parts, `.` or `..` are no paths; these objects are not read"
        left_out.append(Problem(".", None, None, reason, "name them plainly", "lost", odd))
    return found


def objects_of_logs(
    found: Sequence[RemoteLocation], mappings: Mappings, beside: IgnoredFileCounter
) -> Iterator[RemoteLocation]:
    """Of the objects of a root those that may be logs, by their names; the others go to beside."""
    for location in found:
        if _may_be_log(location, mappings):
            yield location
        else:
            beside.add_object(location)


def _may_be_log(location: RemoteLocation, mappings: Mappings) -> bool:
    """Whether the name of an object, or a mapping file, says that it may be a log."""
    path = below(location, mappings.root)
    if path.startswith(".") or "/." in path or not path.lower().endswith(_LOOKED_AT):
        return False
    own = mappings.of(location)
    by_mapping = own is not None and layout_match(own.layout, pure_path(location)) is not None
    return by_mapping or _is_worth_a_look(pure_path(location))


def _is_worth_a_look(path: PurePath) -> bool:
    is_pickle = path.name.lower().endswith(PICKLES)
    return _DUMPED.fullmatch(path.name) is not None if is_pickle else is_worth_a_look(path)


def object_beside(path: Location, name: str) -> Sequence[RemoteLocation]:
    """The object of that name beside an object, if there is one; asked for by its name."""
    if not isinstance(path, RemoteLocation):
        return ()
    beside = path.parent / name
    try:
        return (replace(beside, listed=beside.stat()),)
    except RemoteError:
        return ()
