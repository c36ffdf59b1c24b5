"""From the values of a token metric to the colours of its tokens: the rules of the reader's scale.js."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from board.core.arrays import BoolArray, FloatArray
from board.core.metrics.definitions import LOW_IS_NOTABLE, RATIOS, Metric, token_metric
from board.core.metrics.shares import number

SHADES: Final = 15
BEYOND: Final = SHADES + 1
"""The level of values beyond the range: the strongest shade, underlined."""
ABSENT: Final = 17
NOT_A_NUMBER: Final = 18
_PALETTES: Final = {
    "light": {"high": (230, 97, 0), "low": (52, 132, 240), "cap": 0.78},
    "dark": {"high": (255, 145, 60), "low": (80, 155, 255), "cap": 0.56},
}
_LOG_FROM: Final = 1000
_HEAVY_TAIL: Final = 30
_LOG_REACH: Final = 1e-9
_LOG_REACH_OF_A_SIDE: Final = 1e-4
_LOG_EXPONENT: Final = 3.3
_FEWEST_FOR_PERCENTILES: Final = 8

Levels = npt.NDArray[np.int8]


@dataclass(frozen=True, slots=True)
class Colours:
    """Of one metric over a rollout's tokens, [R] each.

    levels: -16 to 16, and a code for what is not recorded or no number. strength: for ranking, 0 where
    a value has no colour. ends: words at both ends of the legend, empty where all is one colour. sides:
    which of the two colours the legend has. caption: what the range is, and how much lies beyond.
    """

    metric: Metric
    levels: Levels
    strength: FloatArray
    ends: tuple[str, str] | None
    sides: tuple[Literal[-1, 0], Literal[0, 1]]
    caption: str


def level_classes() -> list[str]:
    """The class of each level from -16 to 18, to be indexed by the level; empty for no colour."""
    high = [f"h{level}" for level in range(1, BEYOND + 1)]
    return ["", *high, "n", "x", *(f"l{level}" for level in range(BEYOND, 0, -1))]


def level_styles(theme: Literal["light", "dark"]) -> str:
    """CSS of the classes of levels on a light or a dark page."""
    palette = _PALETTES[theme]
    cap = palette["cap"]
    rules: list[str] = []
    for side, letter in (("high", "h"), ("low", "l")):
        red, green, blue = palette[side]
        for level in range(1, BEYOND + 1):
            alpha = cap * min(level, SHADES) / SHADES
            line = f";box-shadow:inset 0 -2px rgb({red} {green} {blue})" if level == BEYOND else ""
            rules.append(
                f".{letter}{level}{{background:rgb({red} {green} {blue}/{alpha:.3f}){line}}}"
            )
    return "".join(rules)


def colours_of(
    name: str,
    values: FloatArray,
    in_loss: BoolArray,
    span: tuple[float, float, str] | None = None,
) -> Colours:
    """The colours of a metric's values [R], NaN where not recorded.

    in_loss: [R], the tokens by which the range is set. span: the ends of a scale that is not of this
    rollout alone, and words for what it is over.
    """
    # The reader's numbers are float32, and so are the borders between its shades.
    rounded = values.astype(np.float32).astype(np.float64)
    absent = np.isnan(rounded)
    if absent.all() and len(rounded):  # measured, and no number at any token
        absent[:] = False
    finite = np.isfinite(rounded)
    metric = _known_or_by_sign(token_metric(name), rounded[finite])
    inside = rounded[finite & in_loss]
    ordered = np.sort(inside if len(inside) else rounded[finite])
    scale = _scale_of(metric, ordered, span)
    numbers = np.where(finite, rounded, 0.0)
    shades = np.floor(scale.tint(numbers) * SHADES + 0.5)  # as Math.round does
    beyond = np.sign(scale.tint(numbers)) * BEYOND
    levels = np.where(scale.is_beyond(numbers), beyond, shades).astype(np.int8)
    infinite = np.isinf(rounded)
    levels[infinite] = np.where(rounded[infinite] > 0, scale.infinite[1], scale.infinite[0])
    levels[np.isnan(rounded)] = NOT_A_NUMBER
    levels[absent] = ABSENT
    strength = np.where(finite, scale.strength(numbers), 0.0)
    return Colours(metric, levels, strength, scale.ends, scale.sides, scale.caption)


def _known_or_by_sign(metric: Metric, finite: FloatArray) -> Metric:
    """The metric; one that the board has no words for is diverging where both signs occur."""
    has_both = bool(len(finite) and finite.min() < 0 < finite.max())
    return replace(metric, kind="diverging") if metric.label == metric.name and has_both else metric


_OnArray = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True, slots=True)
class _Scale:
    """tint: -1..1 by value. infinite: levels of both infinities. The rest: as of Colours."""

    tint: _OnArray
    is_beyond: Callable[[FloatArray], BoolArray]
    strength: _OnArray
    caption: str
    ends: tuple[str, str] | None = None
    sides: tuple[Literal[-1, 0], Literal[0, 1]] = (0, 1)
    infinite: tuple[int, int] = (0, 0)


def _zero(values: FloatArray) -> FloatArray:
    return np.zeros(len(values))


def _never(values: FloatArray) -> BoolArray:
    return np.zeros(len(values), bool)


def _flat(caption: str) -> _Scale:
    return _Scale(_zero, _never, _zero, caption)


def _scale_of(metric: Metric, ordered: FloatArray, span: tuple[float, float, str] | None) -> _Scale:
    if not len(ordered):
        return _flat("no finite value in this rollout")
    if metric.kind == "flag":
        return _flags(ordered)
    low, high, words = span or _robust_range(ordered)
    centre = 1.0 if metric.name in RATIOS else 0.0
    if centre or (metric.kind == "diverging" and ordered[0] < 0 < ordered[-1]):
        return _two_sided(metric, (low, high), words, ordered, centre)
    if low < high:
        return _one_sided(metric, (low, high), words, ordered)
    return _flat(f"{_with_unit(low, metric)} on every token")


def _flags(ordered: FloatArray) -> _Scale:
    def is_set(values: FloatArray) -> FloatArray:
        return (values > 0).astype(np.float64)

    count = int(np.count_nonzero(ordered > 0))
    caption = f"set on {count:,} of {len(ordered):,} tokens"
    return _Scale(is_set, _never, is_set, caption, infinite=(0, SHADES))


def _robust_range(ordered: FloatArray) -> tuple[float, float, str]:
    last = len(ordered) - 1
    low, high = ordered[int(np.ceil(0.01 * last))], ordered[int(np.floor(0.99 * last))]
    if len(ordered) >= _FEWEST_FOR_PERCENTILES and low < high:
        return float(low), float(high), "p1–p99"
    return float(ordered[0]), float(ordered[-1]), "min–max"


def _one_sided(
    metric: Metric, span: tuple[float, float], words: str, ordered: FloatArray
) -> _Scale:
    """Colour at the notable end: blue for the low one, orange for the high one."""
    low, high = span
    is_low = metric.name in LOW_IS_NOTABLE or (metric.kind == "diverging" and ordered[-1] <= 0)
    sign = -1.0 if is_low else 1.0
    least, most = (-high, -low) if is_low else (low, high)
    sizes = np.abs(ordered[ordered < 0] if is_low else ordered[ordered > 0])
    smallest = float(sizes.min()) if len(sizes) else np.inf
    begin_at = least if least > 0 else smallest
    is_log = least >= 0 and most > 0 and most >= _LOG_FROM * begin_at
    begin = max(least, most * _LOG_REACH) if is_log else least
    along = _between(begin, most, is_log=is_log)
    first, last = (low, -begin if is_log else high) if is_low else (begin, high)
    above = int(np.count_nonzero(sign * ordered > most))
    return _Scale(
        lambda values: sign * along(sign * values),
        lambda values: sign * values > most,
        lambda values: np.maximum(0.0, sign * values - begin),
        _caption(words, above, "below" if is_low else "above", is_log=is_log),
        (number(first), _with_unit(last, metric)),
        (-1, 0) if is_low else (0, 1),
        (-BEYOND, 0) if is_low else (0, BEYOND),
    )


def _two_sided(
    metric: Metric, span: tuple[float, float], words: str, ordered: FloatArray, centre: float
) -> _Scale:
    """Orange above the middle and blue below it, as strong on either side."""
    sizes = np.sort(np.abs(ordered - centre).astype(np.float32)).astype(np.float64)
    widest = max(abs(end - centre) for end in span)
    if not widest:
        return _flat(f"{_with_unit(centre, metric)} on every token")
    is_log = widest > _HEAVY_TAIL * sizes[len(sizes) // 2]
    reach = widest * _LOG_REACH_OF_A_SIDE if is_log else 0.0
    along = _between(reach, widest, is_log=is_log)
    beyond = int(np.count_nonzero(np.abs(ordered - centre) > widest))
    return _Scale(
        lambda values: np.sign(values - centre) * along(np.abs(values - centre)),
        lambda values: np.abs(values - centre) > widest,
        lambda values: np.abs(values - centre),
        _caption(words, beyond, "beyond", is_log=is_log),
        (number(centre - widest), _with_unit(centre + widest, metric)),
        (-1, 1),
        (-BEYOND, BEYOND),
    )


def _between(begin: float, end: float, *, is_log: bool) -> _OnArray:
    """From sizes to the strength of the colour, 0..1; on a log scale ordinary tokens stay pale."""
    if not is_log:
        return lambda sizes: np.clip((sizes - begin) / (end - begin), 0.0, 1.0)
    decades = float(np.log(end / begin))

    def along(sizes: FloatArray) -> FloatArray:
        shares = np.log(np.maximum(sizes, begin) / begin) / decades
        return np.clip(shares, 0.0, 1.0) ** _LOG_EXPONENT

    return along


def _caption(words: str, count: int, where: str, *, is_log: bool) -> str:
    text = f"{words}, log" if is_log else words
    return f"{text} · {count:,} {where}" if count else text


def _with_unit(value: float, metric: Metric) -> str:
    return f"{number(value)} {metric.unit}".strip()
