"""Log files, runs, and what discovery returns: plain data."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from board.core.problems import Problem
from board.errors import NotFoundError
from board.formats import family_of, reader_named
from board.formats.io.locations import Location, below
from board.formats.io.remote import RemoteLocation
from board.formats.sources import RunInFile

AT_REST_SECONDS: Final = 60.0
"""A file unchanged for so long is taken to be finished: its torn last line will not be completed."""


def digest(content: bytes) -> str:
    """Hash of a few bytes, as text."""
    return hashlib.blake2b(content, digest_size=12).hexdigest()


Subject = tuple[tuple[str, str], ...]
"""Of what a log is: keys such as `model`, and their values."""


@dataclass(frozen=True, slots=True)
class LogFile:
    """A log file when it was last listed. size in bytes, mtime_ns as os.stat gives it.

    sidecar_state: hash of names, sizes and times of the files that it is read with; empty: none.
    inode: of an object in a store, a number made of its version; 0 where it has none. shared_id: the key
    of an id that lines share, which may be turns of one rollout; empty: none is known. subject: see
    subjects.subject_of. is_wrapped: whether it is read from a copy in plain lines; see `packed`.
    runs: those that it holds, of which alone it is read; empty: it holds one.
    """

    path: Location
    reader: str
    size: int
    mtime_ns: int
    inode: int
    sidecar_state: str = ""
    shared_id: str = ""
    subject: Subject | None = ()
    is_wrapped: bool = False
    runs: tuple[RunInFile, ...] = ()

    @property
    def run(self) -> str:
        """The key of the one run of the file that it is read of; empty: it holds no others."""
        return self.runs[0].key if self.runs else ""


JOINED: Final = "joined"
"""Source of the run that all logs of a folder which can be joined make together."""


@dataclass(frozen=True, slots=True)
class IgnoredFiles:
    """Files of one kind whose names are not those of logs. count: of them; names: of the first few,
    relative to the run's folder.
    """

    kind: str
    count: int
    names: tuple[str, ...]

    @property
    def words(self) -> str:
        """As `.yaml: config.yaml, args.yaml and 7 more`."""
        more = self.count - len(self.names)
        return f"{self.kind}: {', '.join(self.names)}" + (f" and {more:,} more" if more else "")


@dataclass(frozen=True, slots=True)
class RunInfo:
    """A run that was found. name: its path below the root, the way users tell runs apart.

    files are in natural order (rank_2 before rank_10). left_out: what else lay in its folder.
    root: the folder that links must not lead out of. only: name of the file that alone is the run;
    empty when all files of the folder are. family: of its readers, or of what its files are, where the
    folder holds runs of several, or the name of a run among those of a file; empty where it does not,
    and of the run that several families make together. thresholds: the
    object of that name in its folder, of a run in a store; None: it has none. ignored: files that are
    no logs by their names; runs that differ in them alone are equal. metric_files: beside its logs, that
    may hold scalars of its trainer.
    """

    name: str
    path: Location
    files: tuple[LogFile, ...]
    left_out: tuple[Problem, ...]
    root: Location
    only: str = ""
    family: str = ""
    thresholds: RemoteLocation | None = None
    ignored: tuple[IgnoredFiles, ...] = field(default=(), compare=False)
    metric_files: tuple[Path, ...] = ()

    def path_of(self, file: LogFile) -> str:
        """The path of a file as problems and the index name it."""
        return below(file.path, self.path)

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
        """What of its folder is the run: a file, a run in it, the files of one family, or (empty) all."""
        return "/".join(filter(None, (self.only, self.family)))

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
    """All runs under a root, newest first, and the files that are none, each with the reason.

    ignored: files that are no logs by their names, and belong to no run.
    """

    root: Location
    runs: tuple[RunInfo, ...]
    left_out: tuple[Problem, ...]
    ignored: tuple[IgnoredFiles, ...] = ()

    def run(self, name: str) -> RunInfo:
        """The run of that name; raises NotFoundError naming what there is."""
        for run in self.runs:
            if run.name == name:
                return run
        known = ", ".join(run.name for run in self.runs[:5]) or "none"
        raise NotFoundError(f"no run {name!r} under {self.root}; runs found: {known}")


def is_remote(info: RunInfo) -> bool:
    """Whether a run lies in an object store."""
    return isinstance(info.path, RemoteLocation)
