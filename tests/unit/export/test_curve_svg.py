"""The picture of a curve within a page: the numbers at its ticks."""

import re

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from board.core.metrics.definitions import Metric
from board.export.curve_svg import StepCurve, curve_svg, tick_words

STEPS = st.builds(
    lambda factor, power: factor * 10.0**power, st.sampled_from((1, 2, 5)), st.integers(-12, 9)
)


@given(
    STEPS, st.integers(-(10**6), 10**6), st.integers(2, 6), st.sampled_from(["", "share", "nats"])
)
def test_ticks_have_different_numbers_that_are_theirs(step, first, count, unit):
    ticks = [step * (first + place) for place in range(count)]
    words = tick_words(ticks, unit)
    assert len({*words}) == count
    for tick, text in zip(ticks, words, strict=True):
        number = float(text.removesuffix(" %").replace(",", ""))
        assert abs(number / (100 if unit == "share" else 1) - tick) < step / 2


def picture(mean: list[float], high: list[float], reach: list[float]) -> str:
    values, tops, ends = map(np.array, (mean, high, reach))
    steps = np.arange(len(mean))
    own = StepCurve(Metric("r", "R"), "reward", steps, values, values, tops, reach=(values, ends))
    return curve_svg([own], None, "R")


def test_values_equal_but_for_rounding_have_an_axis_of_numbers_apart():
    svg = picture([4.98e-5, 4.98e-5 + 1e-19], [4.98e-5] * 2, [4.98e-5] * 2)
    texts = re.findall(r"text-anchor=end>([^<]+)<", svg)
    assert len(texts) == len({*texts}) > 1


def test_where_the_axis_cuts_an_interval_a_line_says_so():
    cut = picture([0.0, 1.0, 0.0], [0.0, 99.0, 0.0], [0.0, 1.2, 0.0])
    assert cut.count("class=cut") == 1
    assert "class=cut" not in picture([0.0, 1.0, 0.0], [0.0, 1.2, 0.0], [0.0, 1.2, 0.0])
