"""Reads several tables of an index, two at a time where that is faster."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
# pyarrow ships without types, and makes its compute functions when it is imported.

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pyarrow as pa

from board.store.segments import LONG_TEXTS
from board.store.storage import Storage
from board.store.table_files import StepRange

_MANY: Final = 2
_HEAVY: Final = 8
_AT_ONCE: Final = 2


def read_all(
    storage: Storage,
    names: Sequence[str],
    columns: Sequence[str] | None,
    steps: StepRange | None = None,
) -> list[pa.Table]:
    """These tables, as Storage.get reads them; two at a time where that is mostly unpacking, without
    the GIL: of a few columns of numbers opening them is most of it, and takes longer in two threads.
    """

    def table(name: str) -> pa.Table:
        return storage.get(name, columns, steps)

    if len(names) < _MANY or not is_heavy(columns):
        return [table(name) for name in names]
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        return list(threads.map(table, names))


def is_heavy(columns: Sequence[str] | None) -> bool:
    """Whether these columns of rows take longer to unpack than their tables to open."""
    return columns is None or len(columns) > _HEAVY or not LONG_TEXTS.isdisjoint(columns)
