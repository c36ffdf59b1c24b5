"""How far the logs of a run are joined, and of what they say different things: counted by step, and kept.

Counted when the table of steps is made, of steps whose rows changed alone, and kept in tables beside it.
Whoever opens the run adds up what is kept.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
# pyarrow ships without types, and makes its compute functions when it is imported.

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from board.core.metrics.definitions import REWARD_PART
from board.core.problems import Problem, Severity
from board.index import segments
from board.index.manifest import FileState
from board.index.reading.file_steps import IntArray
from board.index.repeat_keys import NO_KEY
from board.query.joins import (
    LENGTHS,
    OWN,
    Joins,
    Mask,
    Pairs,
    Side,
    keys_of,
    numbers_of,
    stands_once,
)

KINDS: Final = ("joins", "differences")
"""Kinds of tables that are kept by step."""
TOKENS: Final = "tokens"
_COMPARED: Final = ("reward", "ref_reward", "advantage", "is_truncated", "policy_version")
_COMPARED_TEXTS: Final = ("group_id", "env")
_REWARD_PARTS: Final = f"{segments.NUMBER}{REWARD_PART}"
_RELATIVE: Final = 1e-5
"""Numbers further apart than this differ; one of the two may have been through float32."""
_COUNTS: Final = ("rows", "joined", "keyed", "doubled")
"""Of a file's rows of one step and split: all, those shown with another's, those shown that have a key,
and those that are alone because a key of theirs stands more than once in their log."""


@dataclass(frozen=True, slots=True)
class JoinCount:
    """How far one log was joined to those before it.

    joined: rollouts that were joined with a row of it. rollouts: all that could have been: those that
    have a key and are of the splits that it has. rows: its rows. doubled: of both, rows
    that were not joined and of which a key stands more than once in their log. last_step: of its rows.
    """

    source: str
    title: str
    by: str
    joined: int = 0
    rollouts: int = 0
    rows: int = 0
    doubled: int = 0
    last_step: int | None = None

    @property
    def words(self) -> str:
        """In one sentence."""
        text = (
            f"{self.joined:,} of {self.rollouts:,} rollouts joined with {self.title} by {self.by}"
        )
        if rest := self.rows - self.joined:
            text += f"; {rest:,} of its {self.rows:,} rows have no rollout and are shown alone"
        if self.doubled:
            text += (
                f"; {self.doubled:,} rows have a key that stands more than once, which joins none"
            )
        return text


@dataclass(frozen=True, slots=True)
class Difference:
    """A value of which two logs say different things. first: file (its id) and line of the row where it
    was seen first; values: those that the two say there, as text.
    """

    column: str
    source: str
    count: int
    first: tuple[int, int]
    values: tuple[str, str]
    is_trainer: bool

    @property
    def severity(self) -> Severity:
        """A score or tokens that differ are a fault of one log; names may be others by design."""
        return "note" if self.column in _COMPARED_TEXTS else "partial"

    def kept(self, ours: str, theirs: str) -> str:
        """The log whose value is shown."""
        return theirs if self.column == TOKENS and self.is_trainer else ours


@dataclass(frozen=True, slots=True)
class JoinsFound:
    """What is joined of a run. hidden: by id of the file and step how many of its rows are shown with
    another's.
    """

    hidden: Mapping[int, Counter[int]] = field(default_factory=dict[int, Counter[int]])
    counts: tuple[JoinCount, ...] = ()
    differences: tuple[Difference, ...] = ()


def columns_counted(stored: Iterable[str]) -> list[str]:
    """Of the columns of a view those that `counted` needs."""
    wanted = {*OWN, *_COMPARED, *_COMPARED_TEXTS, *LENGTHS, "split"}
    return [name for name in sorted(stored) if name in wanted or name.startswith(_REWARD_PARTS)]


def counted(joins: Joins, table: pa.Table) -> dict[str, pa.Table]:
    """What is stored of the steps of a table, by kind."""
    pairs = joins.pairs(table)
    return {
        "joins": _joins_table(table, pairs),
        "differences": _differences_table(joins.sides, table, pairs),
    }


def together(tables: Sequence[Mapping[str, pa.Table]]) -> dict[str, pa.Table]:
    """Tables of some steps each as one by kind, ordered by step; without kinds of which there is none."""
    found: dict[str, pa.Table] = {}
    for kind in KINDS:
        own = [of[kind] for of in tables if kind in of and of[kind].num_rows]
        if own:
            table = pa.concat_tables(own, promote_options="permissive")
            order = np.argsort(table.column("step").to_numpy(), kind="stable")
            found[kind] = table.take(pa.array(order))
    return found


def found_in(
    tables: Mapping[str, pa.Table], joins: Joins, number_of: Mapping[int, int]
) -> JoinsFound:
    """What the tables of all steps say. number_of: place of each file in the run, by its id."""
    rows, differ = tables.get("joins"), tables.get("differences")
    hidden: dict[int, Counter[int]] = {}
    if rows is None:
        return JoinsFound()
    held = {name: rows.column(name).to_numpy() for name in ("file", "step", "joined")}
    some = np.flatnonzero(held["joined"])
    for file, step, count in zip(*(held[name][some].tolist() for name in held), strict=True):
        hidden.setdefault(file, Counter())[step] += count
    counts = tuple(_join_counts(rows, joins, number_of))
    return JoinsFound(
        hidden, counts, () if differ is None else tuple(_differences(differ, joins.sides))
    )


def _joins_table(table: pa.Table, pairs: Pairs) -> pa.Table:
    """By step, file and split the numbers of rows called _COUNTS."""
    keys = [keys_of(table, name) for name in segments.JOIN_KEYS]
    twice = [(own != NO_KEY) & ~stands_once(pairs.sides, own) for own in keys]
    masks = {
        "rows": np.ones(table.num_rows, bool),
        "joined": ~pairs.shown,
        "keyed": pairs.shown & np.any([own != NO_KEY for own in keys], axis=0),
        "doubled": (pairs.lead < 0) & np.any(twice, axis=0),
    }
    splits = pa.nulls(table.num_rows, pa.string())
    if "split" in table.column_names:
        splits = table.column("split")
    columns = {
        "step": table.column("step"),
        "file": table.column("file_id"),
        "split": splits,
        **{name: mask.astype(np.int64) for name, mask in masks.items()},
    }
    by = pa.table(columns).group_by(["step", "file", "split"], use_threads=False)
    summed = by.aggregate([(name, "sum") for name in _COUNTS])
    return summed.rename_columns([name.removesuffix("_sum") for name in summed.column_names])


def _join_counts(rows: pa.Table, joins: Joins, number_of: Mapping[int, int]) -> Iterator[JoinCount]:
    files = rows.column("file").to_numpy()
    numbers = np.zeros(int(files.max(initial=0)) + 1, np.int64)
    for file, number in number_of.items():
        if file < len(numbers):
            numbers[file] = number
    sides, splits = joins.sides_of(numbers[files]), _codes(rows, "split")
    steps = rows.column("step").to_numpy()
    count = {name: rows.column(name).to_numpy() for name in _COUNTS}
    for number, side in enumerate(joins.sides[1:], start=1):
        own = sides == number
        before = sides < number
        if (splits[own] >= 0).all():  # else it does not say of which it is
            before &= np.isin(splits, np.unique(splits[own]))
        sums = (
            *(count["joined"][own], count["keyed"][before], count["rows"][own]),
            count["doubled"][own | before],
        )
        yield JoinCount(
            *(side.reader, side.title, side.by, *(int(found.sum()) for found in sums)),
            last_step=int(steps[own].max()) if own.any() else None,
        )


def _differences_table(sides: Sequence[Side], table: pa.Table, pairs: Pairs) -> pa.Table:
    """Where rows that are joined differ: by step, column and log how often, and the first."""
    lines = table.column("line").to_numpy()
    steps, files = (table.column(name).to_numpy() for name in ("step", "file_id"))
    found: list[dict[str, Any]] = []
    for number, side in enumerate(sides):
        own = pairs.others[pairs.sides[pairs.others] == number]
        lead = pairs.lead[own]
        for name, ours, theirs in _compared(table, lead, own):
            differ = np.flatnonzero(_differ(ours, theirs))
            of_step, first, count = np.unique(
                steps[own[differ]], return_index=True, return_counts=True
            )
            for step, at, times in zip(
                of_step.tolist(), differ[first].tolist(), count.tolist(), strict=True
            ):
                row = lead[at]
                place = {"file": int(files[row]), "line": int(lines[row])}
                said = {"ours": f"{ours[at]}", "theirs": f"{theirs[at]}"}
                found.append(
                    {"step": step, "column": name, "source": side.reader, "count": times}
                    | place
                    | said
                )
    return pa.Table.from_pylist(found, _DIFFERENCES)


_DIFFERENCES: Final = pa.schema(
    {
        "step": pa.int64(),
        "column": pa.string(),
        "source": pa.string(),
        "count": pa.int64(),
        "file": pa.int64(),
        "line": pa.int64(),
        "ours": pa.string(),
        "theirs": pa.string(),
    }
)


def _differences(table: pa.Table, sides: Sequence[Side]) -> Iterator[Difference]:
    trainers = {side.reader: side.is_trainer for side in sides}
    counts = Counter[tuple[str, str]]()
    first: dict[tuple[str, str], dict[str, Any]] = {}
    for row in table.to_pylist():
        key = (row["column"], row["source"])
        counts[key] += row["count"]
        first.setdefault(key, row)
    for (column, source), row in first.items():
        place, values = (row["file"], row["line"]), (row["ours"], row["theirs"])
        count = counts[column, source]
        yield Difference(column, source, count, place, values, trainers.get(source, False))


def _compared(
    table: pa.Table, rows: IntArray, others: IntArray
) -> Iterator[tuple[str, npt.NDArray[Any], npt.NDArray[Any]]]:
    """Name and values of what both logs may say; NaN and None: not said."""
    if len(others) == 0:
        return
    names = table.column_names
    for name in names:
        if name in _COMPARED or name.startswith(_REWARD_PARTS):
            values = numbers_of(table.column(name))
            yield name.removeprefix(segments.NUMBER), values[rows], values[others]
    for name in (name for name in _COMPARED_TEXTS if name in names):
        column = table.column(name)
        yield name, _objects(column.take(pa.array(rows))), _objects(column.take(pa.array(others)))
    if all(name in names for name in LENGTHS):
        # Where the response begins, the two may see differently; how many tokens there are, not.
        total = np.asarray(sum(numbers_of(table.column(name)) for name in LENGTHS))
        yield TOKENS, total[rows], total[others]


def _differ(ours: npt.NDArray[Any], theirs: npt.NDArray[Any]) -> Mask:
    if ours.dtype != object:
        both = np.isfinite(ours) & np.isfinite(theirs)
        return both & ~np.isclose(ours, theirs, rtol=_RELATIVE, atol=1e-9)
    pairs = zip(ours.tolist(), theirs.tolist(), strict=True)
    return np.array([a is not None and b is not None and a != b for a, b in pairs], bool)


def _objects(texts: pa.ChunkedArray) -> npt.NDArray[Any]:
    found = np.empty(len(texts), object)
    found[:] = texts.to_pylist()
    return found


def _codes(table: pa.Table, name: str) -> IntArray:
    """A number for each text of a column, -1 where there is none."""
    column = table.column(name)
    return (
        pc.index_in(column, pc.unique(column.drop_null())).fill_null(-1).to_numpy().astype(np.int64)
    )


def differences(
    found: JoinsFound, joins: Joins, shown: Mapping[int, FileState]
) -> Iterator[Problem]:
    """The values of which the logs that are joined say different things. shown: files by their ids."""
    titles = {side.reader: side.title for side in joins.sides}
    for one in found.differences:
        file, line = one.first
        state = shown[file]
        ours, theirs = titles[state.reader], titles[one.source]
        reason = f"{one.column} differs between {ours} and {theirs}"
        hint = (
            f"e.g. {one.values[0]} and {one.values[1]}; that of {one.kept(ours, theirs)} is shown"
        )
        yield Problem(state.path, line, one.column, reason, hint, one.severity, one.count)
