"""Whether a file is what it was when it was read: unchanged, grown, or another."""

from __future__ import annotations

import hashlib
import time
from pathlib import PurePath
from typing import Literal

from board.formats import source_of
from board.formats.io.lines import read_bytes
from board.formats.io.locations import Location
from board.formats.io.remote import RemoteLocation
from board.index.discovery.log_file import AT_REST_SECONDS, LogFile
from board.index.manifest import FileState
from board.index.shard import END_BYTES

Change = Literal["same", "grown", "replaced"]


def change_of(state: FileState, file: LogFile) -> Change:
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


def digest(content: bytes) -> str:
    """Hash of a few bytes, as text."""
    return hashlib.blake2b(content, digest_size=12).hexdigest()
