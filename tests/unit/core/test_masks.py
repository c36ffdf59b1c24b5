from __future__ import annotations

import numpy as np
import pytest

from board.core.tokens.masks import RULES, hit, masks_from_text, masks_text, recorded_clip

NAN = float("nan")


def hits(name, values, advantages=None, **numbers):
    given = None if advantages is None else np.array(advantages, float)
    return hit(RULES[name], np.array(values, float), numbers, given).tolist()


def test_the_ratio_clip_stops_only_what_pushes_further_out():
    ratios = [1.3, 1.3, 0.7, 0.7, 1.1, 0.9]
    assert hits("ratio_clip", ratios, [1, -1, 1, -1, 1, -1]) == [
        True,
        False,
        False,
        True,
        False,
        False,
    ]


def test_the_bounds_of_the_ratio_clip_are_one_plus_and_minus_epsilon():
    numbers = {"ε low": 0.25, "ε high": 0.5}
    assert hits("ratio_clip", [1.5, 1.501], [1, 1], **numbers) == [False, True]
    assert hits("ratio_clip", [0.75, 0.749], [-1, -1], **numbers) == [False, True]


def test_a_token_without_advantage_is_clipped_on_no_side():
    assert hits("ratio_clip", [9.0, 0.1], [0, 0]) == [False, False]


def test_dppo_counts_a_zero_advantage_as_negative_as_its_source_does():
    assert hits("dppo", [-0.3, 0.3], [0, 0]) == [True, False]
    assert hits("dppo", [-0.3, 0.3, -0.3, 0.3], [1, 1, -1, -1]) == [False, True, True, False]


def test_icepop_masks_on_both_sides_whatever_the_advantage():
    assert hits("icepop", [0.49, 0.5, 5.0, 5.1]) == [True, False, False, True]


def test_tis_caps_only_large_weights():
    assert hits("tis", [0.001, 2.0, 2.01]) == [False, False, True]


@pytest.mark.parametrize("name", RULES)
def test_what_is_not_known_is_not_hit(name):
    assert hits(name, [NAN, NAN], [1, -1]) == [False, False]


def test_an_advantage_that_is_not_known_hits_nothing():
    assert hits("dppo", [9.0, -9.0], [NAN, NAN]) == [False, False]


def test_rules_by_sign_refuse_to_go_without_advantages():
    with pytest.raises(ValueError, match="advantage's sign"):
        hits("ratio_clip", [1.0])


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.name)
def test_defaults_lie_within_their_range(rule):
    for threshold in (rule.low, rule.high):
        if threshold is not None:
            assert threshold.lowest <= threshold.default <= threshold.highest


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"config": {"epsilon": 0.2, "epsilon_high": None}}, (0.2, 0.2)),
        ({"config": {"epsilon": 0.2, "epsilon_high": 0.28}}, (0.2, 0.28)),
        ({"thresholds": {"clip_ratio_low": 0.1, "clip_ratio_high": 0.3}}, (0.1, 0.3)),
        ({"eps_clip": 0.2}, (0.2, 0.2)),
        ({"config": {"epsilon": True}}, None),
        ({"config": "none"}, None),
        ({}, None),
    ],
)
def test_the_clip_range_is_read_from_the_run_s_settings(settings, expected):
    found = recorded_clip(settings)
    assert (None if found is None else (found["ε low"], found["ε high"])) == expected


def test_a_choice_of_masks_survives_the_way_through_a_url():
    for text in ("ratio_clip:0.2:0.28,is_masked", ",tis:3", "icepop,", ","):
        assert masks_text(masks_from_text(text)) == text
    assert masks_from_text("tis:2,") == (("tis", (2.0,)), None)


@pytest.mark.parametrize(
    "text", ["tis", "tis:2:3,", "tis:x,", "tis:nan,", "tis:inf,", "nope,", "is_masked:1,", "a,b,c"]
)
def test_what_is_no_choice_of_masks_is_refused(text):
    with pytest.raises(ValueError, match=r"not|takes|is no"):
        masks_from_text(text)
