"""Which runs lie under a folder: files are recognised by what is in them, never by a folder's name.

A run is a folder that holds log files. Folders called step_N belong to the run of the folder above
them: some frameworks write one folder per step.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from board.core.problems import Problem, Severity
from board.errors import NotFoundError, OutsideRootError, UnreadableError
from board.readers import HEAD_BYTES, recognise
from board.readers.lines import Line, read_bytes, read_lines
from board.readers.places import Place, below, place_of
from board.readers.remote import RemoteError, RemotePlace, RemoteStat, is_url, scrubbed
from board.store.log_file import LogFile
from board.store.packed import PACKED_SUFFIXES, head_lines, is_packed

__all__ = [
    "Discovery",
    "Place",
    "RunInfo",
    "discover",
    "is_remote",
    "natural_order",
    "place_below",
    "place_of",
    "resolve_inside",
]

LOG_SUFFIXES: Final = (".jsonl", ".ndjson")
_NOT_READ: Final = (".jsonl.zip", ".jsonl.bz2", ".jsonl.xz")
_LOOKED_AT: Final = (*LOG_SUFFIXES, *PACKED_SUFFIXES, *_NOT_READ)
MOST_FILES: Final = 100_000
"""Log files under one root; the cost of looking at each, a few times a minute, has to end somewhere."""
_HEAD_BYTES: Final = 4096
_REMOTE_HEAD: Final = 256 << 10
"""Bytes of an object that are asked for to recognise it, and again if its first lines are longer."""
_ASKED_AT_ONCE: Final = 16
_Stat = os.stat_result | RemoteStat
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
    path: Place
    files: tuple[LogFile, ...]
    left_out: tuple[Problem, ...]
    root: Place
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

    root: Place
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


def resolve_inside(root: Place, wanted: str) -> Place:
    """`wanted`, relative to `root` or absolute, with links resolved.

    Raises OutsideRootError when it leaves `root`, be it for another store, and NotFoundError when it
    does not exist.
    """
    if isinstance(root, RemotePlace):
        return _inside_store(root, wanted)
    if is_url(wanted):
        asked = place_of(wanted)
        if not isinstance(asked, Path):
            raise _outside(root, wanted)
        wanted = str(asked)
    base = root.resolve()
    try:
        target = (base / wanted).resolve()
        exists = target.exists()
    except (OSError, ValueError, RuntimeError) as error:  # NUL, a name too long, a loop of links
        raise NotFoundError(
            f"{wanted!r} is no path: {error}; give a folder below {base}"
        ) from error
    if not target.is_relative_to(base):
        raise _outside(base, wanted)
    if not exists:
        raise NotFoundError(f"{target} does not exist; give a folder below {base}")
    return target


def place_below(root: Place, wanted: str) -> Place:
    """`wanted` as a user means it who may open anything: a URL, or a path told from `root`.

    Raises ChoiceError on a URL that is not taken.
    """
    if is_url(wanted):
        return place_of(wanted)
    if isinstance(root, RemotePlace) and not wanted.startswith(("/", "~")):
        return root / wanted
    base = root if isinstance(root, Path) else Path("/")
    try:
        return base / Path(wanted).expanduser()
    except RuntimeError:  # the home of a user that there is not
        return base / wanted


def is_remote(info: RunInfo) -> bool:
    """Whether a run lies in an object store."""
    return isinstance(info.path, RemotePlace)


def _inside_store(root: RemotePlace, wanted: str) -> RemotePlace:
    if wanted.startswith("/"):
        raise _outside(root, wanted)
    asked = place_of(wanted) if is_url(wanted) else root / wanted
    if not isinstance(asked, RemotePlace) or not asked.is_relative_to(root):
        raise _outside(root, wanted)
    return asked


def _outside(root: Place, wanted: str) -> OutsideRootError:
    return OutsideRootError(
        f"{scrubbed(wanted)} is outside {root}, the folder this server shows; "
        "start rollout-board on another folder, or with --allow-any-path"
    )


def discover(root: Place) -> Discovery:
    """All runs under `root`, which may be a folder of runs, one run, or one log file.

    Raises NotFoundError when `root` does not exist and UnreadableError when it can't be listed.
    """
    others: list[Problem] = []
    if isinstance(root, RemotePlace):
        found = _listed(root, others)
        return _single_file(found[0]) if found == [root] else _sorted_runs(root, found, others)
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
    return _sorted_runs(root, _candidates(root, others), others)


def _sorted_runs(root: Place, candidates: Iterable[Place], others: list[Problem]) -> Discovery:
    """The runs that some files make. others: what was passed by so far."""
    folders: dict[Place, list[Place]] = {}
    for number, path in enumerate(candidates):
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


def _listed(root: RemotePlace, left_out: list[Problem]) -> list[RemotePlace]:
    """The objects below `root` whose names say that they may be logs."""
    try:
        found, odd = root.files()
    except RemoteError as error:
        if error.missing:
            raise NotFoundError(f"{root} does not exist: {error.strerror}") from error
        raise UnreadableError(f"{root} can't be read: {error.strerror}") from error
    if not found and not odd:
        raise NotFoundError(f"{root} holds no object; check the names of bucket and folder")
    if odd:
        reason = "names with empty parts, `.` or `..` are no paths; these objects are not read"
        left_out.append(Problem(".", None, None, reason, "name them plainly", "lost", odd))
    return [place for place in found if place == root or _may_be_log(below(place, root))]


def _may_be_log(path: str) -> bool:
    hidden = path.startswith(".") or "/." in path
    return not hidden and path.lower().endswith(_LOOKED_AT)


def _single_file(path: Place) -> Discovery:
    # The user named this very file, so that a link may lead anywhere.
    root = path.resolve().parent if isinstance(path, Path) else path.parent
    files, left_out = _sort_out([path], path.parent, root)
    runs = (RunInfo(path.name, path.parent, files, (), root, path.name),) if files else ()
    return Discovery(path, runs, left_out)


def _name(folder: Place, root: Place) -> str:
    if folder != root:
        return below(folder, root)
    return root.name or (root.resolve().name if isinstance(root, Path) else "") or str(root)


def _moved(problem: Problem, folder: Place, root: Place) -> Problem:
    """The problem with its path told from the root instead of from its folder."""
    path = below(folder / problem.path, root)
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


def _run_folder(path: Place, root: Place) -> Place:
    folder = path.parent
    while folder != root and _STEP_FOLDER.match(folder.name):
        folder = folder.parent
    return folder


def _sort_out(
    paths: list[Place], folder: Place, root: Place
) -> tuple[tuple[LogFile, ...], tuple[Problem, ...]]:
    files: list[LogFile] = []
    left_out: list[Problem] = []
    named = sorted(
        ((below(path, folder), path) for path in paths), key=lambda n: natural_order(n[0])
    )
    for found in _looked_at(named, root):
        if isinstance(found, LogFile):
            files.append(found)
        else:
            left_out.append(found)
    return tuple(files), tuple(left_out)


def _looked_at(named: Sequence[tuple[str, Place]], root: Place) -> Iterator[LogFile | Problem]:
    """The log files, or why they are none; a store is asked for several at once."""
    if not isinstance(root, RemotePlace):
        local = ((shown, path) for shown, path in named if isinstance(path, Path))
        yield from (_look_at(path, shown, root) for shown, path in local)
        return
    objects = [(shown, path) for shown, path in named if isinstance(path, RemotePlace)]
    with ThreadPoolExecutor(_ASKED_AT_ONCE) as pool:
        yield from pool.map(_look_at_object, objects)


def _look_at_object(named: tuple[str, RemotePlace]) -> LogFile | Problem:
    shown, place = named
    if place.name.lower().endswith(_NOT_READ):
        return _not_unpacked(shown)
    return _log_file(place, shown, place.listed)


def _look_at(path: Path, shown: str, root: Path) -> LogFile | Problem:
    """The log file, or why it is none."""
    # Unlike Path.resolve, realpath survives a link that leads to itself.
    if path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(root.resolve()):
        return Problem(shown, None, None, "it is a link that leads outside the root", "", "note")
    if path.name.lower().endswith(_NOT_READ):
        return _not_unpacked(shown)
    if not path.is_file():
        return Problem(shown, None, None, "it is no regular file", "a log file", "note")
    return _log_file(path, shown, None)


def _not_unpacked(shown: str) -> Problem:
    return Problem(shown, None, None, "only .gz and .zst are unpacked", "unpack it", "note")


def _log_file(path: Place, shown: str, found: _Stat | None) -> LogFile | Problem:
    """The log file, or why it is none. found: how it stands, where that is known."""
    try:
        found = found or path.stat()
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


_seen: dict[Place, _Seen] = {}


def _recognised(path: Place, found: _Stat) -> tuple[str | None, str]:
    """The name of a file's reader, and why there is none. Looks into it only when it changed."""
    state = (found.st_ino, found.st_size, found.st_mtime_ns)
    seen = _seen.get(path)
    if seen is not None and seen.state == state:
        return seen.reader, seen.reason
    if seen is not None and seen.reader is not None and _begins_as(path, found, seen):
        _seen[path] = replace(seen, state=state)
        return seen.reader, ""
    reader, reason = recognise(path, _first_lines(path, found.st_size))
    head = read_bytes(path, 0, min(_HEAD_BYTES, found.st_size))
    if len(_seen) > 2 * MOST_FILES:
        _seen.clear()
    name = None if reader is None else reader.name
    _seen[path] = _Seen(state, _digest(head), len(head), name, reason)
    return name, reason


def _first_lines(path: Place, size: int) -> Iterator[Line]:
    if is_packed(path):
        return head_lines(path, HEAD_BYTES)
    return read_lines(path, 0, size, _REMOTE_HEAD if isinstance(path, RemotePlace) else None)


def _begins_as(path: Place, found: _Stat, seen: _Seen) -> bool:
    if not found.st_size >= seen.head_bytes > 0:
        return False
    return _digest(read_bytes(path, 0, seen.head_bytes)) == seen.head


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=12).digest()
