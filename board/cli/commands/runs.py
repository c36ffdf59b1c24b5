"""`rollout-board runs`: every run under a folder with what it holds."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from board import __version__
from board.cli import output
from board.cli.runs import default_root, no_runs
from board.core.problems import count_of
from board.formats import reader_named
from board.formats.io.locations import Location, cache_folder, location_of
from board.formats.mapping import PREFIX
from board.index.discovery.discovered_runs import Discovery, RunInfo, discover
from board.index.manifest import VERSION

_MAX_PROBLEMS: Final = 3
_CACHE: Final = "counts"
"""Folder in the user's cache: runs that did not change are not opened."""


@dataclass(frozen=True, slots=True)
class _Counts:
    """problems: lines that are lost, or shown without a value."""

    steps: int
    rollouts: int
    problems: int


def main(args: argparse.Namespace) -> int:
    """Lists the runs."""
    root = location_of(args.path) if args.path else default_root()
    discovery = discover(root)
    rows = [_run_row(info) for info in discovery.runs]
    if not rows:
        output.say(no_runs(discovery, root))
    else:
        _say_left_out(discovery)
    if args.json:
        output.print_json(rows)
    elif rows:
        # The name of a mapping is a hash of its text: useless to a reader.
        titles = (", ".join(reader_named(n).title for n in info.formats) for info in discovery.runs)
        table = [
            {**row, "format": title} if str(row["format"]).startswith(PREFIX) else row
            for row, title in zip(rows, titles, strict=True)
        ]
        output.print_table(table, tuple(rows[0]))
    return 0


def _run_row(info: RunInfo) -> dict[str, Any]:
    counts = _counts_of(info)
    return {
        "run": info.name,
        "path": str(info.path / info.only if info.only else info.path),
        "format": ", ".join(info.formats),
        "steps": counts.steps,
        "rollouts": counts.rollouts,
        "bytes": info.bytes,
        "problems": counts.problems,
    }


def _say_left_out(discovery: Discovery) -> None:
    for problem in discovery.left_out[:_MAX_PROBLEMS]:
        output.say(f"left out: {problem.path}: {problem.reason}")
    if len(discovery.left_out) > _MAX_PROBLEMS:
        output.say(f"and {len(discovery.left_out) - _MAX_PROBLEMS} more files")


def _counts_of(info: RunInfo) -> _Counts:
    """The counts of a run as its files stand."""
    path = cache_folder() / _CACHE / f"{_key(info)}.json"
    known = _read(path)
    if known is not None:
        return known
    # Imported late: with what it needs, it takes longer than the whole list.
    from board.cli.opened_runs import opened

    run = opened(info)
    problems = count_of(run.problems, "lost") + count_of(run.problems, "partial")
    counts = _Counts(len(run.steps), run.rollout_count, problems)
    _write(path, counts)
    return counts


def _key(info: RunInfo) -> str:
    files = [
        (str(f.path), f.reader, f.size, f.mtime_ns, f.inode, f.sidecar_state) for f in info.files
    ]
    asked = repr((__version__, VERSION, str(info.path), info.part, files, _folder_state(info.path)))
    return hashlib.blake2b(asked.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()


def _folder_state(folder: Location) -> list[tuple[str, int, int]]:
    """Name, size and time of the files of a run's folder: settings among them may hold problems."""
    if not isinstance(folder, Path):
        return []
    try:
        with os.scandir(folder) as entries:
            files = [(one.name, one.stat()) for one in entries if one.is_file()]
    except OSError:
        return []
    return sorted((name, state.st_size, state.st_mtime_ns) for name, state in files)


def _read(path: Path) -> _Counts | None:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return _Counts(*(int(data[name]) for name in ("steps", "rollouts", "problems")))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(path: Path, counts: _Counts) -> None:
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
