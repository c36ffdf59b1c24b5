"""Text from a log on one line, for a place that shows text as it is."""

from __future__ import annotations

import re
from typing import Final

_UNSEEN: Final = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)


def on_one_line(text: str) -> str:
    """The text with a sign in place of each character that breaks a line or is not seen."""
    return _UNSEEN.sub("�", text)


def one_line(text: object, limit: int = 80) -> str:
    """The text for a place that shows it as it is (options of a select box): on one line, cut."""
    line = on_one_line(str(text))
    return line if len(line) <= limit else line[: limit - 1] + "…"
