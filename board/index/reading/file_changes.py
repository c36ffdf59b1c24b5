"""What is known of a file that was read, and whether it is unchanged, grown, or another since."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import PurePath
from typing import Literal

from board.core.problems import ProblemLog
from board.formats import source_of
from board.formats.io.lines import read_bytes
from board.formats.io.locations import Location
from board.formats.io.remote import RemoteLocation
from board.index.discovery.log_file import AT_REST_SECONDS, LogFile
from board.index.manifest import FileState
from board.index.reading.batch import FileRead
from board.index.reading.file_steps import StepCounts
from board.index.reading.shard import END_BYTES, digest

Change = Literal["same", "grown", "replaced"]


def detect_change(state: FileState, file: LogFile) -> Change:
    """What became of a file since it was read. Raises OSError when it can't be read.

    grown: what was read is still there, as far as size and the hashes of its ends tell, and what
    follows it is to be read. replaced: anything else, an edit in place included. An edit in the middle
    that leaves size and time as they were is not noticed. Files that do not grow at their end are
    replaced whenever they change; and so are those of which something beside them changed.
    """
    if (file.reader, file.beside) != (state.reader, state.beside) or file.size < state.consumed:
        return "replaced"
    if not source_of(PurePath(state.path)).appends:
        at = (state.size, state.mtime_ns, state.inode)
        return "same" if (file.size, file.mtime_ns, file.inode) == at else "replaced"
    if (file.size, file.mtime_ns) == (state.size, state.mtime_ns):
        if file.inode != state.inode and not _is_renumbered(state, file):
            return "replaced"
        return "grown" if _came_to_rest(state) else "same"
    if not _ends_are(state, file.path):
        return "replaced"
    return "replaced" if file.size == state.size else "grown"


def _is_renumbered(state: FileState, file: LogFile) -> bool:
    """Whether only the number is another: some network file systems give new ones at every mount.

    A store gives an object another version when its content was written again, whatever its ends.
    """
    return not isinstance(file.path, RemoteLocation) and _ends_are(state, file.path)


def _came_to_rest(state: FileState) -> bool:
    """Whether the last line was waited for and will not come."""
    waited = state.has_more and state.tail is None
    return waited and time.time() - state.mtime_ns / 1e9 >= AT_REST_SECONDS


def _ends_are(state: FileState, path: Location) -> bool:
    if head_hash(path, state.consumed) != state.head:
        return False
    size = min(END_BYTES, state.consumed)
    return digest(read_bytes(path, state.consumed - size, size)) == state.ending


def head_hash(path: Location, consumed: int) -> str:
    """Hash of the first up to 4 KiB before `consumed`. Raises OSError."""
    return digest(read_bytes(path, 0, min(END_BYTES, consumed)))


def beginning_of(file: LogFile) -> bytes:
    """Its first END_BYTES; none where it can't be read now: it is read again when it can be."""
    try:
        return read_bytes(file.path, 0, min(END_BYTES, file.size))
    except OSError:
        return b""


def state_after(state: FileState, found: FileRead, file: LogFile, beginning: bytes) -> FileState:
    """What is known of a file after one more shard of it.

    beginning: its first END_BYTES, or all, as they were before they were read; not used where as many
    were read by shards before.
    """
    tallies = {rank: tally.copy() for rank, tally in state.tallies.items()}
    for rank, tally in found.tallies.items():
        tallies.setdefault(rank, StepCounts()).merge(tally)
    ended = state.ended.copy()
    ended.merge(found.ended)
    problems = ProblemLog((*state.problems, *found.problems))
    moved = found.consumed > state.consumed
    is_last = found.work.shard.end == file.size
    return replace(
        state,
        size=file.size if is_last else found.consumed,  # more of the file is to be read
        mtime_ns=0 if found.failed else file.mtime_ns,  # 0: looked at again the next time
        inode=file.inode,
        beside=file.beside,
        consumed=found.consumed,
        lines=found.work.shard.first_line - 1 + found.lines,
        head=_head(state, beginning, found.consumed),
        ending=found.ending if moved and found.ending else state.ending,
        header=state.header if state.header is not None else found.header,
        ended=ended,
        tallies=tallies,
        problems=problems.as_tuple(),
        tail=found.tail,
    )


def _head(state: FileState, beginning: bytes, consumed: int) -> str:
    """The hash of what comes first; none where that is not what the rows there are were read from, so
    that the file is read anew at the next look.
    """
    if state.consumed >= END_BYTES:
        return state.head
    if state.consumed and digest(beginning[: state.consumed]) != state.head:
        return ""
    return digest(beginning[: min(consumed, END_BYTES)])
