"""The rollouts of a whole run as a table of which no more is read than is looked at.

A column is read when it is filtered or sorted by; of the other columns the rows alone that are shown.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
# pyarrow ships without types, and makes its compute functions when it is imported.

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Final, Protocol

import numpy as np
import pandas as pd
import pyarrow as pa

from board.errors import UnreadableError
from board.store import segments
from board.store.index_rows import Layout
from board.store.manifest import BrokenIndexError
from board.store.run import Run
from board.store.stored_rows import StoredRows
from board.store.tally import IntArray

_MOST_BYTES: Final = 256 << 20
"""Of the columns that were looked at last; a beginning of a response takes 200 bytes or so."""


_OF_ORDER: Final = ("step", "index")
"""Columns that follow from where the rollouts stand, without reading any."""


class Rows(Protocol):
    """Rollouts in their order, as the table of a page shows them."""

    @property
    def columns(self) -> Sequence[str]:
        """Names of the columns."""
        ...

    def __len__(self) -> int: ...

    def __contains__(self, name: object) -> bool: ...

    def __getitem__(self, name: str) -> pd.Series[Any]:
        """[rollouts] a column; texts that recur may be a category or not."""
        ...

    def at(self, places: IntArray, names: Sequence[str] | None = None) -> pd.DataFrame:
        """Some rollouts, by their places among these; None is all columns."""
        ...


class FrameRows:
    """Rollouts that are at hand. frame: as Run.of_step has them."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame
        self.columns: Sequence[str] = [str(name) for name in frame.columns]

    def __len__(self) -> int:
        return len(self._frame)

    def __contains__(self, name: object) -> bool:
        return name in self._frame

    def __getitem__(self, name: str) -> pd.Series[Any]:
        return self._frame[name]

    def at(self, places: IntArray, names: Sequence[str] | None = None) -> pd.DataFrame:
        """As Rows."""
        rows = self._frame.iloc[places]
        return rows if names is None else rows[[name for name in names if name in rows]]


def rows_of_run(run: Run) -> Rows:
    """The rollouts of a run. Where several logs are joined all is read at once.

    Raises UnreadableError when the index was taken away meanwhile, now or when rows are asked for.
    """
    return FrameRows(run.rollouts) if run.info.is_joined else RunRows(run)


def prepare(run: Run) -> None:
    """Begins, in a thread of its own, to find out where the rollouts of a run stand: for those who will
    ask for all of them.
    """
    if not run.info.is_joined and not run.shown.knows_layout:
        threading.Thread(target=_prepared, args=(run,), name="layout", daemon=True).start()


def _prepared(run: Run) -> None:
    with contextlib.suppress(BrokenIndexError):  # who asks for the rollouts hears of it
        run.shown.layout()


class RunRows:
    """The rollouts of a run whose logs are not joined. Safe to use from any thread."""

    def __init__(self, run: Run) -> None:
        self.columns: Sequence[str] = run.columns
        self._run = run
        self._lock = threading.RLock()
        self._kept: OrderedDict[str, pd.Series[Any]] = OrderedDict()
        counts = run.shown.counts()
        self._steps = np.fromiter(counts, np.int64, len(counts))
        self._sizes = np.fromiter(counts.values(), np.int64, len(counts))
        self._starts = np.cumsum(self._sizes) - self._sizes
        self._layout = self._whole_layout()
        self._held = self._held_places()

    def __len__(self) -> int:
        return int(self._sizes.sum()) if self._held is None else len(self._held)

    def __contains__(self, name: object) -> bool:
        return name in self.columns

    def __getitem__(self, name: str) -> pd.Series[Any]:
        if name not in self:
            raise KeyError(name)
        with self._lock:
            if name not in self._kept:
                self._keep(name, self._column(name))
            self._kept.move_to_end(name)
            return self._kept[name]

    def read(self, names: Sequence[str]) -> None:
        """Reads columns that will be asked for: together that takes less than one after the other."""
        with self._lock:
            wanted = [n for n in names if n in self and n not in (*self._kept, *_OF_ORDER)]
            if len(wanted) > 1:
                table = self._table(wanted)
                for name in wanted:
                    self._keep(name, self._column(name, table))

    def _keep(self, name: str, values: pd.Series[Any]) -> None:
        if self._held is not None:
            values = values.iloc[self._held].reset_index(drop=True)
        self._kept[name] = values
        while len(self._kept) > 1 and self._bytes() > _MOST_BYTES:
            self._kept.popitem(last=False)

    def _bytes(self) -> int:
        return sum(int(values.memory_usage()) for values in self._kept.values())

    def at(self, places: IntArray, names: Sequence[str] | None = None) -> pd.DataFrame:
        """As Rows."""
        wanted = self.columns if names is None else [name for name in names if name in self]
        whole = np.asarray(places if self._held is None else self._held[places], np.int64)
        steps, indices = self._address(whole)
        shown = self._run.shown
        besides = ("file",) if "rank" in wanted else ()  # as in _table
        read_names = [name for name in wanted if name not in _OF_ORDER]
        stored = [n for n in shown.stored_names(read_names, besides) if n != "step"]
        table = pa.table({"step": steps})
        try:
            read = shown.index.at(self._layout, whole, stored) if stored else table.select([])
        except BrokenIndexError as error:
            raise self._gone(error) from error
        for name in read.column_names:
            if name != "step":
                table = table.append_column(name, read.column(name))
        frame = StoredRows(shown.columns, table, indices.astype(np.int32)).frame({*wanted})
        return frame[[*wanted]].set_axis(places, axis=0)

    def _address(self, whole: IntArray) -> tuple[IntArray, IntArray]:
        """Step and index of the rollouts at places among all."""
        of = np.searchsorted(self._starts, whole, side="right") - 1
        return self._steps[of], whole - self._starts[of]

    def _column(self, name: str, read: pa.Table | None = None) -> pd.Series[Any]:
        """A column of all rollouts of the run that this one is a part of. read: a table with it."""
        if name == "step":
            return pd.Series(np.repeat(self._steps, self._sizes))
        if name == "index":
            within = np.arange(self._sizes.sum()) - np.repeat(self._starts, self._sizes)
            return pd.Series(within.astype(np.int32))
        table = self._table((name,)) if read is None else read
        if name in segments.CATEGORIES:
            return table.column(name).to_pandas().astype("str")
        none = np.zeros(table.num_rows, np.int32)
        return StoredRows(self._run.shown.columns, table, none).frame({name})[name]

    def _table(self, names: Sequence[str]) -> pa.Table:
        shown = self._run.shown
        besides = ("file",) if "rank" in names else ()  # of those that say which rank wrote them
        try:
            return shown.index.column(self._layout, shown.stored_names(names, besides))
        except BrokenIndexError as error:
            raise self._gone(error) from error

    def _whole_layout(self) -> Layout:
        try:
            return self._run.shown.layout()
        except BrokenIndexError as error:
            raise self._gone(error) from error

    def _gone(self, error: BrokenIndexError) -> UnreadableError:
        index = self._run.shown.index
        index.storage.discard(index.manifest)
        name = self._run.info.name
        return UnreadableError(f"the index of {name} was changed meanwhile ({error}); reload")

    def _held_places(self) -> IntArray | None:
        """Places, among all rollouts, of those of this run; None: of all of them."""
        run, cap = self._run, self._run.options.max_per_step
        if run.selection is not None:
            try:
                steps, indices = run.selection.addresses()
            except BrokenIndexError as error:
                raise self._gone(error) from error
            return self._starts[np.searchsorted(self._steps, steps)] + indices
        if cap is not None and (self._sizes > cap).any():
            return np.flatnonzero(self._column("index").to_numpy() < cap)
        return None
