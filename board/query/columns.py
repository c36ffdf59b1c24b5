"""The columns of the table of rollouts: which there are, which make a curve, and their values.

Rows stay as they are stored; a column is made into numbers or a pandas series when it is looked at.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from board.core.metrics.aggregate import COLUMNS
from board.core.metrics.definitions import REWARD_PART, ROLLOUT_METRICS
from board.index import segments
from board.index.segments import Column

_NO_CURVE: Final = frozenset(
    (
        *("step", "index", "file", *segments.LOCATION, segments.PART, *COLUMNS, *segments.TEXTS),
        *("rank", "micro_step", "policy_version", "timestamp", "pad_tokens"),
    )
)
_WORDS: Final = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+")
_IDS: Final = frozenset(("id", "idx", "index", "uid", "uuid"))
"""Last words of names of what tells rollouts apart: also where it is a number, its mean says nothing."""
_FIRST: Final = ("step", "index", "rank", "group_id", "env")
GAP: Final = "reward_gap"
_KEYS: Final = frozenset((segments.REPEAT_KEY, *segments.JOIN_KEYS, segments.PROMPT_KEY))


def with_derived(columns: Sequence[Column], *, has_rank: bool) -> tuple[Column, ...]:
    """The columns of the table of rollouts, those that every run has first."""
    by_name = {column.name: column for column in columns if column.name not in _KEYS}
    if has_rank:
        by_name["rank"] = Column("rank", numbers=True)
    for name in ("step", "index", "file", *segments.LOCATION):
        by_name[name] = Column(name, numbers=True)
    if "reward" in by_name and "ref_reward" in by_name:
        by_name[GAP] = Column(GAP, numbers=True)
    if "response_tokens" in by_name:
        by_name.pop("response_chars", None)
    first = [by_name.pop(name) for name in _FIRST if name in by_name]
    fixed = [by_name.pop(name) for name in segments.FIXED_ORDER if name in by_name]
    return (*first, *fixed, *sorted(by_name.values(), key=lambda column: column.name))


def metrics_of(columns: Sequence[Column]) -> tuple[str, ...]:
    """Columns that make a curve: known ones first, then reward parts, then what else is logged."""
    numbers = [column.name for column in columns if not column.words]
    others = [name for name in numbers if not (name in ROLLOUT_METRICS or _has_no_curve(name))]
    others.sort(key=lambda name: not name.startswith(REWARD_PART))
    return (*(name for name in ROLLOUT_METRICS if name in numbers), *others)


def _has_no_curve(name: str) -> bool:
    if name.startswith(REWARD_PART):
        return False
    words = _WORDS.findall(name)
    return name in _NO_CURVE or bool(words and words[-1].lower() in _IDS)


@dataclass(frozen=True, slots=True)
class StoredRows:
    """Rows of some steps. columns: that the run has, those of the table among them. indices: [rows] the
    index of each within its step.
    """

    columns: Sequence[Column]
    table: pa.Table
    indices: npt.NDArray[np.int32]

    def only(self, keep: npt.NDArray[np.bool_]) -> StoredRows:
        """Some of the rows. keep: [rows] which."""
        return replace(self, table=self.table.filter(pa.array(keep)), indices=self.indices[keep])

    def numbers(self, name: str) -> npt.NDArray[np.float64]:
        """[rows] a column as numbers, NaN where it has none or is not there.

        A frame of it would take longer to make than the column to read.
        """
        column = next((column for column in self.columns if column.name == name), None)
        if column is not None and not column.texts and name in self.table.column_names:
            return self.table.column(name).cast(pa.float64()).to_numpy()
        stored = f"{segments.NUMBER}{name}"
        if column is not None and not column.texts and stored in self.table.column_names:
            return self.table.column(stored).to_numpy()
        return numbers(self.frame((name,)), name)

    def frame(self, names: Collection[str] | None = None) -> pd.DataFrame:
        """Columns of the run by their names, derived ones too; None: all. Those that the table lacks are
        not recorded in any row.
        """
        derived: dict[str, Any] = {"index": self.indices}
        if names is None or GAP in names:
            derived[GAP] = self._numbers("reward") - self._numbers("ref_reward")
        wanted = [column for column in self.columns if names is None or column.name in names]
        return frame_of(self.table, wanted, derived)

    def _numbers(self, name: str) -> npt.NDArray[np.float64]:
        if name not in self.table.column_names:
            return np.full(self.table.num_rows, np.nan)
        return self.table.column(name).to_pandas().to_numpy(np.float64)


def numbers(rows: pd.DataFrame, column: str) -> npt.NDArray[np.float64]:
    """[rows] a column as numbers, NaN where it has none or is not there."""
    values = rows.get(column)
    if values is None or not pd.api.types.is_numeric_dtype(values):
        return np.full(len(rows), np.nan)
    return values.to_numpy(np.float64, na_value=np.nan)


def frame_of(
    table: pa.Table, columns: Sequence[Column], derived: Mapping[str, Any] | None = None
) -> pd.DataFrame:
    """The table as a frame with these columns; a column that it lacks is not recorded in any row.

    derived: columns that are not of the table, by name, in place of those of that name.

    Whole numbers are int64 where all rows have one and else float64; a logged key is of numbers where
    no row of the run holds a word under it.
    """
    series: dict[str, Any] = {}
    for column in columns:
        if derived is not None and column.name in derived:
            series[column.name] = derived[column.name]
            continue
        stored = [name for name in segments.stored_names(column) if name in table.column_names]
        arrays = [table.column(name) for name in stored]
        series[column.name] = _series(column, arrays, table.num_rows)
    return pd.DataFrame(series)


def _series(column: Column, arrays: list[pa.ChunkedArray], rows: int) -> Any:
    name = column.name
    if not arrays:
        missing = pa.nulls(rows, pa.string() if column.words else pa.float64())
        arrays = [pa.chunked_array([missing])]
    if name in segments.CATEGORIES:
        return _category(arrays[0])
    if column.words:
        texts = [
            array.to_pandas().astype("str") if _is_text(array) else _as_text(array)
            for array in arrays
        ]
        return texts[0] if len(texts) == 1 else texts[0].fillna(texts[1])
    if len(arrays) == 1 and not _is_text(arrays[0]):
        values = arrays[0].to_numpy()
        return values if values.dtype.kind == "i" else values.astype(np.float64, copy=False)
    numbers = [_as_numbers(array) for array in arrays]
    whole = numbers[0] if len(numbers) == 1 else numbers[0].fillna(numbers[1])
    return whole if pd.api.types.is_integer_dtype(whole.dtype) else whole.astype("float64")


def _as_numbers(array: pa.ChunkedArray) -> pd.Series[Any]:
    """The values as numbers, NaN where there is none; of texts each different one is looked at once."""
    if not _is_text(array) or not len(array):
        return pd.to_numeric(array.to_pandas())
    encoded = pa.concat_arrays(array.chunks).dictionary_encode()
    values = pd.to_numeric(encoded.dictionary.to_pandas()).to_numpy()
    if array.null_count:
        values = np.append(values.astype(np.float64), np.nan)
    return pd.Series(values[encoded.indices.fill_null(-1).to_numpy()])


def _is_text(array: pa.ChunkedArray) -> bool:
    return pa.types.is_string(array.type)


def _as_text(numbers: pa.ChunkedArray) -> Any:
    return numbers.to_pandas().map(str, na_action="ignore").astype("str")


def _category(texts: pa.ChunkedArray) -> Any:
    """Texts as a category whose values are in order, as pandas would have it."""
    values = sorted(value for value in pc.unique(texts).to_pylist() if value is not None)
    codes = pc.index_in(texts, pa.array(values, pa.string())).fill_null(-1)
    return pd.Categorical.from_codes(codes.to_numpy().astype("int32"), pd.Index(values))
