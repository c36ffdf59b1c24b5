"""The columns of the table of rollouts: which there are, which make a curve, their values by SQL, and
those that are made for a log that lacks them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import pyarrow as pa

from board.core.arrays import FloatArray
from board.core.metrics.aggregate import COLUMNS
from board.core.metrics.definitions import REWARD_PART, ROLLOUT_METRICS
from board.core.metrics.reward_sum import RewardSum
from board.core.records import ReadOptions
from board.errors import ChoiceError, did_you_mean
from board.index import segments
from board.index.segments import Column
from board.query import causes
from board.query.database import quoted
from board.query.sql.exact_numbers import holds_number_texts, number_text_sql, numbers_in

if TYPE_CHECKING:
    import pandas as pd

_NO_CURVE: Final = frozenset(
    (
        *("step", "index", "file", *segments.LOCATION, segments.PART, *COLUMNS, *segments.TEXTS),
        *("rank", "micro_step", "policy_version", "timestamp", "pad_tokens", segments.LABEL_ORDER),
    )
)
_WORDS: Final = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+")
_IDS: Final = frozenset(("id", "idx", "index", "uid", "uuid"))
"""Last words of names of what tells rollouts apart: also where it is a number, its mean says nothing."""
_FIRST: Final = ("step", "index", "rank", "group_id", "env")
GAP: Final = "reward_gap"
_CAN_HAVE_CAUSES: Final = frozenset(("reward", "is_truncated", "finish_reason"))
_NAME_CHARACTERS: Final = 32
NAN: Final = "CAST('nan' AS DOUBLE)"
# A preview without a whole text is the text, unless it is of token ids without a vocabulary.
_TEXT_OF_PREVIEW: Final = """CASE WHEN NOT (starts_with({0}, '⟨')
    AND regexp_full_match({0}, '(⟨[0-9?]+⟩)*(⟨[0-9?]*)?…?')) THEN {0} END"""
# Of a run with tools a rollout without a call has 0: its messages say so.
_TOOL_COUNTS: Final = {
    "tool_calls": "CASE WHEN turns IS NOT NULL THEN coalesce(tool_calls, 0) END",
    "tool_errors": "CASE WHEN turns IS NOT NULL AND tool_calls IS NULL THEN 0 ELSE tool_errors END",
}
_TOOLS: Final = f'"{segments.TOOLS}"'
# In brackets a name is none that another one holds.
_FAILED_TOOLS: Final = (
    f"nullif(array_to_string(list_transform(list_filter({_TOOLS}, lambda t: t.errors > 0), "
    "lambda t: '[' || t.tool || ']'), ' '), '')"
)
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
    if not _CAN_HAVE_CAUSES.isdisjoint(by_name) or any(n.startswith(REWARD_PART) for n in by_name):
        by_name |= {column.name: column for column in causes.COLUMNS}
    if "tool_errors" in by_name:
        by_name[segments.FAILED_TOOLS] = Column(segments.FAILED_TOOLS, texts=True, words=True)
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


def value_sql(column: Column, names: Collection[str]) -> str:
    """SQL for a column of the run: NULL where it is not recorded, also where the log says NaN.

    names: columns of the view that the rows are in. A key that holds words anywhere is text; else it is
    a DOUBLE.
    """
    if column.name == "index":
        return "position"
    if column.name == GAP:
        both = {"reward", "ref_reward"} <= {*names}
        return f"{_number('reward')} - {_number('ref_reward')}" if both else "CAST(NULL AS DOUBLE)"
    if column.name == segments.FAILED_TOOLS and segments.TOOLS in names:
        return _FAILED_TOOLS
    if column.name in _TOOL_COUNTS and column.name in names:
        return _TOOL_COUNTS[column.name]
    stored = [name for name in segments.stored_names(column) if name in names]
    if not stored:
        return f"CAST(NULL AS {'VARCHAR' if column.words else 'DOUBLE'})"
    if column.name == "loss_tokens" and "response_tokens" in names:
        # Where no mask is recorded all tokens of the response count: the exporter leaves such masks out.
        return f"coalesce({_number('loss_tokens')}, CAST({quoted('response_tokens')} AS DOUBLE))"
    if column.name in segments.FIXED:
        is_exact = column.texts or column.name in segments.WHOLE_NUMBERS
        return quoted(stored[0]) if is_exact else _number(stored[0])
    if column.words:
        texts = (f"CAST({quoted(name)} AS VARCHAR)" for name in reversed(stored))
        return f"coalesce({', '.join(texts)})"
    numbers = (f"TRY_CAST({quoted(name)} AS DOUBLE)" for name in stored)
    return f"nullif(coalesce({', '.join(numbers)}), {NAN})"


def frame_value_sql(column: Column, names: Collection[str]) -> str:
    """SQL for a column as `frame_of` takes it: as value_sql, but numbers that are logged as texts are
    these texts, since a DOUBLE does not hold every digit of a long id.
    """
    stored = [name for name in segments.stored_names(column) if name in names]
    if holds_number_texts(column) and stored:
        return number_text_sql(stored)
    return value_sql(column, names)


def whole_text_sql(name: str, names: Collection[str]) -> str:
    """SQL for a whole text, one of segments.TEXT_NAMES; NULL where it is not recorded. names: as of
    value_sql.
    """
    if name == segments.ANY_TEXT:
        texts = [whole_text_sql(one, names) for one in segments.TEXT_NAMES[:-1]]
        if segments.MESSAGES in names:
            others = f"list_transform({quoted(segments.MESSAGES)}, lambda m: m.text)"
            texts.append(f"nullif(array_to_string({others}, chr(10)), '')")
        return f"concat_ws(chr(10), {', '.join(texts)})"
    texts = [quoted(segments.WHOLE + name)] if segments.WHOLE + name in names else []
    if name in names:
        texts.append(_TEXT_OF_PREVIEW.format(quoted(name)))
    return f"coalesce({', '.join(texts)})" if texts else "CAST(NULL AS VARCHAR)"


def reward_sum_sql(total: RewardSum, columns: Sequence[Column], names: Collection[str]) -> str:
    """SQL for the weighted sum of the parts of the reward that a rollout has; NULL where it has none.
    columns: of the run; names: as of value_sql.
    """
    by_name = {column.name: column for column in columns}
    values = [
        (value_sql(by_name.get(own, Column(own)), names), weight)
        for own, weight in ((f"{REWARD_PART}{name}", weight) for name, weight in total.parts)
    ]
    terms = " + ".join(f"coalesce({value} * {weight!r}, 0)" for value, weight in values)
    return f"CASE WHEN coalesce({', '.join(v for v, _ in values)}) IS NOT NULL THEN {terms} END"


def prompt_as_group_sql(names: Collection[str]) -> str:
    """SQL for the name of the group of all rollouts of a step with the same prompt: its beginning and a
    part of its hash. NULL where it has an image, of which the text has the size alone.
    """
    text = whole_text_sql("prompt", names)
    begin = f"left(regexp_replace({text}, '\\s+', ' ', 'g'), {_NAME_CHARACTERS})"
    name = f"concat_ws(' ', {begin}, left(lower(hex({segments.PROMPT_KEY})), 6))"
    return f"CASE WHEN NOT contains({text}, '[image') THEN {name} END"


def _number(name: str) -> str:
    return f"nullif({quoted(name)}, {NAN})"


def aliased(values: Sequence[str]) -> str:
    """Columns of a SELECT under names that no log has, so that ORDER BY finds the columns of the view."""
    return ", ".join(f"{value} AS value_{place}" for place, value in enumerate(values))


def with_names(
    table: pa.Table, columns: Sequence[Column], type_of: Callable[[str], pa.DataType]
) -> pa.Table:
    """What a SELECT of `aliased` values by frame_value_sql gave, under the names of the columns. type_of:
    of the numbers of a column that the index has as texts.
    """
    table = table.rename_columns([column.name for column in columns])
    for place, column in enumerate(columns):
        if holds_number_texts(column):
            own = numbers_in(table.column(place), type_of(column.name))
            table = table.set_column(place, column.name, own)
    return table


def frame_of(table: pa.Table) -> pd.DataFrame:
    """What `with_names` gives as a frame: whole numbers are int64 where all rows have one and else
    float64, names of groups and the like are categories in order.
    """
    names = [name for name in segments.CATEGORIES if name in table.column_names]
    for name in names:
        place = table.column_names.index(name)
        table = table.set_column(place, name, table.column(name).dictionary_encode())
    frame = table.to_pandas()
    for name in names:
        values = frame[name].cat
        frame[name] = values.reorder_categories(sorted(values.categories))
    return frame


def numbers(rows: pd.DataFrame, column: str) -> FloatArray:
    """[rows] a column as numbers, NaN where it has none or is not there."""
    import pandas as pd

    values = rows.get(column)
    if values is None or not pd.api.types.is_numeric_dtype(values):
        return np.full(len(rows), np.nan)
    return values.to_numpy(np.float64, na_value=np.nan)


def records_of(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """What `rows_of` gives, of a frame."""
    values = frame.astype(object).where(frame.notna(), None)
    return cast("list[dict[str, Any]]", values.to_dict("records"))


def record_at(frame: pd.DataFrame, place: int) -> dict[str, Any]:
    """What `records_of` gives of one row, in a fraction of the time."""
    values = {str(name): frame[name].iat[place] for name in frame}
    plain = {name: v.item() if isinstance(v, np.generic) else v for name, v in values.items()}
    return {name: None if isinstance(v, float) and v != v else v for name, v in plain.items()}


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """One dict per row in plain Python types; None where not recorded, also for NaN."""
    columns = ([None if v != v else v for v in column.to_pylist()] for column in table.columns)
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def known_column(name: str, columns: Collection[str], what: str = "the run has no column") -> str:
    """`name`. Raises ChoiceError, with the names that come close, when it is none of `columns`."""
    if name in columns:
        return name
    raise ChoiceError(f"{what} {name!r}; {did_you_mean(name, columns)}")


def known_columns(names: Sequence[str], columns: Collection[str]) -> list[str]:
    """Each of the names once, in their order. Raises ChoiceError for one that is none of `columns`."""
    return [known_column(name, columns) for name in dict.fromkeys(names)]


@dataclass(frozen=True, slots=True)
class OpenOptions:
    """max_per_step: at most so many rollouts of each step are shown (None: all). group_by_prompt: where
    the log has no group_id, rollouts of a step with equal prompts are a group. reward: what it is made of
    where the log has its parts alone (None: their sum, where the trainer's reward agrees). right_from:
    from which score on a rollout is right (None: board.core.groups.right says).
    """

    read: ReadOptions = field(default_factory=ReadOptions)
    max_per_step: int | None = None
    group_by_prompt: bool = False
    reward: RewardSum | None = None
    right_from: float | None = None


@dataclass(frozen=True, slots=True)
class RewardSource:
    """How the reward is got of a run whose log has none. parts: names of what there is of it, in the
    order of the log. total: what the reward is, None where nothing says so. summary: in a sentence.
    """

    parts: tuple[str, ...]
    total: RewardSum | None
    summary: str


@dataclass(frozen=True, slots=True)
class Derived:
    """Columns of a run that its log does not have: groups of equal prompts, and a sum of rewards."""

    group_by_prompt: bool = False
    reward: RewardSum | None = None

    def lacking_in(self, columns: Sequence[Column]) -> Derived:
        """Those of them that a log of these columns lacks, and that can be made of them."""
        names = {column.name for column in columns}
        by_prompt = self.group_by_prompt and "group_id" not in names and "prompt" in names
        return Derived(by_prompt, None if "reward" in names else self.reward)

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns themselves."""
        groups = (Column("group_id", texts=True, words=True),) if self.group_by_prompt else ()
        return groups if self.reward is None else (*groups, Column("reward", numbers=True))

    def sql(self, columns: Sequence[Column], names: Collection[str]) -> str:
        """What follows the other columns of a SELECT. columns: of the log; names: as stored."""
        sql = f", {prompt_as_group_sql(names)} AS group_id" if self.group_by_prompt else ""
        if self.reward is not None:
            sql += f", {reward_sum_sql(self.reward, columns, names)} AS reward"
        return sql


AS_LOGGED: Final = Derived()
"""None of them."""
