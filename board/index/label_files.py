"""Where the labels of a run are, and how entries get into and out of that file.

`labels.jsonl` lies beside the index of a run: in the folder .rollout-board of its own, or else in the
user's cache. Entries are only ever appended, each batch by one write under a lock, so that two writers
at once lose nothing.
"""

from __future__ import annotations

import os
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Final

from board.core.labels.entries import Entry, decode, encode
from board.core.labels.names import FILE as NAMES_FILE
from board.core.labels.names import LabelName, packaged_names, parse_names
from board.errors import ChoiceError
from board.formats.io.remote import RemoteLocation
from board.index.discovery.mappings import LARGEST_BYTES, content_of, leads_outside
from board.index.discovery.run_info import RunInfo
from board.index.shared_files import FileStates, append_lines, places_for, read_all, states_of

FILE: Final = "labels.jsonl"
NAMED_BY: Final = "ROLLOUT_BOARD_LABELS"
"""The environment variable with the path of a file for the labels of all runs."""


def _places(info: RunInfo) -> list[Path]:
    """The files that may hold labels of a run, the one to write first."""
    if named := os.environ.get(NAMED_BY):
        return [Path(named)]
    return places_for(info.path, FILE)


def _run_name(info: RunInfo) -> str:
    """What entries in a file of several runs call a run: its folder's name, wherever the root is."""
    return str(info.path).rstrip("/").rpartition("/")[2]


def state_of(info: RunInfo) -> FileStates:
    """Another one when labels of the run may be others."""
    return states_of(_places(info))


def read_entries(info: RunInfo) -> tuple[tuple[Entry, ...], int]:
    """The entries of a run, in the order of lines; and how many lines are none.

    Raises ChoiceError where a file can't be read.
    """
    files = [_read(*state) for state in state_of(info)]
    entries = [entry for own, _ in files for entry in own]
    if os.environ.get(NAMED_BY):
        entries = [entry for entry in entries if entry.run == _run_name(info)]
    return tuple(entries), sum(unread for _, unread in files)


@lru_cache(maxsize=32)
def _read(path: str, mtime_ns: int, size: int) -> tuple[tuple[Entry, ...], int]:
    """The arguments besides path tell states of the file apart."""
    try:
        text = read_all(path).decode("utf-8", "replace")
    except OSError as error:
        raise ChoiceError(f"labels can't be read: {path}: {error.strerror}") from error
    lines = [line for line in text.split("\n") if line.strip()]
    entries = [*map(decode, lines)]
    known = tuple(entry for entry in entries if entry is not None)
    return known, len(entries) - len(known)


def append(info: RunInfo, entries: list[Entry]) -> Path:
    """Adds entries to the labels of a run, all or none; returns the file.

    Raises ChoiceError where no place for it can be written, or a label would not be read again.
    """
    read_entries(info)
    content = "".join(encode(replace(entry, run=_run_name(info))) for entry in entries).encode()
    try:
        return append_lines(_places(info), content, is_deep=not os.environ.get(NAMED_BY))
    except ChoiceError as error:
        raise ChoiceError(
            f"the label can't be written: {error}; name a file by --labels"
        ) from error


def label_names(info: RunInfo) -> tuple[LabelName, ...]:
    """The names to choose from: of labels.toml in the run's folder or in the root, else the package's.

    Raises ChoiceError where such a file is wrong.
    """
    if isinstance(info.path, RemoteLocation):
        return packaged_names()
    for folder in (info.path, info.root):
        path = Path(str(folder)) / NAMES_FILE
        if not path.is_file() or leads_outside(path, info.root):
            continue
        try:
            if path.stat().st_size > LARGEST_BYTES:
                raise ChoiceError(f"{path} is larger than {LARGEST_BYTES >> 20} MB")
            return parse_names(content_of(path).decode("utf-8"))
        except (OSError, ValueError) as error:
            raise ChoiceError(f"{path} can't be read: {error}") from error
    return packaged_names()
