"""What is in a file that may be a log: looked into once, and again when it changed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from board.core.problems import Problem
from board.formats import reader_named, source_of, source_read_by
from board.formats.base import Head, Reader, layout_match
from board.formats.io.content import kind_by_content
from board.formats.io.lines import Line, read_bytes, read_lines
from board.formats.io.locations import Location, pure_path
from board.formats.io.remote import RemoteLocation
from board.formats.mapping import MappingReader
from board.formats.recognition import HEAD_BYTES, head_of, recognise_head
from board.formats.sources import (
    JSON_DOCUMENT,
    LFS_REASON,
    DamagedError,
    FileStat,
    RunInFile,
    lfs_pointer,
)
from board.formats.turn_rows import is_by_keys, likely_trajectory
from board.index.discovery.candidates import MOST_FILES, NOT_READ, PICKLES
from board.index.discovery.mappings import leads_outside
from board.index.discovery.packed import HEAD_OF_KIND, head_lines, is_cut_at_once, is_packed
from board.index.discovery.packed import is_wrapped as is_wrapped_in
from board.index.discovery.run_info import AT_REST_SECONDS, LogFile, Subject, digest
from board.index.discovery.subjects import subject_of

LEFT_OUT: Final = "left out: "
"""How the reason begins why a file is none of a run that was looked into."""
_REMOTE_HEAD: Final = 256 << 10
"""Bytes of an object that are asked for to recognise it, and again if its first lines are longer."""
_EMPTY: Final = "the file is empty"
RECORDS: Final = "its records"
"""How the reason begins why records that could be read are no rollouts."""


def detect_format(
    path: Location, root: Location, mapping: MappingReader | None, *, is_named: bool = False
) -> LogFile | Problem:
    """The log file, or why it is none. Problems name it by its last name. is_named: the user named it."""
    if isinstance(path, Path) and path.is_symlink() and leads_outside(path, root):
        return _note(path, "it is a link that leads outside the root")
    if path.name.lower().endswith(NOT_READ):
        return _note(path, "only .gz and .zst are unpacked", "unpack it")
    if path.name.lower().endswith(PICKLES):
        reason = "it is a pickle, which is never opened: opening it could run code"
        return _note(path, reason, "let training write .jsonl, .parquet, or .pt of plain data")
    if isinstance(path, Path) and not path.is_file():
        return _note(path, "it is not a regular file", "a log file")
    try:
        return _log_file(path, source_of(path).stat(path), mapping, is_named)
    except OSError as error:
        hint = "unpack it, or copy it again" if is_packed(path) else "check its permissions"
        return Problem(path.name, None, None, f"can't be read: {error.strerror}", hint)


def mapping_mismatch(file: LogFile, mapping: MappingReader | None) -> Problem | None:
    """Why the mapping file that should read a file does not; None where it does, or need not."""
    if mapping is None or file.reader == mapping.name:
        return None
    if mapping.layout is not None and layout_match(mapping.layout, pure_path(file.path)) is None:
        return None
    try:
        head, _ = head_of(file.path, first_lines(file.path, file.size, is_wrapped=file.is_wrapped))
    except OSError:
        return None
    title = reader_named(file.reader).title
    reason = f"the mapping file does not fit; it is read as {title}: {mapping.why_not(head)}"
    hint = "change rollout-board.toml, or let its `files` say which files it is for"
    return Problem(file.path.name, None, None, reason, hint, "partial")


def _note(path: Location, reason: str, hint: str = "") -> Problem:
    return Problem(path.name, None, None, reason, hint, "note")


def _log_file(
    path: Location, stat: FileStat, mapping: MappingReader | None, is_named: bool
) -> LogFile | Problem:
    """The log file, or why it is none. Raises OSError when the file can't be read."""
    try:
        seen = _recognised(path, stat, mapping, is_named)
    except DamagedError as error:
        return _damaged(path, stat, error.strerror or str(error))
    reader, reason = seen.reader, seen.reason
    if reader is None:
        other_json = reason.startswith(RECORDS) or reason == _EMPTY
        if source_of(path) is JSON_DOCUMENT and not other_json:
            return _damaged(path, stat, reason)
        severity = "note" if other_json else "lost"
        return Problem(path.name, None, None, f"{LEFT_OUT}{reason}", "", severity)
    at = (stat.st_size, stat.st_mtime_ns, stat.st_ino)
    names = ("shared_id", "subject", "is_wrapped", "runs")
    return LogFile(path, reader, *at, **{name: getattr(seen, name) for name in names})


def _damaged(path: Location, stat: FileStat, reason: str) -> Problem:
    """A file that is not whole. One that was changed a moment ago is likely still being written."""
    fresh = time.time() - stat.st_mtime < AT_REST_SECONDS
    hint = "it is checked again when it changes"
    is_pointer = reason == LFS_REASON  # no writer will complete it
    severity = "note" if fresh and not is_pointer else "lost"
    hint = "" if is_pointer else hint
    return Problem(path.name, None, None, f"{LEFT_OUT}{reason}", hint, severity)


@dataclass(frozen=True, slots=True)
class _Seen:
    """What was found in a file when it was last looked into. head: hash of its first bytes.

    mapping: what was asked then: the name of the mapping, and whether the file was named.
    """

    state: tuple[int, int, int]
    mapping: str
    head: str
    head_bytes: int
    reader: str | None
    reason: str
    shared_id: str = ""
    subject: Subject | None = ()
    is_wrapped: bool = False
    runs: tuple[RunInFile, ...] = ()


_seen: dict[Location, _Seen] = {}


def _recognised(
    path: Location, stat: FileStat, mapping: MappingReader | None, is_named: bool
) -> _Seen:
    """What is in a file. Looks into it only when it changed."""
    state = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
    asked = f"{'' if mapping is None else mapping.name} {is_named}"
    seen = _seen.get(path)
    if seen is not None and seen.mapping != asked:
        seen = None
    if seen is not None and seen.state == state:
        return seen
    grows = source_of(path).appends
    if grows and seen is not None and seen.reader is not None and _begins_as(path, stat, seen):
        _seen[path] = seen = replace(seen, state=state)
        return seen
    # By its beginning alone a file that only grew is known again.
    head = read_bytes(path, 0, min(HEAD_OF_KIND, stat.st_size)) if grows else b""
    is_wrapped = is_wrapped_in(path, head)
    lines = first_lines(path, stat.st_size, is_wrapped=is_wrapped)
    beginning, reader, reason = _read_head(path, lines, mapping, is_named)
    if reader is None and not is_wrapped:
        head = head or read_bytes(path, 0, min(HEAD_OF_KIND, stat.st_size))
        is_wrapped = source_of(path).is_text and is_wrapped_in(path, head)
        if is_wrapped:
            lines = head_lines(path, HEAD_BYTES)
            beginning, reader, reason = _read_head(path, lines, mapping, is_named)
    if reader is None and is_wrapped and not beginning.records and is_cut_at_once(path):
        raise DamagedError("it ends in the middle, before anything of it can be unpacked")
    if reader is None and not is_wrapped and reason not in (LFS_REASON, _EMPTY):
        kind = kind_by_content(path, head)
        reason = f"{kind}, no log: {reason}" if kind and not reason.startswith(RECORDS) else reason
    if len(_seen) > 2 * MOST_FILES:
        _seen.clear()
    name = None if reader is None else reader.name
    is_rollouts = reader is not None and is_by_keys(reader)
    shared = likely_trajectory(beginning) if is_rollouts else ""
    subject = () if reader is None else subject_of(path, beginning, reader)
    known = head if grows else b""
    runs = () if name is None else (*source_read_by(name, path).runs(path),)
    content = (name, reason, shared, subject, is_wrapped, runs)
    _seen[path] = seen = _Seen(state, asked, digest(known), len(known), *content)
    return seen


def _read_head(
    path: Location, lines: Iterator[Line] | None, mapping: MappingReader | None, is_named: bool
) -> tuple[Head, Reader | None, str]:
    """The beginning of a file, its reader, and why there is none."""
    beginning, first_error = head_of(path, lines)
    reader, reason = recognise_head(path, beginning, first_error, mapping, is_named=is_named)
    return beginning, reader, reason


def likely_turns(file: LogFile) -> Problem | None:
    """Says that lines are likely turns of fewer rollouts; None where no key says so."""
    if not file.shared_id:
        return None
    reason = (
        f"lines share their {file.shared_id}, and none says its turn: each is counted as a rollout"
    )
    hint = f'are they turns? `trajectory = "{file.shared_id}"` in rollout-board.toml joins them'
    return Problem(file.path.name, None, file.shared_id, reason, hint, "partial")


def first_lines(
    path: Location, size: int, *, is_wrapped: bool | None = None
) -> Iterator[Line] | None:
    """The first lines where they are not had as the kind of file has them.

    is_wrapped: None where it is not known yet.
    """
    if is_wrapped is None:
        is_text = source_of(path).is_text
        head = read_bytes(path, 0, min(HEAD_OF_KIND, size)) if is_text else b""
        is_wrapped = is_wrapped_in(path, head)
    if is_wrapped:
        if lfs_pointer(read_bytes(path, 0, HEAD_OF_KIND)):
            raise DamagedError(LFS_REASON)
        return head_lines(path, HEAD_BYTES)
    if isinstance(path, RemoteLocation) and source_of(path).appends:
        return read_lines(path, 0, size, _REMOTE_HEAD)
    return None


def _begins_as(path: Location, stat: FileStat, seen: _Seen) -> bool:
    if not stat.st_size >= seen.head_bytes > 0:
        return False
    return digest(read_bytes(path, 0, seen.head_bytes)) == seen.head
