"""Makes the parts of some steps anew, and lets those of the others stay as they are."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
# pyarrow ships without types.

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from board.store.manifest import Part
from board.store.step_parts import by_step
from board.store.storage import Storage

_PART_ROWS: Final = 8192
_FULL_ROWS: Final = 32_768
_FULL_BYTES: Final = 8 << 20
"""A part is written when it has so many rows, or _PART_ROWS and so many bytes: few are read faster."""


class Renewal:
    """Parts of an index of which some steps are made anew: those of other steps stay as they are.

    A part whose steps change is written again without them, and so is the last one while it is small.
    """

    def __init__(
        self, storage: Storage, known: Mapping[str, tuple[Part, ...]], stale: Iterable[int]
    ) -> None:
        self._storage = storage
        self._stale = np.array(sorted(stale), np.int64)
        self._kept: dict[str, list[Part]] = {}
        self._pending: dict[str, list[pa.Table]] = {}
        for kind, parts in known.items():
            alone = Counter(part.low for part in parts if part.low == part.high)
            touched = [self._is_touched(part, alone[part.low] > 1) for part in parts]
            self._kept[kind] = [p for p, hit in zip(parts, touched, strict=True) if not hit]
            for part, hit in zip(parts, touched, strict=True):
                if hit:
                    self._take_over(kind, self._without_stale(part))

    def _is_touched(self, part: Part, is_one_of_step: bool) -> bool:
        """is_one_of_step: whether it is one of several parts of a single step, whose order is to stay."""
        after = int(np.searchsorted(self._stale, part.low))
        hit = after < len(self._stale) and self._stale[after] <= part.high
        return bool(hit) or (part.rows < _PART_ROWS and not is_one_of_step)

    def _without_stale(self, part: Part) -> pa.Table:
        table = self._storage.get(part.name)
        return table.filter(pa.array(~np.isin(table.column("step").to_numpy(), self._stale)))

    def _take_over(self, kind: str, rest: pa.Table) -> None:
        """Rows that stay: a part of their own if there are many, since steps that change do so again."""
        if rest.num_rows >= _PART_ROWS:
            self._write(kind, [rest])
        else:
            self._add(kind, rest)

    def add(self, made: Mapping[str, pa.Table]) -> None:
        """Takes what was made of some of the steps."""
        for kind, table in made.items():
            self._add(kind, table)

    def add_alone(self, made: Iterable[tuple[str, pa.Table]]) -> None:
        """Takes what was made of one step in pieces, kind after kind: to parts of no other step, so that
        they stay in their order whatever becomes of other steps.
        """
        self._write_pending()
        for kind, table in made:
            self._add(kind, table)
        self._write_pending()

    def _write_pending(self) -> None:
        for kind, pending in self._pending.items():
            self._write(kind, pending)
        self._pending = {}

    def _add(self, kind: str, table: pa.Table) -> None:
        pending = self._pending.setdefault(kind, [])
        if table.num_rows:
            pending.append(table)
        rows = sum(part.num_rows for part in pending)
        is_large = rows >= _PART_ROWS and sum(part.nbytes for part in pending) >= _FULL_BYTES
        if is_large or rows >= _FULL_ROWS:
            self._write(kind, self._pending.pop(kind))

    def _write(self, kind: str, pending: Sequence[pa.Table]) -> None:
        if pending:
            table = by_step(pa.concat_tables(pending, promote_options="permissive"))
            steps = table.column("step")
            low, high = steps[0].as_py(), steps[-1].as_py()
            name = self._storage.put(kind, table)
            part = Part(name, table.num_rows, low, high)
            self._kept.setdefault(kind, []).append(part)

    def finish(self) -> dict[str, tuple[Part, ...]]:
        """All parts, those that stayed and those that were written."""
        self._write_pending()
        return {kind: tuple(parts) for kind, parts in self._kept.items() if parts}
