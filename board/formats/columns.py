"""The fields of many rollouts, gathered by key: what the table of an index is made of.

A Record for each line costs five times as much as parsing it, and nearly always all values of a key are
of the types that are expected there. Rollouts with anything else, padding or arrays of unequal length
among it, are left to `fields.record_of`, which says of each value what is wrong with it.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from operator import itemgetter
from typing import Any, Final

import numpy as np

from board.core.arrays import FloatArray, IntArray
from board.core.metrics.aggregate import NEEDED
from board.core.records import ReadOptions
from board.errors import RecordError
from board.formats.conversation_columns import take_conversations
from board.formats.field_values import (
    EXTRA,
    LARGEST_WHOLE,
    LOGGED_INDEX,
    NUMBER_IDS,
    TAKERS,
    is_truncated,
    without_system_prompt,
)
from board.formats.fields import is_flat_numbers
from board.formats.messages import is_messages
from board.formats.number_arrays import RawNumbers, lengths_together, values_together
from board.formats.parse import (
    LACKS_DIGITS,
    are_sentences,
    as_object,
    is_list,
    is_texts,
    lacks_digits,
)

Values = list[Any]
"""One value per row; None: the row has none."""
Columns = dict[str, Values]
"""Fields of many rollouts: the values of each name, a value per rollout."""

_NOTHING: Final = type(None)
_NUMBER: Final = frozenset({float, int, bool, _NOTHING})
_USUAL_TYPES: Final[Mapping[str, frozenset[type]]] = {
    "_take_score": _NUMBER,
    "_take_reward": _NUMBER,
    "_take_id": frozenset({str, int, _NOTHING}),
    "_take_text": frozenset({str, _NOTHING}),
    "_take_failure": frozenset({str, _NOTHING}),
    "_take_array": frozenset({RawNumbers, _NOTHING}),
    "_take_token_ids": frozenset({RawNumbers, _NOTHING}),
    "_take_pieces": frozenset({list, _NOTHING}),
    "_take_parts": frozenset({dict, _NOTHING}),
    "_take_objects": frozenset({_NOTHING}),
}
"""By RecordBuilder's methods, the types of values that it takes as they are."""
_USUAL_TYPES_OF_KEY: Final[Mapping[str, frozenset[type]]] = {
    "remarks": frozenset({tuple, _NOTHING}),
    **dict.fromkeys(NUMBER_IDS, frozenset({int, _NOTHING})),
    **dict.fromkeys(("prompt", "response"), frozenset({str, list, _NOTHING})),
    "timestamp": frozenset({int, float, _NOTHING}),
    "ground_truth": frozenset({str, int, float, bool, _NOTHING}),
    "step": frozenset({int, float}),
}
_OUTLINED: Final = frozenset(
    {"_take_index", "_take_id", "_take_score", "_take_reward", "_take_parts", "_leave"}
)
"""The methods that take what an outline has."""
_SINGLE: Final = _NUMBER | {str}
_WHOLE_NUMBERS: Final = frozenset({"step", *NUMBER_IDS} - {"timestamp"})
_AGGREGATED: Final = ("loss_mask", *NEEDED)


@dataclass(slots=True)
class FieldColumns:
    """What the Records of some rollouts hold, by the names that `Record` has for it; a value per row.

    rows: which of the rollouts that were given these are. scores: NaN where there is none. remarks: a
    tuple for each row. messages: role and text of each of Record.messages; outputs: their ToolOutputs;
    tool_uses: their ToolUse. lengths: tokens of the response. arrays: what aggregates are made of,
    recorded in all rows or none; other_arrays: all others, as logged. In each row all arrays are of one
    length.
    """

    rows: Sequence[int]
    steps: IntArray
    ids: dict[str, Values]
    texts: dict[str, Values]
    scores: dict[str, FloatArray]
    extras: dict[str, Values]
    remarks: Values | None
    messages: Values | None
    outputs: Values | None
    tool_uses: Values | None
    lengths: Values
    token_ids: dict[str, Values]
    pieces: Values
    arrays: dict[str, list[FloatArray]]
    other_arrays: dict[str, Values]


def gather(rows: Sequence[Mapping[str, Any]]) -> Columns:
    """The values of each key, None for rows without it, in the order of the first row's keys."""
    keys = list(rows[0]) if rows else []
    # Lines of one writer have the same keys, nearly always.
    if len(keys) > 1 and set(map(len, rows)) == {len(keys)}:
        try:
            columns = map(list, zip(*map(itemgetter(*keys), rows), strict=True))
            return dict(zip(keys, columns, strict=True))
        except KeyError:
            pass
    return {key: [r.get(key) for r in rows] for key in dict.fromkeys(chain.from_iterable(rows))}


def finite_numbers(values: Values) -> list[float] | None:
    """The values as floats, if all are finite numbers; None for others, or where their sum overflows."""
    kinds = set(map(type, values))
    if not kinds <= {float, int, bool}:
        return None
    try:
        numbers = values if kinds == {float} else list(map(float, values))
    except OverflowError:
        return None
    return numbers if math.isfinite(sum(numbers)) else None


def outline(columns: Columns) -> Columns:
    """The columns of ids and scores, and those of unknown keys with a single value in each row."""
    return {
        key: values
        for key, values in columns.items()
        if TAKERS.get(key) in _OUTLINED or (key not in TAKERS and set(map(type, values)) <= _SINGLE)
    }


def usual_columns(columns: Columns, rows: int, options: ReadOptions) -> FieldColumns:
    """The columns of those rollouts that need no closer look, of so many."""
    columns.setdefault("step", [None] * rows)
    parts = columns.pop("rewards", [])
    unusual = set(_unusual_rows("rewards", parts, options))
    named = gather([as_object(part) for part in parts])
    scores = {f"rewards.{name}": values for name, values in named.items()}
    for key, values in columns.items():
        unusual.update(_unusual_rows(key, values, options))
    for values in scores.values():
        unusual.update(_unusual_numbers("reward", values))
        unusual.update(i for i, v in enumerate(values) if type(v) not in _NUMBER)
    tokens = _Tokens(columns, unusual, rows)
    used: Sequence[int] = range(rows)
    if unusual:
        used = [row for row in used if row not in unusual]
        tokens.select(used)
        columns, scores = _select(columns, used), _select(scores, used)
    return _made(used, columns, scores, tokens, options)


def _select(columns: Mapping[str, Values], used: Sequence[int]) -> dict[str, Values]:
    return {key: [values[row] for row in used] for key, values in columns.items()}


def _unusual_rows(key: str, values: Values, options: ReadOptions) -> Iterator[int]:
    """Rows whose value of a key has to be looked at by itself."""
    taker = TAKERS.get(key, "")
    usual = _USUAL_TYPES_OF_KEY.get(key) or _USUAL_TYPES.get(taker)
    kinds = set(map(type, values))
    if usual is None:
        if list in kinds:
            yield from (i for i, value in enumerate(values) if _has_odd_numbers(value))
        return
    if not kinds <= usual:
        yield from (i for i, value in enumerate(values) if type(value) not in usual)
    if usual <= _NUMBER and kinds != {_NOTHING}:
        yield from _unusual_numbers(key, values)
    elif list in kinds:
        is_usual = is_messages if taker == "_take_text" else _without_padding(options)
        yield from (i for i, v in enumerate(values) if is_list(v) and not is_usual(v))


def _has_odd_numbers(value: object) -> bool:
    """Whether it is a list of numbers, one of which may be too large for an array."""
    if not is_list(value) or not is_flat_numbers(value):
        return False
    return finite_numbers([number for number in value if number is not None]) is None


def _unusual_numbers(key: str, values: Values) -> Iterator[int]:
    """Rows whose number is none that the table can hold."""
    whole = key in _WHOLE_NUMBERS
    if not whole and finite_numbers(values) is not None:
        return
    most = LARGEST_WHOLE if whole else sys.float_info.max
    if whole and set(map(type, values)) == {int} and -most <= min(values) <= max(values) <= most:
        return
    for row, value in enumerate(values):
        is_number = isinstance(value, int | float)
        if is_number and not (-most <= value <= most and (not whole or value == int(value))):
            yield row


def _without_padding(options: ReadOptions) -> Callable[[Any], bool]:
    """Tells lists of texts that are pieces for certain, without padding at their ends."""
    markers = options.pad_markers

    def are_pieces(values: Any) -> bool:
        if not values or not is_texts(values) or values[0] in markers or values[-1] in markers:
            return False
        return not are_sentences(values)

    return are_pieces


class _Tokens:
    """What rows hold of each token. Rows in which lengths differ are added to the unusual ones."""

    def __init__(self, columns: Mapping[str, Values], unusual: set[int], rows: int) -> None:
        self._rows = rows
        self._unusual = unusual
        self.token_ids: dict[str, Values] = {}
        logged: dict[str, Values] = {}
        for key, values in columns.items():
            if (taker := TAKERS.get(key)) in ("_take_array", "_take_token_ids"):
                recorded = logged if taker == "_take_array" else self.token_ids
                recorded[key] = [
                    v if isinstance(v, RawNumbers) and not v.only_nulls() else None for v in values
                ]
        pieces = columns.get("response_tokens", ())
        self.pieces: Values = [one if is_list(one) else None for one in pieces] or [None] * rows
        aggregated = self._aggregated(logged)
        self.other_arrays = {k: v for k, v in logged.items() if k not in aggregated}
        self.arrays = self._parsed(aggregated)
        self.lengths = self._lengths()

    def select(self, used: Sequence[int]) -> None:
        """Leaves out the other rows."""
        self.lengths, self.pieces = ([own[i] for i in used] for own in (self.lengths, self.pieces))
        self.token_ids = _select(self.token_ids, used)
        self.other_arrays = _select(self.other_arrays, used)
        self.arrays = _select(self.arrays, used)

    def _usual_rows(self) -> list[int]:
        return [row for row in range(self._rows) if row not in self._unusual]

    def _aggregated(self, logged: Mapping[str, Values]) -> dict[str, Values]:
        """The arrays for aggregates that the first row has; rows that have others are unusual."""
        rows = self._usual_rows()
        names = [k for k in _AGGREGATED if k in logged and rows and logged[k][rows[0]] is not None]
        for name in _AGGREGATED:
            for row, array in enumerate(logged.get(name, ())):
                if (array is not None) != (name in names):
                    self._unusual.add(row)
        return {} if names == ["loss_mask"] else {name: logged[name] for name in names}

    def _parsed(self, arrays: Mapping[str, Values]) -> dict[str, list[FloatArray]]:
        """The values of arrays; rows with anything but numbers are unusual."""
        rows = self._usual_rows()
        parsed: dict[str, list[FloatArray]] = {n: [np.empty(0)] * self._rows for n in arrays}
        raw = [values[row] for values in arrays.values() for row in rows]
        together = values_together(raw) if raw else None
        places = ((name, row) for name in arrays for row in rows)
        if together is not None:
            flat, lengths = together
            for (name, row), end, n in zip(places, accumulate(lengths), lengths, strict=True):
                parsed[name][row] = flat[end - n : end]
            return parsed
        for (name, row), array in zip(places, raw, strict=True):
            try:
                parsed[name][row] = array.values()
            except RecordError:
                self._unusual.add(row)
        return parsed

    def _lengths(self) -> Values:
        """The length of each response, None without tokens; where two differ the row is unusual."""
        arrays = [*self.arrays.values(), self.pieces, *self.other_arrays.values()]
        if len(arrays) == 1 and not self.token_ids and self.pieces.count(None) == self._rows:
            return self.pieces
        counts = np.array(
            [_counted(own) for own in (*arrays, self.token_ids.get("response_ids", self.pieces))]
        )
        longest = counts.max(axis=0)
        shortest = np.where(counts < 0, longest, counts).min(axis=0)
        self._unusual.update(np.flatnonzero((longest != shortest) | (longest == 0)).tolist())
        return [None if length < 0 else length for length in longest.tolist()]


def _counted(arrays: Sequence[Any]) -> list[int]:
    """The length of each array, -1 where there is none."""
    if arrays and isinstance(arrays[0], RawNumbers) and None not in arrays:
        return lengths_together(arrays)
    return [-1 if array is None else len(array) for array in arrays]


def _made(
    rows: Sequence[int],
    columns: Mapping[str, Values],
    parts: Mapping[str, Values],
    tokens: _Tokens,
    options: ReadOptions,
) -> FieldColumns:
    ids: dict[str, Values] = {}
    texts: dict[str, Values] = {}
    extras: dict[str, Values] = {}
    scores = dict(parts)
    for key, values in columns.items():
        taker = TAKERS.get(key, "")
        if taker == "_take_id":
            is_text = key not in NUMBER_IDS and int in set(map(type, values))
            ids[key] = _as_texts(values) if is_text else values
        elif taker == "_take_text":
            texts[key] = _as_texts(values) if key == "ground_truth" else values
        elif taker == "_take_failure":
            texts["failure"] = values
        elif taker in ("_take_score", "_take_reward"):
            scores[key] = values
        elif taker == "_take_index":
            extras[LOGGED_INDEX] = values
        elif taker in ("", "_take_topk") and key != "remarks":
            key = key.removeprefix(EXTRA)
            extras[key] = filled(values, extras[key]) if key in extras else values
    messages, outputs, tool_uses = take_conversations(texts)
    if options.system_prompt_end and (prompts := texts.get("prompt")) is not None:
        texts["prompt"] = [
            None if prompt is None else without_system_prompt(prompt, options) for prompt in prompts
        ]
    if (reasons := texts.get("finish_reason")) is not None:
        known = scores.get("is_truncated", [None] * len(rows))
        scores["is_truncated"] = [
            is_truncated(reason) if one is None and reason is not None else one
            for one, reason in zip(known, reasons, strict=True)
        ]
    return FieldColumns(
        rows,
        np.array(columns["step"], np.int64),
        ids,
        texts,
        {key: np.array(values, np.float64) for key, values in scores.items()},
        extras,
        columns.get("remarks"),
        messages,
        outputs,
        tool_uses,
        tokens.lengths,
        tokens.token_ids,
        tokens.pieces,
        tokens.arrays,
        tokens.other_arrays,
    )


def filled(values: Values, defaults: Values) -> Values:
    """The values, in the place of each None the default of its row."""
    return [b if a is None else a for a, b in zip(values, defaults, strict=True)]


def _as_texts(values: Iterable[Any]) -> Values:
    return [
        value if value is None or type(value) is str else _text_of_number(value) for value in values
    ]


def _text_of_number(value: Any) -> str:
    if lacks_digits(value):
        raise RecordError(LACKS_DIGITS)
    return str(value)
