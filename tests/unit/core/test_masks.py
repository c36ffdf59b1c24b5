import numpy as np
import pytest

from board.core.tokens.masks import RULES, hit, masks_from_text, masks_text, recorded_clip

NAN = float("nan")


def hits(name, values, advantages=None, **numbers):
    given = None if advantages is None else np.array(advantages, float)
    return hit(RULES[name], np.array(values, float), numbers, given).tolist()


WIDE = {"ε low": 0.25, "ε high": 0.5}


@pytest.mark.parametrize(
    ("name", "values", "advantages", "numbers", "hit_places"),
    [
        # The clip stops only what pushes further out, and nothing where there is no advantage.
        ("ratio_clip", [1.3, 1.3, 0.7, 0.7, 1.1, 0.9], [1, -1, 1, -1, 1, -1], {}, [0, 3]),
        ("ratio_clip", [1.5, 1.501, 0.75, 0.749], [1, 1, -1, -1], WIDE, [1, 3]),
        ("ratio_clip", [9.0, 0.1], [0, 0], {}, []),
        # DPPO counts a zero advantage as negative, as its source does.
        ("dppo", [-0.3, 0.3], [0, 0], {}, [0]),
        ("dppo", [-0.3, 0.3, -0.3, 0.3], [1, 1, -1, -1], {}, [1, 2]),
        ("dppo", [9.0, -9.0], [NAN, NAN], {}, []),
        ("icepop", [0.49, 0.5, 5.0, 5.1], None, {}, [0, 3]),
        ("tis", [0.001, 2.0, 2.01], None, {}, [2]),
        *((name, [NAN, NAN], [1, -1], {}, []) for name in RULES),
    ],
)
def test_a_rule_hits_what_its_paper_says(name, values, advantages, numbers, hit_places):
    assert np.flatnonzero(hits(name, values, advantages, **numbers)).tolist() == hit_places


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
    result = recorded_clip(settings)
    assert (None if result is None else (result["ε low"], result["ε high"])) == expected


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
