"""The state of a file that was read, and whether it is unchanged, has grown, or was replaced since."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import PurePath
from typing import Literal

from board.formats import source_read_by
from board.formats.io.lines import read_bytes
from board.formats.io.locations import Location
from board.formats.io.remote import RemoteLocation
from board.index.discovery.run_info import AT_REST_SECONDS, LogFile, digest
from board.index.manifest import FileState
from board.index.reading.batch import FileRead
from board.index.reading.shard import END_BYTES, bytes_of

Change = Literal["same", "grown", "replaced"]


def detect_change(state: FileState, file: LogFile) -> Change:
    """How a file changed since it was read. Raises OSError when it can't be read.

    grown: what was read is unchanged, as far as size and the hashes of both ends tell, and more follows.
    replaced: anything else, also an edit in place. An edit in the middle that changes neither size nor
    time is not noticed. Files that do not grow at their end are replaced whenever they or their sidecar
    files change, but for those whose lines have places.
    """
    is_other = (file.reader, file.sidecar_state) != (state.reader, state.sidecar_state)
    if is_other or file.size < state.consumed:
        return "replaced"
    source = source_read_by(file.reader, PurePath(state.path), file.run)
    if not source.appends:
        at = (state.size, state.mtime_ns, state.inode)
        if (file.size, file.mtime_ns, file.inode) == at and not _is_finished(state):
            return "same"
        places = source.places(file.path) or ()
        has_more = len(places) > state.lines and file.size > state.consumed
        are_known = digest(bytes_of(places[: state.lines])) == state.ending
        return "grown" if has_more and are_known else "replaced"
    if (file.size, file.mtime_ns) == (state.size, state.mtime_ns):
        if file.inode != state.inode and not _is_renumbered(state, file):
            return "replaced"
        return "grown" if _is_finished(state) else "same"
    if not _ends_are(state, file.path):
        return "replaced"
    return "replaced" if file.size == state.size else "grown"


def _is_renumbered(state: FileState, file: LogFile) -> bool:
    """Whether only the number is another: some network file systems give new ones at every mount.

    A store gives an object another version when its content was written again, whatever its ends.
    """
    return not isinstance(file.path, RemoteLocation) and _ends_are(state, file.path)


def _is_finished(state: FileState) -> bool:
    """Whether the end of the last line was waited for in vain."""
    waited = state.size > state.consumed and state.tail is None
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


def state_after(state: FileState, read: FileRead, file: LogFile, beginning: bytes) -> FileState:
    """The state of a file after one more shard of it was read.

    beginning: its first END_BYTES, or all, from before they were read as rows; not used where as many
    were read by shards before.
    """
    after = state.plus(read.state)
    is_last = read.shard.end == file.size
    return replace(
        after,
        size=file.size if is_last else after.consumed,  # more of the file is to be read
        mtime_ns=0 if read.failed else file.mtime_ns,  # 0: looked at again the next time
        inode=file.inode,
        sidecar_state=file.sidecar_state,
        lines=read.shard.first_line - 1 + after.lines,
        head=_head(state, beginning, after.consumed),
        ending=after.ending if after.consumed > state.consumed else state.ending,
    )


def _head(state: FileState, beginning: bytes, consumed: int) -> str:
    """The hash of the beginning; empty where the rows were read from another beginning, so that the file
    is read again at the next refresh.
    """
    if state.consumed >= END_BYTES:
        return state.head
    if state.consumed and digest(beginning[: state.consumed]) != state.head:
        return ""
    return digest(beginning[: min(consumed, END_BYTES)])
