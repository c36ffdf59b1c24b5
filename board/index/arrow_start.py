"""Arrow without pandas. It imports pandas at the first list that becomes an array, which takes a command
half a second and 80 MB.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Final

import pyarrow as pa

_PANDAS: Final = "pandas"


class _WithoutPandas(MetaPathFinder):
    """Says that pandas is not installed."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Nothing of any other module."""
        if fullname == _PANDAS:
            raise ImportError(name=_PANDAS)
        return None


def leave_pandas_out() -> None:
    """Let Arrow find no pandas, unless the process has it already: of lists and numpy's arrays it needs
    none, and it looks again when a table is to become a frame.
    """
    if _PANDAS in sys.modules:
        return
    finder = _WithoutPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([])
    finally:
        sys.meta_path.remove(finder)
