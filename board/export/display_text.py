"""Numbers and texts from logs for a place that shows text as it is: never for HTML or Markdown."""

from __future__ import annotations

from board.core.metrics import shares
from board.core.texts.one_line import one_line as one_line


def number(value: float | None, unit: str = "") -> str:
    """As `core.metrics.shares.number`, with the sign of a minus."""
    text = shares.number(value, unit)
    return f"−{text[1:]}" if text.startswith("-") else text
