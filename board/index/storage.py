"""Where an index is kept: in a folder beside the log, or in the user's cache; see memory_storage, too.

A folder holds `manifest.json`, the Parquet files it names, and `lock`. Every file is written under a
temporary name and renamed, the manifest last, so that a writer that is killed at any moment leaves the
index that was there before. Readers take no lock. The lock is the operating system's (flock): it goes
with the process that held it. Anybody may delete the folder, or a file in it, at any moment: whoever
builds then hears of it by a DeletedIndexError.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import time
import uuid
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from xxhash import xxh3_128

from board.core.options import ReadOptions
from board.formats.io.locations import Location, cache_folder, open_binary, pinned_name
from board.formats.io.remote import RemoteLocation
from board.index import segments
from board.index.manifest import BrokenIndexError, DeletedIndexError, Manifest

StepRange = tuple[int, int]
"""Smallest and largest step, both included."""

_GROUP_ROWS: Final = 16_384
_GROUP_BYTES: Final = 8 << 20
"""Of a row group, uncompressed: a reader unpacks all of a column's texts in it to read one."""
INDEX_FOLDER: Final = ".rollout-board"
"""Name of the folder in the run's own, which holds its indexes."""
_NAME: Final = re.compile(r"[a-z]+-([0-9a-f]{32})-([0-9]{1,15})\.parquet")
"""Kind, hash of the content, and the size in bytes."""
_PART_ROW_GROUP: Final = 8192
"""Of all but rows: these have few columns, and are read whole more often than a step at a time."""
KEEP_SECONDS: Final = 600.0
"""Files that the manifest no longer names stay so long: a reader may still be at them."""
_UNFINISHED: Final = re.compile(r"\.[^/]+\.tmp")


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


class Storage(Protocol):
    """Keeps a manifest and tables. Reads raise BrokenIndexError where something is not as written.

    folder: where that is; None: in memory.
    """

    @property
    def folder(self) -> Path | None: ...  # noqa: D102

    def load(self) -> Manifest | None:
        """The manifest as it stands; None where there is none."""
        ...

    def commit(self, manifest: Manifest) -> None:
        """Puts a manifest in place of the one before."""
        ...

    def put(self, kind: str, table: pa.Table) -> str:
        """Keeps a table and gives its name, which a manifest may then hold. kind: rows or steps."""
        ...

    def get(
        self,
        name: str,
        columns: Sequence[str] | None = None,
        steps: StepRange | None = None,
    ) -> pa.Table:
        """The columns that a table has of those named, with at least the rows of these steps."""
        ...

    def check(self, manifest: Manifest) -> None:
        """Raises BrokenIndexError where a table that the manifest names is not there whole."""
        ...

    def discard(self, manifest: Manifest) -> None:
        """Forgets a manifest that turned out to be damaged, unless there is a newer one."""
        ...

    def retire(self, names: Sequence[str]) -> None:
        """Notes that the manifest no longer names these tables."""
        ...

    def tidy(self, manifest: Manifest) -> None:
        """Removes what no manifest has named for a while."""
        ...

    @contextmanager
    def writer(self) -> Generator[bool]:
        """Whether the caller is the only writer, as long as it holds this."""
        ...


def committed(storage: Storage) -> Manifest | None:
    """The manifest as it stands; None where there is none that can be used."""
    try:
        return storage.load()
    except BrokenIndexError:
        return None


class FolderStorage:
    """An index in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock_identity: tuple[int, int] | None = None
        """Device and number of the lock, while this holds it."""

    def load(self) -> Manifest | None:
        """As Storage."""
        try:
            with open_binary(self.folder / "manifest.json") as file:
                content = file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise BrokenIndexError(str(error)) from error
        return Manifest.from_bytes(content)

    def commit(self, manifest: Manifest) -> None:
        """As Storage."""
        content = manifest.to_bytes()
        with self._written() as (temporary, take):
            temporary.write_bytes(content)
            if self._lock_identity is not None and self._lock_identity != self._lock_there():
                raise DeletedIndexError(
                    "its lock was deleted: another process may have begun to build it"
                )
            take("manifest.json")

    def _lock_there(self) -> tuple[int, int]:
        lock = (self.folder / "lock").lstat()
        return lock.st_dev, lock.st_ino

    def put(self, kind: str, table: pa.Table) -> str:
        """As Storage."""
        with self._written() as (temporary, take):
            pq.write_table(
                table,
                temporary,
                row_group_size=row_group_size(table) if kind == "rows" else _PART_ROW_GROUP,
                use_dictionary=repeating(table),  # pyright: ignore[reportArgumentType]  # its default says bool
                compression=compressions(table),  # pyright: ignore[reportArgumentType]
                write_statistics=["step"],  # pyright: ignore[reportArgumentType]  # its default says bool
            )
            state = temporary.stat()
            content = _content_hash(temporary, state.st_size, state.st_mtime_ns)
            return take(f"{kind}-{content}-{state.st_size}.parquet")

    @contextmanager
    def _written(self) -> Generator[tuple[Path, Callable[[str], str]]]:
        """A temporary path, and what gives its file a name once it is whole and on the disk."""
        temporary = self.folder / f".{uuid.uuid4().hex}.tmp"

        def take(name: str) -> str:
            descriptor = os.open(temporary, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            temporary.replace(self.folder / name)
            return name

        with _as_deleted_index():
            try:
                yield temporary, take
            finally:
                temporary.unlink(missing_ok=True)

    def get(
        self,
        name: str,
        columns: Sequence[str] | None = None,
        steps: StepRange | None = None,
    ) -> pa.Table:
        """As Storage."""
        with (
            self._file(name) as whole,
            # Beforehand other threads would read what is small and mostly in memory.
            pq.ParquetFile(whole, pre_buffer=False) as file,
        ):
            names = file.schema_arrow.names
            wanted = names if columns is None else present_columns(names, columns)
            return file.read_row_groups(groups_with(file, steps), columns=wanted, use_threads=False)

    @contextmanager
    def _file(self, name: str) -> Generator[str]:
        """A path of a table, by which it is found whatever becomes of its name."""
        self.verify((name,))
        try:
            with pinned_name(self.folder / name) as whole:
                yield whole
        except (OSError, pa.ArrowException, ValueError, KeyError) as error:
            raise BrokenIndexError(f"{name}: {error}") from error

    def check(self, manifest: Manifest) -> None:
        """As Storage. What is inside is checked when it is read."""
        for name in manifest.names:
            match = _NAME.fullmatch(name)
            try:
                whole = match and (self.folder / name).lstat().st_size == int(match.group(2))
            except OSError:
                whole = False
            if not whole:
                raise BrokenIndexError(f"{name!r} is not there whole")

    def verify(self, names: Sequence[str]) -> None:
        """Raises BrokenIndexError where a table is not as it was written: neither DuckDB nor Arrow
        notices each damage. What did not change since is not read again.
        """
        for name in names:
            match = _NAME.fullmatch(name)
            if match is None:
                raise BrokenIndexError(f"{name!r} is no name of a table")
            try:
                state = (self.folder / name).stat()
                content_hash = _content_hash(self.folder / name, state.st_size, state.st_mtime_ns)
            except OSError as error:
                raise BrokenIndexError(f"{name}: {error}") from error
            if content_hash != match.group(1):
                raise BrokenIndexError(f"{name!r} is damaged")

    def discard(self, manifest: Manifest) -> None:
        """As Storage."""
        with self.writer() as alone:
            path = self.folder / "manifest.json"
            if alone and path.exists() and path.read_bytes() == manifest.to_bytes():
                path.unlink()

    def tidy(self, manifest: Manifest) -> None:
        """As Storage."""
        named = manifest.names
        now = time.time()
        with _as_deleted_index():
            entries = list(os.scandir(self.folder))
        for entry in entries:
            is_ours = _NAME.fullmatch(entry.name) or _UNFINISHED.fullmatch(entry.name)
            if not is_ours or entry.name in named:
                continue
            try:
                if now - entry.stat(follow_symlinks=False).st_mtime > KEEP_SECONDS:
                    Path(entry.path).unlink()
            except FileNotFoundError:
                continue

    def retire(self, names: Sequence[str]) -> None:
        """As Storage. The time of a file is from now on that of its retirement."""
        for name in names:
            try:
                os.utime(self.folder / name)
            except (FileNotFoundError, NotADirectoryError):
                continue

    @contextmanager
    def writer(self) -> Generator[bool]:
        """As Storage. Raises DeletedIndexError where the folder is gone."""
        with _as_deleted_index():
            descriptor = os.open(
                self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666
            )
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            lock = os.fstat(descriptor)
            before, self._lock_identity = self._lock_identity, (lock.st_dev, lock.st_ino)
            try:
                yield True
            finally:
                self._lock_identity = before
        finally:
            os.close(descriptor)


@lru_cache(maxsize=4096)
def _content_hash(path: Path, size: int, mtime_ns: int) -> str:
    """The hash of a file; size, mtime_ns: that it has now. Raises OSError."""
    content_hash = xxh3_128()
    with open_binary(path) as file:
        while piece := file.read(1 << 20):
            content_hash.update(piece)
    return content_hash.hexdigest()


@contextmanager
def _as_deleted_index() -> Generator[None]:
    """Tells that the folder is gone, or what was just written into it, from other errors of the disk."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError) as error:
        raise DeletedIndexError(f"{error.filename or error} is gone") from error


def present_columns(names: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """Those of the wanted columns that there are."""
    known = set(names)
    return [name for name in wanted if name in known]


def groups_with(file: Any, steps: StepRange | None) -> list[int]:
    """Row groups that hold a step of the range, as far as their statistics say. file: a ParquetFile."""
    groups = range(file.num_row_groups)
    if steps is None:
        return list(groups)
    place = file.schema_arrow.names.index("step")
    statistics_of = (
        (group, file.metadata.row_group(group).column(place).statistics) for group in groups
    )
    return [group for group, statistics in statistics_of if _may_hold(statistics, steps)]


def _may_hold(statistics: Any, steps: StepRange) -> bool:
    if statistics is None or not statistics.has_min_max:
        return True
    return statistics.min <= steps[1] and statistics.max >= steps[0]


def repeating(table: pa.Table) -> list[str]:
    """Columns whose values recur: to look for equal ones in others costs as much as writing them."""
    texts = (field.name for field in table.schema if pa.types.is_string(field.type))
    unique = ("prompt", "response", "rollout_id", *segments.WHOLE_TEXTS)
    return [name for name in texts if name not in unique]


def row_group_size(table: pa.Table) -> int:
    """Rows of a row group of rollouts."""
    return max(min(_GROUP_ROWS, _GROUP_BYTES * table.num_rows // max(table.nbytes, 1)), 1)


def compressions(table: pa.Table) -> dict[str, str]:
    """By column: zstd for long texts; lz4 is read in half the time, but has 1.4 times the bytes."""
    codecs = {n: "zstd" if n in segments.WHOLE_TEXTS else "lz4" for n in table.column_names}
    if codecs.pop(segments.MESSAGES, None):
        names = (field.name for field in table.schema.field(segments.MESSAGES).type.value_type)
        codecs |= {f"{segments.MESSAGES}.list.element.{name}": "zstd" for name in names}
    return codecs
