"""Rows of rollouts as Arrow tables: what a scan makes, what a Parquet segment holds.

A logged key may hold numbers in one line and text in the next. Such a column is stored as two, so that
every table has one type per column whatever it was made from, and tables go together without a look
at their values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa

from board.core.metrics.aggregate import COLUMNS
from board.index.json_values import from_json

if TYPE_CHECKING:
    import pandas as pd

# pandas and Arrow's compute functions are imported where they are needed: a process that only reads
# batches is at its work in half the time without them.

LOCATION: Final = ("line", "offset", "size")
"""Where the line or row is that a rollout was read from; see formats.sources."""
PART: Final = "part"
"""Its number among the rollouts of that line; not recorded: 0, as in logs of one rollout per line."""
REPEAT_KEY: Final = "repeat_key"
"""Equal for rows that may be one rollout, written twice; see repeat_keys."""
JOIN_KEYS: Final = ("join_key", "join_key_2")
"""Equal for rows of several logs that are one rollout, the surer first; see query.joins."""
TEXTS: Final = ("rollout_id", "group_id", "env", "split", "finish_reason", "prompt", "response")
WHOLE: Final = "whole:"
"""Begins the names of columns of whole texts."""
ANY_TEXT: Final = "any_text"
TEXT_NAMES: Final = ("prompt", "response", "ref_response", "ground_truth", ANY_TEXT)
"""Of whole texts in filters and searches; the last one is all the others and the messages together."""
WHOLE_TEXTS: Final = tuple(WHOLE + name for name in TEXT_NAMES[:-1])
"""Columns of whole texts. Of prompt and response: NULL where the preview is the whole text."""
MESSAGES: Final = WHOLE + "messages"
"""Column of the chat messages, in their order: see whole_texts.stored_messages."""
TOKEN_ROLES: Final = WHOLE + "token_roles"
"""Column: true where the log's tokens say which role spoke, so that it has to be read for that."""
FAILURE: Final = WHOLE + "failure"
"""Column: what the log records of a failure; see core.failures.causes."""
LAST_OUTPUT, LAST_OUTPUT_KEY, LAST_TOOL = (
    WHOLE + name for name in ("last_output", "last_output_key", "last_tool")
)
"""Columns: the last output of a tool, a hash of it without its numbers and paths, and the tool's name;
see formats.outputs.last_outputs."""
CALLS, CALL_SHAPES, ANSWERS = (WHOLE + name for name in ("calls", "call_shapes", "answers"))
"""Columns of the first calls of tools, in lists of equal length: a hash of each with those before it, one
of their shapes without what the prompt says, and one of its answer, equal to LAST_OUTPUT_KEY where that
says the same; see formats.outputs.answered_calls."""
ENDS: Final = WHOLE + "ends"
"""Column: what a rollout with tools ends with; see formats.outputs.rollout_end."""
TOOLS: Final = WHOLE + "tools"
"""Column: the tools that were called, each with its calls, those that got a result, and errors."""
TURN_COLUMNS: Final = ("turns", "tool_calls", "tool_errors")
"""Columns: turns of the assistant, its calls of tools, and their results that are errors, of messages."""
FAILED_TOOLS: Final = "failed_tools"
"""Column that is made of TOOLS: the names of those with errors, each in square brackets."""
CAUSE_COLUMNS: Final = ("cause", "cause_evidence", "cause_pattern", "cause_basis")
"""Columns that are made of others when they are asked for; see query.causes."""
LABEL_ORDER: Final = "label_order"
"""Column: the place within its sample, in the random order in which that is labelled."""
LABEL_COLUMNS: Final = (
    *("label", "label_author", "label_note", "label_spans", "label_sample"),
    LABEL_ORDER,
)
"""Columns of what people say of a rollout; see query.labels."""
PROMPT_KEY: Final = "prompt_key"
"""A hash of the whole prompt, equal in all runs."""
CATEGORIES: Final = ("group_id", "env", "split", "finish_reason")
WHOLE_NUMBERS: Final = (
    *("step", *LOCATION, PART, REPEAT_KEY, *JOIN_KEYS, PROMPT_KEY, "file", "rank", "micro_step"),
    *("policy_version", "prompt_tokens", "response_tokens", "response_chars", "pad_tokens"),
    *TURN_COLUMNS,
)
_SCORES: Final = (
    *("reward", "ref_reward", "valid_reward", "ref_valid_reward", "advantage", "is_truncated"),
    *("timestamp", *COLUMNS),
)
_TYPES: Final[Mapping[str, pa.DataType]] = {
    **dict.fromkeys(WHOLE_NUMBERS, pa.int64()),
    **dict.fromkeys(_SCORES, pa.float64()),
    **dict.fromkeys((*TEXTS, *WHOLE_TEXTS, FAILURE, LAST_OUTPUT, LAST_TOOL, ENDS), pa.string()),
    LAST_OUTPUT_KEY: pa.int64(),
    **dict.fromkeys((CALLS, CALL_SHAPES, ANSWERS), pa.list_(pa.int64())),
    MESSAGES: pa.list_(
        pa.struct(
            [
                *((name, pa.string()) for name in ("role", "within", "text")),
                *((name, pa.int32()) for name in ("start", "end")),
            ]
        )
    ),
    TOKEN_ROLES: pa.bool_(),
    TOOLS: pa.list_(
        pa.struct(
            [
                ("tool", pa.string()),
                *((name, pa.int32()) for name in ("calls", "answered", "errors")),
            ]
        )
    ),
}
FIXED_ORDER: Final = (*_TYPES,)
FIXED: Final = frozenset(_TYPES)
"""Columns whose type is known; every other one is a key of the log, of numbers, texts or both."""

NUMBER: Final = "number:"
_TEXT: Final = "text:"
_NUMBER_NAMES: Final = frozenset({"nan", "inf", "infinity", "na", "null", "none", "true", "false"})
"""Words that may be taken for numbers."""


_FEW_ROWS: Final = 64
"""Fewer rows than these are not worth a piece of a column."""

Array: TypeAlias = pa.Array | npt.NDArray[Any]  # Python 3.11 has no type statement


@dataclass(frozen=True, slots=True)
class Column:
    """A column some rows have. numbers, texts: it holds such values. words: texts that are no numbers."""

    name: str
    numbers: bool = False
    texts: bool = False
    words: bool = False

    def joined(self, other: Column) -> Column:
        """The column of both."""
        return Column(
            self.name,
            self.numbers or other.numbers,
            self.texts or other.texts,
            self.words or other.words,
        )


def table_of(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Rows as a table; a column is there when any row has it."""
    names = dict.fromkeys(name for row in rows for name in row)
    return table_of_columns({name: [row.get(name) for row in rows] for name in names})


def table_of_columns(columns: Mapping[str, list[Any] | Array]) -> pa.Table:
    """A table of the values of each column: a list, None where a row has none, a numpy array of
    numbers, NaN where it has none, or an Arrow array of the column's type.
    """
    arrays: dict[str, pa.Array] = {}
    for name, values in columns.items():
        if isinstance(values, np.ndarray):
            values = pa.array(values, from_pandas=True)
        if name not in _TYPES:
            arrays |= _logged(name, values)
        elif isinstance(values, pa.Array):
            arrays[name] = values
        else:
            arrays[name] = pa.array(values, _TYPES[name])
    recorded = {name: array for name, array in arrays.items() if array.null_count < len(array)}
    return pa.Table.from_pydict(recorded)


def _logged(name: str, values: list[Any] | pa.Array) -> dict[str, pa.Array]:
    """The one or two stored columns of a key of the log."""
    if isinstance(values, pa.Array):
        return {(_TEXT if pa.types.is_string(values.type) else NUMBER) + name: values}
    kinds = set(map(type, values))
    if str not in kinds:
        return {NUMBER + name: pa.array(values, pa.float64())}
    if float not in kinds:
        return {_TEXT + name: pa.array(values, pa.string())}
    numbers = [value if isinstance(value, float) else None for value in values]
    texts = [value if isinstance(value, str) else None for value in values]
    return {NUMBER + name: pa.array(numbers, pa.float64()), _TEXT + name: pa.array(texts)}


def columns_of(table: pa.Table) -> tuple[Column, ...]:
    """The columns a table has, in its order, without those of whole texts."""
    names = (name for name in table.column_names if not name.startswith(WHOLE))
    return joined_columns(_column(name, table) for name in names)


def joined_columns(columns: Iterable[Column]) -> tuple[Column, ...]:
    """The columns, those of one name as one, in the order they first appear."""
    by_name: dict[str, Column] = {}
    for column in columns:
        by_name[column.name] = by_name.get(column.name, column).joined(column)
    return tuple(by_name.values())


def _column(stored: str, table: pa.Table) -> Column:
    if stored.startswith(NUMBER):
        return Column(stored.removeprefix(NUMBER), numbers=True)
    if stored.startswith(_TEXT):
        words = _holds_words(table.column(stored))
        return Column(stored.removeprefix(_TEXT), texts=True, words=words)
    is_text = stored in TEXTS
    return Column(stored, numbers=not is_text, texts=is_text, words=is_text)


def _holds_words(texts: pa.ChunkedArray) -> bool:
    if _is_word(next((text for text in texts[:1].to_pylist() if text is not None), "")):
        return True
    import pyarrow.compute as pc

    different = pc.unique(texts)
    try:
        if not pc.any(pc.is_nan(different.cast(pa.float64()))).as_py():
            return False
    except pa.ArrowInvalid:  # pandas takes more for numbers than Arrow does
        pass
    import pandas as pd

    values = cast("pd.Series[Any]", different.to_pandas()).dropna()
    return bool(pd.to_numeric(values, errors="coerce").isna().any())


def _is_word(text: str) -> bool:
    """Whether a text is surely none that says a number."""
    letters = text.strip()
    return letters.isascii() and letters.isalpha() and letters.lower() not in _NUMBER_NAMES


def stored_names(column: Column) -> tuple[str, ...]:
    """The names under which a table holds a column."""
    if column.name in FIXED:
        return (column.name,)
    pairs = ((NUMBER, column.numbers), (_TEXT, column.texts))
    return tuple(prefix + column.name for prefix, is_there in pairs if is_there)


def joined(tables: Iterable[pa.Table]) -> pa.Table:
    """All rows, in the order of the tables; columns that a table lacks are not recorded there."""
    parts = [table for table in tables if table.num_rows]
    if not parts:
        return empty()
    table = pa.concat_tables(parts, promote_options="default")
    # A database sets memory aside for each piece of a column: with one a file it would run out of it.
    is_in_pieces = table.column(0).num_chunks * _FEW_ROWS > table.num_rows
    return table.combine_chunks() if is_in_pieces else table


def empty() -> pa.Table:
    """A table of no rows with the columns that every table has."""
    return pa.table({name: pa.array([], pa.int64()) for name in ("step", "file", *LOCATION)})


def encode_columns(columns: Sequence[Column]) -> str:
    """Columns as one text, equal for equal columns."""
    return orjson.dumps(columns).decode()


@lru_cache(maxsize=1024)
def decode_columns(text: str) -> tuple[Column, ...]:
    """What encode_columns was given. Raises what from_json does on anything else."""
    return from_json(tuple[Column, ...], orjson.loads(text))
