"""Charts of prompts, environments, mismatch, words and several runs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

from board.charts.curves import CurveOptions
from board.charts.env_charts import ALL, colour_places, overlaid, small_multiple
from board.charts.layout import notes_of
from board.charts.light import light
from board.charts.mismatch_charts import (
    StepValue,
    distances,
    likelihoods,
    over_lags,
    parts,
    rule_curves,
    slice_bars,
)
from board.charts.palette import CATEGORIES
from board.charts.prompt_charts import prompt_course
from board.charts.run_charts import RunSteps, overlaid_runs
from board.charts.word_charts import shares_said
from board.core.findings.rule_counts import RuleShares, SignShares
from board.core.groups.environments import EnvCurves, curves_from
from board.core.tokens.mismatch import Decomposition, Likelihood, apart
from board.core.tokens.mismatch_slices import Slice

NAN = float("nan")
PLAIN = CurveOptions(band="none")


def env_curves(steps, envs, names, values) -> EnvCurves:
    known = np.isfinite(values)
    return curves_from(steps, envs, names, np.where(known, values, 0.0), known)


def test_a_prompt_s_points_are_its_rollouts_and_missing_ones_are_counted() -> None:
    figure = prompt_course(
        np.array([1, 1, 5]),
        np.array([3, 4, 0]),
        np.array([1.0, 0.0, NAN]),
        "reward",
        "reward",
        dark=True,
    )
    line, points = figure.data
    assert (list(line.x), list(line.y)) == ([1], [0.5])
    assert list(points.customdata) == [0, 1]
    (dots,) = light(figure).chart["dots"]
    assert (dots["x"], dots["y"], dots["ids"]) == ([1, 1], [1, 0], [0, 1])
    assert notes_of(figure)[0] == "Not drawn, without a reward: 1 of 3 rollouts."


def test_an_environment_called_all_is_beside_the_mean_over_all() -> None:
    curves = env_curves(
        np.array([1, 1, 2, 2]), np.array([0, 1, 0, 1]), ["all", "b"], np.array([1.0, 3.0, 2.0, NAN])
    )
    figure = overlaid(curves, [0, 1], "", PLAIN, dark=True)
    assert [trace.name for trace in figure.data] == [ALL, "all", "b"]
    np.testing.assert_array_equal(figure.data[0].y, [2.0, 2.0])
    np.testing.assert_array_equal(figure.data[1].y, [1.0, 2.0])
    np.testing.assert_array_equal(figure.data[2].y, [3.0, NAN])


def test_the_largest_environments_never_share_a_colour() -> None:
    count = len(CATEGORIES) + 2
    shown = [0, *range(3, count)]
    envs = np.concatenate([np.arange(count), shown])  # two rollouts of each but 1 and 2
    names = [f"env {code}" for code in range(count)]
    curves = env_curves(np.ones(len(envs)), envs, names, np.ones(len(envs)))
    places = colour_places(curves)
    figure = overlaid(curves, shown, "", PLAIN, dark=True, places=places)
    assert len({trace.line.color for trace in figure.data[1:]}) == len(CATEGORIES)


def test_of_many_runs_no_two_look_alike() -> None:
    steps = pd.DataFrame({"step": [1, 2], "reward_mean": [0.0, 1.0]})
    runs = [RunSteps(f"run {number}", steps) for number in range(3 * len(CATEGORIES))]
    drawn = overlaid_runs(runs, "reward", PLAIN, dark=True).data
    assert len({(trace.line.color, trace.line.dash) for trace in drawn}) == len(runs)


def test_small_charts_of_a_metric_share_their_value_axis() -> None:
    steps, values = np.array([1, 1, 2, 2]), np.array([0.0, 5.0, 1.0, 9.0])
    curves = env_curves(steps, np.array([0, 1, 0, 1]), ["a", "b"], values)
    axes = [
        small_multiple(curves, code, "", PLAIN, dark=True).layout.yaxis.range for code in (0, 1)
    ]
    assert axes[0] == axes[1]
    assert axes[0][0] < 0 < 9 < axes[0][1]


def test_bars_of_tokens_show_spaces_and_say_how_many_are_left_out() -> None:
    slices = [Slice(f" {i}", 9, 0.0, 1.0 / (i + 1), 0.0, 1.0) for i in range(30)]
    figure = slice_bars(slices, "d_abs", dark=True, level=True, tokens=True)
    assert len(figure.data[0].x) == 24
    assert figure.layout.yaxis.ticktext[0] == "␣0"
    assert "24 of 30" in notes_of(figure)[0]


def shares(high: float) -> RuleShares:
    """As TIS has them: no lower bound; no token has A < 0."""
    unknown = SignShares(NAN, NAN, NAN)
    return RuleShares("tis", 2, high, NAN, high, SignShares(high / 2, NAN, high / 2), unknown)


def value(step: int, share: float) -> StepValue:
    d = np.array([0.1, -0.1]) * step
    whole = Decomposition(apart(d), None, None, NAN, NAN, NAN)
    return StepValue(step, whole, [shares(share)])


def test_mismatch_over_steps_is_that_of_each_step() -> None:
    found = [value(1, 0.5), value(2, 0.25), StepValue(3, None, [])]
    (chi2,) = distances(found, {"chi2": "χ²"}, "", dark=True).data
    assert chi2.y[0] == pytest.approx(apart(np.array([0.1, -0.1])).chi2)
    assert np.isnan(chi2.y[2])
    (whole,) = parts(found, dark=True).data
    assert list(whole.x) == [1, 2, 3]


def test_what_a_rule_does_not_stop_has_no_curve() -> None:
    found = [value(1, 0.5), value(2, 0.25), StepValue(3, None, [])]
    whole, rising = rule_curves(found, "tis", "high", dark=True).data
    assert (whole.name, rising.name) == ("of all loss tokens", "of those with A &gt; 0")
    np.testing.assert_array_equal(whole.y, [0.5, 0.25, NAN])
    np.testing.assert_array_equal(rising.y, [0.25, 0.125, NAN])
    assert rule_curves(found, "tis", "low", dark=True).data == ()
    assert rule_curves(found, "icepop", "high", dark=True).data == ()


def test_the_curve_over_the_lag_is_ordered_by_lag() -> None:
    whole = [Slice("10", 5, 0.0, 0.2, 0.3, 1.0), Slice("2", 9, 0.0, 0.1, 0.1, 1.0)]
    figure = over_lags({"whole": whole, "engine only": whole[:1]}, "k3", dark=True)
    line, engine = figure.data
    assert (list(line.x), list(line.y)) == ([2.0, 10.0], [0.1, 0.3])
    assert "9 tokens" in line.text[0]
    assert (engine.name, list(engine.x)) == ("engine only", [10.0])


@dataclass
class Said:
    step: int
    rollouts: int
    hits: int


def test_shares_said_are_over_all_rollouts_of_a_step() -> None:
    entries = [Said(2, 10, 0), Said(1, 10, 5), Said(1, 30, 5)]
    (line,) = shares_said({"wait": entries, "never read": []}, dark=True).data
    assert (list(line.x), list(line.y)) == ([1, 2], [0.25, 0.0])


def test_runs_are_aligned_by_step_after_their_shift() -> None:
    first = pd.DataFrame({"step": [10, 20], "reward_mean": [1.0, 2.0], "reward_n": [4, 4]})
    second = pd.DataFrame({"step": [0, 10], "reward_mean": [3.0, 4.0], "k3_mean": [0.1, 0.2]})
    runs = [
        RunSteps("a", first),
        RunSteps("b", second, shift=10),
        RunSteps("c", pd.DataFrame({"step": [1]})),
    ]
    a, b = overlaid_runs(runs, "reward", PLAIN, dark=True).data
    assert (list(a.x), list(a.y)) == ([10, 20], [1.0, 2.0])
    assert list(b.y) == [3.0, 4.0]
    assert (a.name, b.name) == ("a", "b")


def test_a_tool_that_says_nothing_at_a_step_has_a_gap_there() -> None:
    found = [
        StepValue(1, None, likelihood=[Likelihood("tool search", 2, 0.5, 2.0)]),
        StepValue(2, None, likelihood=[Likelihood("tool python", 2, 0.7, 3.0)]),
    ]
    first, second = likelihoods(found, "largest", dark=True).data
    assert first.name == "tool search"
    assert np.asarray(first.y)[0] == 2.0
    assert np.isnan(np.asarray(first.y)[1])
    assert np.asarray(second.y)[1] == 3.0
