"""Several logs of the same rollouts, put together: which rows are one rollout, and what each says of it.

A trainer and what feeds it write of the same rollouts, each in files of its own. Rows are joined by keys
that both logs hold (readers.base.Join), within a step, and only where a key stands once in each log: what
is not told for certain stays as it is, and is counted. The row of the first log is shown; what it does
not hold comes from the others, and token counts and aggregates come from the trainer.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
# pyarrow ships without types, and makes its compute functions when it is imported.

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from board.core.aggregate import COLUMNS
from board.core.metrics import REWARD_PART
from board.core.problems import Severity
from board.core.records import Record
from board.readers import reader_named
from board.store import segments
from board.store.repeats import NO_KEY
from board.store.tally import IntArray

Mask = npt.NDArray[np.bool_]

_OWN: Final = frozenset(
    ("step", "file", *segments.LOCATION, segments.PART, segments.REPEAT_KEY, *segments.JOIN_KEYS)
)
"""Columns that say where a row stands; never taken from another log."""
_LENGTHS: Final = ("prompt_tokens", "response_tokens")
_TRAINERS: Final = frozenset((*COLUMNS, *_LENGTHS, "pad_tokens"))
_REWARD_PARTS: Final = f"{segments.NUMBER}{REWARD_PART}"
COMPARED: Final = ("reward", "ref_reward", "advantage", "is_truncated", "policy_version")
COMPARED_TEXTS: Final = ("group_id", "env")
_RELATIVE: Final = 1e-5
"""Numbers further apart than this differ; one of the two may have been through float32."""
TOKENS: Final = "tokens"


def join_keys(record: Record, said: Sequence[object]) -> dict[str, int]:
    """The columns by which a row is joined; said: by its reader."""
    found: dict[str, int] = {}
    for name, key in zip(segments.JOIN_KEYS, said, strict=False):
        if key is not None:
            content = orjson.dumps([record.step, key])
            digest = hashlib.blake2b(content, digest_size=8).digest()
            found[name] = int.from_bytes(digest, "big", signed=True)
    return found


@dataclass(frozen=True, slots=True)
class Side:
    """One of the logs that are joined. title: on screen; by: the key in words."""

    reader: str
    title: str
    by: str
    is_trainer: bool


def sides_of(readers: Sequence[str]) -> tuple[Side, ...]:
    """The logs that are joined, that of which rows are shown first; none where there is but one."""
    joins = {name: reader_named(name).join for name in dict.fromkeys(readers)}
    held = [(join.order, name, join) for name, join in joins.items() if join is not None]
    if len(held) < 2:
        return ()
    return tuple(
        Side(name, reader_named(name).title, join.by, join.is_trainer)
        for _, name, join in sorted(held, key=lambda entry: entry[:2])
    )


def leads(sides: IntArray, keys: Sequence[IntArray]) -> IntArray:
    """By row the row that it is joined to: itself where others are added to it, -1 where it is alone.

    sides: [n] number of the log. keys: one array [n] for each kind of key, the surest first; NO_KEY
    where a row has none. A key joins rows only where it stands once in each of their logs, and a later
    kind none whose earlier keys say that they are two.
    """
    found = np.full(len(sides), -1, np.int64)
    for number, own in enumerate(keys):
        first, other = _pairs(sides, own, found)
        for earlier in keys[:number]:
            said = (earlier[first] != NO_KEY) & (earlier[other] != NO_KEY)
            agreed = ~said | (earlier[first] == earlier[other])
            first, other = first[agreed], other[agreed]
        if number:
            first, other = _without_second(sides, found, first, other)
        found[first], found[other] = first, first
    return found


def _pairs(sides: IntArray, keys: IntArray, found: IntArray) -> tuple[IntArray, IntArray]:
    """Rows of equal keys: of each the one of the first log, and another of it."""
    rows = np.arange(len(keys))
    free = (found < 0) | (found == rows)
    places = np.flatnonzero(stands_once(sides, keys) & free)
    places = places[np.lexsort((sides[places], keys[places]))]
    if len(places) == 0:
        return places, places
    starts = np.concatenate(([True], np.diff(keys[places]) != 0))
    first = places[np.flatnonzero(starts)[np.cumsum(starts) - 1]]
    joined = ~starts & (found[places] < 0)
    return first[joined], places[joined]


def _without_second(
    sides: IntArray, found: IntArray, first: IntArray, other: IntArray
) -> tuple[IntArray, IntArray]:
    """The pairs of which the first has no row of the other's log yet."""
    rows = np.arange(len(sides))
    joined = np.flatnonzero((found >= 0) & (found != rows))
    width = int(sides.max(initial=0)) + 1
    held = found[joined] * width + sides[joined]
    fresh = ~np.isin(first * width + sides[other], held)
    return first[fresh], other[fresh]


def stands_once(sides: IntArray, keys: IntArray) -> Mask:
    """Which rows have a key that no other row of the same log has, [n]."""
    held = np.flatnonzero(keys != NO_KEY)
    order = held[np.lexsort((sides[held], keys[held]))]
    same = (np.diff(keys[order]) == 0) & (np.diff(sides[order]) == 0)
    alone = keys != NO_KEY
    alone[order[1:]] &= ~same
    alone[order[:-1]] &= ~same
    return alone


@dataclass(frozen=True, slots=True)
class Pairs:
    """What of a table belongs together. sides: [n] number of each row's log; lead: of `leads`."""

    sides: IntArray
    lead: IntArray

    @property
    def shown(self) -> Mask:
        """[n] rows that are shown, alone or with others added to them."""
        return (self.lead < 0) | (self.lead == np.arange(len(self.lead)))

    @property
    def others(self) -> IntArray:
        """The rows that are added to another, in the order of the logs."""
        rows = np.flatnonzero(~self.shown)
        return rows[np.argsort(self.sides[rows], kind="stable")]


@dataclass(frozen=True, slots=True)
class JoinCount:
    """How far one log was joined to those before it.

    joined: rollouts that were joined with a row of it. rollouts: all that could have been: those that
    have a key and are of the splits that it has. rows: its rows. doubled: of both, rows
    that were not joined and of which a key stands more than once in their log.
    """

    source: str
    title: str
    by: str
    joined: int = 0
    rollouts: int = 0
    rows: int = 0
    doubled: int = 0

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

    def __add__(self, other: JoinCount) -> JoinCount:
        return replace(
            self,
            joined=self.joined + other.joined,
            rollouts=self.rollouts + other.rollouts,
            rows=self.rows + other.rows,
            doubled=self.doubled + other.doubled,
        )


@dataclass(frozen=True, slots=True)
class Difference:
    """A value of which two logs say different things. first: the row where it was seen first."""

    column: str
    source: str
    count: int
    first: tuple[int, int]
    values: tuple[object, object]
    is_trainer: bool

    @property
    def severity(self) -> Severity:
        """A score or tokens that differ are a fault of one log; names may be others by design."""
        return "note" if self.column in COMPARED_TEXTS else "partial"

    def kept(self, ours: str, theirs: str) -> str:
        """The log whose value is shown."""
        return theirs if self.column == TOKENS and self.is_trainer else ours


class Joins:
    """Joins the rows of a run's logs. readers: name of the reader by number of the file."""

    def __init__(self, readers: Mapping[int, str]) -> None:
        self.sides = sides_of(list(readers.values()))
        numbers = {side.reader: number for number, side in enumerate(self.sides)}
        self._side_of = np.zeros(max(readers, default=0) + 1, np.int64)
        for file, reader in readers.items():
            self._side_of[file] = numbers.get(reader, 0)

    def needed(self, columns: set[str]) -> set[str]:
        """The columns that are read to have these."""
        lengths = set(_LENGTHS) if columns & set(_LENGTHS) else set[str]()
        return columns | lengths | {*segments.JOIN_KEYS}

    def compared(self, stored: Iterable[str]) -> list[str]:
        """Of the columns of a run those by which `counted` counts, and that `differences` compares."""
        wanted = {*_OWN, "rank", *COMPARED, *COMPARED_TEXTS, *_LENGTHS, "split"}
        return [
            name
            for name in dict.fromkeys(stored)
            if name in wanted or name.startswith(_REWARD_PARTS)
        ]

    def pairs(self, table: pa.Table) -> Pairs:
        """Which rows are one rollout; `table`: whole steps, `file` being the number in the run."""
        sides = self._side_of[table.column("file").to_numpy()]
        keys = [_keys(table, name) for name in segments.JOIN_KEYS]
        return Pairs(sides, leads(sides, keys))

    def joined(self, table: pa.Table) -> pa.Table:
        """The rows with those of other logs added to them, by step, the first log's first; `table`: whole
        steps, in order.
        """
        pairs = self.pairs(table)
        shown, others = np.flatnonzero(pairs.shown), pairs.others
        steps = table.column("step").to_numpy()
        shown = shown[np.lexsort((shown, pairs.sides[shown], steps[shown]))]
        place = np.full(table.num_rows, -1, np.int64)
        place[shown] = np.arange(len(shown))
        found = table.take(pa.array(shown))
        for number, side in enumerate(self.sides):
            own = others[pairs.sides[others] == number]
            if len(own):
                at = np.full(len(shown), -1, np.int64)
                at[place[pairs.lead[own]]] = own
                found = _filled(found, table, at, side)
        return found

    def counted(self, table: pa.Table, pairs: Pairs) -> list[JoinCount]:
        """How far each log but the first was joined, over these rows."""
        splits = _codes(table, "split")
        keys = [_keys(table, name) for name in segments.JOIN_KEYS]
        has_key = np.any([own != NO_KEY for own in keys], axis=0)
        twice = [(own != NO_KEY) & ~stands_once(pairs.sides, own) for own in keys]
        doubled = (pairs.lead < 0) & np.any(twice, axis=0)
        found: list[JoinCount] = []
        for number, side in enumerate(self.sides[1:], start=1):
            own = pairs.sides == number
            rollouts = pairs.shown & (pairs.sides < number) & has_key
            if (splits[own] >= 0).all():  # else it does not say of which it is
                rollouts &= np.isin(splits, np.unique(splits[own]))
            masks = (own & ~pairs.shown, rollouts, own, doubled & (own | rollouts))
            counts = (int(mask.sum()) for mask in masks)
            found.append(JoinCount(side.reader, side.title, side.by, *counts))
        return found

    def differences(self, table: pa.Table, pairs: Pairs) -> Iterator[Difference]:
        """Values that differ between rows that are joined."""
        sides, lead, others = pairs.sides, pairs.lead, pairs.others
        files, lines = table.column("file").to_numpy(), table.column("line").to_numpy()
        for number, side in enumerate(self.sides):
            own = others[sides[others] == number]
            for name, ours, theirs in _compared(table, lead[own], own):
                differ = np.flatnonzero(_differ(ours, theirs))
                if len(differ):
                    at = int(differ[0])
                    row = lead[own[at]]
                    place, said = (int(files[row]), int(lines[row])), (ours[at], theirs[at])
                    yield Difference(name, side.reader, len(differ), place, said, side.is_trainer)


def _compared(
    table: pa.Table, rows: IntArray, others: IntArray
) -> Iterator[tuple[str, npt.NDArray[Any], npt.NDArray[Any]]]:
    """Name and values of what both logs may say; NaN and None: not said."""
    if len(others) == 0:
        return
    names = table.column_names
    for name in names:
        if name in COMPARED or name.startswith(_REWARD_PARTS):
            values = _numbers(table.column(name))
            yield name.removeprefix(segments.NUMBER), values[rows], values[others]
    for name in (name for name in COMPARED_TEXTS if name in names):
        column = table.column(name)
        yield name, _objects(column.take(pa.array(rows))), _objects(column.take(pa.array(others)))
    if all(name in names for name in _LENGTHS):
        # Where the response begins, the two may see differently; how many tokens there are, not.
        total = np.asarray(sum(_numbers(table.column(name)) for name in _LENGTHS))
        yield TOKENS, total[rows], total[others]


def _differ(ours: npt.NDArray[Any], theirs: npt.NDArray[Any]) -> Mask:
    if ours.dtype != object:
        both = np.isfinite(ours) & np.isfinite(theirs)
        return both & ~np.isclose(ours, theirs, rtol=_RELATIVE, atol=1e-9)
    pairs = zip(ours.tolist(), theirs.tolist(), strict=True)
    return np.array([a is not None and b is not None and a != b for a, b in pairs], bool)


def _filled(found: pa.Table, table: pa.Table, at: IntArray, side: Side) -> pa.Table:
    """The rows with the values of others where they have none; at: [rows] of `table`, -1 for none."""
    places = pa.array(at, mask=at < 0)
    lengths = _same_total(found, table, at)
    for number, name in enumerate(found.column_names):
        if name in _OWN:
            continue
        theirs, ours = table.column(name).take(places), found.column(name)
        if theirs.null_count == len(theirs):
            continue
        if name in _LENGTHS and lengths is not None:
            choose = pc.min_element_wise if name == "prompt_tokens" else pc.max_element_wise
            merged = pc.if_else(pa.array(lengths), choose(ours, theirs), pc.coalesce(theirs, ours))
        elif side.is_trainer and name in _TRAINERS:
            merged = pc.coalesce(theirs, ours)
        else:
            merged = pc.coalesce(ours, theirs)
        found = found.set_column(number, name, merged)
    return found


def _same_total(found: pa.Table, table: pa.Table, at: IntArray) -> Mask | None:
    """Where both have as many tokens, whatever of them is the response; None where it is not recorded."""
    if not all(name in table.column_names for name in _LENGTHS):
        return None
    theirs, ours = (
        sum(_numbers(side.column(name)) for name in _LENGTHS) for side in (table, found)
    )
    return np.asarray(theirs)[np.maximum(at, 0)] == np.asarray(ours)


def _numbers(column: pa.ChunkedArray) -> npt.NDArray[np.float64]:
    return column.to_pandas().to_numpy(np.float64, na_value=np.nan)


def _objects(texts: pa.ChunkedArray) -> npt.NDArray[Any]:
    found = np.empty(len(texts), object)
    found[:] = texts.to_pylist()
    return found


def _keys(table: pa.Table, name: str) -> IntArray:
    return segments.whole_numbers(table, name, NO_KEY)


def _codes(table: pa.Table, name: str) -> IntArray:
    """A number for each text of a column, -1 where there is none."""
    if name not in table.column_names:
        return np.full(table.num_rows, -1, np.int64)
    column = table.column(name)
    return (
        pc.index_in(column, pc.unique(column.drop_null())).fill_null(-1).to_numpy().astype(np.int64)
    )
