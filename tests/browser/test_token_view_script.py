"""The pure parts of the token view's script: numbers, percentiles, scales, search."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

import board.components.token_data

pytestmark = pytest.mark.browser

SCRIPTS = Path(board.components.token_data.__file__).with_name("token_view") / "js"
PURE_PARTS = ("numbers", "text", "rollout", "scale", "peaks", "masks", "search", "strip", "heat")
METRIC = """({values, absent, spec, mask}) => {
  const metric = { values: Float32Array.from(values), absent, spec, scale: null, ranked: null };
  const inLoss = Uint8Array.from(mask ?? values.map(() => 1));
  const scale = scaleOf(metric, inLoss);
  return {
    caption: scale.caption,
    levels: values.map((_, i) => levelOf(metric, scale, i)),
    peaks: rankPeaks(metric, scale, inLoss),
  };
}"""


@pytest.fixture
def script(page: Page) -> Page:
    page.set_content("<p>")
    for part in PURE_PARTS:
        page.add_script_tag(content=(SCRIPTS / f"{part}.js").read_text(encoding="utf-8"))
    return page


def scaled(script: Page, values: list[float], **given: Any) -> dict[str, Any]:
    spec = {
        "kind": "diverging",
        "centre": 0,
        "unit": "",
        "notable": "high",
        **given.pop("spec", {}),
    }
    return script.evaluate(METRIC, {"values": values, "absent": None, "spec": spec, **given})


def test_numbers_keep_four_digits_and_small_ones_never_become_zero(script: Page) -> None:
    cases = {
        -0.0: "0", -1e-5: "-1e-5", 0.933: "0.933", 0.12345678: "0.1235",
        -2.0: "-2", 12345.6: "12346", 1.5e7: "1.5e7", -0.00042: "-4.2e-4",
    }  # fmt: skip
    assert {x: script.evaluate("readable", x) for x in cases} == cases


def test_exact_is_the_shortest_decimal_of_the_logged_float(script: Page) -> None:
    for logged in ("0.1", "-1.2346e-7", "3.4028235e+38", "16777216", "0.33333334"):
        shown = script.evaluate("x => exact(Math.fround(x))", float(logged))
        assert float(shown) == float(logged)


def test_a_tie_counts_half_in_percentiles(script: Page) -> None:
    evaluate = "x => percentile(Float32Array.of(0, 0, 0, 1), x)"
    assert [script.evaluate(evaluate, x) for x in (-1, 0, 0.5, 1, 2)] == [0, 37.5, 75, 87.5, 100]


def test_a_diverging_scale_is_centred_and_symmetric(script: Page) -> None:
    result = scaled(script, [-1.0, 0.0, 0.5, 2.0])
    assert result["levels"] == [-8, 0, 4, 15] or result["levels"] == [-7, 0, 4, 15]
    assert result["caption"] == "±2 (p1–p99)"


def test_a_ratio_is_centred_on_one(script: Page) -> None:
    result = scaled(script, [0.5, 1.0, 1.5], spec={"centre": 1})
    assert result["levels"] == [-15, 0, 15]
    assert result["caption"] == "1 ± 0.5 (p1–p99)"


def test_the_low_end_of_a_log_probability_is_the_strong_one(script: Page) -> None:
    result = scaled(script, [-4.0, -2.0, 0.0], spec={"kind": "sequential", "notable": "low"})
    assert result["levels"][0] == -15
    assert result["levels"][2] == 0
    assert result["peaks"][0] == 0


def test_one_outlier_does_not_flatten_the_rest(script: Page) -> None:
    values = [0.01 * i for i in range(200)] + [1e6]
    levels = scaled(script, values, spec={"kind": "sequential"})["levels"]
    assert levels[199] == levels[200] == 15
    assert levels[100] in (7, 8)


def test_one_reward_among_zeros_is_still_seen(script: Page) -> None:
    result = scaled(script, [0.0] * 999 + [1.0])
    assert result["levels"][999] == 15
    assert result["levels"][0] == 0
    assert result["peaks"] == [999]
    assert result["caption"] == "±1 (min–max)"


def test_equal_values_have_no_peaks_and_say_so(script: Page) -> None:
    result = scaled(script, [0.3, 0.3, 0.3], spec={"kind": "sequential"})
    assert result["peaks"] == []
    assert result["caption"] == "0.3 on every token"


def test_tokens_outside_the_loss_set_neither_scale_nor_peaks(script: Page) -> None:
    result = scaled(script, [50.0, 1.0, -0.5], mask=[0, 1, 1])
    assert result["caption"] == "±1 (p1–p99)"
    assert 0 not in result["peaks"]


def test_absent_and_nan_have_levels_of_their_own(script: Page) -> None:
    levels = script.evaluate(
        f"given => ({METRIC})({{...given, values: [1, NaN, 0]}}).levels",
        {"absent": [0, 0, 1], "spec": {"kind": "sequential", "unit": "", "notable": "high"}},
    )
    assert levels == [0, 17, 16]


def test_search_is_plain_text_and_ignores_case_and_token_borders(script: Page) -> None:
    def hits(texts: list[str], query: str) -> list[list[int]]:
        found = script.evaluate(
            "([texts, query]) => searchTokens(texts, query).hits", [texts, query]
        )
        return [[hit["first"], hit["last"]] for hit in found]

    assert hits(["He", "llo", "", " hello"], "HELLO") == [[0, 1], [3, 3]]
    assert hits(["a.b", "axb"], "a.b") == [[0, 0]]
    assert hits(["İ", "x", "İx"], "x") == [[1, 1], [2, 2]]
    assert hits(["a"], "") == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_on_the_strongest_colours_keeps_a_contrast_of_4_5(script: Page, theme: str) -> None:
    config = Path(__file__).parents[2] / ".streamlit" / "config.toml"
    colours = tomllib.loads(config.read_text(encoding="utf-8"))["theme"][theme]
    page_colour, text = (channels(colours[name]) for name in ("backgroundColor", "textColor"))
    palette = script.evaluate("name => PALETTES[name]", theme)
    for end in (palette["high"], palette["low"]):
        mixed = [
            palette["cap"] * c + (1 - palette["cap"]) * p
            for c, p in zip(end, page_colour, strict=True)
        ]
        assert contrast(mixed, text) >= 4.5


def channels(colour: str) -> list[float]:
    return [int(colour[i : i + 2], 16) for i in (1, 3, 5)]


def contrast(one: list[float], other: list[float]) -> float:
    """Contrast ratio of two sRGB colours, as WCAG 2.2 defines it."""
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def luminance(colour: list[float]) -> float:
    shares = (channel / 255 for channel in colour)
    linear = [s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
