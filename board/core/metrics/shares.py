"""Numbers as every page, chart and command writes them: shares in percent, and zero as zero."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from board.core.arrays import FloatArray

NOT_RECORDED: Final = "not recorded"
ROUNDING_NOISE: Final = 1e-12
"""What is smaller is left of a sum that is zero, such as the mean advantage of a group: it reads 0."""
_RELATIVE_TO_STD: Final = 1e-7
"""The same in single precision, of the standard deviation of the terms."""
_WHOLE_FROM: Final = 0.0995
_SHARES_FROM: Final = 10
"""Of fewer the count alone says more than a percentage."""


def number(value: float | None, unit: str = "") -> str:
    """A number at four significant digits and all that are left of the point; a share in percent; "not
    recorded" for None and NaN.
    """
    if value is None or math.isnan(value):
        return NOT_RECORDED
    if unit == "share":
        return percent(value)
    if abs(value) < ROUNDING_NOISE:
        return "0"
    if 1e3 <= abs(value) < 1e15:
        return f"{value:,.0f}"
    return f"{value:.4g}".replace("e-0", "e-")


def interval(low: float, high: float, unit: str = "share") -> str:
    """Both ends of an interval in words: 3.1 % to 12 %."""
    return f"{number(low, unit)} to {number(high, unit)}"


def with_interval(
    value: float | None,
    low: float | None,
    high: float | None,
    unit: str = "",
    *,
    signed: bool = False,
) -> str:
    """A number with its 95 % interval, as exactly as that is wide: 0.71 (0.66 to 0.76); the number alone
    where the interval is not known. signed: a difference, with its sign.
    """
    if value is None or math.isnan(value):
        return NOT_RECORDED
    scale, end = (100.0, " %") if unit == "share" else (1.0, "")
    numbers = [scale * one for one in (value, low, high) if one is not None and math.isfinite(one)]
    width = numbers[2] - numbers[1] if len(numbers) > 2 else 0.0
    sizes = max(map(abs, numbers))
    if not width > 0 or not 1e-4 <= sizes < 1e6:
        written = [number(one, unit) for one in (value, low, high)[: len(numbers)]]
    else:
        decimals = min(max(1 - math.floor(math.log10(width)), 0), 6)
        rounded = [round(one, decimals) + 0.0 for one in numbers]  # no zero has a sign
        written = [f"{one:,.{decimals}f}" for one in rounded]
        written[0] += end
        written[2] += end
    plus = "+" if signed and value > 0 and any(digit in written[0] for digit in "123456789") else ""
    return f"{plus}{written[0]}" + (f" ({written[1]} to {written[2]})" if width > 0 else "")


def counted(count: int, one: str, several: str = "") -> str:
    """A count with its noun: 1 rollout, 2 rollouts. several: the plural, where it is not one + s."""
    return f"{count:,} {one if count == 1 else several or f'{one}s'}"


def percent(share: float) -> str:
    """A share of 1 in percent: one decimal below 10 % and above 90 %, else whole: 77 %, 3.1 %, 99.4 %.

    Only 0 reads "0 %" and only 1 reads "100 %": what rounds to them is "<0.1 %" and ">99.9 %".
    NaN, nothing to take a share of, is "not recorded".
    """
    if share != share:
        return NOT_RECORDED
    if 0 < share < 0.001:
        return "<0.1 %"
    if 0.999 < share < 1:
        return ">99.9 %"
    return f"{in_percent(share):g} %"


def of_many(count: int, total: int) -> str:
    """A count out of a total, with the share where the total is large enough for one: "1 of 8",
    "1 of 32 (3.1 %)".
    """
    share = f" ({percent(count / total)})" if total >= _SHARES_FROM else ""
    return f"{count:,} of {total:,}{share}"


def in_percent(share: float) -> float:
    """100 times the share, rounded as `percent` writes it, for columns that stay numbers; NaN is NaN."""
    if share != share:
        return share
    steps = 1 if _WHOLE_FROM <= abs(share) <= 1 - _WHOLE_FROM else 10  # per percentage point
    return math.floor(100 * share * steps + 0.5) / steps


def without_residue(values: FloatArray, stds: FloatArray | float = 0.0) -> FloatArray:
    """values, any shape, with 0 where they are smaller than `ROUNDING_NOISE` or 1e-7 of the standard
    deviation of what each is the mean of; NaN stays NaN.
    """
    least = np.fmax(ROUNDING_NOISE, _RELATIVE_TO_STD * np.asarray(stds))
    return np.where(np.abs(values) < least, 0.0, values)
