"""The folder in which an index is kept: in the run's own folder, else in the user's cache."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Final

from board.core.options import ReadOptions
from board.formats.io.local_files import cache_folder
from board.formats.io.locations import Location
from board.formats.io.remote import RemoteLocation

INDEX_FOLDER: Final = ".rollout-board"


def index_folder(run: Location, only: str, options: ReadOptions, *, make: bool) -> Path | None:
    """The folder for the index of a run; None where there is none and none can be, or is to be, made.

    It lies in the run's own folder, or else, and for a run in a store, in the user's cache. only: the
    one file of the folder that is the run; empty when it is the whole folder. Every choice of reading
    options has its own.
    """
    name = "index"
    if only or options != ReadOptions():
        asked = repr((only, options.pad_markers, options.system_prompt_end))
        name += f"-{hashlib.blake2b(asked.encode(), digest_size=6).hexdigest()}"
    where = str(run).encode() if isinstance(run, RemoteLocation) else os.fsencode(run.resolve())
    parents = [cache_folder() / hashlib.blake2b(where, digest_size=12).hexdigest()]
    if not isinstance(run, RemoteLocation):
        parents.insert(0, run / INDEX_FOLDER)
    for parent in parents:
        folder = parent / name
        # A link here would let whoever made the run choose where this process writes.
        if parent.is_symlink() or folder.is_symlink():
            continue
        try:
            if make:
                # A run that was deleted must not come back as an empty folder.
                parent.mkdir(parents=parent.name != INDEX_FOLDER, exist_ok=True)
                folder.mkdir(exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.R_OK | os.W_OK | os.X_OK):
            return folder
    return None
