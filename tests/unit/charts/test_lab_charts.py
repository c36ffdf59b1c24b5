"""Charts of prompts, environments, mismatch, words and several runs."""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest

from board.charts.curve_charts import (
    ALL,
    colour_places,
    environment_curves,
    overlaid_runs,
    prompt_course,
    word_shares,
)
from board.charts.curve_data import CurveOptions
from board.charts.curves import light
from board.charts.label_charts import shares_by_steps
from board.charts.layout import notes_of
from board.charts.mismatch_charts import (
    fields_over_steps,
    likelihoods,
    over_lags,
    slice_bars,
)
from board.charts.palette import CATEGORIES
from board.core.groups.environments import EnvCurves, curves_from
from board.core.labels.shares import LabelShare
from board.core.tokens.mismatch import Decomposition, Likelihood, Slice, apart
from board.core.tokens.rule_counts import RuleShares, SignShares

NAN = float("nan")
PLAIN = CurveOptions(band="none")


def env_curves(steps, envs, names, values) -> EnvCurves:
    known = np.isfinite(values)
    return curves_from(steps, envs, names, np.where(known, values, 0.0), known)


def test_a_prompt_s_points_are_its_rollouts_and_missing_ones_are_counted():
    steps, indices, rewards = np.array([1, 1, 5]), np.array([3, 4, 0]), np.array([1.0, 0.0, NAN])
    chart = light(prompt_course(steps, indices, rewards, "reward", "reward", dark=True))
    (line,), (dots,) = chart["lines"], chart["dots"]
    assert (line["x"], line["y"]) == ([1], [0.5])
    assert (dots["x"], dots["y"], dots["ids"]) == ([1, 1], [1, 0], [0, 1])
    assert chart["notes"][0] == "Not drawn, without a reward: 1 of 3 rollouts."


def test_an_environment_called_all_is_beside_the_mean_over_all():
    curves = env_curves(
        np.array([1, 1, 2, 2]), np.array([0, 1, 0, 1]), ["all", "b"], np.array([1.0, 3.0, 2.0, NAN])
    )
    places = colour_places(curves)
    lines = environment_curves(curves, [0, 1], "", PLAIN, dark=True, places=places).lines
    assert [line.name for line in lines] == [ALL, "all", "b"]
    np.testing.assert_array_equal([line.y for line in lines], [[2, 2], [1, 2], [3, NAN]])


def test_the_largest_environments_never_share_a_colour():
    count = len(CATEGORIES) + 2
    drawn = [0, *range(3, count)]
    envs = np.concatenate([np.arange(count), drawn])  # two rollouts of each but 1 and 2
    names = [f"env {code}" for code in range(count)]
    curves = env_curves(np.ones(len(envs)), envs, names, np.ones(len(envs)))
    places = colour_places(curves)
    chart = environment_curves(curves, drawn, "", PLAIN, dark=True, places=places)
    assert len({line.ink for line in chart.lines[1:]}) == len(CATEGORIES)


def test_of_many_runs_no_two_look_alike():
    steps = pd.DataFrame({"step": [1, 2], "reward_mean": [0.0, 1.0]})
    runs = {f"run {number}": steps for number in range(3 * len(CATEGORIES))}
    lines = overlaid_runs(runs, "reward", PLAIN, dark=True).lines
    assert len({(line.ink, line.dash) for line in lines}) == len(runs)


def test_small_charts_of_a_metric_share_their_value_axis():
    steps, values = np.array([1, 1, 2, 2]), np.array([0.0, 5.0, 1.0, 9.0])
    curves = env_curves(steps, np.array([0, 1, 0, 1]), ["a", "b"], values)
    look = {"dark": True, "places": colour_places(curves), "alone": True}
    axes = [environment_curves(curves, [code], "", PLAIN, **look).ends for code in (0, 1)]
    assert axes[0] == axes[1]
    assert axes[0][0] < 0 < 9 < axes[0][1]


def test_bars_of_tokens_show_spaces_and_say_how_many_are_left_out():
    slices = [Slice(f" {i}", 9, 0.0, 1.0 / (i + 1), 0.0, 1.0) for i in range(30)]
    figure = slice_bars(slices, "d_abs", dark=True, level=True, tokens=True)
    assert len(figure.data[0].x) == 24
    assert figure.layout.yaxis.ticktext[0] == "␣0"
    assert "24 of 30" in notes_of(figure)[0]


def shares(high: float) -> RuleShares:
    """As TIS has them: no lower bound; no token has A < 0."""
    unknown = SignShares(NAN, NAN, NAN)
    return RuleShares("tis", 2, high, NAN, high, SignShares(high / 2, NAN, high / 2), unknown)


def test_mismatch_over_steps_is_that_of_each_step():
    d = np.array([0.1, -0.1])
    by_step = {n: Decomposition(apart(d * n), None, None, NAN, NAN, NAN) for n in (1, 2)}
    fields = {"total.chi2": "χ²", "engine.chi2": "never recorded"}
    (chi2,) = fields_over_steps({**by_step, 3: None}, fields, "", dark=True).lines
    assert chi2.y[0] == pytest.approx(apart(d).chi2)
    assert np.isnan(chi2.y[2])
    assert list(chi2.x) == [1, 2, 3]


def test_what_a_rule_does_not_stop_has_no_curve():
    values = {1: shares(0.5), 2: shares(0.25), 3: None}
    labels = ("of all loss tokens", "of those with A > 0", "of those with A < 0")
    high, low = (
        fields_over_steps(
            values,
            dict(zip((side, f"positive.{side}", f"negative.{side}"), labels, strict=True)),
            "share",
            dark=True,
        )
        for side in ("high", "low")
    )
    whole, rising = high.lines
    assert (whole.name, rising.name) == ("of all loss tokens", "of those with A &gt; 0")
    np.testing.assert_array_equal(whole.y, [0.5, 0.25, NAN])
    np.testing.assert_array_equal(rising.y, [0.25, 0.125, NAN])
    assert low.lines == []


def test_the_curve_over_the_lag_is_ordered_by_lag():
    whole = [Slice("10", 5, 0.0, 0.2, 0.3, 1.0), Slice("2", 9, 0.0, 0.1, 0.1, 1.0)]
    figure = over_lags({"whole": whole, "engine only": whole[:1]}, dark=True)
    line, engine = figure.data
    assert (list(line.x), list(line.y)) == ([2.0, 10.0], [0.1, 0.3])
    assert "9 tokens" in line.text[0]
    assert (engine.name, list(engine.x)) == ("engine only", [10.0])


@dataclass
class Hits:
    step: int
    rollouts: int
    hits: int


def test_shares_of_words_are_over_all_rollouts_of_a_step():
    entries = [Hits(2, 10, 0), Hits(1, 10, 5), Hits(1, 30, 5), Hits(3, 0, 0)]
    (line,) = word_shares({"wait": entries, "never read": []}, dark=True).lines
    assert list(line.x) == [1, 2, 3]
    np.testing.assert_array_equal(line.y, [0.25, 0.0, NAN])


def test_runs_are_aligned_by_step_and_those_without_the_metric_are_left_out():
    first = pd.DataFrame({"step": [10, 20], "reward_mean": [1.0, 2.0], "reward_n": [4, 4]})
    second = pd.DataFrame({"step": [10, 20], "reward_mean": [3.0, 4.0], "k3_mean": [0.1, 0.2]})
    runs = {"a": first, "b": second, "c": pd.DataFrame({"step": [1]})}
    a, b = overlaid_runs(runs, "reward", PLAIN, dark=True).lines
    assert (list(a.x), list(a.y), list(b.y)) == ([10, 20], [1.0, 2.0], [3.0, 4.0])
    assert (a.name, b.name, a.connect) == ("a", "b", True)
    assert "4 rollouts" in a.text[0]
    assert overlaid_runs({}, "reward", PLAIN, dark=True).lines == []


def test_a_tool_that_says_nothing_at_a_step_has_a_gap_there():
    values = {
        1: [Likelihood("tool search", 2, 0.5, 2.0)],
        2: [Likelihood("tool python", 2, 0.7, 3.0)],
    }
    first, second = likelihoods(values, "largest", dark=True).lines
    assert first.name == "tool search"
    np.testing.assert_array_equal([first.y, second.y], [[2.0, NAN], [NAN, 3.0]])


def test_shares_of_labels_are_drawn_over_the_steps_that_their_ranges_cover():
    one = LabelShare(
        "cheat", count=1, n=2, share=0.5, low=0.1, high=0.9, population=64, all_rollouts=96
    )
    other = replace(one, label="good")
    figure = shares_by_steps([(1, 25, (one, other))], ["cheat", "good"], dark=True)
    low, high = figure.layout.xaxis.range
    assert low <= 1
    assert high >= 25
    assert figure.layout.yaxis.ticktext[-1] == "100 %"
