"""Reads batches on a Ray cluster: tasks that call the same `index_batch` as this machine would.

Workers write the segments, so the run and its index must lie on a file system that all of them have at
the same path. They send back names of segments, counts and problems; this process alone writes the
manifest. Ray restarts a task whose worker died; what the dead one had written is in no manifest and is
tidied away.
"""

from __future__ import annotations

import errno
import importlib
import os
import platform
import socket
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from board.errors import ClusterError
from board.formats.io.locations import open_binary
from board.index.manifest import BrokenIndexError, Manifest
from board.index.reading.batch import BatchResult, Job, index_batch
from board.index.reading.shard import Shard
from board.index.reading.workers import ChooseEngine, Engine, PendingBatch
from board.index.storage import FolderStorage

RETRIES: Final = 3
"""Times that a task whose worker died is started again; after that its lines are what kills workers."""
_A_CORE: Final = 2
"""Batches under way per core: results are taken in their order, and none should wait for that."""
_REACH_SECONDS: Final = 5.0
_SEEN_SECONDS: Final = 10.0
"""Network file systems show another machine's writes with a delay of this order."""
_LOOK_SECONDS: Final = 0.2


@contextmanager
def connected(address: str | None = None) -> Generator[ChooseEngine]:
    """The engine of a Ray cluster, for `build.extend`.

    address: of the cluster's head, as `ray.init` takes it. None: the one that RAY_ADDRESS names, else
    one that runs on this machine, else one that is begun here and ends with this. Raises ClusterError
    when ray is not installed or the cluster does not answer within a minute.
    """
    # Read when ray is imported. Left to itself it tries to connect for a quarter of an hour.
    os.environ.setdefault("RAY_NUM_REDIS_GET_RETRIES", "1")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a cluster begun here reports no usage
    try:
        ray: Any = importlib.import_module("ray")
    except ImportError as error:
        raise ClusterError(
            'ray is not installed here; the command and every worker need it: pip install "'
            'rollout-board[board,ray]" (on a cluster, the version of ray that runs there)'
        ) from error
    address = address or os.environ.get("RAY_ADDRESS")
    if address is not None:
        _check_port(address)
    ours = not ray.is_initialized()
    if ours:
        _begin(ray, address)
    try:
        yield partial(_engine, ray)
    finally:
        if ours:
            ray.shutdown()


def _begin(ray: Any, address: str | None) -> None:
    options = {} if address else {"include_dashboard": False}
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR", **options)
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        where = f"the Ray cluster at {address}" if address else "Ray on this machine"
        raise ClusterError(
            f"{where} can't be used: {error}; is it up (ray status --address HOST:PORT), of the same "
            f"version of ray ({ray.__version__}) and Python ({platform.python_version()}), and is its "
            "token known here (RAY_AUTH_TOKEN), if it has one?"
        ) from error


def _check_port(address: str) -> None:
    """Raises ClusterError where nobody listens: Ray itself would try again for a minute and more."""
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if not colon or not port.isdigit():  # "auto", "local", or a name that Ray knows what to do with
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), _REACH_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise ClusterError(
            f"no Ray cluster answers at {address} ({error}); give the address that `ray start --head` "
            "printed, HOST:6379 by default"
        ) from error


@contextmanager
def _engine(ray: Any, job: Job, size: int) -> Generator[Engine]:
    if not isinstance(job.storage, FolderStorage):
        raise ClusterError(
            "the index can be kept neither in the run's folder nor in the cache, and workers write it: "
            "make the run's folder writable, or let ROLLOUT_BOARD_CACHE name a folder that all see"
        )
    yield _Tasks(ray, job, job.storage)


class _Tasks:
    """Reads batches in tasks of a Ray cluster."""

    def __init__(self, ray: Any, job: Job, storage: FolderStorage) -> None:
        self.parallel = self.max_in_flight = (
            max(int(ray.cluster_resources().get("CPU", 1)), 1) * _A_CORE
        )
        self._ray = ray
        self._storage = storage
        self._job = ray.put(job)
        self._task = ray.remote(num_cpus=1, max_retries=RETRIES)(_read)

    def submit(self, batch: Sequence[Shard]) -> PendingBatch:
        """Begins a task. Its result raises ClusterError where workers can't do their part."""
        reference = self._task.remote(self._job, list(batch))
        return PendingBatch(partial(self._result, reference, batch))

    def _result(self, reference: Any, batch: Sequence[Shard]) -> BatchResult:
        errors = self._ray.exceptions
        try:
            result: BatchResult = self._ray.get(reference)
        except OSError as error:  # Ray raises a task's error as one of the same class
            reason = str(error).strip().splitlines()[-1]  # after the worker's traceback
            raise ClusterError(f"a worker could not do its part: {reason}") from error
        except (errors.WorkerCrashedError, errors.OutOfMemoryError, errors.NodeDiedError) as error:
            first = batch[0]
            raise ClusterError(
                f"workers died {RETRIES + 1} times reading {first.display_path} from byte "
                f"{first.start} on: "
                f"{error}; what was read before is kept, and the same command goes on there"
            ) from error
        self._check(result)
        return result

    def _check(self, result: BatchResult) -> None:
        """Raises ClusterError where a worker did not see the same files as this process."""
        for file in result.files:
            path = file.shard.path
            if file.failed is not None and isinstance(path, Path) and os.access(path, os.R_OK):
                raise ClusterError(
                    f"{path} can be read here and not by a worker: {file.failed}; "
                    "all machines need the run at the same path, on a file system they share"
                )
        written = Manifest("", segments=result.segments)

        def is_whole() -> bool:
            try:
                self._storage.check(written)
            except BrokenIndexError:
                return False
            return True

        if not _comes_true(is_whole):
            raise ClusterError(
                f"files that a worker wrote into {self._storage.folder} are not visible here: "
                "the index must lie on a file system that all machines share "
                "(ROLLOUT_BOARD_CACHE names another place)"
            )


def _comes_true(holds: Callable[[], bool]) -> bool:
    """Whether it holds now or soon."""
    end = time.monotonic() + _SEEN_SECONDS
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(_LOOK_SECONDS)
    return True


def _read(job: Job, batch: Sequence[Shard]) -> BatchResult:
    """What a worker does. Raises OSError when it can't write where the index is."""
    storage = job.storage
    if isinstance(storage, FolderStorage) and not storage.folder.is_dir():
        reason = f"the index's folder is not there on {socket.gethostname()}"
        raise FileNotFoundError(errno.ENOENT, reason, str(storage.folder))
    for shard in batch:
        _comes_true(partial(_is_seen, shard))
    result = index_batch(job, batch, min_rows=1)  # what is sent back is small
    for file in result.files:
        if file.failed is not None:
            file.failed = f"{file.failed} on {socket.gethostname()}"
    return result


def _is_seen(shard: Shard) -> bool:
    """Whether this machine sees as much of the file as the one that planned the work, or none of it."""
    path = shard.path
    if not isinstance(path, Path):  # a store is asked by whoever reads
        return True
    try:
        # Opening asks the server of a network file system; a mere stat may answer from memory.
        with open_binary(path) as file:
            return os.fstat(file.fileno()).st_size >= (shard.end or 0)
    except OSError:
        return True  # reading says what is wrong
