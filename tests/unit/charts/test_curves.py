"""Curves: band, smoothing, gaps, log axes, thinning, hover texts, and the JSON that the browser gets."""

import json
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from board.charts.curve_data import (
    MAX_POINTS,
    CurveOptions,
    Series,
    smoothed,
    together,
)
from board.charts.curves import CurveChart, Shape, curve, last_means, light

NAN = float("nan")
REWARD = Series("reward", "Reward", "reward")


def table(means: list[float], *, stem: str = "reward", std: float = 0.5, every: int = 1) -> Any:
    mean = np.array(means)
    distribution = np.where(np.isnan(mean), NAN, std)
    reaches = {"q00": -3, "q05": -2, "q25": -1, "q75": 1, "q95": 2, "q100": 3}
    return pd.DataFrame(
        {
            "step": np.arange(len(means)) * every,
            f"{stem}_mean": mean,
            f"{stem}_std": distribution,
            f"{stem}_n": np.where(np.isnan(mean), 0, 8),
            **{f"{stem}_{name}": mean + reach for name, reach in reaches.items()},
        }
    )


def draw(steps: Any, options: CurveOptions | None = None, **more: Any) -> CurveChart:
    return curve(steps, [REWARD], options, **{"dark": False, **more})


def bands_of(chart: CurveChart) -> list[Shape]:
    return [shape for shape in chart.shapes if not shape.width]


def edges_at(band: Shape, step: int) -> list[float]:
    """Lower and upper edge of a band at a step, read off its closed shape."""
    return sorted(np.asarray(band.y)[np.asarray(band.x) == step].tolist())


@pytest.mark.parametrize(
    ("std", "options", "edges"),
    [
        (0.5, CurveOptions("std", 2), [[0, 2], [1, 3], [3, 5]]),
        # No further than the smallest and the largest rollout.
        (50.0, CurveOptions("std"), [[-2, 4], [-1, 5], [1, 7]]),
        (NAN, CurveOptions("std"), None),
        (0.5, CurveOptions("quantiles"), [[-1, 3], [0, 4], [2, 6]]),
        (0.5, CurveOptions("minmax"), [[-2, 4], [-1, 5], [1, 7]]),
        (0.5, CurveOptions("none"), None),
    ],
)
def test_band_is_a_spread_of_the_rollouts_of_a_step_within_the_data(std, options, edges):
    bands = bands_of(draw(table([1.0, 2.0, 4.0], std=std), options))
    assert len(bands) == (0 if edges is None else 1 + (options.band == "quantiles"))
    if edges is not None:
        assert [edges_at(bands[0], s) for s in range(3)] == edges


def test_line_stands_at_the_recorded_steps_however_far_apart():
    (line,) = draw(table([1.0, 2.0, 4.0], every=100)).lines
    assert (list(line.x), list(line.y)) == ([0, 100, 200], [1, 2, 4])


def test_a_missing_step_is_a_gap_in_line_and_band():
    chart = draw(table([1.0, 2.0, NAN, 4.0, 5.0]))
    (line,), (band,) = chart.lines, bands_of(chart)
    assert np.isnan(line.y[2])
    assert not line.connect
    assert 2 not in np.asarray(band.x)
    assert np.isnan(band.y).sum() == 2, "one pen-up after each of two shapes"


def test_a_series_without_a_column_is_left_out_and_one_of_the_step_has_no_band():
    chart = curve(table([1.0, 2.0]), [REWARD, Series("absent", "Absent")], dark=True)
    assert [line.name for line in chart.lines] == ["Reward"]
    steps = pd.DataFrame({"step": [0, 1], "zero_std_group_fraction": [0.25, 0.5]})
    chart = curve(steps, [Series.of("zero_std_group_fraction")], dark=True)
    assert (list(chart.lines[0].y), chart.shapes) == ([0.25, 0.5], [])


@pytest.mark.parametrize("s", [0.0, 0.5, 0.99])
def test_smoothing_leaves_a_constant_series_unchanged(s):
    np.testing.assert_allclose(smoothed(np.full(50, 0.3), s), 0.3, rtol=1e-12)


def test_smoothing_is_the_weighted_mean_of_the_values_so_far_and_keeps_gaps():
    expected = [1.0, (0.5 * 1 + 2) / 1.5, (0.25 * 1 + 0.5 * 2 + 6) / 1.75]
    np.testing.assert_allclose(smoothed(np.array([1.0, 2.0, 6.0]), 0.5), expected)
    with_gap = smoothed(np.array([1.0, NAN, 2.0, 6.0]), 0.5)
    assert np.isnan(with_gap[1])
    np.testing.assert_allclose(with_gap[[0, 2, 3]], expected)


def test_smoothing_filters_band_edges_like_the_line_before_the_recorded_values():
    chart = draw(table([1.0, 2.0, 6.0], std=0.5), CurveOptions("std", smoothing=0.5))
    (band,), (line,) = bands_of(chart), chart.lines
    for step, mean in enumerate(line.y):
        np.testing.assert_allclose(edges_at(band, step), [mean - 0.5, mean + 0.5])
    assert [list(s.y) for s in chart.shapes if s.recorded] == [[1.0, 2.0, 6.0]]


@pytest.mark.parametrize("s", [0.0, 0.9])
def test_shift_makes_the_first_recorded_value_zero_and_moves_the_band_along(s):
    plain = draw(table([NAN, 3.0, 4.0, 5.0]), CurveOptions(smoothing=s))
    shifted = draw(table([NAN, 3.0, 4.0, 5.0]), CurveOptions(smoothing=s, shift_to_zero=True))
    assert shifted.lines[0].y[1] == 0
    np.testing.assert_allclose(shifted.lines[0].y, plain.lines[0].y - 3)
    np.testing.assert_allclose(bands_of(shifted)[0].y, bands_of(plain)[0].y - 3)


def test_log_leaves_out_what_is_not_positive_and_counts_it():
    chart = draw(table([0.0, -1.0, 0.1, 1.0, NAN]), CurveOptions(log=True))
    np.testing.assert_array_equal(chart.lines[0].y, [NAN, NAN, 0.1, 1.0, NAN])
    assert chart.notes == ["2 values of 0 or less left out: a log scale has no place for them."]
    many = draw(table(np.r_[np.zeros(5000), np.ones(5000)].tolist()), CurveOptions(log=True))
    assert many.notes[0].startswith("5,000 values"), "counted before thinning out"


def test_log_band_that_reaches_below_zero_goes_off_the_axis():
    chart = draw(table([0.1, 1.0], std=5.0), CurveOptions(log=True))
    (band,) = bands_of(chart)
    assert [edges_at(band, s)[0] for s in (0, 1)] == pytest.approx([chart.ends[0]] * 2)
    assert 0.05 < light(chart)["y"]["range"][0] < 0.1, "a value, not an exponent"


@pytest.mark.parametrize(
    ("means", "lone"),
    [([0.5], [1]), ([1.0, 1.0, NAN, 2.0, NAN], [0, 0, 0, 1, 0]), ([1.0, 2.0], None)],
)
def test_a_step_without_neighbours_is_a_visible_point(means, lone):
    visible = draw(table(means)).lines[0].lone
    assert (visible if visible is None else visible.tolist()) == lone


def test_the_band_of_one_step_is_a_bar():
    (bar,) = draw(table([0.5], std=0.2)).shapes
    assert bar.width
    assert edges_at(bar, 0)[0] == pytest.approx(0.3)


def test_many_steps_keep_the_largest_the_smallest_and_the_ends():
    means = np.sin(np.arange(20_000.0))
    means[12_345], means[777] = 50, -60
    chart = draw(table(means.tolist()), CurveOptions("none"))
    (line,) = chart.lines
    assert len(line.x) <= MAX_POINTS + 2
    assert {0, 777, 12_345, 19_999} <= set(line.x)
    assert "20,000 steps" in chart.notes[0]


def test_many_steps_keep_the_extremes_of_the_band_and_gaps_open():
    means = np.zeros(9000)
    means[4000:4002] = NAN
    steps = table(means.tolist())
    steps.loc[4242, "reward_q100"] = 99.0
    chart = draw(steps, CurveOptions("minmax"))
    (band,), (line,) = bands_of(chart), chart.lines
    assert edges_at(band, 4242) == [-3, 99]
    assert (np.isnan(line.y) & (line.x >= 4000) & (line.x <= 4001)).any()


def test_hover_says_value_unit_band_and_number_of_rollouts():
    series = Series("reward", "Reward", "reward", "nats")
    chart = curve(table([0.123456], std=0.1), [series], dark=False)
    assert chart.lines[0].text[0] == (
        "Reward <b>0.1235</b> nats<br>0.02346 to 0.2235 (± 1 std of rollouts, within the data)<br>"
        "step 0, 8 rollouts"
    )
    shifted = draw(table([1.0, 2.0]), CurveOptions("none", shift_to_zero=True))
    assert shifted.lines[0].text[1] == "Reward <b>2</b><br>step 1, 8 rollouts<br>drawn at 1"


def test_names_from_a_log_are_text_in_every_part_of_the_chart():
    evil = '<a href="javascript:x">&lt;%{y}\u202e\n'
    chart = curve(table([1.0, 2.0]), [Series("reward", evil), REWARD], dark=False)
    line = chart.lines[0]
    assert line.name == '&lt;a href="javascript:x"&gt;&amp;lt;%{y}⟨U+202E⟩⏎'
    assert line.text[0].startswith(line.name)
    assert "<a" not in json.dumps(light(chart))


def test_series_of_a_column_takes_the_words_of_the_registry():
    assert Series.of("k3_mean") == Series(
        "k3", "KL(policy‖ref), k3", "kl", "nats", possible=(0, math.inf)
    )
    assert Series.of("rewards.format").label == "Reward part: format"


def test_the_axis_goes_below_zero_only_where_something_drawn_does():
    assert draw(table([0.0, 0.0], std=0.0)).nonnegative
    assert not draw(table([0.1, 0.2], std=0.5)).nonnegative
    assert not draw(table([-0.1, 0.2], std=0.0)).nonnegative


def test_two_series_have_a_legend_a_number_each_and_one_has_none():
    both = table([1.0]).merge(table([2.0], stem="ref_reward"), on="step")
    chart = curve(both, [REWARD, Series.of("ref_reward")], dark=True)
    assert (chart.legend, draw(both).legend) == (True, False)
    assert [line.group for line in chart.lines] == ["0", "1"]


@pytest.mark.parametrize("means", [[], [NAN, NAN]])
@pytest.mark.parametrize("log", [False, True])
def test_nothing_recorded_is_said(means, log):
    options = CurveOptions(log=log, shift_to_zero=True, smoothing=0.5)
    chart = light(draw(table(means), options))
    assert chart["notes"] == ["Nothing that can be drawn is recorded."]
    assert chart["y"]["labels"] is False


@pytest.mark.parametrize("bad", [{"smoothing": 1.0}, {"smoothing": NAN}, {"std_scale": 0.0}])
def test_options_out_of_range_are_refused(bad):
    with pytest.raises(ValueError, match="expected"):
        CurveOptions(**bad)


def test_a_card_shows_the_last_recorded_means_up_to_the_step():
    steps = table([1.0, NAN, 3.0, 4.0, 5.0], every=10)
    assert last_means(steps, "reward", 30) == [1.0, 3.0, 4.0]
    assert last_means(steps, "reward", 30, n=2) == [3.0, 4.0]
    assert last_means(steps, "absent", 30) == []


def test_a_part_of_the_reward_has_one_colour_alone_and_among_the_others():
    columns = ("reward", "rewards.correct", "rewards.format")
    shared = {one.stem: one.colour for one in together(columns)}
    for column in columns:
        (alone,) = together((column,), columns)
        assert alone.colour == shared[column]


def test_each_evaluation_looks_the_same_in_every_chart_and_unlike_the_others():
    others = {name: table([0.5, 1.0]) for name in ("eval", "test", "hard")}
    styles: list[list[tuple[str, str]]] = []
    for colour in ("reward", "kl"):
        series = [Series("reward", "Reward", colour)]
        chart = curve(table([1.0, 2.0]), series, dark=True, evaluations=others)
        styles.append([(line.ink, line.dash) for line in chart.lines[1:]])
        assert not chart.legend  # the page names them
    assert styles[0] == styles[1]
    assert len(set(styles[0])) == 3


def test_a_mean_that_is_zero_but_for_rounding_reads_zero():
    rows = pd.DataFrame({"step": [1, 2, 3], "reward_mean": [1.5e-8, 3e-17, 2.5e-6]})
    chart = draw(rows.assign(reward_std=[0.9, 0.0, 0.9]))
    assert chart.lines[0].y.tolist() == [0, 0, 2.5e-6]


def test_what_is_not_recorded_is_null_and_never_zero():
    chart = light(draw(table([1.0, NAN, 4.0])))
    (line,) = chart["lines"]
    assert (line["x"], line["y"], line["lone"]) == ([0, 1, 2], [1, None, 4], [1, 0, 1])
    assert chart["height"] == 250
    json.dumps(chart, allow_nan=False)


@pytest.mark.parametrize("dark", [False, True])
def test_all_colours_are_sent_and_those_of_a_dark_page_differ(dark):
    chart, other = (light(draw(table([1.0, 2.0]), dark=on)) for on in (dark, not dark))
    assert all([*chart["ink"].values(), chart["lines"][0]["ink"], chart["shapes"][0]["ink"]])
    assert chart["ink"]["text"] != other["ink"]["text"]


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_one_share_throughout_stands_on_the_scale_of_all_shares(share):
    truncated = Series("reward", "Truncated", unit="share")
    chart = light(curve(table([share] * 3), [truncated], CurveOptions("none"), dark=False))
    low, high = chart["y"]["range"]
    assert chart["y"]["percent"]
    assert low == 0
    assert 1 < high < 1.1
    other = light(draw(table([share] * 3), CurveOptions("none")))["y"]
    assert (other["range"], other["percent"]) == (None, False)


def test_large_numbers_close_together_are_written_in_full():
    close, apart = ([20000.0, 20001.0], [20000.0, 30000.0])
    digits = [light(draw(table(means)))["y"]["digits"] for means in (close, apart)]
    assert digits == [True, False]


def test_lines_of_a_chart_have_different_names_however_alike_theirs_are():
    for alike in (["x" * 70 + "/a", "x" * 70 + "/b"], ["a\n", "a⏎"]):
        series = [Series("reward", name) for name in alike]
        lines = light(curve(table([1.0, 2.0]), series, dark=False))["lines"]
        assert len({line["name"] for line in lines}) == 2
        assert all(len(line["name"]) <= 60 for line in lines)
