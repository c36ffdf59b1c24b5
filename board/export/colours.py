"""From the values of a token metric to the colours of its tokens: the rules of the reader's scale.js."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from board.core.arrays import BoolArray, FloatArray
from board.core.metrics.definitions import LOW_IS_NOTABLE, RATIOS, Metric, token_metric
from board.core.metrics.shares import number
from board.core.tokens.scales import Span, span_of

SHADES: Final = 15
_BEYOND: Final = 4
"""So many full colours, underlined, have values beyond the range; the furthest alone has the last."""
STRONGEST: Final = SHADES + _BEYOND
ABSENT: Final = STRONGEST + 1
NOT_A_NUMBER: Final = STRONGEST + 2
_PALETTES: Final = {
    "light": {"high": (230, 97, 0), "low": (52, 132, 240)},
    "dark": {"high": (255, 145, 60), "low": (80, 155, 255)},
}
_CAPS: Final = {"light": 0.78, "dark": 0.56}
_TEXT_ON_BEYOND: Final = {"light": "#fff", "dark": "#0e1220"}
_BEYOND_PALETTES: Final = {
    "light": {
        "high": ((190, 60, 0), (168, 28, 20), (138, 8, 58), (88, 0, 78)),
        "low": ((0, 98, 204), (0, 78, 166), (12, 56, 124), (10, 26, 74)),
    },
    "dark": {
        "high": ((255, 145, 60), (255, 176, 72), (255, 212, 98), (255, 244, 176)),
        "low": ((80, 155, 255), (122, 190, 255), (164, 222, 255), (214, 246, 255)),
    },
}
_LOG_FROM: Final = 1000
_HEAVY_TAIL: Final = 30
_LOG_REACH: Final = 1e-9
_LOG_REACH_OF_A_SIDE: Final = 1e-4
_LOG_EXPONENT: Final = 3.3

Levels = npt.NDArray[np.int8]


@dataclass(frozen=True, slots=True)
class Colours:
    """Of one metric over a rollout's tokens, [R] each.

    levels: -19 to 19, 0 outside the loss, and a code for what is not recorded or no number. strength:
    for ranking, 0 where a value has no colour. ends: words at both ends of the legend, None where all is
    one colour. sides: the levels there. caption: what the range is, and how many lie beyond.
    """

    metric: Metric
    levels: Levels
    strength: FloatArray
    ends: tuple[str, str] | None
    sides: tuple[int, int]
    caption: str


def level_classes() -> list[str]:
    """The class of each level from -19 to 21, to be indexed by the level; empty for no colour."""
    high = [f"h{level}" for level in range(1, STRONGEST + 1)]
    return ["", *high, "n", "x", *(f"l{level}" for level in range(STRONGEST, 0, -1))]


def level_styles(theme: Literal["light", "dark"]) -> str:
    """CSS of the classes of levels on a light or a dark page."""
    rules: list[str] = []
    for side, letter in (("high", "h"), ("low", "l")):
        red, green, blue = _PALETTES[theme][side]
        for level in range(1, SHADES + 1):
            alpha = _CAPS[theme] * level / SHADES
            rules.append(f".{letter}{level}{{background:rgb({red} {green} {blue}/{alpha:.3f})}}")
        for level, (red, green, blue) in enumerate(_BEYOND_PALETTES[theme][side], SHADES + 1):
            # White text without its background would be lost on paper.
            rules.append(
                f".{letter}{level}{{background:rgb({red} {green} {blue});color:{_TEXT_ON_BEYOND[theme]};"
                "text-decoration:underline 2px;text-underline-offset:2px;print-color-adjust:exact}"
            )
    return "".join(rules)


def colours_of(
    name: str,
    values: FloatArray,
    in_loss: BoolArray,
    span: Span | None = None,
) -> Colours:
    """The colours of a metric's values [R], NaN where not recorded.

    in_loss: [R], the tokens that set the range and have colours. span: of a scale that is not of this
    rollout alone.
    """
    # The reader's numbers are float32, and so are the borders between its shades.
    rounded = values.astype(np.float32).astype(np.float64)
    absent = np.isnan(rounded)
    if absent.all() and len(rounded):  # measured, and no number at any token
        absent[:] = False
    finite = np.isfinite(rounded)
    metric = _known_or_by_sign(token_metric(name), rounded[finite])
    ordered = np.sort(rounded[finite & in_loss])
    scale = _scale_of(metric, ordered, span, has_loss=bool(in_loss.any()) or not len(in_loss))
    numbers = np.where(finite, rounded, 0.0)
    shades = np.floor(scale.tint(numbers) * SHADES + 0.5)  # as Math.round does
    excess = scale.excess(numbers)
    beyond = np.sign(scale.tint(numbers)) * (SHADES + excess)
    levels = np.where(excess > 0, beyond, shades).astype(np.int8)
    infinite = np.isinf(rounded)
    levels[infinite] = np.where(rounded[infinite] > 0, scale.infinite[1], scale.infinite[0])
    levels[np.isnan(rounded)] = NOT_A_NUMBER
    levels[absent] = ABSENT
    levels[~in_loss] = 0
    strength = np.where(finite, scale.strength(numbers), 0.0)
    return Colours(metric, levels, strength, scale.ends, scale.sides, scale.caption)


def _known_or_by_sign(metric: Metric, finite: FloatArray) -> Metric:
    """The metric; one that the board has no words for is diverging where both signs occur."""
    has_both = bool(len(finite) and finite.min() < 0 < finite.max())
    return replace(metric, kind="diverging") if metric.label == metric.name and has_both else metric


_OnArray = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True, slots=True)
class _Scale:
    """tint: -1..1 by value. excess: 0 to 4, how far beyond the range. infinite: levels of both
    infinities. The rest: as of Colours.
    """

    tint: _OnArray
    excess: _OnArray
    strength: _OnArray
    caption: str
    ends: tuple[str, str] | None = None
    sides: tuple[int, int] = (0, SHADES)
    infinite: tuple[int, int] = (0, 0)


def _zero(values: FloatArray) -> FloatArray:
    return np.zeros(len(values))


def _flat(caption: str) -> _Scale:
    return _Scale(_zero, _zero, _zero, caption)


def _scale_of(metric: Metric, ordered: FloatArray, span: Span | None, *, has_loss: bool) -> _Scale:
    if not len(ordered):
        return _flat("no finite value in this rollout" if has_loss else "no token in the loss")
    if metric.kind == "flag":
        return _flags(ordered)
    span = span or span_of(ordered)
    centre = 1.0 if metric.name in RATIOS else 0.0
    if centre or (metric.kind == "diverging" and span.least < 0 < span.most):
        return _two_sided(metric, span, ordered, centre)
    if span.low < span.high:
        return _one_sided(metric, span, ordered)
    return _flat(f"{_with_unit(span.low, metric)} on every token")


def _flags(ordered: FloatArray) -> _Scale:
    def is_set(values: FloatArray) -> FloatArray:
        return (values > 0).astype(np.float64)

    count = int(np.count_nonzero(ordered > 0))
    caption = f"set on {count:,} of {len(ordered):,} tokens"
    return _Scale(is_set, _zero, is_set, caption, infinite=(0, SHADES))


def _one_sided(metric: Metric, span: Span, ordered: FloatArray) -> _Scale:
    """Colour at the notable end: blue for the low one, orange for the high one."""
    is_low = metric.name in LOW_IS_NOTABLE or (metric.kind == "diverging" and span.most <= 0)
    sign = -1.0 if is_low else 1.0
    least, most = (-span.high, -span.low) if is_low else (span.low, span.high)
    sizes = np.abs(ordered[ordered < 0] if is_low else ordered[ordered > 0])
    smallest = float(sizes.min()) if len(sizes) else np.inf
    begin_at = least if least > 0 else smallest
    is_log = least >= 0 and most > 0 and most >= _LOG_FROM * begin_at
    begin = max(least, most * _LOG_REACH) if is_log else least
    along = _between(begin, most, is_log=is_log)
    furthest = span.least if is_low else span.most
    excess = partial(_excess, end=most, furthest=sign * furthest, width=most - begin)
    is_beyond = sign * furthest > most
    if is_low:
        ends = (
            _end_words(furthest if is_beyond else None, span.low),
            _with_unit(-begin if is_log else span.high, metric),
        )
    else:
        last = _end_words(span.high, furthest if is_beyond else None)
        ends = number(begin), f"{last} {metric.unit}".strip()
    strongest = STRONGEST if is_beyond else SHADES
    above = int(np.count_nonzero(excess(sign * ordered)))
    return _Scale(
        lambda values: sign * along(sign * values),
        lambda values: excess(sign * values),
        lambda values: np.maximum(0.0, sign * values - begin),
        _caption(span.words, above, "below" if is_low else "above", is_log=is_log),
        ends,
        (-strongest, 0) if is_low else (0, strongest),
        (-STRONGEST, 0) if is_low else (0, STRONGEST),
    )


def _two_sided(metric: Metric, span: Span, ordered: FloatArray, centre: float) -> _Scale:
    """Orange above the middle and blue below it, as strong on either side."""

    def sizes_of(values: FloatArray) -> FloatArray:
        rounded = values.astype(np.float32).astype(np.float64)
        return np.abs(rounded - centre).astype(np.float32).astype(np.float64)

    sizes = np.sort(sizes_of(ordered))
    widest = max(abs(end - centre) for end in (span.low, span.high))
    if not widest:
        return _flat(f"{_with_unit(centre, metric)} on every token")
    is_log = widest > _HEAVY_TAIL * sizes[len(sizes) // 2]
    reach = widest * _LOG_REACH_OF_A_SIDE if is_log else 0.0
    along = _between(reach, widest, is_log=is_log)
    furthest = float(sizes_of(np.array([span.least, span.most])).max())
    excess = partial(_excess, end=widest, furthest=furthest, width=widest)
    below, above = centre - span.least > widest, span.most - centre > widest
    last = _end_words(centre + widest, span.most if above else None)
    return _Scale(
        lambda values: np.sign(values - centre) * along(np.abs(values - centre)),
        lambda values: excess(sizes_of(values)),
        lambda values: np.abs(values - centre),
        _caption(span.words, int(np.count_nonzero(excess(sizes))), "beyond", is_log=is_log),
        (
            _end_words(span.least if below else None, centre - widest),
            f"{last} {metric.unit}".strip(),
        ),
        (-STRONGEST if below else -SHADES, STRONGEST if above else SHADES),
        (-STRONGEST, STRONGEST),
    )


def _end_words(first: float | None, last: float | None) -> str:
    """An end of the range in words, and what lies furthest beyond it, in their order."""
    return " … ".join(number(value) for value in (first, last) if value is not None)


def _excess(sizes: FloatArray, *, end: float, furthest: float, width: float) -> FloatArray:
    """0 within the range, 1 to 4 above its end: by the logarithm of the distance in widths of the range.

    The furthest alone has the last, however close the next one is.
    """
    largest = float(np.float32(furthest))
    above = np.maximum(sizes - end, 0.0) / width
    reach = np.log1p(max(largest - end, 0.0) / width)
    shares = np.log1p(above) / (reach or 1.0)
    steps = 1 + np.minimum(_BEYOND - 2, np.floor((_BEYOND - 1) * shares))
    return np.where(sizes > end, np.where(sizes >= largest, _BEYOND, steps), 0.0)


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
