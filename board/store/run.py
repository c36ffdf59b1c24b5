"""A run, opened: its rollouts in order, its steps, and everything that was wrong with its files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt
import pandas as pd

from board.core.aggregate import COLUMNS
from board.core.metrics import REWARD_PART, ROLLOUT_METRICS
from board.core.options import ReadOptions
from board.core.problems import Problem, ProblemLog
from board.core.vocabulary import Vocabulary
from board.errors import NotFoundError
from board.readers import reader_named
from board.store.attempts import (
    Attempt,
    attempts_of,
    completeness,
    header_of,
    superseded_by_attempts,
    superseded_within_file,
)
from board.store.discovery import LogFile, RunInfo
from board.store.scan import Shard, ShardIndex, index_in_pieces
from board.store.steps import steps_table

Progress = Callable[[int, int], None]
"""Called with (bytes read, bytes in all) while a run is read."""

_PROGRESS_BYTES: Final = 8 << 20
_NUMBERS: Final = frozenset(ROLLOUT_METRICS) | frozenset(COLUMNS)
_TEXT: Final = ("rollout_id", "group_id", "env", "split", "finish_reason", "prompt", "response")
_PLACE: Final = ("step", "index", "file", "line", "offset", "size")
_PLAIN: Final = frozenset(
    {
        *_PLACE,
        *("rank", "micro_step", "policy_version", "timestamp", "pad_tokens", "missing_values"),
        *_TEXT,
    }
)


@dataclass(frozen=True, slots=True)
class OpenOptions:
    """How a run is opened. max_per_step: at most so many rollouts of each step are kept (None: all)."""

    read: ReadOptions = field(default_factory=ReadOptions)
    max_per_step: int | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """A run as it was when it was opened.

    rollouts: one row each, ordered by step and index; columns step, index, file (number in
        info.files), line, offset, size, ids, scores, aggregates, previews and logged extras. Columns
        of which the log holds nothing are absent.
    steps: one row per step, as `store.steps.steps_table` makes it, with `complete` where known.
    superseded: rollouts that a resumed run wrote again; over_cap: those beyond max_per_step. Neither
        is in `rollouts`.
    settings: content of run-*.json, by file name; vocabulary: from vocab.json, None if there is none.
    """

    info: RunInfo
    options: OpenOptions
    rollouts: pd.DataFrame
    steps: pd.DataFrame
    problems: tuple[Problem, ...]
    superseded: int = 0
    over_cap: int = 0
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    vocabulary: Vocabulary | None = None

    @property
    def metrics(self) -> tuple[str, ...]:
        """Columns of `rollouts` that make a curve: scores, aggregates and logged numbers."""
        return metric_columns(self.rollouts)

    def row(self, step: int, index: int) -> pd.Series[Any]:
        """The row of a rollout; raises NotFoundError naming what there is."""
        of_step = self.rollouts[self.rollouts["step"] == step]
        if len(of_step) == 0:
            raise NotFoundError(f"step {step} is not in {self.info.name}: {_range(self.steps)}")
        if not 0 <= index < len(of_step):
            raise NotFoundError(f"step {step} has rollouts 0 to {len(of_step) - 1}, not {index}")
        return of_step.iloc[index]


def _range(steps: pd.DataFrame) -> str:
    if len(steps) == 0:
        return "it has no steps"
    return f"it has {len(steps)} steps from {steps['step'].iloc[0]} to {steps['step'].iloc[-1]}"


def metric_columns(rollouts: pd.DataFrame) -> tuple[str, ...]:
    """Columns that make a curve, the known ones first, then reward parts, then what else is logged."""
    known = [name for name in ROLLOUT_METRICS if name in rollouts]
    others = [
        name
        for name in rollouts.columns
        if name not in _NUMBERS
        and name not in _PLAIN
        and pd.api.types.is_numeric_dtype(rollouts[name].dtype)
    ]
    others.sort(key=lambda name: not name.startswith(REWARD_PART))
    return (*known, *others)


def open_run(
    info: RunInfo, options: OpenOptions | None = None, progress: Progress | None = None
) -> Run:
    """Reads all files of a run. Files that can't be read become problems, never an error."""
    options = options or OpenOptions()
    settings, vocabulary, problems = _read_companions(info)
    problems.extend(info.left_out)
    shards = _index_files(info, options.read, vocabulary, problems, progress)
    files = [shard.events for shard in shards]
    attempts, of_file = attempts_of(files)
    rollouts = _concatenate(shards)
    rollouts, superseded = _without_superseded(rollouts, info, attempts, of_file, problems)
    rollouts = _in_order(rollouts)
    rollouts, over_cap = _capped(rollouts, options.max_per_step)
    rollouts = _tidy(rollouts)
    steps = steps_table(rollouts, metric_columns(rollouts))
    complete = completeness(
        files, attempts, of_file, _whole_numbers(rollouts, "step"), _whole_numbers(rollouts, "file")
    )
    if complete:
        known = [complete.get(int(step)) for step in steps["step"]]
        steps["complete"] = pd.Series(known, dtype=object)  # True, False or None: not known
    return Run(
        info,
        options,
        rollouts,
        steps,
        problems.as_tuple(),
        superseded,
        over_cap,
        settings,
        vocabulary,
    )


def _whole_numbers(rollouts: pd.DataFrame, column: str) -> npt.NDArray[np.int64]:
    return rollouts[column].to_numpy(np.int64)


def _read_companions(
    info: RunInfo,
) -> tuple[dict[str, Mapping[str, Any]], Vocabulary | None, ProblemLog]:
    """run-*.json and vocab.json beside the logs; what is wrong with them is a problem."""
    problems = ProblemLog()
    settings: dict[str, Mapping[str, Any]] = {}
    vocabulary = None
    for path in [*sorted(info.path.glob("run-*.json")), info.path / "vocab.json"]:
        if not path.is_file():
            continue
        try:
            content: object = json.loads(path.read_bytes())
            if not isinstance(content, dict):
                raise ValueError("no JSON object")
            if path.name == "vocab.json":
                vocabulary = Vocabulary.from_json(cast("dict[str, Any]", content))
            else:
                settings[path.name] = cast("dict[str, Any]", content)
        except (OSError, ValueError, RecursionError) as error:
            problems.add(Problem(path.name, None, None, f"can't be used: {error}", "", "partial"))
    return settings, vocabulary, problems


def _index_files(
    info: RunInfo,
    options: ReadOptions,
    vocabulary: Vocabulary | None,
    problems: ProblemLog,
    progress: Progress | None,
) -> list[ShardIndex]:
    done, total = 0, info.bytes
    shards: list[ShardIndex] = []
    for file in info.files:
        shown = file.path.relative_to(info.path).as_posix()
        shard = Shard(file.path, shown, file.reader, end=file.size)
        try:
            found = _index_file(
                shard, options, vocabulary, lambda n, d=done: _report(progress, d + n, total)
            )
        except OSError as error:
            hint = "was it moved or its permissions changed?"
            problems.add(Problem(shown, None, None, f"can't be read: {error.strerror}", hint))
            found = ShardIndex(shard, pd.DataFrame(), (), (), 0, 0)
        problems.extend(found.problems)
        shards.append(found)
        done += file.size
        _report(progress, done, total)
    return shards


def _report(progress: Progress | None, done: int, total: int) -> None:
    if progress is not None:
        progress(done, total)


def _index_file(
    shard: Shard,
    options: ReadOptions,
    vocabulary: Vocabulary | None,
    reached: Callable[[int], None],
) -> ShardIndex:
    for found in index_in_pieces(shard, options, vocabulary, _PROGRESS_BYTES):
        if isinstance(found, ShardIndex):
            return found
        reached(found)
    raise AssertionError("index_in_pieces ends with the index")


def _concatenate(shards: list[ShardIndex]) -> pd.DataFrame:
    """All rows, with the number of their file and, where rows have none, the rank of the header."""
    frames: list[pd.DataFrame] = []
    for number, shard in enumerate(shards):
        rows = shard.rows
        if len(rows) == 0:
            continue
        rows["file"] = np.int32(number)
        rank = header_of(shard.events).get("rank")
        if isinstance(rank, int):
            rows["rank"] = rows["rank"].fillna(rank) if "rank" in rows else rank
        frames.append(rows)
    if not frames:
        columns = ("step", "file", "line", "offset", "size")
        return pd.DataFrame({name: np.array([], np.int64) for name in columns})
    # A chunk that never saw a column has no say in its type.
    return pd.concat([frame.dropna(axis=1, how="all") for frame in frames], ignore_index=True)


def _without_superseded(
    rollouts: pd.DataFrame,
    info: RunInfo,
    attempts: list[Attempt],
    of_file: list[str | None],
    problems: ProblemLog,
) -> tuple[pd.DataFrame, int]:
    if len(rollouts) == 0:
        return rollouts, 0
    steps, files = _whole_numbers(rollouts, "step"), _whole_numbers(rollouts, "file")
    superseded = superseded_by_attempts(steps, files, attempts, of_file)
    for own in _append_only(rollouts, files, of_file):
        superseded[own] |= superseded_within_file(steps[own])
    counts = np.bincount(files[superseded], minlength=len(info.files))
    for number, file in enumerate(info.files):
        if counts[number]:
            own = superseded & (files == number)
            problems.add(_superseded_note(file, info.path, steps, own))
    return rollouts[~superseded], int(superseded.sum())


def _append_only(
    rollouts: pd.DataFrame, files: npt.NDArray[np.int64], of_file: list[str | None]
) -> Iterator[npt.NDArray[np.intp]]:
    """Row numbers of what each process wrote to a file without a header, in file order."""
    ranks = np.full(len(files), -1.0)
    if "rank" in rollouts:
        ranks = rollouts["rank"].fillna(-1).to_numpy(np.float64)
    for number, attempt in enumerate(of_file):
        own = np.flatnonzero(files == number) if attempt is None else np.array([], np.intp)
        for rank in np.unique(ranks[own]):
            yield own[ranks[own] == rank]


def _superseded_note(file: LogFile, folder: Path, steps: Any, rows: Any) -> Problem:
    own = steps[rows]
    reason = f"steps {own.min()} to {own.max()} were written again after a resume"
    hint = "the later rollouts are shown; these are counted here"
    shown = file.path.relative_to(folder).as_posix()
    return Problem(shown, None, "step", reason, hint, "note", int(rows.sum()))


def _in_order(rollouts: pd.DataFrame) -> pd.DataFrame:
    """Ordered by step, rank, file and line, with each rollout's index within its step."""
    keys = [key for key in ("step", "rank", "file", "line") if key in rollouts]
    ordered = rollouts.sort_values(keys, kind="stable", ignore_index=True)
    ordered["index"] = ordered.groupby("step").cumcount().astype(np.int32)
    return ordered


def _capped(rollouts: pd.DataFrame, max_per_step: int | None) -> tuple[pd.DataFrame, int]:
    if max_per_step is None:
        return rollouts, 0
    kept = rollouts[rollouts["index"] < max_per_step].reset_index(drop=True)
    return kept, len(rollouts) - len(kept)


def _tidy(rollouts: pd.DataFrame) -> pd.DataFrame:
    """Derived columns, types, and no column of which nothing is recorded."""
    frame = rollouts.copy()
    if "reward" in frame and "ref_reward" in frame:
        frame["reward_gap"] = frame["reward"] - frame["ref_reward"]
    empty = [c for c in frame.columns if c not in _PLACE and frame[c].isna().all()]
    frame = frame.drop(columns=empty)
    for name in ("rank", "micro_step", "policy_version"):
        if name in frame and frame[name].notna().all():
            frame[name] = frame[name].astype(np.int64)
    for name in [c for c in frame.columns if c not in _PLAIN and frame[c].dtype == object]:
        frame[name] = _of_one_type(frame[name])
    if "response_tokens" in frame and "response_chars" in frame:
        frame = frame.drop(columns="response_chars")
    for name in ("group_id", "env", "split", "finish_reason"):
        if name in frame:
            frame[name] = frame[name].astype("category")
    first = [c for c in ("step", "index", "rank", "group_id", "env") if c in frame]
    return frame[[*first, *(c for c in frame.columns if c not in first)]]


def _of_one_type(values: pd.Series[Any]) -> pd.Series[Any]:
    """Numbers where each recorded value is one or is written as one, else text: a column sorts."""
    numbers = pd.to_numeric(values, errors="coerce")
    if numbers.notna().equals(values.notna()):
        return numbers
    return values.map(str, na_action="ignore").astype("str")


def reader_titles(info: RunInfo) -> str:
    """The formats of a run in words."""
    return ", ".join(reader_named(name).title for name in info.formats)
