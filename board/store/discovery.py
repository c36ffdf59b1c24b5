"""Which runs lie under a folder: files are recognised by what is in them, never by a folder's name.

A run is a folder that holds log files of one format. What a reader's layout matches belongs to the run
of the folder above it, and so do folders called step_N: some frameworks write one folder per step. A
folder with logs of two formats is two runs, each with its format's name beside the folder's.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from board.core.problems import Problem, Severity
from board.errors import NotFoundError, OutsideRootError, UnreadableError
from board.readers import (
    HEAD_BYTES,
    SOURCES,
    family_of,
    is_worth_a_look,
    layouts_of,
    reader_named,
    recognise,
    source_of,
)
from board.readers.base import Reader, folder_above, layout_match
from board.readers.lines import read_bytes
from board.readers.mapping import MappingReader
from board.readers.parquet_files import PARQUET
from board.readers.sources import DamagedError
from board.store.log_file import AT_REST_SECONDS, LogFile
from board.store.mappings import Mappings
from board.store.packed import PACKED_SUFFIXES, head_lines, is_packed

_NOT_READ: Final = (".jsonl.zip", ".jsonl.bz2", ".jsonl.xz")
_SUFFIXES: Final = tuple(suffix for source in SOURCES for suffix in source.suffixes)
_LOOKED_AT: Final = (*_SUFFIXES, *PACKED_SUFFIXES, *_NOT_READ)
MOST_FILES: Final = 100_000
"""Log files under one root; the cost of looking at each, a few times a minute, has to end somewhere."""
LEFT_OUT: Final = "left out: "
"""How the reason begins why a file is none of a run that was looked into."""
_HEAD_BYTES: Final = 4096
_STEP_FOLDER: Final = re.compile(r"^(global_)?step[_-]?\d+$")
_DIGITS: Final = re.compile(r"(\d+)")


@dataclass(frozen=True, slots=True)
class RunInfo:
    """A run that was found. name: its path below the root, the way users tell runs apart.

    files are in natural order (rank_2 before rank_10). left_out: what else lay in its folder.
    root: the folder that links must not lead out of. only: name of the file that alone is the run;
    empty when all files of the folder are. family: of its readers, where the folder holds runs of
    several; empty where it does not.
    """

    name: str
    path: Path
    files: tuple[LogFile, ...]
    left_out: tuple[Problem, ...]
    root: Path
    only: str = ""
    family: str = ""

    @property
    def part(self) -> str:
        """What of its folder is the run: one file, the files of one family, or (empty) all of it."""
        return self.only or self.family

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
    files, problems = _looked_at(root, others)
    runs = list(_runs(root, files, problems))
    others += [_shown_from(path, root, problem) for path, problem in problems.items()]
    runs.sort(key=lambda run: (-run.mtime, natural_order(run.name)))
    return Discovery(root, tuple(runs), folded(others))


def _looked_at(
    root: Path, others: list[Problem]
) -> tuple[dict[Path, LogFile], dict[Path, Problem]]:
    """The log files under a root, and what else looks like one, each with the reason."""
    files: dict[Path, LogFile] = {}
    problems: dict[Path, Problem] = {}
    mappings = Mappings(root)
    for number, path in enumerate(candidates(root, others, mappings)):
        if number == MOST_FILES:
            reason = f"the folder holds more than {MOST_FILES:,} log files; the further ones are not read"
            others.append(Problem(".", None, None, reason, "open one of its folders"))
            break
        found = look_at(path, path.name, root, mappings.of(path))
        if isinstance(found, LogFile):
            files[path] = found
        else:
            problems[path] = found
    problems |= mappings.problems
    for file in files.values():
        for beside in reader_named(file.reader).beside(file.path):
            problems.pop(beside, None)  # it is read, with the log
    return files, problems


def _runs(
    root: Path, files: Mapping[Path, LogFile], problems: dict[Path, Problem]
) -> Iterator[RunInfo]:
    """The runs that the files make; takes from `problems` those of the runs' own folders."""
    found: dict[Path, dict[str, list[LogFile]]] = {}
    for path, file in files.items():
        folder = _run_folder(path, root, reader_named(file.reader))
        found.setdefault(folder, {}).setdefault(family_of(file.reader), []).append(file)
    left_out: dict[Path, list[Problem]] = {}
    for path in list(problems):
        home = next((f for f in _homes(path, root) if f in found), None)
        if home is not None:
            left_out.setdefault(home, []).append(_shown_from(path, home, problems.pop(path)))
    for folder, families in found.items():
        notes = folded(sorted(left_out.get(folder, ()), key=lambda p: natural_order(p.path)))
        for family, of_family in families.items():
            ordered = sorted(of_family, key=lambda f: _order_in(folder, f.path))
            name = _name(folder, root)
            if len(families) == 1:
                yield RunInfo(name, folder, tuple(ordered), notes, root)
            else:
                named = f"{name} ({family})"
                yield RunInfo(named, folder, tuple(ordered), notes, root, family=family)


def _order_in(folder: Path, path: Path) -> tuple[tuple[int, int, str], ...]:
    return natural_order(path.relative_to(folder).as_posix())


def folded(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """The problems, those of tables of one folder that are no logs as one: data sets have thousands."""
    kept: list[Problem] = []
    places: dict[tuple[str, str], int] = {}
    for problem in problems:
        folder, slash, name = problem.path.rpartition("/")
        if problem.severity != "note" or not name.lower().endswith(PARQUET.suffixes):
            kept.append(problem)
            continue
        key = (folder, problem.reason)
        if key in places:
            known = kept[places[key]]
            together = f"{folder}{slash}*.parquet"
            kept[places[key]] = replace(known, path=together, count=known.count + 1)
        else:
            places[key] = len(kept)
            kept.append(problem)
    return tuple(kept)


def _single_file(path: Path) -> Discovery:
    # The user named this very file, so that a link may lead anywhere.
    root = path.resolve().parent
    mappings = Mappings(path.parent)
    found = look_at(path, path.name, root, mappings.of(path))
    notes = tuple(mappings.problems.values())
    if isinstance(found, LogFile):
        run = RunInfo(path.name, path.parent, (found,), notes, root, path.name)
        return Discovery(path, (run,), ())
    return Discovery(path, (), (found, *notes))


def _name(folder: Path, root: Path) -> str:
    if folder == root:
        return root.name or root.resolve().name or str(root)
    return folder.relative_to(root).as_posix()


def _shown_from(path: Path, folder: Path, problem: Problem) -> Problem:
    """The problem of a file with its path told from a folder."""
    return replace(problem, path=path.relative_to(folder).as_posix())


def candidates(root: Path, left_out: list[Problem], mappings: Mappings) -> Iterator[Path]:
    """Files whose names, or mapping files, say that they may be logs; hidden folders are passed by.

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
            if name.startswith(".") or not name.lower().endswith(_LOOKED_AT):
                continue
            path = Path(folder, name)
            own = mappings.of(path)
            if is_worth_a_look(path) or (own is not None and layout_match(own.layout, path)):
                yield path


def _run_folder(path: Path, root: Path, reader: Reader | None = None) -> Path:
    """The folder of the run that a file is of: above the reader's layout, and above folders of steps."""
    match = None if reader is None else layout_match(reader.layout, path.relative_to(root))
    folder = path.parent if match is None else root / folder_above(match)
    while folder != root and _STEP_FOLDER.match(folder.name):
        folder = folder.parent
    return folder


def _homes(path: Path, root: Path) -> Iterator[Path]:
    """Folders whose run a file would be of, if it were a log."""
    yield _run_folder(path, root)
    for match in layouts_of(path.relative_to(root)):
        yield root / folder_above(match)


def look_at(path: Path, shown: str, root: Path, mapping: MappingReader | None) -> LogFile | Problem:
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
        reader, reason = _recognised(path, found, mapping)
    except DamagedError as error:
        return _damaged(shown, path, error)
    except OSError as error:
        hint = "check its permissions"
        return Problem(shown, None, None, f"can't be read: {error.strerror}", hint)
    if reader is None:
        other_json = reason.startswith("its records") or reason == "the file is empty"
        severity = "note" if other_json else "lost"
        return Problem(shown, None, None, f"{LEFT_OUT}{reason}", "", severity)
    beside = _state_of(reader_named(reader).beside(path))
    return LogFile(path, reader, found.st_size, found.st_mtime_ns, found.st_ino, beside)


def _state_of(beside: Sequence[Path]) -> str:
    """A hash that differs when one of the files does, by size and time, or when they are others."""
    if not beside:
        return ""
    states: list[str] = []
    for path in beside:
        try:
            found = path.stat()
        except OSError:  # it went away just now; the hash says so
            continue
        states.append(f"{path} {found.st_size} {found.st_mtime_ns}")
    return _digest("\n".join(states).encode()).hex()


def _damaged(shown: str, path: Path, error: DamagedError) -> Problem:
    """A file that is not whole. One that was changed a moment ago is likely still being written."""
    fresh = time.time() - path.stat().st_mtime < AT_REST_SECONDS
    hint = "it is looked at again when it changes"
    return Problem(
        shown, None, None, f"{LEFT_OUT}{error.strerror}", hint, "note" if fresh else "lost"
    )


@dataclass(frozen=True, slots=True)
class _Seen:
    """What was found in a file when it was last looked into. head: hash of its first bytes.

    mapping: name of the mapping that was asked then.
    """

    state: tuple[int, int, int]
    mapping: str
    head: bytes
    head_bytes: int
    reader: str | None
    reason: str


_seen: dict[Path, _Seen] = {}


def _recognised(
    path: Path, found: os.stat_result, mapping: MappingReader | None
) -> tuple[str | None, str]:
    """The name of a file's reader, and why there is none. Looks into it only when it changed."""
    state = (found.st_ino, found.st_size, found.st_mtime_ns)
    asked = "" if mapping is None else mapping.name
    seen = _seen.get(path)
    if seen is not None and seen.mapping != asked:
        seen = None
    if seen is not None and seen.state == state:
        return seen.reader, seen.reason
    grows = source_of(path).appends
    if grows and seen is not None and seen.reader is not None and _begins_as(path, found, seen):
        _seen[path] = replace(seen, state=state)
        return seen.reader, ""
    unpacked = head_lines(path, HEAD_BYTES) if is_packed(path) else None
    reader, reason = recognise(path, unpacked, mapping)
    head = read_bytes(path, 0, min(_HEAD_BYTES, found.st_size))
    if len(_seen) > 2 * MOST_FILES:
        _seen.clear()
    name = None if reader is None else reader.name
    _seen[path] = _Seen(state, asked, _digest(head), len(head), name, reason)
    return name, reason


def _begins_as(path: Path, found: os.stat_result, seen: _Seen) -> bool:
    if not found.st_size >= seen.head_bytes > 0:
        return False
    return _digest(read_bytes(path, 0, seen.head_bytes)) == seen.head


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=12).digest()
