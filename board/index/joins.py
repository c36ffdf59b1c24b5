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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from board.core.metrics.aggregate import COLUMNS
from board.core.records import Record
from board.formats import reader_named
from board.index import segments
from board.index.reading.file_steps import IntArray
from board.index.repeat_keys import NO_KEY

Mask = npt.NDArray[np.bool_]
PlaceArray = npt.NDArray[np.integer[Any]]

OWN: Final = frozenset(
    ("step", "file", *segments.LOCATION, segments.PART, segments.REPEAT_KEY, *segments.JOIN_KEYS)
)
"""Columns that say where a row stands; never taken from another log."""
LENGTHS: Final = ("prompt_tokens", "response_tokens")
_TRAINERS: Final = frozenset((*COLUMNS, *LENGTHS, "pad_tokens"))


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
    nothing = np.empty(0, np.int64)
    if not np.any((found < 0) & (keys != NO_KEY)):  # each is joined already
        return nothing, nothing
    own = _by_key(sides, keys)
    used = own.stands_once
    if np.any(found >= 0):
        lead = found[own.rows]
        used &= (lead < 0) | (lead == own.rows)
    places, told = own.rows[used], own.told[used]
    if len(places) == 0:
        return nothing, nothing
    starts = np.concatenate(([True], own.are_two(told[:-1], told[1:])))
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
    own = _by_key(sides, keys)
    alone = np.zeros(len(keys), bool)
    alone[own.rows[own.stands_once]] = True
    return alone


@dataclass(frozen=True, slots=True)
class _ByKey:
    """The rows that have a key, [n], those of one key beside each other, by log.

    told: [n] the key with the number of the log in its last bits: one array is sorted, and looked up,
    in less than half of the time that two take. The first bits of a key make room, which are no more
    than others of a hash.
    """

    rows: IntArray
    told: IntArray
    bits: int

    def are_two(self, told: IntArray, others: IntArray) -> Mask:
        """Where the keys differ, whatever the logs."""
        return ((told ^ others) >> self.bits) != 0

    @property
    def stands_once(self) -> Mask:
        """[n] rows whose key no other row of their log has."""
        same = self.told[1:] == self.told[:-1]
        alone = np.ones(len(self.told), bool)
        alone[1:] &= ~same
        alone[:-1] &= ~same
        return alone


def _by_key(sides: IntArray, keys: IntArray) -> _ByKey:
    held = np.flatnonzero(keys != NO_KEY)
    bits = int(sides.max(initial=0)).bit_length()
    told = (keys[held] << bits) | sides[held]
    order = np.argsort(told)
    return _ByKey(held[order], told[order], bits)


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
class Arranged:
    """Which rows of a table are shown, and which are added to them.

    shown: [rows], in order. others: of each further log the row that is added to each, [rows], -1 for
    none.
    """

    shown: PlaceArray
    others: tuple[tuple[Side, PlaceArray], ...]

    def within(self, places: PlaceArray) -> Arranged:
        """The same of a table of which those rows are that at `places`, [n]."""
        others = ((side, np.where(at < 0, -1, places[at])) for side, at in self.others)
        return Arranged(places[self.shown], tuple(others))


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
        lengths = set(LENGTHS) if columns & set(LENGTHS) else set[str]()
        return columns | lengths | {*segments.JOIN_KEYS}

    def sides_of(self, files: IntArray) -> IntArray:
        """The number of the log of each of these files, given by their number in the run."""
        return self._side_of[files]

    def pairs(self, table: pa.Table) -> Pairs:
        """Which rows are one rollout; `table`: whole steps, `file` being the number in the run."""
        sides = self.sides_of(table.column("file").to_numpy())
        keys = [keys_of(table, name) for name in segments.JOIN_KEYS]
        return Pairs(sides, leads(sides, keys))

    def joined(self, table: pa.Table) -> pa.Table:
        """The rows with those of other logs added to them, by step, the first log's first; `table`: whole
        steps, in order.
        """
        return put_together(table, self.arranged(table))

    def arranged(self, table: pa.Table) -> Arranged:
        """As `joined`, as the places of the rows."""
        pairs = self.pairs(table)
        shown, others = np.flatnonzero(pairs.shown), pairs.others
        steps = table.column("step").to_numpy()
        shown = shown[np.lexsort((shown, pairs.sides[shown], steps[shown]))]
        place = np.full(table.num_rows, -1, np.int64)
        place[shown] = np.arange(len(shown))
        found: list[tuple[Side, PlaceArray]] = []
        for number, side in enumerate(self.sides):
            own = others[pairs.sides[others] == number]
            if len(own):
                at = np.full(len(shown), -1, np.int64)
                at[place[pairs.lead[own]]] = own
                found.append((side, at))
        return Arranged(shown, tuple(found))


def put_together(table: pa.Table, arranged: Arranged) -> pa.Table:
    """The rows that are shown, with what others say added to them."""
    found = table.take(pa.array(arranged.shown))
    for side, at in arranged.others:
        found = _filled(found, table, at, side)
    return found


def _filled(found: pa.Table, table: pa.Table, at: PlaceArray, side: Side) -> pa.Table:
    """The rows with the values of others where they have none; at: [rows] of `table`, -1 for none."""
    places = pa.array(at, mask=at < 0)
    lengths = _same_total(found, table, at)
    before = found
    for number, name in enumerate(found.column_names):
        if name in OWN:
            continue
        theirs, ours = table.column(name).take(places), found.column(name)
        preview = name.removeprefix(segments.WHOLE)
        if name != preview and preview in before.column_names:
            # A preview without a whole text is the whole text.
            theirs = pc.if_else(pc.is_valid(before.column(preview)), None, theirs)
        if theirs.null_count == len(theirs):
            continue
        if name in LENGTHS and lengths is not None:
            choose = pc.min_element_wise if name == "prompt_tokens" else pc.max_element_wise
            merged = pc.if_else(pa.array(lengths), choose(ours, theirs), pc.coalesce(theirs, ours))
        elif side.is_trainer and name in _TRAINERS:
            merged = pc.coalesce(theirs, ours)
        else:
            merged = pc.coalesce(ours, theirs)
        found = found.set_column(number, name, merged)
    return found


def _same_total(found: pa.Table, table: pa.Table, at: PlaceArray) -> Mask | None:
    """Where both have as many tokens, whatever of them is the response; None where it is not recorded."""
    if not all(name in table.column_names for name in LENGTHS):
        return None
    theirs, ours = (
        sum(numbers_of(side.column(name)) for name in LENGTHS) for side in (table, found)
    )
    return np.asarray(theirs)[np.maximum(at, 0)] == np.asarray(ours)


def numbers_of(column: pa.ChunkedArray) -> npt.NDArray[np.float64]:
    """[rows] of a column of numbers, NaN where a row has none."""
    return column.to_pandas().to_numpy(np.float64, na_value=np.nan)


def keys_of(table: pa.Table, name: str) -> IntArray:
    """[rows] of a column of keys, NO_KEY where a row has none."""
    return segments.whole_numbers(table, name, NO_KEY)
