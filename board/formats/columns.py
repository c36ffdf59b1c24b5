"""Many lines of a log at once: a list for each key, and the fields of their Records as lists.

A Record for each line costs five times as much as parsing it. `RecordBuilder`'s checks are made of a
whole list here, since nearly always all its values are of one type. Any other row is left to `read`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain, compress
from operator import itemgetter
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from board.core.records import FloatArray, ReadOptions, Remark
from board.errors import RecordError
from board.formats.field_values import (
    NUMBER_IDS,
    TAKERS,
    is_truncated,
    read_id,
    read_score,
    read_step,
    read_text,
    without_system_prompt,
)
from board.formats.fields import SEVERAL_REWARDS, UNDATED
from board.formats.messages import (
    conversation_text,
    is_messages,
    message_texts,
    response_text,
    role_texts,
)
from board.formats.parse import as_object

Values = list[Any]
"""One value per row; None: the row has none."""
IntArray = npt.NDArray[np.int64]

_LARGEST_STEP: Final = 2**63 - 1
_NUMBERS: Final = frozenset({float, int, bool})
_TEXTS: Final = frozenset({str, type(None)})
_SPOKEN: Final = _TEXTS | {list}


@dataclass(frozen=True, slots=True)
class Block:
    """Rows of a log, one rollout each, by key, in the order of the first row's keys."""

    columns: Mapping[str, Values]
    rows: int

    @classmethod
    def of(cls, records: Sequence[Mapping[str, Any]]) -> Block:
        """The block of parsed lines."""
        keys = list(records[0]) if records else []
        # Lines of one writer have the same keys, nearly always.
        if len(keys) > 1 and set(map(len, records)) == {len(keys)}:
            try:
                columns = map(list, zip(*map(itemgetter(*keys), records), strict=True))
                return cls(dict(zip(keys, columns, strict=True)), len(records))
            except KeyError:
                pass
        keys = dict.fromkeys(chain.from_iterable(records))
        return cls({key: [r.get(key) for r in records] for key in keys}, len(records))

    def values(self, key: str) -> Values:
        """The values of a key; None in all rows without such a key."""
        return self.columns.get(key) or [None] * self.rows

    def row(self, row: int) -> dict[str, Any]:
        """One row as a mapping, a None for a key it has no value for."""
        return {key: values[row] for key, values in self.columns.items()}


@dataclass(frozen=True, slots=True)
class Columns:
    """What the Records of a block's rows hold, as lists by the names that `Record` has for them.

    Nothing is left out that a Record of these rows would have in the table; None: not recorded.
    scores: NaN where there is none. remarks: of every row. fallback_rows: rows of the block that are
    not here: `Reader.read` takes them. messages: role and text of each of Record.messages; None where no
    row has any.
    """

    steps: IntArray
    ids: Mapping[str, Values]
    texts: Mapping[str, Values]
    scores: Mapping[str, FloatArray]
    extras: Mapping[str, Values]
    remarks: Sequence[Remark]
    fallback_rows: frozenset[int]
    messages: Values | None = None


def finite_numbers(values: Values) -> list[float] | None:
    """The values as floats, if all are finite numbers; None for others, or where their sum overflows."""
    kinds = set(map(type, values))
    if not kinds <= _NUMBERS:
        return None
    try:
        numbers = values if kinds == {float} else list(map(float, values))
    except OverflowError:
        return None
    return numbers if math.isfinite(sum(numbers)) else None


def replace_nan(values: Values) -> Values:
    """The values, a None for each that is NaN."""
    if finite_numbers(values) is not None:
        return values
    return [None if value != value else value for value in values]


def fill(values: Values, defaults: Iterable[Any]) -> Values:
    """The values, in the place of each None the default of its row."""
    if None not in values:
        return values
    return [b if a is None else a for a, b in zip(values, defaults, strict=False)]


class ColumnBuilder:
    """Takes the keys of a block, as RecordBuilder takes those of a line, and builds the Columns."""

    def __init__(self, rows: int, options: ReadOptions) -> None:
        self.rows = rows
        self.options = options
        self.ids: dict[str, Values] = {}
        self.texts: dict[str, Values] = {}
        self.scores: dict[str, Values] = {}
        self.extras: dict[str, Values] = {}
        self.remarks: list[Remark] = []
        self._conversations: dict[str, tuple[Values, Values]] = {}
        self._fallback_rows: set[int] = set()

    def take(self, key: str, values: Values) -> None:
        """Takes one key of the block by the record's own name for it."""
        getattr(self, TAKERS.get(key, "_take_unknown"))(key, values)

    def take_extra(self, key: str, values: Values) -> None:
        """Takes a key as it is, whatever the record's name for it means."""
        self._put(self.extras, key, values)

    def _take_score(self, key: str, values: Values) -> None:
        numbers = finite_numbers(values)
        self._put(self.scores, key, self._each(read_score, values) if numbers is None else numbers)

    _take_unknown = take_extra
    _take_reward = _take_score

    def take_exchange(self, prompts: Values, responses: Values) -> None:
        """Takes prompts and responses that are texts or lists of chat messages, as the log has them."""
        self._take_spoken("prompt", prompts, conversation_text)
        self._take_spoken("response", responses, response_text)

    def _take_spoken(self, key: str, values: Values, text_of: Callable[..., str]) -> None:
        kinds = set(map(type, values))
        if list not in kinds:
            self._take_text(key, values)
            return
        spoken = [is_messages(value) for value in values]
        is_plain = kinds <= _SPOKEN and sum(spoken) == sum(type(v) is list for v in values)
        parts = [message_texts(v) if one else None for one, v in zip(spoken, values, strict=True)]
        texts = [v if p is None else text_of(v, p) for v, p in zip(values, parts, strict=True)]
        self._take_text(key, texts)
        if is_plain:
            self._conversations[key] = (values, parts)
        else:
            self.use_row_reader(row for row, is_one in enumerate(spoken) if is_one)

    def take_rewards(self, parts: Mapping[str, Values]) -> None:
        """Takes named rewards of which the log has no total, as RecordBuilder.take_rewards; each is in
        every row. NaN and None are parts that were not scored.
        """
        scored = {name: replace_nan(values) for name, values in parts.items()}
        for name, values in scored.items():
            self._take_score(f"rewards.{name}", values)
        if len(scored) == 1:
            self._take_score("reward", next(iter(scored.values())))
        elif scored:
            if all(None in values for values in scored.values()):
                rows = enumerate(zip(*scored.values(), strict=True))
                self.use_row_reader(row for row, values in rows if set(values) == {None})
            self.remarks.append(SEVERAL_REWARDS)

    def take_defaults(self, objects: Values) -> Set[str]:
        """Takes the entries of an object in each row where it has no such key itself; all their keys."""
        if objects.count(None) == len(objects):
            return frozenset()
        block = Block.of([as_object(one) for one in objects])
        for name, values in block.columns.items():
            self.extras[name] = fill(self.extras.get(name, values), values)
        return block.columns.keys()

    def default_ids(self, key: str, values: Values) -> None:
        """Gives an id to those rows that have none."""
        self.ids[key] = fill(self.ids.get(key, values), values)

    def use_row_reader(self, rows: Iterable[int]) -> None:
        """Leaves rows to `Reader.read`."""
        self._fallback_rows.update(rows)

    def _each(self, read: Callable[[Any], Any], values: Values) -> Values:
        """What `read` makes of each value; rows of which it can make nothing are fallback rows."""
        results: Values = []
        for row, value in enumerate(values):
            try:
                results.append(None if value is None else read(value))
            except (RecordError, RecursionError):
                self._fallback_rows.add(row)
                results.append(None)
        return results

    def _put(self, fields: dict[str, Values], key: str, values: Values) -> None:
        """Stores values; rows in which two keys of the log mean the same are fallback rows."""
        if (known := fields.get(key)) is not None:
            both = [a is not None and b is not None for a, b in zip(known, values, strict=True)]
            self.use_row_reader(compress(range(self.rows), both))
            values = fill(known, values)
        fields[key] = values

    def _leave(self, key: str, values: Values) -> None:
        """What `build` is given, or what says nothing of a rollout."""

    def _take_id(self, key: str, values: Values) -> None:
        kinds = set(map(type, values))
        if key in NUMBER_IDS or not (kinds <= _TEXTS or kinds == {int}):
            values = self._each(lambda value: read_id(key, value), values)
        elif kinds == {int}:
            values = list(map(str, values))
        self._put(self.ids, key, values)

    def _take_text(self, key: str, values: Values) -> None:
        if not set(map(type, values)) <= _TEXTS:
            values = self._each(lambda value: read_text(key, value), values)
        self._put(self.texts, key, values)

    def _take_parts(self, key: str, values: Values) -> None:
        self.use_row_reader(i for i, v in enumerate(values) if not isinstance(v, dict | None))
        parts = [as_object(value) for value in values]
        for name in dict.fromkeys(chain.from_iterable(parts)):
            self._take_score(f"rewards.{name}", [part.get(name) for part in parts])

    def _take_per_token(self, key: str, values: Values) -> None:
        """Leaves rows with values per token to `Reader.read`: their columns are made of arrays."""
        self.use_row_reader(row for row, value in enumerate(values) if value is not None)

    _take_array = _take_token_ids = _take_pieces = _take_topk = _take_objects = _take_per_token

    def build_undated(self) -> Columns:
        """The Columns of rollouts whose log has no step, at step 0; a note says so."""
        self.remarks.append(UNDATED)
        return self.build([0] * self.rows)

    def build(self, steps: Values) -> Columns:
        """The Columns of the rows that are not fallback rows."""
        numbers = self._read_steps(steps)
        self._derive_truncation()
        if self.options.system_prompt_end and (prompts := self.texts.get("prompt")) is not None:
            self.texts["prompt"] = [
                None if prompt is None else without_system_prompt(prompt, self.options)
                for prompt in prompts
            ]
        messages = self._messages()
        used = [row not in self._fallback_rows for row in range(self.rows)]

        def select(fields: Mapping[str, Values]) -> dict[str, Values]:
            if not self._fallback_rows:
                return dict(fields)
            return {key: list(compress(values, used)) for key, values in fields.items()}

        scores = select(self.scores)
        return Columns(
            numbers[used],
            select(self.ids),
            select(self.texts),
            {key: np.array(values, np.float64) for key, values in scores.items()},
            select(self.extras),
            self.remarks,
            frozenset(self._fallback_rows),
            None if messages is None else select({"": messages})[""],
        )

    def _messages(self) -> Values | None:
        """Role and text of each message, of all rows."""
        if len(self._conversations) < 2:
            return None
        (given, given_texts), (generated, generated_texts) = self._conversations.values()
        return [
            None if before is None or after is None else role_texts([*a, *b], [*before, *after])
            for a, b, before, after in zip(
                given, generated, given_texts, generated_texts, strict=True
            )
        ]

    def _read_steps(self, steps: Values) -> IntArray:
        if set(map(type, steps)) == {int} and abs(max(steps, key=abs)) <= _LARGEST_STEP:
            return np.array(steps, np.int64)
        # Texts around a number are remarked upon.
        self.use_row_reader(i for i, step in enumerate(steps) if not isinstance(step, int | float))
        return np.array(fill(self._each(read_step, steps), [0] * self.rows), np.int64)

    def _derive_truncation(self) -> None:
        if (reasons := self.texts.get("finish_reason")) is None:
            return
        known = self.scores.get("is_truncated", [None] * self.rows)
        self.scores["is_truncated"] = [
            is_truncated(reason) if one is None and reason is not None else one
            for one, reason in zip(known, reasons, strict=True)
        ]
