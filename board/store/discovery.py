"""Which runs lie under a folder: files are recognised by what is in them, never by a folder's name.

A run is a folder that holds log files of one format. What a reader's layout matches belongs to the run
of the folder above it, and so do folders called step_N: some frameworks write one folder per step. A
folder with logs of two formats is two runs, each with its format's name beside the folder's; where both
speak of the same rollouts (readers with a `join`) they are a third one, joined, with the folder's name.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice, repeat
from pathlib import Path, PurePath, PurePosixPath
from typing import Final

from board.core.problems import Problem, Severity
from board.errors import NotFoundError, UnreadableError
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
from board.readers.lines import Line, read_bytes, read_lines
from board.readers.locations import Location, below, location_of, pure_path
from board.readers.mapping import MappingReader
from board.readers.parquet_files import PARQUET
from board.readers.remote import RemoteError, RemoteLocation, RemoteStat
from board.readers.sources import DamagedError
from board.store.log_file import AT_REST_SECONDS, LogFile
from board.store.mappings import FILE_NAME, Mappings
from board.store.packed import PACKED_SUFFIXES, head_lines, is_packed
from board.store.roots import location_below, resolve_inside

__all__ = [
    "Discovery",
    "Location",
    "RunInfo",
    "discover",
    "is_remote",
    "location_below",
    "location_of",
    "natural_order",
    "resolve_inside",
]

_NOT_READ: Final = (".jsonl.zip", ".jsonl.bz2", ".jsonl.xz")
_SUFFIXES: Final = tuple(suffix for source in SOURCES for suffix in source.suffixes)
_LOOKED_AT: Final = (*_SUFFIXES, *PACKED_SUFFIXES, *_NOT_READ)
MOST_FILES: Final = 100_000
"""Log files under one root; the cost of looking at each, a few times a minute, has to end somewhere."""
THRESHOLDS: Final = "thresholds.toml"
"""Name of the file in a run's folder that says what the rules go by."""
JOINED: Final = "joined"
"""Source of the run that all logs of a folder which can be joined make together."""
LEFT_OUT: Final = "left out: "
"""How the reason begins why a file is none of a run that was looked into."""
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
    empty when all files of the folder are. family: of its readers, where the folder holds runs of
    several; empty where it does not, and of the run that several families make together. thresholds: the
    object of that name in its folder, of a run in a store; None: it has none.
    """

    name: str
    path: Location
    files: tuple[LogFile, ...]
    left_out: tuple[Problem, ...]
    root: Location
    only: str = ""
    family: str = ""
    thresholds: RemoteLocation | None = None

    @property
    def is_joined(self) -> bool:
        """Whether it is made of several logs of the same rollouts."""
        return not self.part and len({family_of(name) for name in self.formats}) > 1

    @property
    def source(self) -> str:
        """What its logs are called among those of its folder."""
        return JOINED if self.is_joined else self.part or family_of(self.formats[0])

    @property
    def label(self) -> str:
        """The source in a word, on screen."""
        join = reader_named(self.formats[0]).join
        return self.source if self.is_joined or join is None else join.label

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

    root: Location
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


def is_remote(info: RunInfo) -> bool:
    """Whether a run lies in an object store."""
    return isinstance(info.path, RemoteLocation)


def discover(root: Location) -> Discovery:
    """All runs under `root`, which may be a folder of runs, one run, or one log file.

    Raises NotFoundError when `root` does not exist and UnreadableError when it can't be listed.
    """
    others: list[Problem] = []
    if isinstance(root, RemoteLocation):
        found = listed(root, others)
        if found == [root]:
            return _single_file(found[0])
        mappings = Mappings(root, (path for path in found if path.name == FILE_NAME))
        told = {path.parent: path for path in found if path.name == THRESHOLDS}
        logs = (path for path in found if may_be_log(path, mappings))
        return with_thresholds(_sorted_runs(root, logs, others, mappings), told)
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
    mappings = Mappings(root)
    return _sorted_runs(root, candidates(root, others, mappings), others, mappings)


def _sorted_runs(
    root: Location, candidates: Iterable[Location], others: list[Problem], mappings: Mappings
) -> Discovery:
    """The runs that some files make. others: what was passed by so far."""
    files, problems = _looked_at(root, candidates, others, mappings)
    runs = list(_runs(root, files, problems))
    others += [_shown_from(path, root, problem) for path, problem in problems.items()]
    runs.sort(key=lambda run: (-run.mtime, natural_order(run.name)))
    return Discovery(root, tuple(runs), folded(others))


def _looked_at(
    root: Location, candidates: Iterable[Location], others: list[Problem], mappings: Mappings
) -> tuple[dict[Location, LogFile], dict[Location, Problem]]:
    """The log files under a root, and what else looks like one, each with the reason."""
    files: dict[Location, LogFile] = {}
    problems: dict[Location, Problem] = {}
    paths = list(islice(candidates, MOST_FILES + 1))
    if len(paths) > MOST_FILES:
        reason = (
            f"the folder holds more than {MOST_FILES:,} log files; the further ones are not read"
        )
        others.append(Problem(".", None, None, reason, "open one of its folders"))
        paths.pop()
    for path, found in zip(paths, _looks(paths, root, mappings), strict=True):
        if isinstance(found, LogFile):
            files[path] = found
        else:
            problems[path] = found
    problems |= mappings.problems
    for file in files.values():
        if isinstance(file.path, Path):
            for beside in reader_named(file.reader).beside(file.path):
                problems.pop(beside, None)  # it is read, with the log
    return files, problems


def _looks(
    paths: Sequence[Location], root: Location, mappings: Mappings
) -> Iterator[LogFile | Problem]:
    """The log file that each path is, or why it is none; a store is asked for several at once."""
    if not isinstance(root, RemoteLocation):
        yield from (look_at(path, root, mappings.of(path)) for path in paths)
        return
    own = [mappings.of(path) for path in paths]
    with ThreadPoolExecutor(_ASKED_AT_ONCE) as pool:
        yield from pool.map(look_at, paths, repeat(root), own)


def _runs(
    root: Location, files: Mapping[Location, LogFile], problems: dict[Location, Problem]
) -> Iterator[RunInfo]:
    """The runs that the files make; takes from `problems` those of the runs' own folders."""
    found: dict[Location, dict[str, list[LogFile]]] = {}
    for path, file in files.items():
        folder = _run_folder(path, root, reader_named(file.reader))
        found.setdefault(folder, {}).setdefault(family_of(file.reader), []).append(file)
    left_out: dict[Location, list[Problem]] = {}
    for path in list(problems):
        home = next((f for f in _homes(path, root) if f in found), None)
        if home is not None:
            left_out.setdefault(home, []).append(_shown_from(path, home, problems.pop(path)))
    for folder, families in found.items():
        notes = folded(sorted(left_out.get(folder, ()), key=lambda p: natural_order(p.path)))
        name = _name(folder, root)
        sources = {f: _in_order(folder, of_family) for f, of_family in families.items()}
        if len(families) == 1:
            (ordered,) = sources.values()
            yield RunInfo(name, folder, ordered, notes, root)
            continue
        if together := _joinable(families.values()):
            yield RunInfo(name, folder, _in_order(folder, together), notes, root)
        for family, ordered in sources.items():
            yield RunInfo(f"{name} ({family})", folder, ordered, notes, root, family=family)


def _joinable(families: Iterable[Sequence[LogFile]]) -> list[LogFile]:
    """The files of a folder that are joined: of several families that speak of the same rollouts."""
    found: dict[str, list[Sequence[LogFile]]] = {}
    for files in families:
        join = reader_named(files[0].reader).join
        if join is not None:
            found.setdefault(join.of, []).append(files)
    several = [files for files in found.values() if len(files) > 1]
    return [file for files in several[0] for file in files] if several else []


def _in_order(folder: Location, files: Iterable[LogFile]) -> tuple[LogFile, ...]:
    return tuple(sorted(files, key=lambda file: _order_in(folder, file.path)))


def _order_in(folder: Location, path: Location) -> tuple[tuple[int, int, str], ...]:
    return natural_order(below(path, folder))


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


def listed(root: RemoteLocation, left_out: list[Problem]) -> list[RemoteLocation]:
    """All objects below `root`, or `root` itself, which may be an object.

    Objects whose names are no paths are added to left_out. Raises NotFoundError, UnreadableError.
    """
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
    return found


def may_be_log(location: RemoteLocation, mappings: Mappings) -> bool:
    """Whether the name of an object, or a mapping file, says that it may be a log."""
    path = below(location, mappings.root)
    if path.startswith(".") or "/." in path or not path.lower().endswith(_LOOKED_AT):
        return False
    own = mappings.of(location)
    by_mapping = own is not None and layout_match(own.layout, pure_path(location)) is not None
    return by_mapping or is_worth_a_look(pure_path(location))


def with_thresholds(found: Discovery, told: Mapping[RemoteLocation, RemoteLocation]) -> Discovery:
    """The runs, each with the thresholds of its folder. told: those there are, by folder."""
    runs = (
        replace(run, thresholds=told.get(run.path)) if isinstance(run.path, RemoteLocation) else run
        for run in found.runs
    )
    return replace(found, runs=tuple(runs))


def _single_file(path: Location) -> Discovery:
    # The user named this very file, so that a link may lead anywhere.
    root = path.resolve().parent if isinstance(path, Path) else path.parent
    mappings = Mappings(path.parent, object_beside(path, FILE_NAME))
    found = look_at(path, root, mappings.of(path))
    notes = tuple(mappings.problems.values())
    if isinstance(found, LogFile):
        told = next(iter(object_beside(path, THRESHOLDS)), None)
        run = RunInfo(path.name, path.parent, (found,), notes, root, path.name, thresholds=told)
        return Discovery(path, (run,), ())
    return Discovery(path, (), (found, *notes))


def object_beside(path: Location, name: str) -> Sequence[RemoteLocation]:
    """The object of that name beside an object, if there is one; asked for by its name."""
    if not isinstance(path, RemoteLocation):
        return ()
    beside = path.parent / name
    try:
        return (replace(beside, listed=beside.stat()),)
    except RemoteError:
        return ()


def _name(folder: Location, root: Location) -> str:
    if folder != root:
        return below(folder, root)
    return root.name or (root.resolve().name if isinstance(root, Path) else "") or str(root)


def _shown_from(path: Location, folder: Location, problem: Problem) -> Problem:
    """The problem of a file with its path told from a folder."""
    return replace(problem, path=below(path, folder))


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


def _run_folder(path: Location, root: Location, reader: Reader | None = None) -> Location:
    """The folder of the run that a file is of: above the reader's layout, and above folders of steps."""
    match = None if reader is None else layout_match(reader.layout, _inside(path, root))
    folder = path.parent if match is None else root / folder_above(match)
    while folder != root and _STEP_FOLDER.match(folder.name):
        folder = folder.parent
    return folder


def _homes(path: Location, root: Location) -> Iterator[Location]:
    """Folders whose run a file would be of, if it were a log."""
    yield _run_folder(path, root)
    for match in layouts_of(_inside(path, root)):
        yield root / folder_above(match)


def _inside(path: Location, root: Location) -> PurePath:
    """The path from the root on, the part of it that layouts are held against."""
    return PurePosixPath(below(path, root))


def look_at(path: Location, root: Location, mapping: MappingReader | None) -> LogFile | Problem:
    """The log file, or why it is none. Problems name it by its last name."""
    if isinstance(path, Path) and isinstance(root, Path) and _leads_outside(path, root):
        return _note(path, "it is a link that leads outside the root")
    if path.name.lower().endswith(_NOT_READ):
        return _note(path, "only .gz and .zst are unpacked", "unpack it")
    if isinstance(path, Path) and not path.is_file():
        return _note(path, "it is no regular file", "a log file")
    listed = path.listed if isinstance(path, RemoteLocation) else None
    try:
        return _log_file(path, listed or path.stat(), mapping)
    except OSError as error:
        hint = "check its permissions"
        return Problem(path.name, None, None, f"can't be read: {error.strerror}", hint)


def _leads_outside(path: Path, root: Path) -> bool:
    # Unlike Path.resolve, realpath survives a link that leads to itself.
    return path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(root.resolve())


def _note(path: Location, reason: str, hint: str = "") -> Problem:
    return Problem(path.name, None, None, reason, hint, "note")


def _log_file(path: Location, found: _Stat, mapping: MappingReader | None) -> LogFile | Problem:
    """As look_at. Raises OSError when the file can't be read."""
    try:
        reader, reason = _recognised(path, found, mapping)
    except DamagedError as error:
        return _damaged(path, found, error)
    if reader is None:
        other_json = reason.startswith("its records") or reason == "the file is empty"
        severity = "note" if other_json else "lost"
        return Problem(path.name, None, None, f"{LEFT_OUT}{reason}", "", severity)
    beside = _state_of(reader_named(reader).beside(path)) if isinstance(path, Path) else ""
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


def _damaged(path: Location, found: _Stat, error: DamagedError) -> Problem:
    """A file that is not whole. One that was changed a moment ago is likely still being written."""
    fresh = time.time() - found.st_mtime < AT_REST_SECONDS
    hint = "it is looked at again when it changes"
    severity = "note" if fresh else "lost"
    return Problem(path.name, None, None, f"{LEFT_OUT}{error.strerror}", hint, severity)


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


_seen: dict[Location, _Seen] = {}


def _recognised(
    path: Location, found: _Stat, mapping: MappingReader | None
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
    reader, reason = recognise(path, first_lines(path, found.st_size), mapping)
    head = read_bytes(path, 0, min(_HEAD_BYTES, found.st_size))
    if len(_seen) > 2 * MOST_FILES:
        _seen.clear()
    name = None if reader is None else reader.name
    _seen[path] = _Seen(state, asked, _digest(head), len(head), name, reason)
    return name, reason


def first_lines(path: Location, size: int) -> Iterator[Line] | None:
    """The first lines where they are not had as the kind of file has them."""
    if is_packed(path):
        return head_lines(path, HEAD_BYTES)
    if isinstance(path, RemoteLocation) and source_of(path).appends:
        return read_lines(path, 0, size, _REMOTE_HEAD)
    return None


def _begins_as(path: Location, found: _Stat, seen: _Seen) -> bool:
    if not found.st_size >= seen.head_bytes > 0:
        return False
    return _digest(read_bytes(path, 0, seen.head_bytes)) == seen.head


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=12).digest()
