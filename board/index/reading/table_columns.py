"""What a reader's `columns` says of many rollouts -> the columns of the table, as scan makes its rows."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyarrow ships without types.

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, cast

import numpy as np

from board.core.metrics.definitions import ROLLOUT_METRICS, base_name
from board.core.records import FloatArray
from board.formats.columns import Columns, finite_numbers
from board.formats.texts import PREVIEW_CHARS, Numbers, Values, Words
from board.index import segments
from board.index.whole_texts import stored_messages

_LONGEST_PAUSE: Final = 64
"""Stretches of lines, of half a megabyte each."""

_RESERVED: Final = (
    frozenset((*ROLLOUT_METRICS, *map(base_name, ROLLOUT_METRICS), "index")) | segments.FIXED
)
"""Columns the board fills itself."""


def column_name(key: str) -> str:
    """The column of a key of the log: `logged.KEY` where the board has another column of that name."""
    return f"logged.{key}" if key in _RESERVED else key


def cell(value: object) -> float | str | None:
    """A number or short text of an extra key; None for what has no place in a table."""
    if isinstance(value, bool | int | float):
        try:
            number = float(value)
        except OverflowError:
            return None
        return number if math.isfinite(number) else None
    return value[:PREVIEW_CHARS] if isinstance(value, str) else None


def preview(text: str | None) -> str | None:
    """The first characters of a text."""
    if text is None or len(text) <= PREVIEW_CHARS:
        return text
    return text[: PREVIEW_CHARS - 1] + "…"


def table_columns(found: Columns) -> tuple[dict[str, Any], list[str]] | None:
    """The table's columns without location, and which of them are unknown to the board.

    A column is a list of values, a numpy array, NaN where there is none, or a pyarrow Array of the type
    that it has in a table. None where two keys of the log make one column: which of them a row shows is
    for the row to say.
    """
    columns: dict[str, Any] = {"step": found.steps, **found.ids, **found.scores}
    if (responses := found.texts.get("response")) is not None:
        columns["response_chars"] = responses.lengths()
    if (reasons := found.texts.get("finish_reason")) is not None:
        columns["finish_reason"] = reasons.whole()
    for key in ("prompt", "response"):
        if (texts := found.texts.get(key)) is not None:
            columns[key] = texts.previews()
            if (cut := texts.cut_texts()) is not None:
                columns[segments.WHOLE + key] = cut
    for key in ("ref_response", "ground_truth"):
        if (texts := found.texts.get(key)) is not None:
            columns[segments.WHOLE + key] = texts.whole()
    if found.messages is not None:
        texts = (found.texts["prompt"].whole(), found.texts["response"].whole())
        columns[segments.MESSAGES] = [
            stored_messages(own, prompt, response) if own else None
            for own, prompt, response in zip(found.messages, *texts, strict=True)
        ]
    for key, values in found.extras.items():
        cells, name = _cells(values), column_name(key)
        if cells is None:
            continue
        if name in columns:
            return None
        columns[name] = cells
    unknown = [name for name in columns if name not in segments.FIXED]
    return columns, [name for name in unknown if _holds_any(columns[name])]


def _holds_any(values: Values | FloatArray) -> bool:
    """Whether any row has a value."""
    if isinstance(values, np.ndarray):
        return not np.isnan(values).all()
    return values.count(None) < len(values)


def _cells(values: Values) -> Values | FloatArray | None:
    """The cells of an extra key; None where no row has any."""
    if isinstance(values, Numbers):
        return values.floats if _holds_any(values.floats) else None
    if isinstance(values, Words) and values.lengths is not None:
        is_short = values.lengths.max(initial=0) <= PREVIEW_CHARS
        return values if is_short else Words(value[:PREVIEW_CHARS] for value in values)
    kinds = set(map(type, values))
    if kinds == {str}:
        return [value[:PREVIEW_CHARS] for value in values]
    if (numbers := finite_numbers(values)) is not None:
        return numbers
    if kinds.isdisjoint((str, float, int, bool)):
        return None
    cells = list(map(cell, values))
    return None if cells.count(None) == len(cells) else cells


class PendingColumns:
    """Columns of rows that wait until there are enough for a table."""

    def __init__(self) -> None:
        self.rows = 0
        self._pieces: dict[str, list[Any]] = {}

    def add(self, columns: Mapping[str, Any], rows: int) -> None:
        """Adds so many rows; a column that one of both lacks is not recorded there.

        columns: Values, numpy arrays, or pyarrow Arrays of the type that the column has in a table.
        """
        for name, values in columns.items():
            if isinstance(values, np.ndarray | Words):
                values = segments.array_of(cast("Values", values))
            known = self._pieces.get(name)
            if known is None:
                known = self._pieces[name] = [[None] * self.rows] if self.rows else []
            known.append(values)
        for name in self._pieces.keys() - columns.keys():
            self._pieces[name].append([None] * rows)
        self.rows += rows

    def table(self) -> Any:
        """All rows as a pyarrow Table; none are pending afterwards."""
        columns = {name: segments.joined_values(name, p) for name, p in self._pieces.items()}
        table: Any = segments.table_of_columns(columns)
        self.rows, self._pieces = 0, {}
        return table


class Backoff:
    """Whether lines are worth being taken together: after failures it is tried less and less often.

    Lines with values per token can't be, and are parsed twice when it is tried.
    """

    def __init__(self) -> None:
        self._pause = 0
        self._next_pause = 1

    def should_try(self) -> bool:
        """Whether to try it with these lines."""
        self._pause -= 1
        return self._pause < 0

    def record(self, worked: bool) -> bool:
        """Takes note of whether it could be done, and gives that back."""
        if worked:
            self._next_pause = 1
        else:
            self._pause = self._next_pause
            self._next_pause = min(2 * self._next_pause, _LONGEST_PAUSE)
        return worked
