"""A run, opened: its rollouts in order, its steps, and everything that was wrong with its files.

What is needed of every page (steps, counts, problems) is at hand at once; rollouts are read from the
index when somebody asks for them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeVar

import pandas as pd

from board.core.problems import Problem
from board.core.records import ReadOptions
from board.core.tokens.vocabulary import Vocabulary
from board.errors import NotFoundError
from board.index.discovery.discovered_runs import RunInfo
from board.index.discovery.sidecar_files import SidecarFiles
from board.index.segments import PART
from board.index.storage import StepRange
from board.query.columns import StoredRows
from board.query.joins import JoinCount
from board.query.selection import Selection
from board.query.visible_rows import VisibleRows

_MAX_CACHED_STEPS: Final = 8
T = TypeVar("T")
JoinedPlaces = dict[tuple[int, int, int], list[dict[str, int]]]
"""By file, line and part of a row, where those stand that it is joined with."""
_ORDER: Final = ("step", "rank", "file", "line", PART)
"""Columns by which rollouts are ordered, which every frame has."""
_ALWAYS: Final = frozenset(("step", "index", "file", "line", "offset", "size"))


@dataclass(frozen=True, slots=True)
class OpenOptions:
    """How a run is opened. max_per_step: at most so many rollouts of each step are kept (None: all)."""

    read: ReadOptions = field(default_factory=ReadOptions)
    max_per_step: int | None = None


@dataclass(slots=True)
class _Loaded:
    """Frames of a run that were asked for."""

    lock: threading.RLock = field(default_factory=threading.RLock)
    rollouts: pd.DataFrame | None = None
    of_step: dict[int, pd.DataFrame] = field(default_factory=dict[int, pd.DataFrame])
    joined: dict[int, JoinedPlaces] = field(default_factory=dict[int, JoinedPlaces])
    remembered: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Run:
    """A run as it was when it was opened.

    visible: which of its rows count. selection: the rollouts that it has. steps: one row per step, as
    `steps.steps_table` makes it, with `complete` where known. counts: rollouts by step.
    columns: of the table of rollouts; those of which the log holds nothing are absent. metrics: columns
    that make a curve. superseded: rollouts that a resumed run wrote again; repeated: further copies of
    rollouts that the log holds already; over_cap: those beyond max_per_step; none of them is visible.
    joins: how far each log was joined to the others, none where there is one. missing_ranks: by step that
    is still written, the ranks that have not ended it. done: bytes of the log that were read, of
    `info.bytes`. index_folder: where its index is; None: in memory.
    whole: the run of which this one has the rollouts of some environments (envs; none: of all), of one
    split (None: of all) or of a filter (where; empty: none) alone; None: this is the whole. Rollouts
    have the index that they have within the whole step, and `row` finds every one of those.
    """

    info: RunInfo
    options: OpenOptions
    visible: VisibleRows
    selection: Selection
    steps: pd.DataFrame
    counts: Mapping[int, int]
    columns: tuple[str, ...]
    metrics: tuple[str, ...]
    problems: tuple[Problem, ...]
    superseded: int = 0
    repeated: int = 0
    over_cap: int = 0
    joins: tuple[JoinCount, ...] = ()
    missing_ranks: Mapping[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])
    sidecars: SidecarFiles = field(default_factory=SidecarFiles)
    done: int = 0
    index_folder: Path | None = None
    whole: Run | None = None
    envs: tuple[str, ...] = ()
    split: str | None = None
    where: str = ""
    _loaded: _Loaded = field(default_factory=_Loaded)

    @property
    def settings(self) -> Mapping[str, Mapping[str, Any]]:
        """Content of run-*.json and metadata.json, by file name."""
        return self.sidecars.settings

    @property
    def vocabulary(self) -> Vocabulary | None:
        """From vocab.json; None where there is none that can be used."""
        return self.sidecars.vocabulary

    @property
    def rollout_count(self) -> int:
        """Rollouts that are shown."""
        return sum(self.counts.values())

    def changed(self, **fields: Any) -> Run:
        """The run with other values of these fields, and nothing remembered."""
        return replace(self, **fields, _loaded=_Loaded())

    def remembered(self, name: str, make: Callable[[], T]) -> T:
        """What `make` gives, made once for this run and kept as long as it."""
        with self._loaded.lock:
            if name not in self._loaded.remembered:
                self._loaded.remembered[name] = make()
            return self._loaded.remembered[name]

    @property
    def rollouts(self) -> pd.DataFrame:
        """All rollouts, one row each, ordered by step and index; read at the first call.

        Columns step, index, file (number in info.files), line, offset, size, ids, scores, aggregates,
        previews and logged extras. Raises UnreadableError when the index was taken away meanwhile.
        """
        with self._loaded.lock:
            if self._loaded.rollouts is None:
                frame = self._frame(None)
                empty = [c for c in frame if c not in _ALWAYS and frame[c].isna().all()]
                # A column that other rollouts of the whole run record stays.
                self._loaded.rollouts = frame.drop(columns=empty) if self.whole is None else frame
            return self._loaded.rollouts

    def of_step(self, step: int) -> pd.DataFrame:
        """The rollouts of one step, with the labels and columns they have among all of them."""
        with self._loaded.lock:
            if self._loaded.rollouts is not None:
                return self._loaded.rollouts[self._loaded.rollouts["step"] == step]
            frames = self._loaded.of_step
            if step not in frames:
                frame = self._frame((step, step))
                frame.index += sum(count for s, count in self.counts.items() if s < step)
                while len(frames) >= _MAX_CACHED_STEPS:
                    frames.pop(next(iter(frames)))
                frames[step] = frame
            return frames[step]

    def chosen(self, columns: Sequence[str]) -> pd.DataFrame:
        """These columns of all rollouts, with step and index, without reading the others.

        A column of which the log holds nothing is left out.
        """
        with self._loaded.lock:
            if self._loaded.rollouts is not None:
                names = [c for c in ("step", "index", *columns) if c in self._loaded.rollouts]
                return self._loaded.rollouts[list(dict.fromkeys(names))]
        wanted = tuple(c for c in columns if c in self.columns)
        return self._frame(None, wanted)

    def rows_of(self, step: int, columns: Sequence[str]) -> pd.DataFrame:
        """These columns of the rollouts of one step, with step and index, without reading the others."""
        with self._loaded.lock:
            if self._loaded.rollouts is not None or step in self._loaded.of_step:
                rows = self.of_step(step)
                names = [c for c in ("step", "index", *columns) if c in rows]
                return rows[list(dict.fromkeys(names))]
        return self.rows_of_steps((step, step), columns)

    def rows_of_steps(self, steps: StepRange, columns: Sequence[str]) -> pd.DataFrame:
        """As `rows_of`, of a range of steps."""
        return self._frame(steps, tuple(c for c in columns if c in self.columns))

    def stored_rows(self, step: int, columns: Sequence[str]) -> StoredRows:
        """As `rows_of`, as they are stored: in a fraction of the time where few columns are looked at."""
        return self._stored((step, step), [c for c in columns if c in self.columns])

    def superseded_rollouts(self) -> pd.DataFrame:
        """Rollouts that a resumed run wrote again, as `rollouts` would have them."""
        return self.selection.hidden_rows().frame()

    def joined_places(self, row: Mapping[str, Any] | pd.Series[Any]) -> list[dict[str, int]]:
        """Where the rows stand that a row is joined of beside its own: file (number in info.files), line,
        offset, size and part of each; none in a run that is not joined.
        """
        if not self.info.is_joined:
            return []
        part = row.get(PART)
        key = (
            int(row["file"]),
            int(row["line"]),
            0 if part is None or pd.isna(part) else int(part),
        )
        return self._joined_of(int(row["step"])).get(key, [])

    def _joined_of(self, step: int) -> JoinedPlaces:
        with self._loaded.lock:
            by_step = self._loaded.joined
            if step not in by_step:
                by_lead: JoinedPlaces = {}
                for place in self.selection.joined_addresses(step):
                    key = (place.pop("lead_file"), place.pop("lead_line"), place.pop("lead_part"))
                    by_lead.setdefault(key, []).append(place)
                while len(by_step) >= _MAX_CACHED_STEPS:
                    by_step.pop(next(iter(by_step)))
                by_step[step] = by_lead
            return by_step[step]

    @property
    def version(self) -> str:
        """Another one whenever anything of the run may be different."""
        vocabulary = f"{self.sidecars.vocabulary_hash} {self.sidecars.vocabulary_error}"
        chosen = f" {self.envs!r} {self.split!r} {self.where}" if self.whole is not None else ""
        return f"{self.visible.rows.version} {self.done} {vocabulary}{chosen}"

    def total(self, column: str) -> float:
        """Sum of a column over all rollouts; 0 where the log holds nothing of it."""
        if column not in self.columns:
            return 0.0

        def added() -> float:
            own = self.selection
            sql = f"SELECT sum({own.column(column)}) AS total FROM {own.view} WHERE {own.condition}"
            return float(own.table(sql)["total"][0].as_py() or 0)

        return self.remembered(f"total {column}", added)

    def _frame(self, steps: StepRange | None, columns: Sequence[str] | None = None) -> pd.DataFrame:
        rows = self._stored(steps, columns)
        frame = rows.frame(None if columns is None else {*columns, *_ORDER, "index"})
        return frame[[name for name in self.columns if name in frame]]

    def _stored(self, steps: StepRange | None, columns: Sequence[str] | None) -> StoredRows:
        """The rollouts of a range of steps, with columns of _ORDER. columns: None is all."""
        wanted = None if columns is None else (*dict.fromkeys((*columns, *_ORDER)),)
        return self.selection.stored_rows(steps, wanted)

    def row(self, step: int, index: int, columns: Sequence[str] | None = None) -> pd.Series[Any]:
        """The row of a rollout; raises NotFoundError naming what there is.

        columns: all that is needed of it, which may spare reading the others.
        """
        if self.whole is not None:
            return self.whole.row(step, index, columns)
        count = self.counts.get(step, 0)
        if count == 0:
            raise NotFoundError(f"step {step} is not in {self.info.name}: {_range(self.counts)}")
        if not 0 <= index < count:
            raise NotFoundError(f"step {step} has rollouts 0 to {count - 1}, not {index}")
        with self._loaded.lock:
            if self._loaded.rollouts is not None or step in self._loaded.of_step:
                return self.of_step(step).iloc[index]
        rows = self._stored((step, step), columns)
        one = replace(rows, table=rows.table[index : index + 1], indices=rows.indices[[index]])
        frame = one.frame(None if columns is None else {*columns, *_ORDER, "index"})
        frame.index += index + sum(count for s, count in self.counts.items() if s < step)
        return frame[[n for n in self.columns if n in frame]].astype(object).iloc[0]


def _range(counts: Mapping[int, int]) -> str:
    if not counts:
        return "it has no steps"
    return f"it has {len(counts)} steps from {min(counts)} to {max(counts)}"
