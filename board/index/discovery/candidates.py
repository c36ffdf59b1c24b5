"""Which files and objects below a root may be logs, by their names alone; the others are counted.

Files that are no logs by their names (configurations, metrics, weights and the like) are never opened
and are no problems. They are counted by kind, with the names of the first few, so that a folder of a
hundred thousand checkpoints is one line.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path, PurePath
from typing import Final

from board.core.problems import Problem, Severity
from board.errors import NotFoundError, UnreadableError
from board.formats import SOURCES, is_worth_a_look
from board.formats.base import layout_match
from board.formats.io.locations import Location, below, pure_path
from board.formats.io.remote import MissingObjectError, RemoteError, RemoteLocation
from board.index.discovery.mappings import Mappings
from board.index.discovery.packed import PACKED_SUFFIXES
from board.index.discovery.run_info import IgnoredFiles, RunInfo

_MAX_NAMES: Final = 3
"""Files of a kind that are named."""
_CONFIGURATION: Final = "configuration"
_UNFINISHED: Final = "rollouts that are still being sampled"
_HYDRA: Final = ".hydra"
_NOT_IGNORED: Final = re.compile(r"run-.*\.json|rollout-board\.toml|thresholds\.toml", re.DOTALL)
"""Files of a run that are read: see sidecar_files."""


def _named(words: str, suffixes: str) -> str:
    """A pattern for names with one of these words: `train_config.json`, not `reconfigured.json`."""
    return rf"(?:.*[-_.])?(?:{words})(?=[-_.\d]).*\.(?:{suffixes})"


_TENSORS: Final = "safetensors|pt|pth|ckpt|distcp|gguf"
_KINDS: Final = tuple(
    (kind, re.compile("|".join(patterns), re.DOTALL))
    for kind, *patterns in (
        ("TensorBoard events", r".*tfevents.*"),
        ("files of Weights & Biases", r".*\.wandb", _named("wandb-metadata", "json")),
        (
            "tokenizer",
            _named("tokenizer|tokenizer_config|special_tokens_map|added_tokens", "json"),
        ),
        (
            "state of the trainer",
            _named("(?:train(?:er|ing)|optimizer|scheduler|dataloader)_?state", "json"),
            _named("training_args|optimizer|optim|scheduler|rng_state|scaler", f"bin|{_TENSORS}"),
        ),
        (
            "weights or other tensors",
            r"(?:.*[-_.])?index\.json",
            _named("(?:pytorch_|adapter_)?model", "bin"),
            rf".*\.(?:{_TENSORS})",
        ),
        (
            "metrics or a summary",
            _named("metrics?|summar(?:y|ies)|results?|scores|stats|eval_plan", "json"),
            _named("metrics?|summary|results?|scores|stats|progress|log", "csv|tsv"),
        ),
        (
            _CONFIGURATION,
            _named("conf(?:ig(?:s|uration)?)?|cfg|arg(?:s|uments)|settings", "json"),
            _named("h(?:yper)?param(?:s|eters)|param(?:s|eters)", "json"),
            r".*\.(?:yaml|yml|toml|ini|cfg|gin)",
        ),
        ("printed output", r".*\.(?:log|out|err)"),
    )
)
"""Kinds of files and patterns of their names; the first kind that matches counts."""

# prime-rl (048a6e2, monitors/file/traces/live.py) has a file for each running rollout, which is deleted
# when the rollout has ended and is in the log: a document at first, then lines of what is new.
_LIVE: Final = re.compile(r"(?:^|[\\/])traces[\\/]live$")
_RUNNING: Final = re.compile(rf"{_LIVE.pattern}|(?:^|[\\/])pending$")
_PENDING: Final = "pending"


def kind_of(name: str, folder: str = "") -> str:
    """The kind of a file by its name and folder; empty where they say nothing."""
    if kind := _kind_by_name(name.lower()):
        return kind
    pattern = {"json": _RUNNING, "jsonl": _LIVE}.get(name.lower().rpartition(".")[2])
    return _UNFINISHED if pattern is not None and pattern.search(folder) else ""


def is_of_running(folder: str, subfolders: Iterable[str]) -> bool:
    """Whether a folder is prime-rl's of rollouts that still run: its lines are no log yet."""
    return _PENDING in subfolders and _LIVE.search(folder) is not None


@lru_cache(maxsize=1 << 12)
def _kind_by_name(name: str) -> str:
    if _NOT_IGNORED.fullmatch(name):
        return ""
    return next((kind for kind, pattern in _KINDS if pattern.fullmatch(name)), "")


class IgnoredFileCounter:
    """Counts ignored files by folder and kind while a root is searched."""

    def __init__(self, root: Location) -> None:
        self._root = root
        self._counts: defaultdict[str, Counter[str]] = defaultdict(Counter)  # by folder
        self._names = defaultdict[tuple[str, str], list[str]](list)

    def add(self, folder: str, name: str) -> None:
        """Counts a file where its name says that it is no log. folder: of an object that of its key."""
        if kind := kind_of(name, folder):
            self._count(folder, name, kind)

    def add_object(self, location: RemoteLocation) -> None:
        """Counts an object in the same way."""
        folder, _, name = below(location, self._root).rpartition("/")
        self.add(folder, name)

    def add_hidden(self, folder: str, subfolders: Iterable[str]) -> None:
        """Counts hydra's folder of configurations; other hidden folders are not searched."""
        if _HYDRA in subfolders:
            self._count(folder, _HYDRA, _CONFIGURATION)

    def _count(self, folder: str, name: str, kind: str) -> None:
        self._counts[folder][kind] += 1
        if len(self._names[folder, kind]) < _MAX_NAMES:
            self._names[folder, kind].append(name)

    def all(self) -> tuple[IgnoredFiles, ...]:
        """All of them, with names relative to the root."""
        return self._summary(self._counts, ".")

    def assign_to_runs(
        self, runs: Sequence[RunInfo]
    ) -> tuple[list[RunInfo], tuple[IgnoredFiles, ...]]:
        """The runs with the ignored files of their folders, and the other ignored files.

        Files above a run are the run's where there is no other run below.
        """
        homes = {below(run.path, self._root) for run in runs}
        only: dict[str, str | None] = {}  # by folder above runs; None: there are several
        for home in homes:
            for above in _upwards(home):
                only[above] = None if above in only else home
        folders: defaultdict[str | None, list[str]] = defaultdict(list)
        for folder in self._counts:
            path = self._relative(folder)
            home = next((f for f in _upwards(path) if f in homes), only.get(path))
            folders[home].append(folder)
        summaries = {home: self._summary(own, home or ".") for home, own in folders.items()}
        with_files = [
            replace(r, ignored=summaries.get(below(r.path, self._root), ())) for r in runs
        ]
        return with_files, summaries.get(None, ())

    def _summary(self, folders: Iterable[str], home: str) -> tuple[IgnoredFiles, ...]:
        """The files of folders by kind, with names relative to `home`."""
        counts = Counter[str]()
        names = defaultdict[str, list[str]](list)
        for folder in sorted(folders):
            counts.update(self._counts[folder])
            for kind in self._counts[folder]:
                paths = (
                    posixpath.join(self._relative(folder), n) for n in self._names[folder, kind]
                )
                names[kind] += (posixpath.relpath(path, home) for path in paths)
        return tuple(
            IgnoredFiles(kind, counts[kind], tuple(names[kind][:_MAX_NAMES]))
            for kind in sorted(counts)
        )

    def _relative(self, folder: str) -> str:
        """The folder below the root; `.` is the root itself."""
        if isinstance(self._root, RemoteLocation):
            return folder or "."
        return os.path.relpath(folder, str(self._root))


def _upwards(folder: str) -> Iterable[str]:
    """A folder and those above it, up to the root."""
    while folder != ".":
        yield folder
        folder = posixpath.dirname(folder) or "."
    yield folder


NOT_READ: Final = (".jsonl.zip", ".jsonl.bz2", ".jsonl.xz")
PICKLES: Final = (".pkl", ".pickle")
_DUMPED: Final = re.compile(r"(global_step_[0-9]+_training_input|step_[0-9]+)\.pkl")
"""What SkyRL and ROLL call the pickles that they dump. Others lie beside logs, many, for other ends."""
_SUFFIXES: Final = tuple(suffix for source in SOURCES for suffix in source.suffixes)
_LOOKED_AT: Final = (*_SUFFIXES, *PACKED_SUFFIXES, *NOT_READ, *PICKLES)
MOST_FILES: Final = 100_000
"""Log files under one root; the cost of looking at each, a few times a minute, has to end somewhere."""


def candidates(
    root: Path, left_out: list[Problem], mappings: Mappings, ignored: IgnoredFileCounter
) -> Iterator[Path]:
    """Files whose names, or mapping files, say that they may be logs; hidden folders are passed by.

    Folders that can't be listed, and links to folders, which are not followed, are added to left_out;
    the other files to ignored.
    """

    def note(path: str, reason: str, severity: Severity) -> None:
        relative = Path(path).relative_to(root).as_posix()
        left_out.append(Problem(relative, None, None, reason, "", severity))

    def unlisted(error: OSError) -> None:
        note(str(error.filename), f"the folder can't be read: {error.strerror}", "lost")

    for folder, subfolders, names in os.walk(root, onerror=unlisted):
        ignored.add_hidden(folder, subfolders)
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        for name in subfolders:
            if Path(folder, name).is_symlink():
                note(str(Path(folder, name)), "links to folders are not followed", "note")
        of_running = is_of_running(folder, subfolders)
        for name in names:
            if name.startswith("."):
                continue
            lower = name.lower()
            if not lower.endswith(_LOOKED_AT) or (of_running and lower.endswith(".jsonl")):
                ignored.add(folder, name)
                continue
            path = Path(folder, name)
            own = mappings.of(path)
            if _is_worth_a_look(path) or (own is not None and layout_match(own.layout, path)):
                yield path
            else:
                ignored.add(folder, name)


def listed(root: RemoteLocation, left_out: list[Problem]) -> list[RemoteLocation]:
    """All objects below `root`, or `root` itself, which may be an object.

    Objects whose names are no paths are added to left_out. Raises NotFoundError, UnreadableError.
    """
    try:
        objects, unreadable = root.files()
    except MissingObjectError as error:
        raise NotFoundError(f"{root} does not exist: {error.strerror}") from error
    except RemoteError as error:
        raise UnreadableError(f"{root} can't be read: {error.strerror}") from error
    if not objects and not unreadable:
        raise NotFoundError(f"{root} holds no object; check the names of bucket and folder")
    if unreadable:
        reason = "names with empty parts, `.` or `..` are no paths; these objects are not read"
        left_out.append(Problem(".", None, None, reason, "name them plainly", "lost", unreadable))
    return objects


def objects_of_logs(
    objects: Sequence[RemoteLocation], mappings: Mappings, ignored: IgnoredFileCounter
) -> Iterator[RemoteLocation]:
    """Of the objects of a root those that may be logs, by their names; the others go to ignored."""
    for location in objects:
        if _may_be_log(location, mappings):
            yield location
        else:
            ignored.add_object(location)


def _may_be_log(location: RemoteLocation, mappings: Mappings) -> bool:
    """Whether the name of an object, or a mapping file, says that it may be a log."""
    path = below(location, mappings.root)
    if path.startswith(".") or "/." in path or not path.lower().endswith(_LOOKED_AT):
        return False
    own = mappings.of(location)
    by_mapping = own is not None and layout_match(own.layout, pure_path(location)) is not None
    return by_mapping or _is_worth_a_look(pure_path(location))


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
