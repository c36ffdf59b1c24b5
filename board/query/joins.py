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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from board.core.metrics.aggregate import COLUMNS
from board.formats import reader_named
from board.index import segments
from board.index.reading.file_steps import IntArray
from board.index.repeat_keys import NO_KEY

Mask = npt.NDArray[np.bool_]

_ADDRESS: Final = ("file", "line", segments.PART)
KEYS: Final = "SELECT file, line, part, {} FROM ({})"
"""A statement for what `Joins.pairs` needs of the rows of a view."""
OWN: Final = frozenset(
    (
        *("step", "file", "file_id", "path", "side", *segments.LOCATION, segments.PART),
        *(segments.REPEAT_KEY, *segments.JOIN_KEYS),
    )
)
"""Columns that say where a row stands; never taken from another log."""
LENGTHS: Final = ("prompt_tokens", "response_tokens")
_TRAINERS: Final = frozenset((*COLUMNS, *LENGTHS, "pad_tokens"))


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


class Joins:
    """Joins the rows of a run's logs. readers: name of the reader by number of the file."""

    def __init__(self, readers: Mapping[int, str]) -> None:
        self.sides = sides_of(list(readers.values()))
        numbers = {side.reader: number for number, side in enumerate(self.sides)}
        self._side_of = np.zeros(max(readers, default=0) + 1, np.int64)
        for file, reader in readers.items():
            self._side_of[file] = numbers.get(reader, 0)

    def sides_of(self, files: Sequence[int] | IntArray) -> IntArray:
        """The number of the log of each of these files, given by their number in the run."""
        return self._side_of[np.asarray(files, np.int64)]

    def pairs(self, table: pa.Table) -> Pairs:
        """Which rows are one rollout; `table`: whole steps, `file` being the number in the run."""
        sides = self.sides_of(table.column("file").to_numpy())
        keys = [keys_of(table, name) for name in segments.JOIN_KEYS]
        return Pairs(sides, leads(sides, keys))

    def pairs_table(self, table: pa.Table) -> pa.Table:
        """The address of each row that is added to another, and the `lead_` address of that one."""
        pairs = self.pairs(table)
        others = pairs.others
        places = {"": others, "lead_": pairs.lead[others]}
        columns = {
            f"{prefix}{name}": table.column(name).take(pa.array(rows))
            for prefix, rows in places.items()
            for name in _ADDRESS
        }
        return pa.table(columns)


def merged_rows(sides: Sequence[Side], visible: str, pairs: str, names: Sequence[str]) -> str:
    """A statement for rows with what other logs say added to them.

    sides: the logs. visible: a statement for the rows. pairs: the table of pairs. names: columns of the
    rows.
    """
    sql = f"SELECT *, rank AS own_rank FROM ({visible}) ANTI JOIN {pairs} USING (file, line, part)"
    for number, side in enumerate(sides[1:], 1):
        values = (
            f"{_merged(name, side, names)} AS {_quoted(name)}" for name in names if name not in OWN
        )
        sql = f"""
            SELECT ours.* REPLACE ({", ".join(values)}) FROM ({sql}) AS ours LEFT JOIN (
                FROM ({visible}) JOIN {pairs} USING (file, line, part) WHERE side = {number}
            ) AS theirs ON theirs.lead_file = ours.file AND theirs.lead_line = ours.line
                AND theirs.lead_part = ours.part AND theirs.step = ours.step"""
    return sql


def _merged(name: str, side: Side, names: Sequence[str]) -> str:
    """SQL for the value of a column of `ours` and `theirs`."""
    ours, theirs = f"ours.{_quoted(name)}", f"theirs.{_quoted(name)}"
    preview = name.removeprefix(segments.WHOLE)
    if name != preview and preview in names:
        # A preview without a whole text is the whole text.
        return f"CASE WHEN ours.{preview} IS NULL THEN coalesce({ours}, {theirs}) ELSE {ours} END"
    if name in LENGTHS and {*LENGTHS} <= {*names}:
        # Of equally many tokens: where the response begins, the two may see differently.
        choose = "least" if name == "prompt_tokens" else "greatest"
        same = " = ".join(
            " + ".join(f"{row}.{length}" for length in LENGTHS) for row in ("ours", "theirs")
        )
        return (
            f"CASE WHEN {same} THEN {choose}({ours}, {theirs}) ELSE coalesce({theirs}, {ours}) END"
        )
    if side.is_trainer and name in _TRAINERS:
        return f"coalesce({theirs}, {ours})"
    return f"coalesce({ours}, {theirs})"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def numbers_of(column: pa.ChunkedArray) -> npt.NDArray[np.float64]:
    """[rows] of a column of numbers, NaN where a row has none."""
    return column.to_pandas().to_numpy(np.float64, na_value=np.nan)


def keys_of(table: pa.Table, name: str) -> IntArray:
    """[rows] of a column of keys, NO_KEY where a row has none."""
    return segments.whole_numbers(table, name, NO_KEY)
