"""Names in the order in which people count: rank_2 before rank_10."""

from __future__ import annotations

import re
from typing import Final

_DIGITS: Final = re.compile(r"(\d+)")


def natural_order(text: str) -> tuple[tuple[int, int, str], ...]:
    """Sort key under which rank_2 comes before rank_10."""
    parts = _DIGITS.split(text)
    return tuple((1, int(p), "") if i % 2 else (0, 0, p) for i, p in enumerate(parts))
