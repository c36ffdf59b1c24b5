"""Which files and objects below a root may be logs, by their names alone; the others are counted.

The others are never opened and are no problems. They are counted by the ends of their names, with the
names of the first few, so that a folder of a hundred thousand checkpoints is one line.
"""

from __future__ import annotations

import os
import posixpath
import re
import stat
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath, PurePosixPath
from typing import Final

from board.core.problems import Problem, Severity
from board.errors import NotFoundError, UnreadableError
from board.formats import SOURCES, is_worth_a_look
from board.formats.base import layout_match
from board.formats.io.csv_files import SUFFIXES, column_names
from board.formats.io.lines import read_bytes
from board.formats.io.locations import Location, below, pure_path
from board.formats.io.remote import MissingObjectError, RemoteError, RemoteLocation
from board.formats.io.sqlite_files import is_sqlite
from board.formats.io.trackio_files import TRACKIO
from board.formats.key_names import field_of
from board.formats.messages import keys_of_message
from board.formats.metrics import is_metric_name
from board.formats.metrics.lines import has_step_column
from board.index.discovery.mappings import FILE_NAME, Mappings
from board.index.discovery.packed import HEAD_OF_KIND, PACKED_SUFFIXES, is_wrapped
from board.index.discovery.run_info import IgnoredFiles, RunInfo

_MAX_NAMES: Final = 3
"""Files of a kind that are named."""
_OBJECTS: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*\[\s*\{")
_PEEK_BYTES: Final = 64
_UNFINISHED: Final = "rollouts that are still being sampled"
_NOT_IGNORED: Final = re.compile(
    r"run-.*\.json|(metadata|vocab)\.json|(rollout-board|thresholds|causes)\.toml|.*_logtree\.json|STABLE",
    re.DOTALL,
)
"""Files that are read with a run or its logs (see sidecar_files), and prime-rl's marks of whole steps."""
# prime-rl (048a6e2, monitors/file/traces/live.py) has a file for each running rollout, which is deleted
# when the rollout has ended and is in the log: a document at first, then lines of what is new.
_LIVE: Final = re.compile(r"(?:^|[\\/])traces[\\/]live$")
_PENDING: Final = "pending"


class IgnoredFileCounter:
    """Counts ignored files by folder, relative to the root, and kind while a root is searched."""

    def __init__(self) -> None:
        self._counts = Counter[tuple[str, str]]()
        self._names = defaultdict[tuple[str, str], list[str]](list)

    def add(self, path: str) -> None:
        """Counts a file. path: relative to the root."""
        folder, name = posixpath.split(path)
        if _NOT_IGNORED.fullmatch(name):
            return
        kind = PurePosixPath(name).suffix.lower()
        if kind in (".json", ".jsonl") and _LIVE.search(folder.removesuffix(f"/{_PENDING}")):
            kind = _UNFINISHED
        key = (folder or ".", kind or "other files")
        self._counts[key] += 1
        if len(self._names[key]) < _MAX_NAMES:
            self._names[key].append(name)

    def assign_to_runs(
        self, runs: Iterable[RunInfo], root: Location
    ) -> tuple[list[RunInfo], tuple[IgnoredFiles, ...]]:
        """The runs with the ignored files below them, and all other ignored files."""
        homes = {below(run.path, root) for run in runs}
        by_home: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
        for folder, kind in sorted(self._counts):
            path = PurePosixPath(folder)
            home = next((f for f in map(str, (path, *path.parents)) if f in homes), "")
            by_home[home].append((folder, kind))
        summaries = {home: self._summary(keys, home or ".") for home, keys in by_home.items()}
        with_files = [replace(r, ignored=summaries.get(below(r.path, root), ())) for r in runs]
        return with_files, summaries.get("", ())

    def summary(self) -> tuple[IgnoredFiles, ...]:
        """All of them, with names relative to the root."""
        return self._summary(sorted(self._counts), ".")

    def _summary(self, keys: Iterable[tuple[str, str]], home: str) -> tuple[IgnoredFiles, ...]:
        """The files by kind, with names relative to `home`. keys: their folders and kinds."""
        counts = Counter[str]()
        names = defaultdict[str, list[str]](list)
        for folder, kind in keys:
            counts[kind] += self._counts[folder, kind]
            names[kind] += (
                posixpath.relpath(posixpath.join(folder, name), home)
                for name in self._names[folder, kind]
            )
        return tuple(
            IgnoredFiles(k, counts[k], tuple(names[k][:_MAX_NAMES])) for k in sorted(counts)
        )


NOT_READ: Final = (".jsonl.zip", ".jsonl.bz2", ".jsonl.xz")
PICKLES: Final = (".pkl", ".pickle")
_DUMPED: Final = re.compile(r"(global_step_[0-9]+_training_input|step_[0-9]+)\.pkl")
"""What SkyRL and ROLL call the pickles that they dump. Others lie beside logs, many, for other ends."""
_SUFFIXES: Final = (
    *(suffix for source in SOURCES for suffix in source.suffixes),
    *(*PACKED_SUFFIXES, *NOT_READ, *PICKLES),
)
MOST_FILES: Final = 100_000
"""Log files under one root; the cost of looking at each, a few times a minute, has to end somewhere."""


@dataclass(slots=True)
class Listing:
    """What lies below a root that may be a log.

    is_file: whether the root is such a file itself. objects: of a root in a store, all. problems: of
    folders that can't be listed, and links to folders, which are not followed. metric_files: files of
    this machine whose names say that they may hold scalars of a trainer.
    """

    root: Location
    mappings: Mappings
    is_file: bool = False
    objects: Sequence[RemoteLocation] = ()
    problems: list[Problem] = field(default_factory=list[Problem])
    ignored: IgnoredFileCounter = field(default_factory=IgnoredFileCounter)
    metric_files: list[Path] = field(default_factory=list[Path])

    def candidates(self) -> Iterator[Location]:
        """The files whose names, or mapping files, say that they may be logs; the others are counted."""
        if self.is_file:
            yield self.root
        elif isinstance(self.root, Path):
            yield from self._files(self.root)
        else:
            names = {below(location, self.root) for location in self.objects}
            for location in self.objects:
                path = below(location, self.root)
                if path.startswith(".") or "/." in path:
                    continue
                if path.lower().endswith(_SUFFIXES) and self._may_be_log(location):
                    yield location
                elif not _is_page_of_log(path, names):
                    self.ignored.add(path)

    def _files(self, root: Path) -> Iterator[Path]:
        """The same of a folder; hidden files and folders are passed over."""
        for folder, subfolders, names in os.walk(root, onerror=self._note_unlisted):
            subfolders[:] = self._readable_names(folder, subfolders)
            for path in (Path(folder, name) for name in subfolders):
                if path.is_symlink():
                    self._note(path, "links to folders are not followed", "note")
            relative = below(Path(folder), root)
            is_live = (
                _PENDING in subfolders and _LIVE.search(str(Path(folder).absolute())) is not None
            )
            for name in self._readable_names(folder, names):
                path = Path(folder, name)
                lower = name.lower()
                is_known = lower.endswith(_SUFFIXES) and not (is_live and lower.endswith(".jsonl"))
                if is_known and self._may_be_log(path):
                    yield path
                elif is_metric_name(name) and (path.suffix not in SUFFIXES or _has_steps(path)):
                    self.metric_files.append(path)
                elif not _is_page_of_log(name, names):
                    self.ignored.add(posixpath.join(relative, name))

    def _readable_names(self, folder: str, names: Iterable[str]) -> list[str]:
        """The names that are not hidden, in order. Names that are not UTF-8 are noted: neither a URL nor
        an index can hold them.
        """
        visible = sorted(name for name in names if not name.startswith("."))
        for name in (name for name in visible if not is_utf8(name)):
            hint = "rename it, in UTF-8"
            reason = f"the name is not UTF-8; what it holds is not read: {escaped(name)}"
            relative = below(Path(folder), self.root)
            self.problems.append(Problem(relative, None, None, reason, hint, "lost"))
        return [*filter(is_utf8, visible)]

    def _may_be_log(self, path: Location) -> bool:
        own = self.mappings.of(path)
        if path.name.lower().endswith(TRACKIO.suffixes):
            return isinstance(path, Path) and _is_database(path)
        if own is None and isinstance(path, Path) and path.suffix.lower() in SUFFIXES:
            return _has_rollout_columns(path)
        if _is_worth_a_look(pure_path(path)) or (
            own is not None and layout_match(own.layout, pure_path(path)) is not None
        ):
            return True
        return (
            isinstance(path, Path) and path.suffix.lower() == ".json" and _is_array_of_objects(path)
        )

    def _note_unlisted(self, error: OSError) -> None:
        self._note(Path(error.filename), f"the folder can't be read: {error.strerror}", "lost")

    def _note(self, path: Path, reason: str, severity: Severity) -> None:
        relative = below(path, self.root)
        self.problems.append(Problem(relative, None, None, reason, "", severity))


def list_root(root: Location) -> Listing:
    """What a folder, or a single file, holds. Raises NotFoundError, UnreadableError."""
    if isinstance(root, RemoteLocation):
        return _list_objects(root)
    if not is_utf8(str(root)):
        raise UnreadableError(
            f"{escaped(str(root))} is a name that is not UTF-8; rename it, in UTF-8"
        )
    try:
        is_folder = stat.S_ISDIR(root.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        hint = "give a folder of runs, a run, or a log file"
        raise NotFoundError(f"{str(root)!r} does not exist; {hint}") from None
    except OSError as error:
        raise UnreadableError(f"{root} can't be read: {error.strerror}") from error
    if not is_folder:
        return Listing(root, Mappings(root.parent), is_file=True)
    if not os.access(root, os.R_OK | os.X_OK):
        raise UnreadableError(f"{root} can't be read: permission denied")
    return Listing(root, Mappings(root))


def is_utf8(name: str) -> bool:
    """Whether a name of a file or folder is UTF-8; Python puts surrogates for other bytes."""
    return not any("\ud800" <= character <= "\udfff" for character in name)


def escaped(name: str) -> str:
    """Return a name with the bytes that are not UTF-8 as hexadecimal escapes."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _list_objects(root: RemoteLocation) -> Listing:
    try:
        objects, unreadable = root.files()
    except MissingObjectError as error:
        raise NotFoundError(f"{root} does not exist: {error.strerror}") from error
    except RemoteError as error:
        raise UnreadableError(f"{root} can't be read: {error.strerror}") from error
    if not objects and not unreadable:
        raise NotFoundError(f"{root} holds no object; check the names of bucket and folder")
    if objects == [root]:
        mappings = Mappings(root.parent, sibling_object(root, FILE_NAME))
        return Listing(objects[0], mappings, is_file=True)
    mappings = Mappings(root, (path for path in objects if path.name == FILE_NAME))
    listing = Listing(root, mappings, objects=objects)
    if unreadable:
        reason = "names with empty parts, `.` or `..` are no paths; these objects are not read"
        hint = "name them plainly"
        listing.problems.append(Problem(".", None, None, reason, hint, "lost", unreadable))
    return listing


def _is_array_of_objects(path: Path) -> bool:
    """Whether a JSON document is an array of objects, as a list of records is under any name; or packed
    or in another encoding, so that only a look into it can say that.
    """
    try:
        head = read_bytes(path, 0, _PEEK_BYTES)
        return _OBJECTS.match(head) is not None or is_wrapped(path, head)
    except OSError:
        return False


def _is_page_of_log(name: str, beside: Collection[str]) -> bool:
    """Whether a file is a page that is read with a log beside it: a tinker logtree."""
    base, end = posixpath.splitext(name)
    return end == ".html" and f"{base}_rollout_summaries.jsonl" in beside


def _has_rollout_columns(path: Path) -> bool:
    """Whether a table has a column that is named as a prompt or a response, or those of a message; most
    hold metrics.
    """
    try:
        head = read_bytes(path, 0, HEAD_OF_KIND)
    except OSError:
        return True  # which is said where it is opened
    is_plain = head[:1].isascii() and b"\0" not in head
    names = column_names(head) if is_plain else ("response",)
    fields = {field_of(name, "") for name in names}
    return bool(keys_of_message(dict.fromkeys(names, ""))) or not fields.isdisjoint(
        {"prompt", "response", "messages"}
    )


def _has_steps(path: Path) -> bool:
    """Whether a table is one of metrics by step."""
    try:
        return has_step_column(path)
    except OSError:
        return False


def _is_database(path: Path) -> bool:
    try:
        return is_sqlite(path)
    except OSError:
        return True  # which is said where it is opened


def _is_worth_a_look(path: PurePath) -> bool:
    is_pickle = path.name.lower().endswith(PICKLES)
    return _DUMPED.fullmatch(path.name) is not None if is_pickle else is_worth_a_look(path)


def sibling_object(path: Location, name: str) -> Sequence[RemoteLocation]:
    """The object of that name beside an object, if there is one; asked for by its name."""
    if not isinstance(path, RemoteLocation):
        return ()
    sibling = path.parent / name
    try:
        return (replace(sibling, listed=sibling.stat()),)
    except RemoteError:
        return ()
