"""Many lines at once: a list for each key, and the fields of their Records as lists.

A Record for each line costs five times as much as parsing it. Where lines hold texts and numbers only,
the checks of `RecordBuilder` can be made of a whole list, since nearly always all its values are of one
type. A row with anything else in it is not decided here: it is left to the reader's `read`.
"""

# pyright: reportUnknownMemberType=false, reportMissingTypeStubs=false
# pyarrow ships without types.

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain, compress
from typing import Any, ClassVar, Final, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from board.core import schema
from board.core.options import ReadOptions
from board.core.records import FloatArray, Remark
from board.errors import RecordError
from board.formats.block import Block, as_texts, kept_rows, listed
from board.formats.field_values import (
    NUMBER_IDS,
    is_truncated,
    read_id,
    read_score,
    read_text,
    without_system_prompt,
)
from board.formats.fields import SEVERAL_REWARDS, TEXT_KEYS, UNDATED
from board.formats.messages import conversation_text, is_messages, response_text, role_texts
from board.formats.step_of import read_step
from board.formats.texts import Numbers, SpokenTexts, Texts, Values, Words

IntArray = npt.NDArray[np.int64]
Ids = Any
"""Values of which each is a text or None, or a pyarrow Array of strings, which has no type to name."""

_LARGEST_STEP: Final = 2**63 - 1
_EXACT: Final = 2.0**53
"""Below it a float is one whole number and no other."""
_NOTHING: Final = type(None)
_NUMBERS: Final = frozenset({float, int, bool})
_JSON_TEXTS: Final = frozenset({str, _NOTHING})
_SPOKEN: Final = frozenset({str, _NOTHING, list})


@dataclass(frozen=True, slots=True)
class Columns:
    """What the Records of a block's rows hold, as lists by the names that `Record` has for them.

    Nothing is left out that a Record of these rows would have in the table; None: not recorded, as NaN in
    scores that are arrays.
    remarks: said of every row. fallback_rows: rows of the block
    that are not here: `Reader.read` takes them.
    messages: [rows] role and text of each of Record.messages; None where no row has any.
    """

    steps: IntArray
    ids: Mapping[str, Ids]
    texts: Mapping[str, Texts]
    scores: Mapping[str, Values | FloatArray]
    extras: Mapping[str, Values]
    remarks: Sequence[Remark]
    fallback_rows: frozenset[int]
    messages: Values | None = None


def finite_numbers(values: Values) -> list[float] | None:
    """The values as floats, if all are finite numbers; None for others, or where their sum overflows."""
    kinds = set(map(type, values))
    if not kinds <= _NUMBERS:
        return None
    numbers = values if kinds == {float} else list(map(float, values))
    return numbers if math.isfinite(sum(numbers)) else None


def without_nan(values: Values) -> Values:
    """The values, a None for each that is NaN."""
    if isinstance(values, Numbers) or finite_numbers(values) is not None:
        return values
    return [None if value != value else value for value in values]


def filled(values: Values, default: object) -> Values:
    """The values, a default for each None."""
    if not _lacks_any(values):
        return values
    return [default if value is None else value for value in values]


def _whole(numbers: FloatArray) -> IntArray | None:
    """The numbers as whole ones; None where any is none, or so large that it may stand for another."""
    if not (abs(numbers) < _EXACT).all():  # nor of NaN
        return None
    whole = numbers.astype(np.int64)
    return whole if np.array_equal(whole, numbers) else None


def listed_ids(ids: Ids) -> Values:
    """The ids as a list of texts, None where a row has none."""
    return ids.to_pylist() if isinstance(ids, pa.Array) else ids


def _numbers_as_texts(numbers: Values) -> Ids:
    """Whole numbers as texts, by Arrow where it can: Python takes four times as long."""
    whole = _whole(numbers.floats) if isinstance(numbers, Numbers) else None
    if whole is None:
        return Words(map(str, numbers))
    return cast("Ids", pa.array(whole).cast(pa.string()))


def _lacks_any(values: Values) -> bool:
    if isinstance(values, Numbers):
        return bool(np.isnan(values.floats).any())
    return None in values


def _plain_scores(values: Values | FloatArray) -> Values:
    """The scores, a None where there is none."""
    if isinstance(values, np.ndarray):
        return [None if math.isnan(value) else value for value in values.tolist()]
    return values


def _kept_texts(values: Values | Texts, kept: list[bool] | None) -> Texts:
    """As kept_rows, of texts."""
    texts = as_texts(values)
    return texts if kept is None else texts.kept(kept)


class ColumnBuilder:
    """Takes the keys of a block, as RecordBuilder takes those of a line, and builds the Columns."""

    def __init__(self, rows: int, options: ReadOptions) -> None:
        self.rows = rows
        self.options = options
        self.ids: dict[str, Ids] = {}
        self.texts: dict[str, Values | Texts] = {}
        self.scores: dict[str, Values | FloatArray] = {}
        self.extras: dict[str, Values] = {}
        self.remarks: list[Remark] = []
        self._fallback_rows: set[int] = set()

    def take(self, key: str, values: Values) -> None:
        """Takes one key of the block by the record's own name for it. Ids may be as of put_id."""
        self._takers.get(key, ColumnBuilder.take_extra)(self, key, values)

    def take_extra(self, key: str, values: Values) -> None:
        """Takes a key as it is, whatever the record's name for it means."""
        self._put(self.extras, key, values)

    def take_score(self, key: str, values: Values) -> None:
        """Takes a scalar score."""
        if isinstance(values, Numbers):
            self._put_score(key, values.floats)
            return
        self._put_score(key, finite_numbers(values) or self._each(read_score, values))

    def _put_score(self, key: str, values: Values | FloatArray) -> None:
        if (known := self.scores.pop(key, None)) is None:
            self.scores[key] = values
            return
        self.scores[key] = _plain_scores(known)
        self._put(self.scores, key, _plain_scores(values))

    def take_exchange(self, prompts: Values | Texts, responses: Values | Texts) -> None:
        """Takes prompts and responses that are texts or lists of chat messages, as the log has them."""
        self._take_spoken("prompt", prompts, generated=False)
        self._take_spoken("response", responses, generated=True)

    def _take_spoken(self, key: str, values: Values | Texts, *, generated: bool) -> None:
        if isinstance(values, Texts):
            self._put(self.texts, key, values)
            return
        kinds = set(map(type, values))
        spoken: list[bool] = [is_messages(value) for value in values]
        if kinds <= _SPOKEN and spoken.count(True) == list(map(type, values)).count(list):
            self._put(self.texts, key, SpokenTexts(values, generated=generated))
            return
        text_of = response_text if generated else conversation_text
        self._take_text(
            key, [text_of(v) if is_one else v for v, is_one in zip(values, spoken, strict=True)]
        )
        self.use_row_reader([place for place, is_one in enumerate(spoken) if is_one])

    def take_rewards(self, parts: Mapping[str, Values]) -> None:
        """Takes named rewards of which the log has no total, as RecordBuilder.take_rewards; each is in
        every row. NaN and None are parts that were not scored.
        """
        scored = {name: without_nan(values) for name, values in parts.items()}
        for name, values in scored.items():
            self.take_score(f"rewards.{name}", values)
        if len(scored) == 1:
            self._put_score("reward", next(iter(scored.values())))
        elif scored:
            if all(None in values for values in scored.values()):
                rows = enumerate(zip(*scored.values(), strict=True))
                self.use_row_reader([row for row, values in rows if set(values) == {None}])
            self.remarks.append(SEVERAL_REWARDS)

    def take_defaults(self, objects: Values) -> Set[str]:
        """Takes the entries of an object in each row where it has no such key itself; all their keys."""
        if objects.count(None) == len(objects):
            return frozenset()
        if set(map(type, objects)) != {dict}:
            objects = [one if isinstance(one, dict) else {} for one in objects]
        held = Block.of(objects)
        for name, values in held.items():
            if (known := self.extras.get(name)) is not None:
                if not _lacks_any(known):
                    continue
                values = [b if a is None else a for a, b in zip(known, values, strict=True)]
            self.extras[name] = values
        return held.columns.keys()

    def set_id(self, key: str, value: object) -> None:
        """Gives all rows an id."""
        self.ids[key] = (Words if isinstance(value, str) else list)([value] * self.rows)

    def put_id(self, key: str, values: Ids) -> None:
        """Takes ids that were read already."""
        if (known := self.ids.get(key)) is None:
            self.ids[key] = values
            return
        self.ids[key] = listed_ids(known)
        self._put(self.ids, key, listed_ids(values))

    def default_ids(self, key: str, values: Values) -> None:
        """Gives an id to those rows that have none."""
        if (known := self.ids.get(key)) is not None:
            pairs = zip(listed_ids(known), values, strict=True)
            values = [b if a is None else a for a, b in pairs]
        self.ids[key] = values

    def use_row_reader(self, places: Sequence[int]) -> None:
        """Leaves rows to `Reader.read`."""
        self._fallback_rows.update(places)

    def _each(self, read: Callable[[Any], Any], values: Values) -> Values:
        """What `read` makes of each value; rows of which it can make nothing are fallback rows."""
        found: Values = []
        for place, value in enumerate(values):
            try:
                found.append(None if value is None else read(value))
            except (RecordError, RecursionError):
                self._fallback_rows.add(place)
                found.append(None)
        return found

    def _put(self, fields: dict[str, Any], key: str, values: Values | Texts) -> None:
        """Keeps values; rows in which two keys of the log mean the same are fallback rows."""
        known: Values | Texts | None = fields.get(key)
        if known is not None:
            pairs = list(zip(listed(known), listed(values), strict=True))
            both = [a is not None and b is not None for a, b in pairs]
            self._fallback_rows.update(compress(range(self.rows), both))
            values = [b if a is None else a for a, b in pairs]
        fields[key] = values

    def _leave(self, key: str, values: Values) -> None:
        """What `build` is given, or what says nothing of a rollout."""

    def _take_id(self, key: str, values: Ids) -> None:
        if isinstance(values, Words | pa.Array) and key not in NUMBER_IDS:
            self.put_id(key, values)
            return
        kinds = set(map(type, values))
        if kinds == {int} and key not in NUMBER_IDS:
            self.put_id(key, _numbers_as_texts(values))
            return
        if key in NUMBER_IDS or not kinds <= _JSON_TEXTS:
            values = self._each(lambda value: read_id(key, value), values)
        self.put_id(key, values)

    def _take_text(self, key: str, values: Values) -> None:
        if not isinstance(values, Words) and not set(map(type, values)) <= _JSON_TEXTS:
            values = self._each(lambda value: read_text(key, value), values)
        self._put(self.texts, key, values)

    def _take_reward_parts(self, key: str, values: Values) -> None:
        kinds = set(map(type, values))
        if not kinds <= {dict, _NOTHING}:
            self._fallback_rows.update(
                i for i, v in enumerate(values) if not isinstance(v, dict | None)
            )
            values = [value if isinstance(value, dict) else None for value in values]
        parts = [cast("dict[str, Any]", value or {}) for value in values]
        for name in dict.fromkeys(chain.from_iterable(parts)):
            self.take_score(f"rewards.{name}", [part.get(name) for part in parts])

    def _take_per_token(self, key: str, values: Values) -> None:
        """Leaves rows with values per token to `Reader.read`: their columns are made of arrays."""
        self._fallback_rows.update(place for place, value in enumerate(values) if value is not None)

    def build_undated(self) -> Columns:
        """As RecordBuilder.build_undated."""
        self.remarks.append(UNDATED)
        return self.build(Numbers([0] * self.rows, np.zeros(self.rows)))

    def build(self, steps: Values) -> Columns:
        """The Columns of the rows that are not fallback rows."""
        numbers = self._read_steps(steps)
        self._derive_truncation()
        messages = self._messages()
        if self.options.system_prompt_end and (prompts := self.texts.get("prompt")) is not None:
            self.texts["prompt"] = [
                None if prompt is None else without_system_prompt(prompt, self.options)
                for prompt in listed(prompts)
            ]
        kept = (
            [place not in self._fallback_rows for place in range(self.rows)]
            if self._fallback_rows
            else None
        )
        return Columns(
            kept_rows(numbers, kept),
            {key: kept_rows(values, kept) for key, values in self.ids.items()},
            {key: _kept_texts(values, kept) for key, values in self.texts.items()},
            {key: kept_rows(values, kept) for key, values in self.scores.items()},
            {key: kept_rows(values, kept) for key, values in self.extras.items()},
            self.remarks,
            frozenset(self._fallback_rows),
            None if messages is None else kept_rows(messages, kept),
        )

    def _messages(self) -> Values | None:
        """As Columns.messages, of all rows."""
        given, generated = self.texts.get("prompt"), self.texts.get("response")
        if not isinstance(given, SpokenTexts) or not isinstance(generated, SpokenTexts):
            return None
        parts = (given.spoken, generated.spoken, given.message_texts, generated.message_texts)
        return [
            None if before is None or after is None else role_texts([*a, *b], [*before, *after])
            for a, b, before, after in zip(*parts, strict=True)
        ]

    def _read_steps(self, steps: Values) -> IntArray:
        if type(steps) is Numbers and (whole := _whole(steps.floats)) is not None:
            return whole
        if type(steps) is Numbers or set(map(type, steps)) == {int}:
            try:
                whole = np.frombuffer(array("q", steps), np.int64)
            except (TypeError, OverflowError):  # others are among them
                pass
            else:
                if len(whole) and whole.min() >= -_LARGEST_STEP:
                    return whole
        # Texts around a number are remarked upon.
        self._fallback_rows.update(
            place for place, step in enumerate(steps) if not isinstance(step, int | float)
        )
        read = [0 if step is None else step for step in self._each(read_step, steps)]
        return np.array(read, np.int64)

    def _derive_truncation(self) -> None:
        reasons = self.texts.get("finish_reason")
        if reasons is None:
            return
        known = _plain_scores(self.scores.get("is_truncated", [None] * self.rows))
        self.scores["is_truncated"] = [
            is_truncated(reason) if one is None and reason is not None else one
            for one, reason in zip(known, listed(reasons), strict=True)
        ]

    _takers: ClassVar[Mapping[str, Callable[..., None]]] = {
        **dict.fromkeys(schema.TOKEN_ARRAY_FIELDS, _take_per_token),
        **dict.fromkeys(schema.TOKEN_ID_FIELDS, _take_per_token),
        **dict.fromkeys(schema.TOPK_FIELDS, _take_per_token),
        **dict.fromkeys(("messages", "segments"), _take_per_token),
        **dict.fromkeys(schema.SCORE_FIELDS, take_score),
        **dict.fromkeys(schema.ID_FIELDS, _take_id),
        **dict.fromkeys(TEXT_KEYS, _take_text),
        **dict.fromkeys(("step", "index", "type"), _leave),
        "is_truncated": take_score,
        "rewards": _take_reward_parts,
    }
