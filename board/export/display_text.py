"""Numbers and texts from logs for a place that shows text as it is: never for HTML or Markdown."""

from __future__ import annotations

from board.core.distinct_names import on_one_line
from board.core.metrics import shares


def one_line(text: object, limit: int = 80) -> str:
    """The text for a place that shows it as it is (options of a select box): on one line, cut."""
    line = on_one_line(str(text))
    return line if len(line) <= limit else line[: limit - 1] + "…"


def number(value: float | None, unit: str = "") -> str:
    """As `core.metrics.shares.number`, with the sign of a minus."""
    text = shares.number(value, unit)
    return f"−{text[1:]}" if text.startswith("-") else text
