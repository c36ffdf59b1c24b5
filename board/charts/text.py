"""Names, tokens and numbers as they may stand in a figure.

Plotly reads a few HTML tags and entities in every text, and %{...} in hover templates. Names of
reward parts, environments and tokens come from logs and models: they pass through here and go into
`text` or `name`, never into a template.
"""

from __future__ import annotations

import math
import unicodedata
from html import escape
from typing import Final

from board.core.metrics import shares

_SHOWN_AS: Final = {"\n": "⏎", "\r": "␍", "\t": "⇥"}
_UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})


def safe_name(text: str, limit: int = 60) -> str:
    """A name for legends, axis and hover labels: at most `limit` characters, nothing interpreted."""
    return _safe(text, limit)


def safe_token(text: str, limit: int = 40) -> str:
    """A token for hover labels: as `safe_name`, with its spaces visible."""
    return _safe(text, limit).replace(" ", "␣")


def _safe(text: str, limit: int) -> str:
    cut = text if len(text) <= limit else text[: limit - 1] + "…"
    return escape("".join(_visible(char) for char in cut), quote=False)


def _visible(char: str) -> str:
    if char in _SHOWN_AS:
        return _SHOWN_AS[char]
    return f"⟨U+{ord(char):04X}⟩" if unicodedata.category(char) in _UNSEEN else char


def number(value: float) -> str:
    """A number to read: 4 significant digits, all digits left of the point, "-" if not recorded."""
    if math.isnan(value):
        return "-"
    if abs(value) < shares.ROUNDING_NOISE:
        return "0"
    if not math.isfinite(value) or not 1e3 <= abs(value) < 1e15:
        return f"{value:.4g}".replace("e-0", "e-")
    return f"{value:,.0f}"


def percent(share: float) -> str:
    """A share to read, in percent; "-" if not recorded."""
    return "-" if math.isnan(share) else shares.percent(share)


def unit_suffix(unit: str) -> str:
    """The unit with the space before it; nothing where there is none."""
    return f" {safe_name(unit, 20)}" if unit else ""
