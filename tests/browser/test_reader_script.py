"""The pure parts of the reader's script: numbers, percentiles, scales, search."""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from colours import channels, contrast
from playwright.sync_api import Browser, Page

import board.components.token_data
from board.core.metrics.definitions import token_metric
from board.core.metrics.shares import percent

pytestmark = pytest.mark.browser

SCRIPTS = Path(board.components.token_data.__file__).with_name("reader") / "js"
PURE_PARTS = ("numbers", "text", "rollout", "scale", "peaks", "masks", "search", "token_find")
PURE_PARTS += ("strip", "heat", "values", "tip")
STRONGEST, FURTHEST = 15, 19
METRIC = """({values, absent, spec, mask}) => {
  const metric = { values: Float32Array.from(values), absent, spec, scale: null, ranked: null };
  const inLoss = Uint8Array.from(mask ?? values.map(() => 1));
  const scale = scaleOf(metric, inLoss);
  return {
    caption: scale.caption,
    ends: scale.ends ?? null,
    isLog: scale.isLog,
    levels: values.map((_, i) => levelOf(metric, scale, i, inLoss)),
    peaks: rankPeaks(metric, scale, inLoss),
  };
}"""


@pytest.fixture(scope="module")
def script(chromium: Browser) -> Iterator[Page]:
    page = chromium.new_page()
    for part in PURE_PARTS:
        page.add_script_tag(content=(SCRIPTS / f"{part}.js").read_text(encoding="utf-8"))
    yield page
    page.close()


def scaled(script: Page, values: list[float], **given: Any) -> dict[str, Any]:
    spec = {"kind": "diverging", "centre": 0, "unit": "", "notable": "high"}
    spec |= given.pop("spec", {})
    return script.evaluate(METRIC, {"values": values, "absent": None, "spec": spec, **given})


def test_numbers_keep_four_digits_and_small_ones_never_become_zero(script):
    cases = {
        -0.0: "0", -1e-5: "-1e-5", 0.933: "0.933", 0.12345678: "0.1235",
        -2.0: "-2", 12345.6: "12346", 1.5e7: "1.5e7", -0.00042: "-4.2e-4", 3e-11: "3e-11",
    }  # fmt: skip
    cases |= dict.fromkeys((-3.47e-17, 9e-13), "0")  # what is left of a sum that is zero
    assert {x: script.evaluate("readable", x) for x in cases} == cases


def test_shares_are_percent_by_the_rule_of_the_pages(script):
    shares = [0, 1e-5, 0.0312, 0.05, 0.0996, 0.772, 0.9994, 1, -0.034, 0.994]
    assert [script.evaluate("percent", x) for x in shares] == [percent(x) for x in shares]


def test_exact_is_the_shortest_decimal_of_the_logged_float(script):
    for logged in ("0.1", "-1.2346e-7", "3.4028235e+38", "16777216", "0.33333334"):
        visible = script.evaluate("x => exact(Math.fround(x))", float(logged))
        assert float(visible) == float(logged)


def test_a_tie_counts_half_in_percentiles(script):
    evaluate = "x => percentile(Float32Array.of(0, 0, 0, 1), x)"
    assert [script.evaluate(evaluate, x) for x in (-1, 0, 0.5, 1, 2)] == [0, 37.5, 75, 87.5, 100]


def test_a_diverging_scale_is_centred_and_symmetric(script):
    result = scaled(script, [-1.0, 0.0, 0.5, 2.0])
    assert result["levels"] in ([-8, 0, 4, 15], [-7, 0, 4, 15])
    assert (result["ends"], result["caption"]) == (["-2", "2"], "min–max")


def test_a_ratio_is_centred_on_one(script):
    result = scaled(script, [0.5, 1.0, 1.5], spec={"centre": 1})
    assert result["levels"] == [-15, 0, 15]
    assert (result["ends"], result["caption"]) == (["0.5", "1.5"], "min–max")
    above = scaled(script, [1.0, 1.2, 1.4], spec={"centre": 1})
    assert above["ends"] == ["0.6", "1.4"]


def test_a_metric_of_one_sign_has_one_colour(script):
    values = [0.84, 0.86, 0.9, 0.94]
    positive = scaled(script, values)
    assert positive["levels"][0] == 0
    assert positive["levels"][-1] == STRONGEST
    negative = scaled(script, [-x for x in values])
    assert negative["levels"] == [-level for level in positive["levels"]]


def test_the_low_end_of_a_log_probability_is_the_strong_one(script):
    result = scaled(script, [-4.0, -2.0, 0.0], spec={"kind": "sequential", "notable": "low"})
    assert result["levels"][0] == -15
    assert result["levels"][2] == 0
    assert result["peaks"][0] == 0


def test_one_outlier_does_not_flatten_the_rest(script):
    values = [0.01 * i for i in range(200)] + [1e6]
    result = scaled(script, values, spec={"kind": "sequential"})
    assert STRONGEST < result["levels"][199] < result["levels"][200] == FURTHEST
    assert result["levels"][100] in (7, 8)
    assert result["caption"] == "p1–p99 · 2 above"
    assert result["ends"] == ["0.02", "1.98 … 1e6"]


def test_one_outlier_among_few_tokens_looks_like_no_other(script):
    values = [0.0, 2e-7, 1e-6, 3e-6, 2e-5, 9e-5, 326.7, 4e-4, 2e-3, 0.021]
    result = scaled(script, values, spec={"kind": "sequential", "unit": "nats"})
    levels = result["levels"]
    assert levels[6] == STRONGEST
    assert 0 < levels[8] < levels[9] < STRONGEST / 3
    assert result["caption"] == "min–max, log"
    assert result["ends"][1] == "326.7 nats"


def test_a_log_scale_keeps_the_tokens_in_the_middle_pale(script):
    values = [10.0**-e for e in range(9)] * 20
    result = scaled(script, values, spec={"kind": "sequential"})
    assert result["isLog"]
    assert result["levels"][4] <= 2
    within_three_powers_of_ten = [float(x) for x in range(1, 200)]
    assert not scaled(script, within_three_powers_of_ten, spec={"kind": "sequential"})["isLog"]


def test_a_heavy_tail_on_both_sides_has_a_log_scale(script):
    values = [(-1) ** i * 0.001 * i for i in range(1, 60)] + [-5.0, 4.0, -3.0, 7.0]
    result = scaled(script, values)
    assert result["isLog"]
    assert result["levels"][62] == STRONGEST
    assert -STRONGEST < result["levels"][59] < -STRONGEST / 3
    assert max(result["levels"][:20]) < STRONGEST / 3


def test_one_reward_among_zeros_is_still_seen(script):
    result = scaled(script, [0.0] * 999 + [1.0])
    assert result["levels"][999] == STRONGEST
    assert result["levels"][0] == 0
    assert result["peaks"] == [999]
    assert result["caption"] == "min–max"


def test_equal_values_have_no_peaks_and_say_so(script):
    result = scaled(script, [0.3, 0.3, 0.3], spec={"kind": "sequential"})
    assert result["peaks"] == []
    assert result["caption"] == "0.3 on every token"


def test_tokens_outside_the_loss_set_neither_scale_nor_peaks(script):
    result = scaled(script, [50.0, 1.0, -0.5], mask=[0, 1, 1])
    assert result["ends"] == ["-1", "1"]
    assert result["levels"] == [0, STRONGEST, -7]
    assert 0 not in result["peaks"]
    without = scaled(script, [50.0, 1.0], mask=[0, 0])
    assert (without["levels"], without["caption"]) == ([0, 0], "no token in the loss")


def test_absent_and_nan_have_levels_of_their_own(script):
    levels = script.evaluate(
        f"given => ({METRIC})({{...given, values: [1, NaN, 0]}}).levels",
        {"absent": [0, 0, 1], "spec": {"kind": "sequential", "unit": "", "notable": "high"}},
    )
    assert levels == [0, script.evaluate("NOT_A_NUMBER"), script.evaluate("ABSENT")]


def test_peaks_are_walked_by_value_and_hits_in_reading_order(script):
    def walk(results: list[int], pin: int | None, last: int | None, way: int, order: bool) -> int:
        return results[
            script.evaluate("given => nextStop(...given)", [results, pin, last, way, order])
        ]

    peaks = [40, 7, 90]
    assert walk(peaks, None, None, 1, False) == 40
    assert walk(peaks, 40, 40, 1, False) == 7
    assert walk(peaks, 40, 40, -1, False) == 90
    # Moved away by an arrow: on to the next, or back to where one was.
    assert walk(peaks, 8, 7, 1, False) == 90
    assert walk(peaks, 8, 7, -1, False) == 7
    hits = [7, 40, 90]
    assert [walk(hits, 41, None, way, True) for way in (1, -1)] == [90, 40]
    assert script.evaluate("stopWords([40, 7, 90], 7, false)") == "peak 2 of 3 by value"
    assert script.evaluate("stopWords([7, 40, 90], 40, true)") == "hit 2 of 3 in reading order"
    assert script.evaluate("stopWords([], null, false)") == "no peaks"


def test_value_and_return_share_an_axis_and_other_units_do_not(script):
    specs = {
        n: {"spec": {"axis": token_metric(n).axis}} for n in ("values", "returns", "entropy", "k1")
    }
    shares = "([one, other]) => sharesAxis(one, other)"
    assert script.evaluate(shares, [specs["values"], specs["returns"]])
    assert not script.evaluate(shares, [specs["values"], specs["entropy"]])
    assert not script.evaluate(shares, [specs["entropy"], specs["k1"]])


def test_the_card_shows_five_values_the_chosen_one_first(script):
    names = ["k1", "k3", "prob", "ref_prob", "entropy", "advantages", "mine", "loss_mask"]
    visible = script.evaluate(
        """(names) => {
          const metrics = names.map((name) => ({ name, absent: null, spec: { kind: "" } }));
          const view = { metric: metrics[6], rollout: { metrics } };
          return tipMetrics(view).map(({ name }) => name);
        }""",
        names,
    )
    assert visible == ["mine", "k3", "prob", "ref_prob", "entropy"]


def test_search_is_plain_text_and_ignores_case_and_token_borders(script):
    evaluate = """([texts, query]) => {
      const starts = startsOfTexts(texts);
      const { hits } = searchTexts([texts.join("")], query, false, 100);
      return hits.map(([, at, length]) => tokensOf(starts, at, length)).map(h => [h.first, h.last]);
    }"""

    def hits(texts: list[str], query: str) -> list[list[int]]:
        return script.evaluate(evaluate, [texts, query])

    assert hits(["He", "llo", "", " hello"], "HELLO") == [[0, 1], [3, 3]]
    assert hits(["a.b", "axb"], "a.b") == [[0, 0]]
    assert hits(["İ", "x", "İx"], "x") == [[1, 1], [2, 2]]
    assert hits(["a"], "") == []


def test_a_search_that_never_ends_is_stopped_and_said(script):
    evaluate = """() => new Promise(resolve =>
      searchApart({}, ["a".repeat(40) + "b"], "(a+)+$", found => resolve(found.error)))"""
    assert script.evaluate(evaluate) == "takes too long"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_on_the_strongest_colours_keeps_a_contrast_of_4_5(script, theme):
    config = Path(__file__).parents[2] / ".streamlit" / "config.toml"
    colours = tomllib.loads(config.read_text(encoding="utf-8"))["theme"][theme]
    page_colour, text = (channels(colours[name]) for name in ("backgroundColor", "textColor"))
    palette = script.evaluate("name => PALETTES[name]", theme)
    for end in (palette["high"], palette["low"]):
        mixed = palette["cap"] * np.array(end) + (1 - palette["cap"]) * page_colour
        assert contrast(mixed, text) >= 4.5


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_full_colours_stand_out_from_the_page_ever_more_and_their_text_is_read(script, theme):
    config = Path(__file__).parents[2] / ".streamlit" / "config.toml"
    colours = tomllib.loads(config.read_text(encoding="utf-8"))["theme"][theme]
    page_colour = channels(colours["backgroundColor"])
    palette = script.evaluate("name => PALETTES[name]", theme)
    for side, shade in (("beyondHigh", "high"), ("beyondLow", "low")):
        strongest = palette["cap"] * np.array(palette[shade]) + (1 - palette["cap"]) * page_colour
        apart = [contrast(one, page_colour) for one in (strongest, *palette[side])]
        assert apart == sorted(apart)
        assert min(contrast(one, palette["text"]) for one in palette[side]) >= 4.5
