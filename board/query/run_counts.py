"""How much each run holds, kept in the user's cache: a list of runs opens those that changed alone."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from board import __version__
from board.core.problems import count_of
from board.formats.io.local_files import cache_folder
from board.formats.io.locations import Location
from board.index.discovery.run_info import RunInfo
from board.index.manifest import VERSION
from board.query.open_run import Run

_FOLDER: Final = "counts"


@dataclass(frozen=True, slots=True)
class RunCounts:
    """problems: lines that are lost, or shown without a value."""

    steps: int
    rollouts: int
    problems: int


def counts_of(info: RunInfo, opened: Callable[[RunInfo], Run]) -> RunCounts:
    """The counts of a run as its files stand. opened: opens it, where they are not in the cache."""
    path = cache_folder() / _FOLDER / f"{_key(info)}.json"
    kept = _read(path)
    if kept is not None:
        return kept
    run = opened(info)
    problems = count_of(run.problems, "lost") + count_of(run.problems, "partial")
    found = RunCounts(len(run.steps), run.rollout_count, problems)
    _write(path, found)
    return found


def _key(info: RunInfo) -> str:
    files = [(str(f.path), f.reader, f.size, f.mtime_ns, f.inode, f.beside) for f in info.files]
    asked = repr((__version__, VERSION, str(info.path), info.part, files, _beside(info.path)))
    return hashlib.blake2b(asked.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()


def _beside(folder: Location) -> list[tuple[str, int, int]]:
    """Name, size and time of the files of a run's folder: settings among them may hold problems."""
    if not isinstance(folder, Path):
        return []
    try:
        with os.scandir(folder) as entries:
            files = [(one.name, one.stat()) for one in entries if one.is_file()]
    except OSError:
        return []
    return sorted((name, state.st_size, state.st_mtime_ns) for name, state in files)


def _read(path: Path) -> RunCounts | None:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return RunCounts(*(int(data[name]) for name in ("steps", "rollouts", "problems")))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(path: Path, counts: RunCounts) -> None:
    """Writes a file whole or not at all; a cache that can't be written is none."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=path.parent, suffix=".tmp", delete=False
        ) as file:
            json.dump(asdict(counts), file)
        os.replace(file.name, path)  # noqa: PTH105 - of one folder, on every system
    except OSError:
        return
