import numpy as np
import pytest

from board.core.metrics import definitions
from board.core.metrics.aggregate import COLUMNS, NEEDED
from board.core.metrics.definitions import (
    REDUCTIONS,
    TOKEN_METRICS,
    in_menu_order,
    is_zero_std,
    token_metrics,
)

NAN = float("nan")


@pytest.mark.parametrize(
    ("rewards", "expected"),
    [
        ([1, 1, 1], True),
        ([1, 0, 1], False),
        ([NAN, 1, 1], True),
        ([NAN, 1, 2], False),
        ([1], None),
        ([], None),
        ([NAN, NAN], None),
        ([NAN, 1], None),
        ([0.1 + 0.2, 0.3], False),
        ([1e5, 1e5 + 1e-6], False),
    ],
)
def test_a_group_has_no_gradient_when_all_its_scores_are_equal(rewards, expected):
    assert is_zero_std(np.array(rewards, float)) is expected


def test_a_derived_metric_needs_all_its_inputs():
    assert set(token_metrics({"logprobs": np.array([-1.0])})) == {"logprobs", "prob"}


def test_arrays_of_unequal_length_are_kept_and_never_combined():
    result = token_metrics({"logprobs": np.array([-1.0, -2]), "ref_logprobs": np.array([-1.0])})
    assert "k1" not in result
    assert "k3" not in result
    assert result["logprobs"].tolist() == [-1, -2]
    assert result["ref_logprobs"].tolist() == [-1]


def test_a_recorded_array_is_shown_as_recorded_even_under_a_derived_name():
    recorded = {
        "k1": np.array([9.0]),
        "logprobs": np.array([-1.0]),
        "ref_logprobs": np.array([-2.0]),
    }
    assert token_metrics(recorded)["k1"].tolist() == [9]


def test_unknown_arrays_come_after_the_known_ones():
    assert list(token_metrics({"mine": np.array([1.0]), "entropy": np.array([1.0])}))[-1] == "mine"


@pytest.mark.parametrize("name", [*definitions.TOKEN_METRICS, *definitions.ROLLOUT_METRICS])
def test_no_label_is_a_bare_kl_or_ratio(name):
    known = definitions.TOKEN_METRICS.get(name) or definitions.ROLLOUT_METRICS[name]
    assert known.label.strip().lower() not in ("kl", "ratio", "importance ratio")
    if "KL" in known.label:
        assert "‖" in known.label


@pytest.mark.parametrize("name", ["k1", "k2", "k3", "mismatch_kl", "importance_ratio"])
def test_every_derived_metric_says_its_formula_and_its_source(name):
    assert definitions.TOKEN_METRICS[name].formula
    assert definitions.TOKEN_METRICS[name].source


def test_every_derived_metric_is_known_and_every_aggregate_of_one_that_a_scan_can_have():
    assert set(definitions.DERIVED) <= set(definitions.TOKEN_METRICS)
    for column, metric, _ in REDUCTIONS:
        assert column in COLUMNS
        derived = definitions.DERIVED.get(metric)
        assert set(derived.needs if derived else (metric,)) <= set(NEEDED)


def test_a_metric_the_board_does_not_know_is_called_what_the_framework_calls_it():
    assert definitions.rollout_metric("verify_score").label == "verify_score"
    assert definitions.token_metric("my_stream").label == "my_stream"
    assert "format" in definitions.rollout_metric("rewards.format").label


def test_every_known_token_metric_has_a_group_and_a_name_in_it():
    metrics = TOKEN_METRICS.values()
    assert "Other" not in {metric.group for metric in metrics}
    names = [(metric.group, metric.short) for metric in metrics]
    assert len({*names}) == len(names)


def test_k3_comes_first_and_what_the_board_does_not_know_last():
    names = in_menu_order(["mine", *reversed(TOKEN_METRICS)])
    assert (names[0], names[-1]) == ("k3", "mine")


def test_the_metrics_of_a_group_stand_together():
    groups = [TOKEN_METRICS[name].group for name in in_menu_order(TOKEN_METRICS)]
    assert groups == sorted(groups, key=groups.index)
