"""Opens runs: reads what is new of their logs into the index, once or again and again while they grow."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final

from board.core.metrics.definitions import REDUCTIONS
from board.core.metrics.reward_sum import RewardSum
from board.core.problems import RUN_ITSELF, Problem, ProblemLog
from board.core.records import ReadOptions
from board.errors import ChoiceError, NotFoundError, UnreadableError
from board.formats import reader_named, source_read_by
from board.formats.fields import SEVERAL_REWARDS
from board.formats.generic import OTHER_RESPONSES, OTHER_REWARDS
from board.index.build import Extended, Progress, extend
from board.index.cause_rules import read_rules
from board.index.discovery.run_info import JOINED, RunInfo, is_remote
from board.index.discovery.sidecar_files import SidecarFiles, read_sidecar_files
from board.index.manifest import BrokenIndexError, DeletedIndexError, Manifest
from board.index.reading.batch import Job
from board.index.reading.workers import ChooseEngine, local_engine
from board.index.storage import FolderStorage, MemoryStorage, Storage, committed, index_folder
from board.query.columns import AS_LOGGED, Derived, OpenOptions, RewardSource
from board.query.run import Run
from board.query.run_rows import RunRows
from board.query.splits import note_on
from board.query.steps import refreshed
from board.query.trainer.metrics import TrainerMetricsReader
from board.query.trainer.reward import has_parts_alone, reward_source

__all__ = ["Follower", "OpenOptions", "Progress", "Run"]

PERSIST_BYTES: Final = 32 << 20
"""The index of so large a log is written while it is read."""
SLOW_SECONDS: Final = 1.0
"""The index of a smaller one is written where reading it took longer: a log may be packed, of very many
files, or slow to parse. Others are read faster than it matters, and nothing is written beside them."""
_WAIT_SECONDS: Final = 0.2
_MOST_ATTEMPTS: Final = 5
"""An index that is deleted again and again while it is built is not made forever."""
_UNREAD_HINT: Final = "if it is the {}, say so in a mapping file (docs/own_format.md)"
_IN_MEMORY: Final = "the index can't be kept: {}"
_IN_MEMORY_HINT: Final = "the run is read again each time; free some space or check permissions"
_DELETED_INDEX: Final = (
    "the index was deleted while it was built",
    "it was completed from what was left",
)
_DAMAGED: Final = (
    "part of the index was missing or damaged",
    "the log was read again, and the index is complete",
)
_CHOOSE_REWARD: Final = "its parts and weights can be chosen in Run settings, or by --reward"


def open_run(
    info: RunInfo, options: OpenOptions | None = None, progress: Progress | None = None
) -> Run:
    """A run as its files are now. Files that can't be read become problems, never an error.

    Where the run is large or has an index, the index is brought in step; another process that is at it
    is waited for.
    """
    return Follower(options).run(info, progress)


def indexed_run(storage: Storage, info: RunInfo, options: OpenOptions | None = None) -> Run:
    """The run as an index has it, without a look at the log; NotFoundError where there is no index."""
    manifest = storage.load()
    if manifest is None:
        raise NotFoundError(f"there is no index of {info.name} that can be read")
    options = options or OpenOptions()
    sidecars = read_sidecar_files(info)
    return _run_of(storage, Extended(manifest, ()), info, options, sidecars, TrainerMetricsReader())


def index_key(info: RunInfo, options: ReadOptions, sidecars: SidecarFiles) -> str:
    """What the rows of an index depend on besides the log."""
    aggregates = " ".join(column for column, _, _ in REDUCTIONS)
    key = f"{options!r} {sidecars.vocabulary_hash} {aggregates}"
    key += " outline" if options.outline else ""
    # Where logs are joined the rows have keys that they lack where each is shown alone.
    return f"{key} {JOINED}" if info.is_joined else key


class Follower:
    """Opens one run again and again while it is written, reading what is new.

    persist: stores the index on disk however small the run is. engine: what reads the log.
    """

    def __init__(
        self,
        options: OpenOptions | None = None,
        *,
        persist: bool = False,
        engine: ChooseEngine = local_engine,
    ) -> None:
        self.options = options or OpenOptions()
        self._persist = persist
        self._engine = engine
        self._memory = MemoryStorage()
        self._rows: RunRows | None = None
        """Those that the last table of steps was made of."""
        self._trainer = TrainerMetricsReader()

    def unread(self, info: RunInfo) -> int:
        """Bytes of the run that its index does not cover, about as many as they are unpacked."""
        manifest = self._storage(info).load()
        unread = info.bytes if manifest is None else max(info.bytes - manifest.done, 0)
        files = {(file.reader, file.path.name.rpartition(".")[2]): file for file in info.files}
        return unread * max(source_read_by(f.reader, f.path).unpacks for f in files.values())

    def run(self, info: RunInfo, progress: Progress | None = None, *, wait: bool = True) -> Run:
        """The run as its files are now. wait: for another process that builds its index."""
        sidecars = read_sidecar_files(info)
        try:
            storage = self._storage(info)
            if storage is self._memory and self._has_index_folder(info):
                reason = "neither the run's folder nor the cache can be written"
                sidecars = _with_note(sidecars, _IN_MEMORY.format(reason), _IN_MEMORY_HINT)
            return self._opened(storage, info, sidecars, progress, wait)
        except OSError as error:  # of the index: those of the log are problems
            sidecars = _with_note(
                sidecars, _IN_MEMORY.format(error.strerror or error), _IN_MEMORY_HINT
            )
            return self._opened(self._memory, info, sidecars, progress, wait)

    def so_far(self, info: RunInfo) -> Run:
        """The run as far as its index has it, whoever makes that; nothing of the log is read."""
        sidecars = read_sidecar_files(info)
        storage = self._storage(info)
        key = index_key(info, self.options.read, sidecars)
        whole = Extended(committed(storage, key), ())
        try:
            return self._shown(storage, whole, info, sidecars)
        except BrokenIndexError:  # whoever makes it makes it again
            return self._shown(storage, Extended(Manifest(key), ()), info, sidecars)

    def _shown(
        self, storage: Storage, index: Extended, info: RunInfo, sidecars: SidecarFiles
    ) -> Run:
        return _run_of(storage, index, info, self.options, sidecars, self._trainer, self._rows)

    def _storage(self, info: RunInfo) -> Storage:
        make = self._has_index_folder(info)
        folder = index_folder(info.path, info.part, self.options.read, make=make)
        return self._memory if folder is None else FolderStorage(folder)

    def _has_index_folder(self, info: RunInfo) -> bool:
        # Of a run in a store even a small one is: asking for it again takes long.
        return self._persist or is_remote(info) or info.bytes >= PERSIST_BYTES

    def _opened(
        self,
        storage: Storage,
        info: RunInfo,
        sidecars: SidecarFiles,
        progress: Progress | None,
        wait: bool,
    ) -> Run:
        key = index_key(info, self.options.read, sidecars)
        rebuild = False
        for _ in range(_MOST_ATTEMPTS):
            job, begun = Job(storage, self.options.read, sidecars.vocabulary), time.monotonic()
            try:
                index = self._in_step(job, key, info, progress, wait, rebuild=rebuild)
                if storage is self._memory and time.monotonic() - begun > SLOW_SECONDS:
                    self._store(info, index.manifest)
                return self._shown(storage, index, info, sidecars)
            except DeletedIndexError:
                sidecars = _with_note(sidecars, *_DELETED_INDEX)
                storage = self._storage(info)  # makes the folder again
            except BrokenIndexError:
                sidecars = _with_note(sidecars, *_DAMAGED)
                rebuild = True
        raise UnreadableError(
            f"the index of {info.name} was deleted or damaged {_MOST_ATTEMPTS} times while it was "
            "built; see what does so, and open the run again"
        )

    def _store(self, info: RunInfo, manifest: Manifest) -> None:
        """Writes the index that was made in memory, for whoever opens the run next; where that can't be
        done the run is read again then.
        """
        folder = index_folder(info.path, info.part, self.options.read, make=True)
        with suppress(OSError, BrokenIndexError):
            if folder is not None:
                FolderStorage(folder).copy(manifest, self._memory)

    def _in_step(
        self,
        job: Job,
        key: str,
        info: RunInfo,
        progress: Progress | None,
        wait: bool,
        *,
        rebuild: bool,
    ) -> Extended:
        """The index after what is new was read, by this process or by the one that holds the lock."""
        while True:
            with job.storage.writer() as alone:
                if alone:
                    refresh = partial(self._refreshed, job.storage, info)
                    return extend(job, key, info, refresh, progress, self._engine, rebuild=rebuild)
            known = committed(job.storage, key)
            if not wait:
                return Extended(Manifest(key) if rebuild else known, ())
            if progress is not None:
                progress(min(known.done, info.bytes), info.bytes)
            time.sleep(_WAIT_SECONDS)

    def _refreshed(self, storage: Storage, info: RunInfo, manifest: Manifest) -> Manifest:
        self._rows = refreshed_rows(storage, manifest, info)
        return self._rows.manifest


def refreshed_rows(storage: Storage, manifest: Manifest, info: RunInfo) -> RunRows:
    """The rows of a manifest, which gets a table of steps in which nothing is stale. Raises
    BrokenIndexError.
    """
    rows = RunRows(storage, manifest, info)
    rows.manifest = refreshed(Run(info, OpenOptions(), rows))
    return rows


def _with_note(sidecars: SidecarFiles, reason: str, hint: str) -> SidecarFiles:
    """The same with a note about the run as a whole."""
    note = Problem(RUN_ITSELF, None, None, reason, hint, "note")
    return replace(sidecars, problems=(*sidecars.problems, note))


def _run_of(
    storage: Storage,
    index: Extended,
    info: RunInfo,
    options: OpenOptions,
    sidecars: SidecarFiles,
    trainer: TrainerMetricsReader,
    rows: RunRows | None = None,
) -> Run:
    """rows: those that may be of the index. Raises BrokenIndexError where its steps can't be read."""
    derived = Derived(options.group_by_prompt)
    if rows is None or rows.manifest is not index.manifest or derived != AS_LOGGED:
        rows = RunRows(storage, index.manifest, info, derived=derived)
    reward = _reward_of(Run(info, OpenOptions(), rows, sidecars=sidecars), trainer, options.reward)
    if reward is not None and reward.total is not None:
        derived, known = replace(derived, reward=reward.total), rows.duplicates
        rows = RunRows(storage, index.manifest, info, duplicates=known, derived=derived)
    try:
        rows.patterns = read_rules(info).before(sidecars.causes)
    except ChoiceError as error:
        rows.patterns = sidecars.causes
        sidecars = _with_note(sidecars, str(error), "causes that people gave are left out")
    superseded, repeated = [*rows.files.superseded()], [*rows.repeated()]
    maybe = rows.files.maybe_written_again()
    log = ProblemLog(
        (*maybe, *sidecars.problems, *info.left_out, *index.problems, *superseded, *repeated)
    )
    log.extend(rows.joins.differences)
    if not options.read.outline:
        log.extend(_unread_fields(rows))
    log.extend(note_on(rows.model_split))
    if reward is not None:
        log.add(Problem(RUN_ITSELF, None, "reward", reward.summary, _CHOOSE_REWARD, "note"))
    for problem in (one for state in rows.files.states for one in state.all_problems):
        if reward is None or problem.reason != SEVERAL_REWARDS.reason:  # of the run more is known
            log.add(problem)
    run = Run(
        info=info,
        options=options,
        rows=rows,
        problems=log.as_tuple(),
        superseded=sum(note.count for note in superseded),
        repeated=sum(note.count for note in repeated),
        sidecars=sidecars,
        done=min(index.manifest.done, info.bytes),
        reward=reward,
    )
    run.step_table()  # an index that is damaged is made again now
    return run


def _reward_of(
    run: Run, trainer: TrainerMetricsReader, chosen: RewardSum | None
) -> RewardSource | None:
    """How the reward is got; None where the log has it, or no part of it. run: the rows of the log."""
    if not has_parts_alone(run):
        return None
    trainer.read(run)
    return reward_source(run, trainer.metrics(run), chosen)


def _unread_fields(rows: RunRows) -> Iterator[Problem]:
    """Notes on columns of such names, of a run in which no response, or no reward, was read. Raises
    BrokenIndexError.
    """
    columns = {column.name: column for column in rows.columns}
    unread: list[tuple[str, str]] = []
    if not columns.keys() & {"response", "response_tokens"}:
        unread += [("response", n) for n in OTHER_RESPONSES if n in columns and columns[n].texts]
    if "reward" not in columns:
        unread += [("reward", n) for n in OTHER_REWARDS if n in columns and columns[n].numbers]
    for field, name in unread:
        count = rows.table(f"SELECT count({rows.value(name)}) AS n FROM {rows.view()}")["n"][0]
        reason = f"{name} is not read as the {field}, and no other {field} is there"
        hint = _UNREAD_HINT.format(field)
        yield Problem(RUN_ITSELF, None, name, reason, hint, "note", count.as_py())


def reader_titles(info: RunInfo) -> str:
    """The formats of a run in words."""
    return ", ".join(map(format_title, info.formats))


def how_to_log(info: RunInfo, column: str, name: str) -> str:
    """How the formats of a run are made to hold a column, in a sentence. name: of it in logs."""
    hints = (reader_named(one).recording.get(column) for one in info.formats)
    other = f"{reader_titles(info)} has no {name}; the exporter logs it: docs/hooks.md."
    return next(filter(None, hints), other)


def format_title(name: str) -> str:
    """A format in words, by its reader's name."""
    return reader_named(name).title
