"""The value axis: what decides where it ends, and bands within what is possible."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from board.charts.curve_data import CurveOptions, Series, prepared
from board.charts.curves import curve, light
from board.charts.failure_charts import causes_over_steps

QUANTILES = {"q00": 0, "q05": 5, "q25": 25, "q75": 75, "q95": 95, "q100": 100}
NUMBERS = st.floats(-1e6, 1e6)
BANDS = st.sampled_from(["std", "mean", "quantiles", "minmax", "none"])


def steps_of(rollouts: list[list[float]], stem: str = "reward") -> Any:
    """The table of steps of these rollouts, in groups of two."""
    rows: list[dict[str, float]] = []
    for step, values in enumerate(rollouts):
        own = np.array(values)
        row = {"mean": own.mean(), "std": own.std(), "n": len(own), "groups": (len(own) + 1) // 2}
        row["even"] = float(row["groups"])
        row["se"] = own.std(ddof=1) / math.sqrt(len(own)) if len(own) > 1 else math.nan
        row |= {name: float(np.percentile(own, q)) for name, q in QUANTILES.items()}
        rows.append({"step": step, **{f"{stem}_{name}": value for name, value in row.items()}})
    return pd.DataFrame(rows)


def series(unit: str = "", possible: tuple[float, float] = (-math.inf, math.inf)) -> Series:
    return Series("reward", "Reward", "reward", unit, possible=possible)


@given(
    st.lists(st.lists(NUMBERS, min_size=1, max_size=9), min_size=1, max_size=8),
    BANDS,
)
def test_no_band_goes_beyond_the_values_of_the_run(rollouts, band):
    drawn = prepared(steps_of(rollouts), series(), CurveOptions(band))
    least, most = min(map(min, rollouts)), max(map(max, rollouts))
    rounding = 1e-9 * max(abs(least), abs(most), 1)
    for low, high in drawn.bands:
        known = np.isfinite(low)
        assert (low[known] >= least - rounding).all()
        assert (high[known] <= most + rounding).all()
        assert (low[known] <= drawn.mean[known]).all()
        assert (high[known] >= drawn.mean[known]).all()


@given(st.lists(st.lists(NUMBERS, min_size=2, max_size=9), min_size=1, max_size=8), BANDS)
def test_the_axis_ends_where_the_line_and_its_standard_deviation_do(rollouts, band):
    steps = steps_of(rollouts)
    chart = light(curve(steps, [series()], CurveOptions(band), dark=False))
    (line,) = chart["lines"]
    mean, std = steps["reward_mean"].to_numpy(), steps["reward_std"].to_numpy()
    rounding = 1e-9 * max(np.abs(mean).max(), std.max(), 1)
    for name, sign in (("low", -1), ("high", 1)):
        edge = np.array(line[name] or line["y"], float)
        beyond = sign * (edge - mean)
        assert (beyond[np.isfinite(beyond)] >= -rounding).all()
        assert (beyond <= std + rounding)[np.isfinite(beyond)].all()


@given(st.lists(st.lists(st.sampled_from([0.0, 1.0]), min_size=2, max_size=4), min_size=1), BANDS)
def test_rewards_of_0_and_1_are_drawn_between_0_and_1(rollouts, band):
    """However wide the interval of a mean over two groups is."""
    drawn = prepared(steps_of(rollouts), series(), CurveOptions(band))
    for edges in (*drawn.bands, drawn.reach):
        known = [edge[np.isfinite(edge)] for edge in edges]
        assert all(((edge >= 0) & (edge <= 1)).all() for edge in known)


@pytest.mark.parametrize("band", ["std", "mean"])
def test_the_interval_of_nothing_truncated_is_proper_and_does_not_decide_the_axis(band):
    truncated = Series("reward", "Truncated", unit="share")
    drawn = prepared(steps_of([[0.0] * 16] * 5), truncated, CurveOptions(band))
    low, high, _ = drawn.edges[-1]
    assert (low == 0).all()
    assert (high > 0.1).all()  # Wilson's of 0 of 16
    assert [edge.tolist() for edge in drawn.bands[-1]] == [[0.0] * 5] * 2
    assert [edge.tolist() for edge in drawn.reach] == [[0.0] * 5] * 2
    some = prepared(steps_of([[0.0] * 16, [0.0] * 15 + [1.0]]), truncated, CurveOptions(band))
    assert some.reach[1][0] == 0


def test_an_interval_of_few_seeds_at_a_step_does_not_flatten_the_others():
    """Without a standard deviation the usual width of the band counts."""
    mean = np.linspace(0, 1, 9)
    reach = np.full(9, 0.1)
    reach[4] = 12.7
    table = pd.DataFrame({"step": range(9), "s_mean": mean, "s_low": mean - reach})
    drawn = prepared(table.assign(s_high=mean + reach), Series("s", "S"), CurveOptions("runs"))
    assert drawn.reach[1].max() == pytest.approx(1.1)
    assert drawn.bands[0][1].max() == pytest.approx(13.2)


@given(st.lists(st.lists(st.floats(0, 1e4), min_size=2, max_size=6), min_size=1, max_size=6), BANDS)
def test_what_is_never_negative_has_no_negative_band(rollouts, band):
    steps = steps_of(rollouts).drop(columns=["reward_q00", "reward_q100"])
    if band == "minmax":
        band = "mean"
    drawn = prepared(steps, series(possible=(0, math.inf)), CurveOptions(band))
    assert all((low[np.isfinite(low)] >= 0).all() for low, _ in drawn.bands)


@given(st.lists(st.integers(0, 32), min_size=2, max_size=30))
def test_a_share_has_no_band_where_all_rollouts_are_alike(counts):
    share = np.array(counts) / 32
    std = np.sqrt(share * (1 - share) * 32 / 31)
    steps = pd.DataFrame(
        {
            "step": range(len(counts)),
            "is_truncated_mean": share,
            "is_truncated_std": std,
            "is_truncated_n": 32,
            "is_truncated_se": std / np.sqrt(32),
            "is_truncated_groups": 8,
            "is_truncated_even": 8.0,
        }
    )
    drawn = prepared(steps, Series.of("is_truncated"), CurveOptions("mean"))
    assert drawn is not None
    low, high = drawn.bands[0]
    alike = std == 0
    assert np.array_equal(low[alike], share[alike])
    assert np.array_equal(high[alike], share[alike])
    assert np.all(high[~alike] > low[~alike])
    # What can be said of rollouts that were not sampled is said where one points.
    assert np.all(drawn.edges[0][1] - drawn.edges[0][0] > 0)


@given(st.lists(st.floats(0.1, 1), min_size=2, max_size=10))
def test_stacked_shares_begin_at_zero(policy):
    shares = pd.DataFrame({"policy": policy, "truncated": [0.0] * len(policy)})
    chart = causes_over_steps(shares, dark=False)
    assert min(line.low.min() for line in chart.lines if line.low is not None) == 0
    assert chart.nonnegative
