"""Keeps what Parquet files of indexes say of themselves, which takes longer to read than a column."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false
# pyarrow ships without types.

from __future__ import annotations

import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any, Final

_MOST: Final = 40_000
"""Chunks of columns whose places are kept, at about 1.1 kB each."""

_Key = tuple[int, int, int, int]


class Footers:
    """The footers that were used last, of files as they are: one that was written since is another one.

    Safe to use from any thread.
    """

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._kept: OrderedDict[_Key, Any] = OrderedDict()
        self._chunks = 0

    def of(self, path: str) -> tuple[_Key, Any]:
        """What tells the file from others, and its footer (pyarrow's FileMetaData), None if not kept."""
        found = Path(path).stat()
        key = (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return key, self._kept.get(key)

    def keep(self, key: _Key, footer: Any) -> None:
        """Keeps a footer, and lets go of those that were not used for longest."""
        with self._lock:
            if key in self._kept:
                return
            self._kept[key] = footer
            self._chunks += _chunks(footer)
            while self._chunks > self._most:
                _, oldest = self._kept.popitem(last=False)
                self._chunks -= _chunks(oldest)


def _chunks(footer: Any) -> int:
    return footer.num_columns * footer.num_row_groups
