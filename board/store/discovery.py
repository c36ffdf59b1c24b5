"""Which runs lie under a folder: files are recognised by what is in them, never by a folder's name.

A run is a folder that holds log files. Folders called step_N belong to the run of the folder above
them: some frameworks write one folder per step.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from board.core.problems import Problem, Severity
from board.errors import NotFoundError, OutsideRootError, UnreadableError
from board.readers import HEAD_BYTES, recognise
from board.readers.lines import read_bytes
from board.store.log_file import LogFile
from board.store.packed import PACKED_SUFFIXES, head_lines, is_packed

LOG_SUFFIXES: Final = (".jsonl", ".ndjson")
_NOT_READ: Final = (".jsonl.zip", ".jsonl.bz2", ".jsonl.xz")
_LOOKED_AT: Final = (*LOG_SUFFIXES, *PACKED_SUFFIXES, *_NOT_READ)
MOST_FILES: Final = 100_000
"""Log files under one root; the cost of looking at each, a few times a minute, has to end somewhere."""
_HEAD_BYTES: Final = 4096
_STEP_FOLDER: Final = re.compile(r"^(global_)?step[_-]?\d+$")
_DIGITS: Final = re.compile(r"(\d+)")


@dataclass(frozen=True, slots=True)
class RunInfo:
    """A run that was found. name: its path below the root, the way users tell runs apart.

    files are in natural order (rank_2 before rank_10). left_out: what else lay in its folder.
    root: the folder that links must not lead out of. only: name of the file that alone is the run;
    empty when all files of the folder are.
    """

    name: str
    path: Path
    files: tuple[LogFile, ...]
    left_out: tuple[Problem, ...]
    root: Path
    only: str = ""

    @property
    def bytes(self) -> int:
        """Size of all log files."""
        return sum(file.size for file in self.files)

    @property
    def mtime(self) -> float:
        """Unix seconds of the newest change of any log file."""
        return max(file.mtime_ns for file in self.files) / 1e9

    @property
    def formats(self) -> tuple[str, ...]:
        """Names of the readers of its files, without repeats."""
        return tuple(dict.fromkeys(file.reader for file in self.files))


@dataclass(frozen=True, slots=True)
class Discovery:
    """All runs under a root, newest first, and the files that are none, each with the reason."""

    root: Path
    runs: tuple[RunInfo, ...]
    left_out: tuple[Problem, ...]

    def run(self, name: str) -> RunInfo:
        """The run of that name; raises NotFoundError naming what there is."""
        for run in self.runs:
            if run.name == name:
                return run
        known = ", ".join(run.name for run in self.runs[:5]) or "none"
        raise NotFoundError(f"no run {name!r} under {self.root}; runs found: {known}")


def natural_order(text: str) -> tuple[tuple[int, int, str], ...]:
    """Sort key under which rank_2 comes before rank_10."""
    parts = _DIGITS.split(text)
    return tuple((1, int(p), "") if i % 2 else (0, 0, p) for i, p in enumerate(parts))


def resolve_inside(root: Path, wanted: str) -> Path:
    """`wanted`, relative to `root` or absolute, with links resolved.

    Raises OutsideRootError when it leaves `root` and NotFoundError when it does not exist.
    """
    base = root.resolve()
    try:
        target = (base / wanted).resolve()
        exists = target.exists()
    except (OSError, ValueError, RuntimeError) as error:  # NUL, a name too long, a loop of links
        raise NotFoundError(
            f"{wanted!r} is no path: {error}; give a folder below {base}"
        ) from error
    if not target.is_relative_to(base):
        raise OutsideRootError(
            f"{wanted} is outside {base}, the folder this server shows; "
            "start rollout-board on another folder, or with --allow-any-path"
        )
    if not exists:
        raise NotFoundError(f"{target} does not exist; give a folder below {base}")
    return target


def discover(root: Path) -> Discovery:
    """All runs under `root`, which may be a folder of runs, one run, or one log file.

    Raises NotFoundError when `root` does not exist and UnreadableError when it can't be listed.
    """
    try:
        is_folder = stat.S_ISDIR(root.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        hint = "give a folder of runs, a run, or a log file"
        raise NotFoundError(f"{str(root)!r} does not exist; {hint}") from None
    except OSError as error:
        raise UnreadableError(f"{root} can't be read: {error.strerror}") from error
    if not is_folder:
        return _single_file(root)
    if not os.access(root, os.R_OK | os.X_OK):
        raise UnreadableError(f"{root} can't be read: permission denied")
    others: list[Problem] = []
    folders: dict[Path, list[Path]] = {}
    for number, path in enumerate(_candidates(root, others)):
        if number == MOST_FILES:
            reason = f"the folder holds more than {MOST_FILES:,} log files; the further ones are not read"
            others.append(Problem(".", None, None, reason, "open one of its folders"))
            break
        folders.setdefault(_run_folder(path, root), []).append(path)
    runs: list[RunInfo] = []
    for folder, paths in folders.items():
        files, left_out = _sort_out(paths, folder, root)
        if files:
            runs.append(RunInfo(_name(folder, root), folder, files, left_out, root))
        else:
            others += (_moved(problem, folder, root) for problem in left_out)
    runs.sort(key=lambda run: (-run.mtime, natural_order(run.name)))
    return Discovery(root, tuple(runs), tuple(others))


def _single_file(path: Path) -> Discovery:
    # The user named this very file, so that a link may lead anywhere.
    root = path.resolve().parent
    files, left_out = _sort_out([path], path.parent, root)
    runs = (RunInfo(path.name, path.parent, files, (), root, path.name),) if files else ()
    return Discovery(path, runs, left_out)


def _name(folder: Path, root: Path) -> str:
    if folder == root:
        return root.name or root.resolve().name or str(root)
    return folder.relative_to(root).as_posix()


def _moved(problem: Problem, folder: Path, root: Path) -> Problem:
    """The problem with its path told from the root instead of from its folder."""
    path = (folder / problem.path).relative_to(root).as_posix()
    return Problem(path, problem.line, None, problem.reason, problem.hint, problem.severity)


def _candidates(root: Path, left_out: list[Problem]) -> Iterator[Path]:
    """Files whose names say that they may be logs; hidden folders are passed by.

    Folders that can't be listed, and links to folders, which are not followed, are added to left_out.
    """

    def note(path: str, reason: str, severity: Severity) -> None:
        shown = Path(path).relative_to(root).as_posix()
        left_out.append(Problem(shown, None, None, reason, "", severity))

    def unlisted(error: OSError) -> None:
        note(str(error.filename), f"the folder can't be read: {error.strerror}", "lost")

    for folder, subfolders, names in os.walk(root, onerror=unlisted):
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        for name in subfolders:
            if Path(folder, name).is_symlink():
                note(str(Path(folder, name)), "links to folders are not followed", "note")
        for name in names:
            if not name.startswith(".") and name.lower().endswith(_LOOKED_AT):
                yield Path(folder, name)


def _run_folder(path: Path, root: Path) -> Path:
    folder = path.parent
    while folder != root and _STEP_FOLDER.match(folder.name):
        folder = folder.parent
    return folder


def _sort_out(
    paths: list[Path], folder: Path, root: Path
) -> tuple[tuple[LogFile, ...], tuple[Problem, ...]]:
    files: list[LogFile] = []
    left_out: list[Problem] = []
    for path in sorted(paths, key=lambda p: natural_order(p.relative_to(folder).as_posix())):
        found = _look_at(path, path.relative_to(folder).as_posix(), root)
        if isinstance(found, LogFile):
            files.append(found)
        else:
            left_out.append(found)
    return tuple(files), tuple(left_out)


def _look_at(path: Path, shown: str, root: Path) -> LogFile | Problem:
    """The log file, or why it is none."""
    # Unlike Path.resolve, realpath survives a link that leads to itself.
    if path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(root.resolve()):
        return Problem(shown, None, None, "it is a link that leads outside the root", "", "note")
    if path.name.lower().endswith(_NOT_READ):
        return Problem(shown, None, None, "only .gz and .zst are unpacked", "unpack it", "note")
    if not path.is_file():
        return Problem(shown, None, None, "it is no regular file", "a log file", "note")
    try:
        found = path.stat()
        reader, reason = _recognised(path, found)
    except OSError as error:
        hint = "check its permissions"
        return Problem(shown, None, None, f"can't be read: {error.strerror}", hint)
    if reader is None:
        other_json = reason.startswith("its records") or reason == "the file is empty"
        severity = "note" if other_json else "lost"
        return Problem(shown, None, None, f"left out: {reason}", "", severity)
    return LogFile(path, reader, found.st_size, found.st_mtime_ns, found.st_ino)


@dataclass(frozen=True, slots=True)
class _Seen:
    """What was found in a file when it was last looked into. head: hash of its first bytes."""

    state: tuple[int, int, int]
    head: bytes
    head_bytes: int
    reader: str | None
    reason: str


_seen: dict[Path, _Seen] = {}


def _recognised(path: Path, found: os.stat_result) -> tuple[str | None, str]:
    """The name of a file's reader, and why there is none. Looks into it only when it changed."""
    state = (found.st_ino, found.st_size, found.st_mtime_ns)
    seen = _seen.get(path)
    if seen is not None and seen.state == state:
        return seen.reader, seen.reason
    if seen is not None and seen.reader is not None and _begins_as(path, found, seen):
        _seen[path] = replace(seen, state=state)
        return seen.reader, ""
    reader, reason = recognise(path, head_lines(path, HEAD_BYTES) if is_packed(path) else None)
    head = read_bytes(path, 0, min(_HEAD_BYTES, found.st_size))
    if len(_seen) > 2 * MOST_FILES:
        _seen.clear()
    name = None if reader is None else reader.name
    _seen[path] = _Seen(state, _digest(head), len(head), name, reason)
    return name, reason


def _begins_as(path: Path, found: os.stat_result, seen: _Seen) -> bool:
    if not found.st_size >= seen.head_bytes > 0:
        return False
    return _digest(read_bytes(path, 0, seen.head_bytes)) == seen.head


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=12).digest()
