import itertools
import tomllib
from pathlib import Path

import numpy as np
import pytest
from colours import channels, contrast, linear

from board.charts.layout import number
from board.charts.palette import SERIES, colour, colour_key, dash, faded, ink

TOGETHER = ("reward", "reference", "validation", "validation_reference")
"""Series that share a chart."""

# Linear RGB -> linear RGB as seen with full protanopia, deuteranopia, tritanopia: Machado, Oliveira
# and Fernandes 2009, severity 1.0.
SIGHT = {
    "full": np.eye(3),
    "protan": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deutan": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritan": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}


def lab(rgb: np.ndarray) -> np.ndarray:
    """CIE L*a*b*, D65."""
    to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    xyz = np.array(to_xyz) @ np.clip(rgb, 0, 1) / np.array([0.9505, 1.0, 1.089])
    x, y, z = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("key", SERIES)
def test_every_series_stands_out_from_the_page(key, dark):
    assert contrast(*map(channels, (colour(key, dark=dark), ink("background", dark=dark)))) >= 3


@pytest.mark.parametrize("dark", [False, True])
def test_words_are_readable_on_page_and_hover_label(dark):
    for words, ground in itertools.product(("text", "muted"), ("background", "surface")):
        assert contrast(*(channels(ink(name, dark=dark)) for name in (words, ground))) >= 4.5


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("sight", SIGHT)
def test_series_of_one_chart_differ_for_every_kind_of_sight(sight, dark):
    seen = {
        k: lab(np.array(SIGHT[sight]) @ linear(channels(colour(k, dark=dark)))) for k in TOGETHER
    }
    for one, other in itertools.combinations(TOGETHER, 2):
        apart = float(np.linalg.norm(seen[one] - seen[other]))
        assert apart >= 15 or dash(one) != dash(other), (one, other, apart)
    for other in TOGETHER[1:]:
        assert float(np.linalg.norm(seen["reward"] - seen[other])) >= 15, other


def test_series_of_one_chart_differ_in_their_dash_too():
    assert len({dash(key) for key in TOGETHER}) == len(TOGETHER)


def test_both_estimators_of_one_divergence_have_the_family_colour():
    assert {colour_key(stem) for stem in ("k1", "k2", "k3", "k3_max")} == {"kl"}


def test_unknown_names_keep_their_colour_and_never_look_like_the_reward():
    for name in ("rewards.format", "my_metric", "\ud800", "rewards.k3"):
        assert colour_key(name) == colour_key(name)
        assert colour_key(name) in SERIES
        assert colour_key(name) not in TOGETHER


def test_faded_keeps_the_colour():
    assert faded("#4f46e5", 0.25) == "rgba(79,70,229,0.25)"


def test_theme_and_charts_agree_on_the_page():
    config = Path(__file__).parents[3] / ".streamlit" / "config.toml"
    theme = tomllib.loads(config.read_text(encoding="utf-8"))["theme"]
    for dark, name in ((False, "light"), (True, "dark")):
        assert theme[name]["backgroundColor"] == ink("background", dark=dark)
        assert theme[name]["textColor"] == ink("text", dark=dark)
        assert theme[name]["primaryColor"] == colour("reward", dark=dark)


@pytest.mark.parametrize(
    ("value", "visible"),
    [
        (0.0, "0"),
        (0.123456, "0.1235"),
        (5e-7, "5e-7"),
        (1342.0, "1,342"),
        (-12000.0, "-12,000"),
        (float("nan"), "-"),
        (float("inf"), "inf"),
    ],
)
def test_numbers_are_short_and_large_ones_are_whole(value, visible):
    assert number(value) == visible
