"""Summaries of the runs of a folder: from the cache on disk, or made behind the page, newest first."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from board import __version__
from board.analysis.findings import own_thresholds
from board.analysis.run_summary import VERSION, RunSummary, summarised
from board.errors import BoardError
from board.index import manifest
from board.index.discovery.run_info import RunInfo
from board.index.discovery.sidecar_files import state_of
from board.index.summary_cache import SummaryCache
from board.query import index_builder
from board.query.open_run import Follower, OpenOptions
from board.views.shared.background import BackgroundTask, Report

_UNSEEN_SECONDS: Final = 30.0
"""Nobody has asked for so long: the rest is read when somebody does."""
_REST_SECONDS: Final = 0.02
"""Between two runs, for whoever waits for a page."""
_BUSY_SHARE: Final = 10.0
"""A run that grows is read again after so many times what that took."""
_SOON_SECONDS: Final = 5.0
MOST_BEHIND_SECONDS: Final = 30.0
"""After so long a run that grew is read again, however long that takes."""
_RETRY_SECONDS: Final = 60.0
"""A run that could not be read is tried again, whether or not its files changed."""
_OTHER_PROCESS_BYTES: Final = 256 << 20
"""Of a larger log another process makes the index, as when it is opened."""
_POLL_SECONDS: Final = 0.2
_NEVER: Final = float("-inf")
MADE_BY: Final = f"summary {VERSION} {manifest.VERSION} {__version__}"
"""What a SummaryCache of such summaries is for."""


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a run. signature: of the files that it was made of. error: why no summary is.

    made_at: when, by the monotonic clock; took: seconds.
    """

    signature: str
    summary: RunSummary | None = None
    error: str = ""
    made_at: float = _NEVER
    took: float = 0.0


class Followed(NamedTuple):
    """A run as it was listed last. signature: another one whenever the summary may be different."""

    info: RunInfo
    signature: str


class Reading(NamedTuple):
    """The run that is being read, by its place below; how much of it, from 0 to 1."""

    key: str
    share: float


class RunSummaries:
    """Summaries of the runs of one folder, for all browser tabs; safe to read from any thread.

    options: how logs are read. thresholds: file that changes those of all runs. version: another one
    whenever something is new. reading: the run that is being read.
    """

    def __init__(self, options: OpenOptions, thresholds: Path | None, cache: SummaryCache) -> None:
        self.version = 0
        self.reading: Reading | None = None
        self._options, self._thresholds, self._cache = options, thresholds, cache
        self._infos: Sequence[RunInfo] = ()
        self._followed: Mapping[str, Followed] = {}
        """By key, newest first; never changed, but replaced: any thread may be in the middle of it."""
        self._known: dict[str, Known] = {}
        self._lock = threading.Lock()
        self._task: BackgroundTask[None] | None = None
        self._seen_at = time.monotonic()

    def follow(self, infos: Sequence[RunInfo]) -> None:
        """Takes the runs as they are now, and has read what is new of them."""
        self._seen_at = time.monotonic()
        with self._lock:
            if infos is not self._infos:
                self._take(infos)
            if self._next() and (self._task is None or not self._task.is_running):
                self._task = BackgroundTask(self._fill)
                self._task.start()

    def known(self, info: RunInfo) -> Known | None:
        """What is known of a run; None: it waits."""
        return self._known.get(_key(info))

    def is_old(self, info: RunInfo) -> bool:
        """Whether files of the run have changed since its summary was made."""
        key = _key(info)
        followed = self._followed.get(key)
        return followed is not None and self._is_old(key, followed)

    def behind(self, infos: Iterable[RunInfo]) -> float:
        """Seconds since the oldest summary was made of those that are of files that changed since; 0:
        there is none.
        """
        now = time.monotonic()
        made_at = (self._known[_key(info)].made_at for info in infos if self.is_old(info))
        return now - min((at for at in made_at if at != _NEVER), default=now)

    def _is_old(self, key: str, followed: Followed) -> bool:
        known = self._known.get(key)
        return known is not None and known.signature != followed.signature

    def is_reading(self, info: RunInfo) -> float | None:
        """How much of a run was read, where it is the one that is being read."""
        reading = self.reading
        return reading.share if reading is not None and reading.key == _key(info) else None

    @property
    def waiting(self) -> int:
        """Runs that have no summary since this process began, of files as they are or were."""
        return sum(self._waits(key, followed) for key, followed in self._followed.items())

    def _take(self, infos: Sequence[RunInfo]) -> None:
        """Signatures of all runs, and from the disk what is known of those that are new."""
        followed = {_key(info): Followed(info, self._signature(info)) for info in infos}
        new = {self._cached_as(key): key for key in followed if key not in self._known}
        for name, (signature, document) in self._cache.read(new).items():
            if (summary := RunSummary.from_bytes(document)) is not None:
                self._known[new[name]] = Known(signature, summary)
        if new or followed != self._followed:
            self.version += 1
        self._infos, self._followed = infos, followed

    def _signature(self, info: RunInfo) -> str:
        thresholds: list[object] = []
        for path in filter(None, (self._thresholds, _local_thresholds(info), info.thresholds)):
            with suppress(OSError):
                stat = path.stat()
                thresholds.append((str(path), stat.st_size, stat.st_mtime_ns))
        parts = (info.files, info.left_out, state_of(info), thresholds)
        return hashlib.blake2b(repr(parts).encode("utf-8", "replace"), digest_size=12).hexdigest()

    def _cached_as(self, key: str) -> str:
        return f"{key} {self._options!r}"

    def _waits(self, key: str, followed: Followed) -> bool:
        known = self._known.get(key)
        return known is None or (known.made_at == _NEVER and self._is_old(key, followed))

    def _next(self) -> tuple[str, Followed] | None:
        """The newest run that is to be read now."""
        now = time.monotonic()
        for key, followed in self._followed.items():
            known = self._known.get(key)
            if known is None:
                return key, followed
            pause = pause_after(known.took)
            if self._is_old(key, followed) and now - known.made_at >= pause:
                return key, followed
            if known.summary is None and now - known.made_at >= max(_RETRY_SECONDS, pause):
                return key, followed
        return None

    def _fill(self, report: Report) -> None:
        while self._is_seen() and (next_run := self._next()):
            key, followed = next_run
            self.reading = Reading(key, 0.0)
            begun = time.monotonic()
            try:
                summary, error = self._made_of(followed.info), ""
            except (BoardError, OSError) as reason:
                summary, error = None, str(reason)
            except Exception as reason:  # one log that nobody foresaw must not end the others
                summary, error = None, f"{type(reason).__name__}: {reason}"
            self.reading = None
            if summary is None and not error:
                return
            now = time.monotonic()
            with self._lock:
                self._known[key] = Known(followed.signature, summary, error, now, now - begun)
                self.version += 1
            if summary is not None:
                self._cache.write(self._cached_as(key), followed.signature, summary.to_bytes())
            report(0, 0)
            time.sleep(_REST_SECONDS)

    def _made_of(self, info: RunInfo) -> RunSummary | None:
        """None: it was left alone, since nobody looks any more."""

        def note(done: int, total: int) -> None:
            if self.reading is not None:
                self.reading = self.reading._replace(share=done / max(total, 1))

        follower = Follower(self._options)
        if follower.unread(info) >= _OTHER_PROCESS_BYTES and not self._built(follower, info):
            return None
        run = follower.run(info, note)
        return summarised(run, own_thresholds(info, self._thresholds).thresholds)

    def _built(self, follower: Follower, info: RunInfo) -> bool:
        """Has another process make the index of a run. False: it was stopped, since nobody looks."""
        process = index_builder.start(info, self._options.read)
        while process.poll() is None:
            if not self._is_seen():
                process.terminate()
                process.wait()
                return False
            read = info.bytes - follower.unread(info)
            self.reading = Reading(_key(info), read / max(info.bytes, 1))
            time.sleep(_POLL_SECONDS)
        return True

    def _is_seen(self) -> bool:
        return time.monotonic() - self._seen_at < _UNSEEN_SECONDS


def pause_after(took: float) -> float:
    """Seconds before a run that grows is read again, which took so many seconds last."""
    return min(max(_SOON_SECONDS, _BUSY_SHARE * took), MOST_BEHIND_SECONDS)


def _key(info: RunInfo) -> str:
    return f"{info.path}\n{info.part}"


def _local_thresholds(info: RunInfo) -> Path | None:
    return info.path / "thresholds.toml" if isinstance(info.path, Path) else None
