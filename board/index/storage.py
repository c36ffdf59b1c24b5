"""Where an index is stored: in a folder beside the log, in the user's cache, or in memory.

A folder holds `manifest.json`, the Parquet files it names, and `lock`. Every file is written under a
temporary name and renamed, the manifest last, so that a writer that is killed at any moment leaves the
index that was there before. Readers take no lock. The lock is the operating system's (flock): it ends
with the process that locked it. The folder, or a file in it, may be deleted at any moment: the builder
then gets a DeletedIndexError.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import time
import uuid
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from xxhash import xxh3_128

from board.core.records import ReadOptions
from board.formats.io.locations import Location, cache_folder, open_binary, pinned_name
from board.formats.io.remote import RemoteLocation
from board.index import segments
from board.index.discovery.run_info import digest
from board.index.manifest import BrokenIndexError, DeletedIndexError, Manifest

StepRange = tuple[int, int]
"""Smallest and largest step, both included."""

_GROUP_ROWS: Final = 16_384
_GROUP_BYTES: Final = 8 << 20
"""Of a row group, uncompressed: a reader unpacks all of a column's texts in it to read one."""
_LARGEST_MANIFEST: Final = 256 << 20
"""Bytes; one of 100,000 files has some 60 MB. What is larger is none of ours."""
INDEX_FOLDER: Final = ".rollout-board"
"""Name of the folder in the run's own, which holds its indexes."""
_NAME: Final = re.compile(r"[a-z]+-([0-9a-f]{32})-([0-9]{1,15})\.parquet")
"""Kind, hash of the content, and the size in bytes."""
_STEPS_ROW_GROUP: Final = 8192
KEEP_SECONDS: Final = 600.0
"""A reader may still use files that the manifest no longer names."""
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
        asked += " outline" if options.outline else ""
        name += f"-{hashlib.blake2b(asked.encode(), digest_size=6).hexdigest()}"
    where = str(run).encode() if isinstance(run, RemoteLocation) else os.fsencode(run.resolve())
    parents = [cache_folder() / digest(where)]
    if not isinstance(run, RemoteLocation):
        parents.insert(0, run / INDEX_FOLDER)
    for parent in parents:
        folder = parent / name
        # A link here would let whoever made the run choose where this process writes.
        if parent.is_symlink() or folder.is_symlink():
            continue
        # DuckDB takes a backslash in a path for the end of a folder's name.
        if "\\" in str(parent.absolute()):
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


class FolderStorage:
    """An index in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock_identity: tuple[int, int] | None = None
        """Device and number of the lock, while this holds it."""

    def load(self) -> Manifest | None:
        """The committed manifest; None where there is none that can be used."""
        try:
            with open_binary(self.folder / "manifest.json") as file:
                content = file.read(_LARGEST_MANIFEST + 1)
            return Manifest.from_bytes(content) if len(content) <= _LARGEST_MANIFEST else None
        except (OSError, BrokenIndexError):
            return None

    def commit(self, manifest: Manifest) -> None:
        """Replaces the manifest. Raises DeletedIndexError where the lock is another one by now."""
        content = manifest.to_bytes()
        with self._written() as (temporary, take):
            temporary.write_bytes(content)
            if self._lock_identity is not None:
                lock = (self.folder / "lock").lstat()
                if self._lock_identity != (lock.st_dev, lock.st_ino):
                    reason = "its lock was deleted: another process may have begun to build it"
                    raise DeletedIndexError(reason)
            take("manifest.json")

    def put(self, kind: str, table: pa.Table) -> str:
        """Stores a table. Returns its name, which a manifest may then hold. kind: rows or steps."""
        with self._written() as (temporary, take):
            pq.write_table(table, temporary, **_parquet_options(table, kind))
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

    def copy(self, manifest: Manifest, other: MemoryStorage) -> None:
        """Stores what another storage has, unless somebody else writes here. Raises DeletedIndexError."""
        with self.writer() as alone:
            if alone:
                names = manifest.names
                stored = {n: self.put(n.partition("-")[0], other.get(n)) for n in names}
                self.commit(manifest.renamed(stored))

    def get(self, name: str) -> pa.Table:
        """A table. Raises BrokenIndexError where it is not as it was written."""
        self.verify((name,))
        try:
            with (
                pinned_name(self.folder / name) as path,
                # Pre-buffering would start threads for what is small and mostly in memory.
                pq.ParquetFile(path, pre_buffer=False) as file,
            ):
                return file.read(use_threads=False)
        except (OSError, pa.ArrowException, ValueError, KeyError) as error:
            raise BrokenIndexError(f"{name}: {error}") from error

    def check(self, manifest: Manifest) -> None:
        """Raises BrokenIndexError where a table is missing or cut; its content is checked by `verify`."""
        for name in manifest.names:
            match = _NAME.fullmatch(name)
            with suppress(OSError):
                if match and (self.folder / name).lstat().st_size == int(match.group(2)):
                    continue
            raise BrokenIndexError(f"{name!r} is not there whole")

    def verify(self, names: Iterable[str]) -> None:
        """Raises BrokenIndexError where a table is not as it was written: neither DuckDB nor Arrow
        notices each damage. An unchanged file is read once.
        """
        for name in names:
            match = _NAME.fullmatch(name)
            if match is None:
                raise BrokenIndexError(f"{name!r} is not the name of a table")
            try:
                state = (self.folder / name).stat()
                content_hash = _content_hash(self.folder / name, state.st_size, state.st_mtime_ns)
            except OSError as error:
                raise BrokenIndexError(f"{name}: {error}") from error
            if content_hash != match.group(1):
                raise BrokenIndexError(f"{name!r} is damaged")

    def discard(self, manifest: Manifest) -> None:
        """Deletes a manifest that turned out to be damaged, unless there is a newer one."""
        with self.writer() as alone:
            path = self.folder / "manifest.json"
            if alone and path.exists() and path.read_bytes() == manifest.to_bytes():
                path.unlink()

    def tidy(self, manifest: Manifest) -> None:
        """Deletes tables and temporary files that no manifest has named for KEEP_SECONDS."""
        long_ago = time.time() - KEEP_SECONDS
        with _as_deleted_index():
            entries = list(os.scandir(self.folder))
        for entry in entries:
            is_ours = _NAME.fullmatch(entry.name) or _UNFINISHED.fullmatch(entry.name)
            if is_ours and entry.name not in manifest.names:
                with suppress(FileNotFoundError):
                    if entry.stat(follow_symlinks=False).st_mtime < long_ago:
                        Path(entry.path).unlink()

    def retire(self, names: Iterable[str]) -> None:
        """Notes, as the time of their files, that the manifest no longer names these tables."""
        for name in names:
            with suppress(FileNotFoundError, NotADirectoryError):
                os.utime(self.folder / name)

    @contextmanager
    def writer(self) -> Generator[bool]:
        """Whether the caller is the only writer, while this is open. Raises DeletedIndexError where the
        folder is gone.
        """
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


class MemoryStorage:
    """The index of a small run, or of one where nothing can be written; it ends with the process.

    Its methods are those of FolderStorage.
    """

    folder = None

    def __init__(self) -> None:
        self._manifest: Manifest | None = None
        self._tables: dict[str, pa.Table] = {}
        self._retired: dict[str, float] = {}

    def load(self) -> Manifest | None:
        return self._manifest

    def commit(self, manifest: Manifest) -> None:
        self._manifest = manifest

    def put(self, kind: str, table: pa.Table) -> str:
        name = f"{kind}-{uuid.uuid4().hex}"
        self._tables[name] = table
        return name

    def get(self, name: str) -> pa.Table:
        if name not in self._tables:
            raise BrokenIndexError(f"{name} is gone")
        return self._tables[name]

    def check(self, manifest: Manifest) -> None:
        pass

    def discard(self, manifest: Manifest) -> None:
        self._manifest = None

    def retire(self, names: Iterable[str]) -> None:
        self._retired |= dict.fromkeys(names, time.time())

    def tidy(self, manifest: Manifest) -> None:
        # Some tables were merged with others before a manifest named them.
        self.retire(self._tables.keys() - manifest.names - self._retired.keys())
        long_ago = time.time() - KEEP_SECONDS
        for name in [name for name, at in self._retired.items() if at < long_ago]:
            self._retired.pop(name)
            self._tables.pop(name, None)

    @contextmanager
    def writer(self) -> Generator[bool]:
        yield True


Storage = FolderStorage | MemoryStorage


def committed(storage: Storage, key: str) -> Manifest:
    """The committed manifest of that key; an empty one where there is none that can be used."""
    known = storage.load()
    return known if known is not None and known.key == key else Manifest(key)


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
    """Distinguishes a deleted folder, or a file just written into it, from other errors of the disk."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError) as error:
        raise DeletedIndexError(f"{error.filename or error} is gone") from error


def _parquet_options(table: pa.Table, kind: str) -> dict[str, Any]:
    group_rows = _STEPS_ROW_GROUP
    if kind == "rows":
        group_rows = max(min(_GROUP_ROWS, _GROUP_BYTES * table.num_rows // max(table.nbytes, 1)), 1)
    # A dictionary of unique texts would cost as much as writing them.
    unique = ("prompt", "response", "rollout_id", *segments.WHOLE_TEXTS)
    texts = [field.name for field in table.schema if pa.types.is_string(field.type)]
    # zstd for long texts: lz4 is read in half the time, but has 1.4 times the bytes.
    codecs = {n: "zstd" if n in segments.WHOLE_TEXTS else "lz4" for n in table.column_names}
    for column in (segments.MESSAGES, segments.TOOLS):
        if codecs.pop(column, None):
            names = (field.name for field in table.schema.field(column).type.value_type)
            codecs |= {f"{column}.list.element.{name}": "zstd" for name in names}
    return {
        "row_group_size": group_rows,
        "use_dictionary": [name for name in texts if name not in unique],
        "compression": codecs,
        "write_statistics": ["step"],
    }
