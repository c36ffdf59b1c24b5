"""Rollouts that findings name: of a step no more is read than a rule looks at."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from board.core.findings.facts import StepRows
from board.core.groups.statistics import Groups
from board.core.metrics.definitions import REWARD_PART
from board.core.records import FloatArray
from board.index import group_ids
from board.index.stored_rows import StoredRows
from board.query.groups import places_of
from board.query.open_run import Run

_COLUMNS: Final = (
    *("reward", "advantage", "response_tokens", "is_truncated", "rank", "timestamp"),
    *("k3_mean", "entropy_mean"),
)
_LABELS: Final = (*group_ids.COLUMNS, "env")
_ROWS_KEPT: Final = 16
_ALONE: Final = 2


class RowsOfSteps:
    """The rollouts of a step, read when a rule names some of them; the last few steps are kept.

    groups: of the run; envs: names of its environments.
    """

    def __init__(self, run: Run, groups: Groups | None, envs: Sequence[str]) -> None:
        self._run, self._groups, self._envs = run, groups, envs
        parts = (name for name in run.columns if name.startswith(REWARD_PART))
        self._numbers = [name for name in (*_COLUMNS, *parts) if name in run.columns]
        self._kept: dict[int, StepRows] = {}

    def __call__(self, step: int) -> StepRows:
        """As Facts.rows_of."""
        if step not in self._kept:
            if len(self._kept) >= _ROWS_KEPT:
                self._kept.pop(next(iter(self._kept)))
            self._kept[step] = self._read(step)
        return self._kept[step]

    def _read(self, step: int) -> StepRows:
        def read(columns: Sequence[str]) -> StoredRows:
            return self._run.stored_rows(step, columns)

        return _StepRows(step, read, self._numbers, self._groups, self._envs)


@dataclass(frozen=True)
class _StepRows:
    """StepRows whose columns are read when a rule asks for them: mostly for one, by which rollouts are
    named, or for their environment, too; for a third one all are. numbers: names of the columns; of_run:
    groups of the run; names: of its environments.
    """

    step: int
    read: Callable[[Sequence[str]], StoredRows]
    numbers: Sequence[str]
    of_run: Groups | None
    names: Sequence[str]
    _alone: list[tuple[str, StoredRows]] = field(default_factory=list[tuple[str, StoredRows]])

    def rows(self, column: str) -> StoredRows:
        """The rollouts with a column, and maybe with others."""
        if "_all" in self.__dict__:
            return self._all
        found = next((rows for name, rows in self._alone if name == column), None)
        if found is None and len(self._alone) < _ALONE:
            self._alone.append((column, found := self.read((column,))))
        return self._all if found is None else found

    @cached_property
    def _all(self) -> StoredRows:
        return self.read((*self.numbers, *_LABELS))

    @property
    def indices(self) -> npt.NDArray[np.int64]:
        rows = self._alone[0][1] if self._alone else self._all
        return rows.indices.astype(np.int64)

    @property
    def columns(self) -> Mapping[str, FloatArray]:
        return self._columns

    @property
    def groups(self) -> npt.NDArray[np.int64]:
        return self._groups

    @property
    def envs(self) -> npt.NDArray[np.int64]:
        rows = self.rows("env")
        return _places(rows.frame(("env",)), self.names, len(rows.indices))

    @cached_property
    def _columns(self) -> Mapping[str, FloatArray]:
        return _Numbers(self.rows, self.numbers)

    @cached_property
    def _groups(self) -> npt.NDArray[np.int64]:
        if self.of_run is None:
            return np.full(len(self.indices), -1, np.int64)
        return places_of(self.of_run, self.step, self._all.frame(group_ids.COLUMNS))


def _places(rows: pd.DataFrame, envs: Sequence[str], count: int) -> npt.NDArray[np.int64]:
    """[count] the place of each rollout's environment among these, -1 for none."""
    if "env" not in rows:
        return np.full(count, -1, np.int64)
    of = {name: place for place, name in enumerate(envs)}
    places = np.array([*(of.get(str(n), -1) for n in rows["env"].cat.categories), -1], np.int64)
    return places[np.asarray(rows["env"].cat.codes, np.int64)]


class _Numbers(Mapping[str, FloatArray]):
    """Columns of rows as numbers, read and converted when they are asked for."""

    def __init__(self, rows: Callable[[str], StoredRows], names: Sequence[str]) -> None:
        self._rows, self._names = rows, names
        self._made: dict[str, FloatArray] = {}

    def __getitem__(self, name: str) -> FloatArray:
        if name not in self._names:
            raise KeyError(name)
        if name not in self._made:
            self._made[name] = self._rows(name).numbers(name)
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Any:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
