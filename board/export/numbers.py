"""Numbers as the page writes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from board.core.arrays import FloatArray
from board.core.metrics.shares import ROUNDING_NOISE, percent

NOT_RECORDED: Final = "not recorded"


def number(value: float | None, unit: str = "") -> str:
    """A number at four significant digits, a share in percent; "not recorded" for None and NaN."""
    if value is None or value != value:
        return NOT_RECORDED
    if unit == "share":
        return percent(value)
    if abs(value) < ROUNDING_NOISE:
        return "0"
    if 1e3 <= abs(value) < 1e15:
        return f"{value:,.0f}"
    return f"{value:.4g}".replace("e-0", "e-").replace("e+0", "e")


def counted(count: int, one: str, several: str = "") -> str:
    """A number of things in words: 1 rollout, 2 rollouts. several: where no s is added."""
    return f"{count:,} {one if count == 1 else several or f'{one}s'}"


def terse(values: FloatArray) -> Sequence[str]:
    """[n] numbers at three significant digits, "-" for NaN: as short as can be, for many of them."""
    return ["-" if text == "nan" else text for text in map("%.3g".__mod__, values.tolist())]
