from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest

from board.charts.curve_data import smoothed, together
from board.charts.curves import (
    MAX_POINTS,
    CurveOptions,
    Series,
    curve,
    last_means,
)
from board.charts.layout import notes_of

NAN = float("nan")
REWARD = Series("reward", "Reward", "reward")


def table(means: list[float], *, stem: str = "reward", std: float = 0.5, every: int = 1) -> Any:
    mean = np.array(means)
    spread = np.where(np.isnan(mean), NAN, std)
    return pd.DataFrame(
        {
            "step": np.arange(len(means)) * every,
            f"{stem}_mean": mean,
            f"{stem}_std": spread,
            f"{stem}_n": np.where(np.isnan(mean), 0, 8),
            f"{stem}_q00": mean - 3,
            f"{stem}_q05": mean - 2,
            f"{stem}_q25": mean - 1,
            f"{stem}_q75": mean + 1,
            f"{stem}_q95": mean + 2,
            f"{stem}_q100": mean + 3,
        }
    )


def line_of(figure: go.Figure, place: int = 0) -> Any:
    return [trace for trace in figure.data if trace.mode == "lines+markers"][place]


def bands_of(figure: go.Figure) -> list[Any]:
    return [trace for trace in figure.data if trace.fill == "toself"]


def edges_at(band: Any, step: int) -> list[float]:
    """Lower and upper edge of a band at a step, read off its closed shape."""
    return sorted(np.asarray(band.y)[np.asarray(band.x) == step].tolist())


def draw(steps: Any, options: CurveOptions | None = None, **more: Any) -> go.Figure:
    return curve(steps, [REWARD], options, dark=False, **more)


def test_band_is_mean_plus_and_minus_k_standard_deviations() -> None:
    figure = draw(table([1.0, 2.0, 4.0]), CurveOptions("std", std_scale=2))
    (band,) = bands_of(figure)
    assert [edges_at(band, s) for s in range(3)] == [[0, 2], [1, 3], [3, 5]]


def test_a_band_of_deviations_ends_at_the_smallest_and_the_largest_rollout() -> None:
    figure = draw(table([1.0, 2.0], std=50.0))
    (band,) = bands_of(figure)
    assert [edges_at(band, s) for s in range(2)] == [[-2, 4], [-1, 5]]


def test_a_band_of_what_is_never_negative_is_never_negative() -> None:
    steps = table([0.01, 0.02], std=0.3)
    steps["reward_q00"] = 0.0
    (band,) = bands_of(draw(steps))
    assert [edges_at(band, s)[0] for s in range(2)] == [0, 0]


def test_a_step_without_a_deviation_has_no_band() -> None:
    assert bands_of(draw(table([1.0, 2.0], std=NAN))) == []


def test_shares_have_an_axis_in_percent() -> None:
    series = Series("is_truncated", "Truncated", unit="share")
    figure = curve(table([0.0, 0.2], stem="is_truncated"), [series], dark=False)
    assert figure.layout.yaxis.tickformat == ".0%"
    assert draw(table([0.0, 0.2])).layout.yaxis.tickformat is None


@pytest.mark.parametrize(
    ("band", "reaches"), [("quantiles", [2, 1]), ("minmax", [3]), ("none", [])]
)
def test_band_edges_are_the_recorded_quantiles(band: Any, reaches: list[float]) -> None:
    found = bands_of(draw(table([1.0, 2.0]), CurveOptions(band)))
    assert [edges_at(b, 1) for b in found] == [[2 - r, 2 + r] for r in reaches]


def test_line_stands_at_the_recorded_steps_however_far_apart() -> None:
    line = line_of(draw(table([1.0, 2.0, 4.0], every=100)))
    assert list(line.x) == [0, 100, 200]
    assert list(line.y) == [1, 2, 4]


def test_a_missing_step_is_a_gap_in_line_and_band() -> None:
    figure = draw(table([1.0, 2.0, NAN, 4.0, 5.0]))
    line, (band,) = line_of(figure), bands_of(figure)
    assert np.isnan(line.y[2])
    assert line.connectgaps is False
    assert 2 not in np.asarray(band.x)
    assert np.isnan(band.y).sum() == 2, "one pen-up after each of two shapes"


def test_a_series_without_a_column_is_left_out() -> None:
    figure = curve(table([1.0, 2.0]), [REWARD, Series("absent", "Absent")], dark=True)
    assert [t.name for t in figure.data if t.name] == ["Reward"]


def test_a_series_of_the_step_itself_is_drawn_without_band() -> None:
    steps = pd.DataFrame({"step": [0, 1], "zero_std_group_fraction": [0.25, 0.5]})
    figure = curve(steps, [Series.of("zero_std_group_fraction")], dark=True)
    assert list(line_of(figure).y) == [0.25, 0.5]
    assert bands_of(figure) == []


@pytest.mark.parametrize("s", [0.0, 0.5, 0.99])
def test_smoothing_leaves_a_constant_series_unchanged(s: float) -> None:
    np.testing.assert_allclose(smoothed(np.full(50, 0.3), s), 0.3, rtol=1e-12)


def test_smoothing_is_the_weighted_mean_of_the_values_so_far() -> None:
    expected = [1.0, (0.5 * 1 + 2) / 1.5, (0.25 * 1 + 0.5 * 2 + 6) / 1.75]
    np.testing.assert_allclose(smoothed(np.array([1.0, 2.0, 6.0]), 0.5), expected)


def test_smoothing_keeps_gaps_and_takes_no_zero_from_them() -> None:
    with_gap = smoothed(np.array([1.0, NAN, 2.0, 6.0]), 0.5)
    assert np.isnan(with_gap[1])
    np.testing.assert_array_equal(with_gap[[0, 2, 3]], smoothed(np.array([1.0, 2.0, 6.0]), 0.5))


def test_smoothing_filters_band_edges_like_the_line() -> None:
    figure = draw(table([1.0, 2.0, 6.0], std=0.5), CurveOptions("std", smoothing=0.5))
    (band,), line = bands_of(figure), line_of(figure)
    for step, mean in enumerate(line.y):
        np.testing.assert_allclose(edges_at(band, step), [mean - 0.5, mean + 0.5])


def test_smoothing_shows_the_recorded_values_behind_the_line() -> None:
    figure = draw(table([1.0, 2.0, 6.0]), CurveOptions("none", smoothing=0.5))
    assert [list(t.y) for t in figure.data if t.mode == "lines"] == [[1.0, 2.0, 6.0]]


@pytest.mark.parametrize("s", [0.0, 0.9])
def test_shift_makes_the_first_recorded_value_zero_and_moves_the_band_along(s: float) -> None:
    plain = draw(table([NAN, 3.0, 4.0, 5.0]), CurveOptions(smoothing=s))
    shifted = draw(table([NAN, 3.0, 4.0, 5.0]), CurveOptions(smoothing=s, shift_to_zero=True))
    assert line_of(shifted).y[1] == 0
    np.testing.assert_allclose(line_of(shifted).y, np.asarray(line_of(plain).y) - 3)
    np.testing.assert_allclose(bands_of(shifted)[0].y, np.asarray(bands_of(plain)[0].y) - 3)


def test_log_leaves_out_what_is_not_positive_and_counts_it() -> None:
    figure = draw(table([0.0, -1.0, 0.1, 1.0, NAN]), CurveOptions(log=True))
    np.testing.assert_array_equal(line_of(figure).y, [NAN, NAN, 0.1, 1.0, NAN])
    assert figure.layout.meta["log_left_out"] == 2
    assert notes_of(figure) == (
        "2 values of 0 or less left out: a log scale has no place for them.",
    )


def test_log_counts_before_thinning_out() -> None:
    means = np.r_[np.zeros(5000), np.ones(5000)].tolist()
    figure = draw(table(means), CurveOptions(log=True))
    assert figure.layout.meta["log_left_out"] == 5000


def test_log_band_that_reaches_below_zero_goes_off_the_axis() -> None:
    figure = draw(table([0.1, 1.0], std=5.0), CurveOptions(log=True))
    (band,) = bands_of(figure)
    bottom = 10 ** figure.layout.yaxis.range[0]
    assert [edges_at(band, s)[0] for s in (0, 1)] == pytest.approx([bottom, bottom])


def test_one_step_is_a_visible_point_with_its_band() -> None:
    figure = draw(table([0.5], std=0.2))
    line = line_of(figure)
    assert list(line.marker.opacity) == [1]
    bar = next(t for t in figure.data if t.mode == "lines")
    assert edges_at(bar, 0)[0] == pytest.approx(0.3)


def test_a_step_between_two_gaps_is_a_visible_point() -> None:
    line = line_of(draw(table([1.0, 1.0, NAN, 2.0, NAN])))
    assert list(line.marker.opacity) == [0, 0, 0, 1, 0]


def test_a_line_without_lone_points_has_invisible_markers_to_click() -> None:
    figure = draw(table([1.0, 2.0]))
    assert line_of(figure).mode == "lines+markers"
    assert line_of(figure).marker.opacity == 0
    assert (figure.layout.hovermode, figure.layout.dragmode) == ("x", "zoom")


def test_many_steps_keep_the_largest_the_smallest_and_the_ends() -> None:
    means = np.sin(np.arange(20_000.0))
    means[12_345], means[777] = 50, -60
    figure = draw(table(means.tolist()), CurveOptions("none"))
    line = line_of(figure)
    assert len(line.x) <= MAX_POINTS + 2
    assert {0, 777, 12_345, 19_999} <= set(line.x)
    assert figure.layout.meta["steps_recorded"] == 20_000
    assert "20,000 steps" in notes_of(figure)[0]


def test_many_steps_keep_the_extremes_of_the_band() -> None:
    steps = table(np.zeros(9000).tolist())
    steps.loc[4242, "reward_q100"] = 99.0
    (band,) = bands_of(draw(steps, CurveOptions("minmax")))
    assert edges_at(band, 4242) == [-3, 99]


def test_many_steps_keep_gaps_open() -> None:
    means = np.arange(9000.0)
    means[4000:4002] = NAN
    line = line_of(draw(table(means.tolist()), CurveOptions("none")))
    at = np.asarray(line.x)
    inside = np.isnan(line.y) & (at >= 4000) & (at <= 4001)
    assert inside.any()


def test_hover_says_value_unit_band_and_number_of_rollouts() -> None:
    series = Series("reward", "Reward", "reward", "nats")
    figure = curve(table([0.123456], std=0.1), [series], dark=False)
    assert line_of(figure).text[0] == (
        "Reward <b>0.1235</b> nats<br>0.02346 to 0.2235 (± 1 std of rollouts, within the data)<br>"
        "step 0, 8 rollouts"
    )


def test_hover_says_the_recorded_value_where_another_is_drawn() -> None:
    figure = draw(table([1.0, 2.0]), CurveOptions("none", shift_to_zero=True))
    assert line_of(figure).text[1] == "Reward <b>2</b><br>step 1, 8 rollouts<br>drawn at 1"


def test_names_from_a_log_are_text_in_every_part_of_the_figure() -> None:
    evil = '<a href="javascript:x">&lt;%{y}\u202e\n'
    figure = curve(table([1.0, 2.0]), [Series("reward", evil), REWARD], dark=False)
    line = line_of(figure)
    assert line.name == '&lt;a href="javascript:x"&gt;&amp;lt;%{y}⟨U+202E⟩⏎'
    assert line.text[0].startswith(line.name)
    assert line.hovertemplate == "%{text}<extra></extra>"
    assert "<a" not in json.dumps(figure.to_plotly_json(), default=str)


def test_series_of_a_column_takes_the_words_of_the_registry() -> None:
    assert Series.of("k3_mean") == Series("k3", "KL(policy‖ref), k3", "kl", "nats")
    assert Series.of("rewards.format").label == "Reward part: format"


def test_the_axis_goes_below_zero_only_where_something_drawn_does() -> None:
    assert draw(table([0.0, 0.0], std=0.0)).layout.yaxis.rangemode == "nonnegative"
    assert draw(table([0.1, 0.2], std=0.5)).layout.yaxis.rangemode is None
    assert draw(table([-0.1, 0.2], std=0.0)).layout.yaxis.rangemode is None


def test_two_series_have_a_legend_and_one_has_none() -> None:
    both = table([1.0]).merge(table([2.0], stem="ref_reward"), on="step")
    figure = curve(both, [REWARD, Series.of("ref_reward")], dark=True)
    assert figure.layout.showlegend is True
    assert draw(both).layout.showlegend is False


@pytest.mark.parametrize("means", [[], [NAN, NAN]])
@pytest.mark.parametrize("log", [False, True])
def test_nothing_recorded_is_said(means: list[float], log: bool) -> None:
    figure = draw(table(means), CurveOptions(log=log, shift_to_zero=True, smoothing=0.5))
    assert notes_of(figure) == ("Nothing that can be drawn is recorded.",)


@pytest.mark.parametrize("bad", [{"smoothing": 1.0}, {"smoothing": NAN}, {"std_scale": 0.0}])
def test_options_out_of_range_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="expected"):
        CurveOptions(**bad)  # pyright: ignore[reportArgumentType]


def test_a_card_shows_the_last_recorded_means_up_to_the_step() -> None:
    steps = table([1.0, NAN, 3.0, 4.0, 5.0], every=10)
    assert last_means(steps, "reward", 30) == [1.0, 3.0, 4.0]
    assert last_means(steps, "reward", 30, n=2) == [3.0, 4.0]
    assert last_means(steps, "absent", 30) == []


def test_of_curves_to_pick_from_the_pointer_finds_the_nearest() -> None:
    frame = pd.DataFrame({"step": [1, 2], "a_mean": [1.0, 2.0], "b_mean": [3.0, 4.0]})
    pick = CurveOptions(band="none", pick=True)
    both = curve(frame, [Series("a", "A"), Series("b", "B")], pick, dark=True)
    assert (both.layout.hovermode, both.layout.hoverdistance) == ("closest", -1)
    assert [trace.legendgroup for trace in both.data] == ["0", "1"]
    assert curve(frame, [Series("a", "A")], pick, dark=True).layout.hovermode == "x"


def test_a_part_of_the_reward_has_one_colour_alone_and_among_the_others() -> None:
    columns = ("reward", "rewards.correct", "rewards.format")
    shared = {one.stem: one.colour for one in together(columns)}
    for column in columns:
        (alone,) = together((column,), columns)
        assert alone.colour == shared[column]
