"""An index that ends with the process."""

from __future__ import annotations

import time
import uuid
from collections.abc import Generator, Sequence
from contextlib import contextmanager

import pyarrow as pa

from board.index.manifest import BrokenIndexError, Manifest
from board.index.storage import KEEP_SECONDS, StepRange, present_columns


class MemoryStorage:
    """An index of small runs, and of those where nothing can be written."""

    folder = None

    def __init__(self) -> None:
        self._manifest: Manifest | None = None
        self._tables: dict[str, pa.Table] = {}
        self._retired: dict[str, float] = {}

    def load(self) -> Manifest | None:
        """As Storage."""
        return self._manifest

    def commit(self, manifest: Manifest) -> None:
        """As Storage."""
        self._manifest = manifest

    def put(self, kind: str, table: pa.Table) -> str:
        """As Storage."""
        name = f"{kind}-{uuid.uuid4().hex}"
        self._tables[name] = table
        return name

    def get(
        self,
        name: str,
        columns: Sequence[str] | None = None,
        steps: StepRange | None = None,
    ) -> pa.Table:
        """As Storage."""
        table = self._tables.get(name)
        if table is None:
            raise BrokenIndexError(f"{name} is gone")
        return (
            table if columns is None else table.select(present_columns(table.column_names, columns))
        )

    def check(self, manifest: Manifest) -> None:
        """As Storage."""

    def discard(self, manifest: Manifest) -> None:
        """As Storage."""
        self._manifest = None

    def retire(self, names: Sequence[str]) -> None:
        """As Storage."""
        now = time.time()
        self._retired |= dict.fromkeys(names, now)

    def tidy(self, manifest: Manifest) -> None:
        """As Storage."""
        # Tables that were put together with others before a manifest named them.
        self.retire([*(self._tables.keys() - manifest.names - self._retired.keys())])
        long_ago = time.time() - KEEP_SECONDS
        for name in [name for name, at in self._retired.items() if at < long_ago]:
            self._retired.pop(name)
            self._tables.pop(name, None)

    @contextmanager
    def writer(self) -> Generator[bool]:
        """As Storage."""
        yield True
