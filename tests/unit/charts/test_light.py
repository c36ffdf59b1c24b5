from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from board.charts.curves import Beside, CurveOptions, Series, curve, sketch
from board.charts.light import light

NAN = float("nan")
REWARD = Series("reward", "Reward", "reward")


def table(means: list[float]) -> pd.DataFrame:
    mean = np.array(means)
    return pd.DataFrame(
        {"step": np.arange(len(means)), "reward_mean": mean, "reward_std": np.abs(mean) / 2}
    )


def test_lines_and_bands_are_those_of_the_figure() -> None:
    chart, _ = light(curve(table([1.0, 2.0, 4.0]), [REWARD], dark=False))
    (line,), (band,) = chart["lines"], chart["shapes"]
    assert (line["x"], line["y"], line["lone"]) == ([0, 1, 2], [1, 2, 4], None)
    assert line["text"][1].startswith("Reward <b>2</b>")
    assert sorted(zip(band["x"][:-1], band["y"][:-1], strict=True)) == [
        (0, 0.5),
        (0, 1.5),
        (1, 1),
        (1, 3),
        (2, 2),
        (2, 6),
    ]
    assert (band["width"], chart["height"]) == (0, 250)


@pytest.mark.parametrize(
    "options",
    [
        CurveOptions(),
        CurveOptions("none", smoothing=0.5, shift_to_zero=True),
        CurveOptions(log=True),
    ],
)
@pytest.mark.parametrize(
    "means", [[1.0, NAN, 4.0, -2.0], [NAN], [], [2e-4, 3e-4], [20000.0, 20001.0]]
)
def test_a_sketch_says_what_the_figure_of_plotly_says(
    options: CurveOptions, means: list[float]
) -> None:
    share = Series("reward", "Solved", "share", "share")
    for series, beside in (
        ([REWARD], []),
        ([REWARD, share], [Beside("eval", table([0.5, 1.0]))]),
        ([share], []),
    ):
        whole = {"options": options, "dark": True, "beside": beside}
        drawn = light(curve(table(means), series, **whole))
        assert light(sketch(table(means), series, **whole)) == drawn


def test_each_evaluation_looks_the_same_in_every_chart_and_unlike_the_others() -> None:
    others = [Beside(name, table([0.5, 1.0])) for name in ("eval", "test", "hard")]
    looks: list[list[tuple[str, str]]] = []
    for colour in ("reward", "kl"):
        series = [Series("reward", "Reward", colour)]
        chart, _ = light(sketch(table([1.0, 2.0]), series, dark=True, beside=others))
        looks.append([(line["ink"], line["dash"]) for line in chart["lines"][1:]])
        assert not chart["legend"]  # the page names them
    assert looks[0] == looks[1]
    assert len(set(looks[0])) == 3


def test_a_mean_that_is_zero_but_for_rounding_reads_zero() -> None:
    rows = pd.DataFrame({"step": [1, 2, 3], "reward_mean": [1.5e-8, 3e-17, 2.5e-6]})
    chart, _ = light(sketch(rows.assign(reward_std=[0.9, 0.0, 0.9]), [REWARD], dark=True))
    assert chart["lines"][0]["y"] == [0, 0, 2.5e-6]


def test_what_is_not_recorded_is_null_and_never_zero() -> None:
    chart, _ = light(curve(table([1.0, NAN, 4.0]), [REWARD], dark=True))
    (line,) = chart["lines"]
    assert line["y"] == [1, None, 4]
    assert line["lone"] == [1, 0, 1]
    json.dumps(chart, allow_nan=False)


def test_the_ends_of_a_log_axis_are_values_not_exponents() -> None:
    chart, notes = light(
        curve(table([0.1, 10.0, 0.0]), [REWARD], CurveOptions(log=True), dark=True)
    )
    low, high = chart["y"]["range"]
    assert chart["y"]["log"] is True
    assert 0.05 < low <= 0.1
    assert high >= 10
    assert "1 value of 0 or less left out" in notes[0]


def test_an_axis_starts_at_zero_only_where_nothing_is_below() -> None:
    above, _ = light(curve(table([1.0, 2.0]), [REWARD], CurveOptions("none"), dark=False))
    below, _ = light(curve(table([-1.0, 2.0]), [REWARD], CurveOptions("none"), dark=False))
    assert (above["y"]["nonnegative"], below["y"]["nonnegative"]) == (True, False)


@pytest.mark.parametrize("dark", [False, True])
def test_all_colours_are_told_and_those_of_a_dark_page_differ(dark: bool) -> None:
    chart, _ = light(curve(table([1.0, 2.0]), [REWARD], dark=dark))
    other, _ = light(curve(table([1.0, 2.0]), [REWARD], dark=not dark))
    inks = [*chart["ink"].values(), chart["lines"][0]["ink"], chart["shapes"][0]["ink"]]
    assert all(inks)
    assert chart["ink"]["text"] != other["ink"]["text"]


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_one_share_throughout_stands_on_the_scale_of_all_shares(share: float) -> None:
    truncated = Series("reward", "Truncated", unit="share")
    chart, _ = light(curve(table([share] * 3), [truncated], CurveOptions("none"), dark=False))
    low, high = chart["y"]["range"]
    assert low == 0
    assert 1 < high < 1.1
    other, _ = light(curve(table([share] * 3), [REWARD], CurveOptions("none"), dark=False))
    assert other["y"]["range"] is None


def test_a_run_without_a_recorded_value_is_a_chart_with_a_note() -> None:
    chart, notes = light(curve(table([NAN, NAN]), [REWARD], dark=False))
    assert chart["y"]["labels"] is False
    assert notes == ("Nothing that can be drawn is recorded.",)
