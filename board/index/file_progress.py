"""How far a file was read: what is known of it after one more shard."""

from __future__ import annotations

from dataclasses import replace

from board.core.problems import ProblemLog
from board.formats.io.lines import read_bytes
from board.index.batch import FileRead
from board.index.discovery.log_file import LogFile
from board.index.file_changes import digest
from board.index.manifest import FileState
from board.index.shard import END_BYTES
from board.index.tally import Tally


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
        tallies.setdefault(rank, Tally()).merge(tally)
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
