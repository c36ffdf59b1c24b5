"""The rollouts of a step that has very many of them: columns are read when they are looked at, and a
bounded number of rows at a time, so that what a step takes is a few numbers a rollout.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
# pyarrow ships without types, and makes its compute functions when it is imported.

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from board.core.records import FloatArray
from board.store import splits, step_parts
from board.store.segments import LONG_TEXTS
from board.store.shown import Shown
from board.store.spare_memory import give_back
from board.store.stored_rows import StoredRows

_PIECE: Final = 16_384
"""Rows that are read at once."""
_LITTLE: Final = 140 << 20
"""Bytes of memory from which on what is free is given back: hardly more than what is imported takes."""
_TEXTS: Final = 4096
"""Rows whose long texts are looked at at once."""
_SORTED: Final = 65_536
"""Keys that are sorted at once."""
NO_KEY: Final = np.uint64(0)
"""Of what has no value."""
FACTOR: Final = np.uint64(0x9E3779B97F4A7C15)
"""An odd number by which keys that are put together are told apart."""

Places = npt.NDArray[np.int32]
Keys = npt.NDArray[np.uint64]


class LargeStep:
    """All rollouts of one step, in their order. Of logs that are not joined."""

    def __init__(self, shown: Shown, step: int) -> None:
        self.step = step
        self.names = frozenset(column.name for column in shown.columns)
        self._shown = shown
        self._layout = shown.index.layout_of(step)
        order = self._layout.order
        self._stand = np.zeros(0, np.int32) if order is None else np.argsort(order).astype(np.int32)
        self.rollouts = len(self._stand)
        give_back(_LITTLE)

    def frame(self, places: Places, columns: Sequence[str]) -> pd.DataFrame:
        """As Shown.frame, of the rollouts at these places, [n], with step, index and these columns."""
        wanted = self._shown.stored_names(columns, ("step",))
        stand = places.astype(np.int64)
        give_back(_LITTLE)
        table = self._shown.index.at(self._layout, stand, wanted, at_once=1)
        return self._frame_of(table, places, columns)

    def _frame_of(self, table: pa.Table, places: Places, columns: Sequence[str]) -> pd.DataFrame:
        rows = StoredRows(self._shown.columns, table, places)
        return rows.frame({*columns, "step", "index"})

    def frames(self, columns: Sequence[str]) -> Iterator[tuple[Places, pd.DataFrame]]:
        """The places of all rollouts and their frames, as they are stored: each segment is read once."""
        give_back(_LITTLE)
        most = _PIECE if LONG_TEXTS.isdisjoint(columns) else _TEXTS
        wanted = self._shown.stored_names(columns, ("step",))
        for places, table in self._shown.index.tables_of(self._layout, self._stand, wanted):
            for first in range(0, len(places), most):
                piece = places[first : first + most]
                yield piece, self._frame_of(table.slice(first, most), piece, columns)
            give_back(_LITTLE)

    def numbers(self, name: str) -> FloatArray:
        """[rollouts] a column as step_parts.numbers has it."""
        found = np.empty(self.rollouts, np.float64)
        for places, rows in self.frames((name,)):
            found[places] = step_parts.numbers(rows, name)
        return found

    def keys(self, columns: Sequence[str], told: Callable[[pd.DataFrame], Keys]) -> Keys:
        """[rollouts] what is told of them, of a frame of these columns."""
        found = np.empty(self.rollouts, np.uint64)
        for places, rows in self.frames(columns):
            found[places] = told(rows)
        return found

    def texts(self, name: str, places: Places) -> pa.Array:
        """[n] a column of texts, which it has at these places."""
        pieces = [
            pa.array(
                self.frame(places[at : at + _PIECE], (name,))[name].astype(object), pa.string()
            )
            for at in range(0, len(places), _PIECE)
        ]
        return pa.concat_arrays(pieces) if pieces else pa.array([], pa.string())

    def _ranks(self, name: str) -> Places:
        """[rollouts] places among the texts of a column, which are in their order; -1 for none."""
        keys = self.keys((name,), lambda rows: hashed(rows[name]))
        known = keys != NO_KEY
        first = first_with(keys)
        del keys
        of, firsts = numbered(first, known)
        del first, known
        order = pc.sort_indices(self.texts(name, firsts)).to_numpy()
        ranks = np.empty(len(order) + 1, np.int32)
        ranks[order] = np.arange(len(order), dtype=np.int32)
        ranks[-1] = -1
        return ranks[of]

    def _named(self, name: str) -> tuple[Places, list[str]]:
        """As _ranks, of a column of few texts, with these."""
        codes, names = np.empty(self.rollouts, np.int32), dict[str, int]()
        for places, rows in self.frames((name,)):
            values = rows[name].cat
            own = [names.setdefault(text, len(names)) for text in values.categories]
            codes[places] = np.array([*own, -1], np.int32)[values.codes]
        ordered = sorted(names)
        ranks = np.full(len(names) + 1, -1, np.int32)
        ranks[[names[text] for text in ordered]] = np.arange(len(ordered), dtype=np.int32)
        return ranks[codes], ordered

    @cached_property
    def groups(self) -> Places:
        """[rollouts] as group_ids.group_codes has them."""
        if "group_id" not in self.names:
            return np.full(self.rollouts, -1, np.int32)
        codes = self._ranks("group_id")
        if "split" not in self.names:
            return codes
        of_split, names = self._split_names
        among = {name: place for place, name in enumerate(sorted({*names, splits.TRAIN}))}
        own = np.array([*(among[name] for name in names), among[splits.TRAIN]], np.int32)
        known = codes >= 0
        codes *= np.int32(len(among))
        codes += own[of_split]
        codes[~known] = -1
        return codes

    @cached_property
    def _split_names(self) -> tuple[Places, list[str]]:
        return self._named("split")

    @cached_property
    def splits(self) -> tuple[Places, list[str]]:
        """[rollouts] places in the names of the splits, and these, as store.splits has them."""
        codes, names = self._split_names
        found = [name or splits.TRAIN for name in names]
        unique = [*dict.fromkeys((splits.TRAIN, *found))]
        places = np.array([*(unique.index(name) for name in found), 0], np.int32)
        return places[codes], unique

    @cached_property
    def envs(self) -> tuple[Places, list[str]]:
        """[rollouts] places in the names of the environments, -1 for none, and these."""
        return self._named("env")

    @cached_property
    def prompts(self) -> Places:
        """[rollouts] a number for each prompt, -1 for none."""
        if "prompt" not in self.names:
            return np.full(self.rollouts, -1, np.int32)

        def told(rows: pd.DataFrame) -> Keys:
            keys = hashed(rows["prompt"])
            tokens = np.nan_to_num(step_parts.numbers(rows, "prompt_tokens"), nan=-1.0)
            both = keys + tokens.astype(np.int64).view(np.uint64) * FACTOR
            return np.where(keys == NO_KEY, NO_KEY, np.maximum(both, 1))

        keys = self.keys(("prompt", "prompt_tokens"), told)
        known = keys != NO_KEY
        first = first_with(keys)
        del keys
        return numbered(first, known)[0]


@dataclass(frozen=True, slots=True)
class LargeRows:
    """Some rollouts of a large step. places: [n] of them in it."""

    of: LargeStep
    places: Places

    @classmethod
    def all_of(cls, step: LargeStep) -> LargeRows:
        """All rollouts of the step."""
        return cls(step, np.arange(step.rollouts, dtype=np.int32))

    def __len__(self) -> int:
        return len(self.places)

    def only(self, which: npt.NDArray[Any]) -> LargeRows:
        """Those at some places among these, [m], or [n] whether."""
        return LargeRows(self.of, self.places[which])

    def numbers(self, name: str) -> FloatArray:
        """[n] a column as step_parts.numbers has it."""
        return self._own(self.of.numbers(name))

    def _own(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """[n] of these, of [rollouts] of the step: the same array where these are all."""
        return values if len(self) == self.of.rollouts else values[self.places]

    def frame(self, which: npt.NDArray[Any], columns: Sequence[str]) -> pd.DataFrame:
        """As Shown.frame, of those at some places among these."""
        return self.of.frame(self.places[which], columns)

    @property
    def groups(self) -> Places:
        """[n] as group_ids.group_codes has them."""
        return self._own(self.of.groups)

    @property
    def envs(self) -> Places:
        """[n] places in the names of the step's environments, -1 for none."""
        if "env" not in self.of.names:
            return np.full(len(self), -1, np.int32)
        return self._own(self.of.envs[0])

    def prompts(self, order: Places | None = None) -> Places:
        """[n] a number for each prompt, in the order in which they come first; -1 for none. order: [n]
        in which these rollouts are looked at.
        """
        if len(self) == self.of.rollouts and order is None:
            return self.of.prompts
        codes = self.of.prompts[self.places if order is None else self.places[order]]
        known = codes >= 0
        found = np.full(len(codes), -1, np.int32)
        found[known] = pd.factorize(codes[known])[0]
        if order is None:
            return found
        back = np.empty(len(codes), np.int32)
        back[order] = found
        return back


def hashed(texts: pd.Series[Any]) -> Keys:
    """[rows] a number for each text, equal for equal ones, NO_KEY for none."""
    if isinstance(texts.dtype, pd.CategoricalDtype):
        codes, held = texts.cat.codes.to_numpy(), texts.cat.categories.astype(object).to_numpy()
    else:  # each different text is looked at once
        encoded = pc.dictionary_encode(pa.array(texts))
        if isinstance(encoded, pa.ChunkedArray):
            encoded = encoded.combine_chunks()
        codes = encoded.indices.fill_null(-1).to_numpy()
        held = encoded.dictionary.to_numpy(zero_copy_only=False)
    keys = np.append(np.maximum(pd.util.hash_array(held, categorize=False), 1), NO_KEY)
    return keys[codes]


def first_with(keys: Keys) -> Places:
    """[n] the place of the first one that has the same key."""
    first = np.empty(len(keys), np.int32)
    parts = min(1 << (len(keys) // _SORTED).bit_length(), 256)
    which = keys.view(np.uint8)[::8] & np.uint8(parts - 1)  # any byte of a key is as good
    for part in range(parts):
        places = np.flatnonzero(which == part).astype(np.int32)
        order = np.argsort(keys[places], kind="stable")
        places = places[order]
        ordered = keys[places]
        starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)])
        first[places] = np.repeat(places[starts], np.diff(np.append(starts, len(places))))
    return first


def numbered(first: Places, known: npt.NDArray[np.bool_]) -> tuple[Places, Places]:
    """([n] a number for each different one in the order in which they come, -1 for what is not known;
    the place of the first of each number). first: as of first_with.
    """
    is_first = (first == np.arange(len(first), dtype=np.int32)) & known
    numbers = np.cumsum(is_first, dtype=np.int32) - np.int32(1)
    found = numbers[first]
    found[~known] = -1
    return found, np.flatnonzero(is_first).astype(np.int32)


def sets_of(codes: Places, most: int | None = None) -> Iterator[tuple[npt.NDArray[np.int64], bool]]:
    """Rows that have a code, a bounded number at a time unless a set has more: whole sets of equal codes,
    in the order of these, and the rows of each piece in theirs; before them those without a code (below
    0). Each with whether it has codes.
    """
    most = most or _PIECE
    none = np.flatnonzero(codes < 0)
    for first in range(0, len(none), most):
        yield none[first : first + most], False
    del none
    order = np.argsort(codes, kind="stable").astype(np.int32)
    order = order[int((codes < 0).sum()) :]
    ordered = codes[order]
    ends = np.append(np.flatnonzero(ordered[1:] != ordered[:-1]) + 1, len(ordered))
    del ordered
    first = 0
    while first < len(order):
        place = int(np.searchsorted(ends, first + most, side="right")) - 1
        end = int(ends[place]) if place >= 0 and ends[place] > first else None
        end = int(ends[np.searchsorted(ends, first, side="right")]) if end is None else end
        yield np.sort(order[first:end]).astype(np.int64), True
        first = end
