"""Rows of a log by key, before anybody knows what the keys mean."""

# pyright: reportUnknownMemberType=false, reportMissingTypeStubs=false
# pyarrow ships without types.

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, compress
from operator import itemgetter
from typing import Any, cast

import numpy as np
import pyarrow as pa

from board.core.records import FloatArray
from board.formats.texts import Numbers, PlainTexts, Texts, Values, Words


@dataclass(frozen=True, slots=True)
class Block:
    """Rows of a log, one rollout each, by key. columns: by key, in the order of the first row's keys."""

    columns: Mapping[str, Any]
    """Values or Texts."""
    rows: int

    @classmethod
    def of(cls, records: Sequence[Mapping[str, Any]]) -> Block:
        """The block of parsed lines."""
        keys = list(records[0]) if records else []
        # Lines of one writer have the same keys, nearly always.
        if len(keys) > 1 and set(map(len, records)) == {len(keys)}:
            try:
                rows = map(itemgetter(*keys), records)
                return cls(
                    dict(zip(keys, map(list, zip(*rows, strict=True)), strict=True)), len(records)
                )
            except KeyError:
                pass
        keys = dict.fromkeys(chain.from_iterable(records))
        return cls({key: [r.get(key) for r in records] for key in keys}, len(records))

    def held(self, key: str) -> Any:
        """The values of a key as they are held; None in all rows without such a key."""
        return self.columns.get(key) or [None] * self.rows

    def values(self, key: str) -> Values:
        """As held, the values themselves."""
        return listed(self.held(key))

    def items(self) -> Iterator[tuple[str, Values]]:
        """The keys and their values."""
        return ((key, listed(values)) for key, values in self.columns.items())

    def row(self, place: int) -> dict[str, Any]:
        """One row as a mapping, a None for a key it has no value for."""
        return {key: values[place] for key, values in self.items()}


def listed(values: Values | Texts) -> Values:
    """The values of a column of a block, one for each row."""
    return values.whole() if isinstance(values, Texts) else values


def as_texts(values: Values | Texts) -> Texts:
    """The values as texts, if they are not."""
    return values if isinstance(values, Texts) else PlainTexts(values)


def kept_rows(values: Any, kept: list[bool] | None) -> Any:
    """The values of the rows that are kept, a list or an array; None: of all."""
    if kept is None:
        return values
    if isinstance(values, np.ndarray):
        return cast("FloatArray", values)[np.array(kept)]
    if isinstance(values, pa.Array):
        return values.filter(pa.array(kept, pa.bool_()))
    if isinstance(values, Numbers):
        return values.kept(kept)
    found: Values = list(compress(cast("Values", values), kept))
    return Words(found) if isinstance(values, Words) else found
