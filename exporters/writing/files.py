"""The files of a run: a JSONL per rank and process start, a run document, a vocabulary."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from exporters.record import encode_document
from exporters.writing.mending import mended

VOCABULARY = "vocab.json"


class RankFile:
    """One JSONL file of a rank.

    A line is in it whole or not at all, as long as the process lives to cut a torn one back.
    """

    def __init__(self, path: Path) -> None:
        """Creates the file. Raises OSError where the folder cannot be made or written to."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
        self._descriptor = os.open(self.path, flags, 0o644)
        self._size = 0
        self._torn = False

    @property
    def size(self) -> int:
        """Bytes of whole lines written."""
        return self._size

    @property
    def is_deleted(self) -> bool:
        """Whether somebody removed the file: what is written now, nobody would ever find."""
        return os.fstat(self._descriptor).st_nlink == 0

    def append(self, line: bytes) -> int:
        """Writes one line; returns at which byte it begins.

        Raises OSError after cutting the file back to its last whole line.
        """
        length = len(line)
        # Behind a torn line that could not be cut off, a newline of its own saves this one.
        line = b"\n" + line if self._torn else line
        try:
            unwritten = memoryview(line)
            while unwritten:
                unwritten = unwritten[os.write(self._descriptor, unwritten) :]
        except OSError:
            self._cut_back()
            raise
        # Where a torn line stayed, more than this line was added.
        self._size = os.fstat(self._descriptor).st_size if self._torn else self._size + len(line)
        self._torn = False
        return self._size - length

    def sync(self) -> None:
        """Returns once the disk has what was written. Raises OSError."""
        os.fsync(self._descriptor)

    def close(self) -> None:
        """Closes the file; a second call does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _cut_back(self) -> None:
        try:
            os.ftruncate(self._descriptor, self._size)
        except OSError:
            self._torn = True


def append_line(path: Path, line: bytes) -> None:
    """Adds a line to a file that was closed. Raises OSError where it is gone or the disk is full."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(descriptor, line)
    finally:
        os.close(descriptor)


def new_name(attempt: str, rank: int, dialect: str) -> Callable[[int], str]:
    """The file name of each part of one rank and process start.

    Parts sort behind each other. RLLoggingBoard looks for names that end with `_rank0.jsonl`.
    """
    unique = uuid.uuid4().hex[:8]
    if dialect == "rllb":
        return lambda part: f"{attempt}-{unique}{_suffix(part)}_rank{rank}.jsonl"
    return lambda part: f"{attempt}-rank{rank:05d}-{unique}{_suffix(part)}.jsonl"


def _suffix(part: int) -> str:
    return f".part{part:03d}" if part else ""


def write_run(folder: Path, attempt: str, document: Mapping[str, Any]) -> None:
    """Writes `run-{attempt}.json` whole or not at all."""
    _replace(folder / f"run-{attempt}.json", document)


def write_vocabulary(folder: Path, document: Mapping[str, Any]) -> None:
    """Writes `vocab.json` unless an earlier attempt already did."""
    path = folder / VOCABULARY
    if not path.exists():
        _replace(path, document)


def default_attempt(world_size: int, now: str) -> str:
    """A name for this launch that all of its ranks agree on and no other launch has.

    It comes from torchrun or Slurm; a single process takes `now`. Raises ValueError for several
    ranks whose launcher gives them nothing to agree on.
    """
    env = os.environ
    elastic = env.get("TORCHELASTIC_RUN_ID", "none")
    if elastic != "none":  # what torchrun sets for every launch that was given no --rdzv-id
        return file_part(f"{elastic}.{env.get('TORCHELASTIC_RESTART_COUNT', '0')}")
    if "SLURM_JOB_ID" in env:
        step, restart = env.get("SLURM_STEP_ID", "0"), env.get("SLURM_RESTART_COUNT", "0")
        return file_part(f"{env['SLURM_JOB_ID']}.{step}.{restart}")
    if world_size == 1:
        return now
    raise ValueError(
        f"attempt: {world_size} ranks must share one name for this launch and the launcher gives "
        "none. Pass the same new attempt=... on every rank (e.g. a time stamp that rank 0 "
        "broadcasts), or start torchrun with a new --rdzv-id each time."
    )


def file_part(name: str) -> str:
    """`name` with everything replaced by `_` that does not belong in a file name."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", name).lstrip(".")  # no hidden files


def _replace(path: Path, document: Mapping[str, Any]) -> None:
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
    try:
        text = encode_document(document)
    except TypeError:  # of a setting, which is no reason to export nothing
        text = encode_document(mended(document))
    temporary.write_bytes(text)
    temporary.replace(path)
