"""Keeps what Parquet files of indexes say of themselves, which takes longer to read than a column."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false
# pyarrow ships without types.

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

_MOST: Final = 40_000
"""Chunks of columns whose places are kept, at about 1.1 kB each."""

_Key = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Footer:
    """What a file says of itself. metadata: pyarrow's FileMetaData. names: of its columns. starts: [row
    groups + 1] the places of their first rows.
    """

    metadata: Any
    names: list[str]
    starts: npt.NDArray[np.int64]

    @classmethod
    def of(cls, file: Any) -> Self:
        """file: pyarrow's ParquetFile. Raises ValueError and KeyError where it says what can't be."""
        metadata, schema = file.metadata, file.schema_arrow
        sizes = [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)]
        return cls(metadata, schema.names, np.cumsum([0, *sizes]))

    @property
    def chunks(self) -> int:
        """How many chunks of columns there are."""
        return self.metadata.num_columns * self.metadata.num_row_groups


class Footers:
    """The footers that were used last, of files as they are: one that was written since is another one.

    Safe to use from any thread.
    """

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._kept: OrderedDict[_Key, Footer] = OrderedDict()
        self._chunks = 0

    def of(self, path: str) -> tuple[_Key, Footer | None]:
        """What tells the file from others, and its footer, None if not kept."""
        found = Path(path).stat()
        key = (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return key, self._kept.get(key)

    def keep(self, key: _Key, footer: Footer) -> None:
        """Keeps a footer, and lets go of those that were not used for longest."""
        with self._lock:
            if key in self._kept:
                return
            self._kept[key] = footer
            self._chunks += footer.chunks
        self.forget(self._most)

    def forget(self, most: int) -> None:
        """Lets go of those that were not used for longest, down to so many chunks of columns."""
        with self._lock:
            while self._chunks > most:
                _, oldest = self._kept.popitem(last=False)
                self._chunks -= oldest.chunks
