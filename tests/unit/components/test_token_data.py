import math

import numpy as np

from board.components.token_data import (
    PromptPart,
    metric_table,
    prompt_tables,
    spec_of,
    token_table,
    unknown_metric,
)
from board.core.metrics.definitions import TOKEN_METRICS


def test_nan_and_infinities_stay_and_what_is_not_recorded_is_null():
    values = np.ma.MaskedArray([0.5, math.nan, -math.inf, 3.0], mask=[False, False, False, True])
    column = metric_table({"k3": values, "values": None}, 4)
    first, nan, infinite, masked = column["k3"].to_pylist()
    assert (first, infinite, masked) == (0.5, -math.inf, None)
    assert math.isnan(nan)
    assert column["values"].null_count == 4
    assert metric_table({"k3": np.array([math.nan])}, 1)["k3"].null_count == 0


def test_zero_tokens_and_no_metrics_give_empty_tables():
    assert token_table([]).num_rows == 0
    assert metric_table({}, 0).num_columns == 0
    assert metric_table({"k3": np.empty(0)}, 0).num_rows == 0
    assert prompt_tables([])["prompt"].num_rows == 0


def test_a_missing_mask_entry_is_unknown_and_not_outside():
    mask = np.ma.MaskedArray([1, 0, 0], mask=[False, False, True])
    assert token_table(["a", "b", "c"], mask)["in_loss"].to_pylist() == [True, False, None]
    assert token_table(["a"], np.array([math.nan]))["in_loss"].to_pylist() == [None]
    assert token_table(["a", "b"])["in_loss"].to_pylist() == [True, True]


def test_a_lone_surrogate_is_shown_by_its_code_point():
    assert token_table(["a\ud800b"])["text"].to_pylist() == ["a⟨D800⟩b"]
    assert prompt_tables([PromptPart("\udfff")])["prompt"]["text"].to_pylist() == ["⟨DFFF⟩"]


def test_a_prompt_s_tokens_and_ids_are_in_reading_order_over_its_parts():
    tables = prompt_tables(
        [PromptPart("ab", "user", tokens=["a", "b"], ids=[7.0, 8.0]), PromptPart("c", tokens=["c"])]
    )
    assert tables["prompt_tokens"].to_pydict() == {"text": ["a", "b", "c"], "id": [7, 8, None]}
    assert tables["prompt"]["tokens"].to_pylist() == [2, 1]
    assert prompt_tables([PromptPart("x")])["prompt"]["tokens"].to_pylist() == [None]


def test_ratios_diverge_around_one_and_rare_tokens_are_notable():
    assert spec_of(TOKEN_METRICS["importance_ratio"])["centre"] == 1.0
    assert spec_of(TOKEN_METRICS["importance_ratio"])["kind"] == "diverging"
    assert spec_of(TOKEN_METRICS["logprobs"])["notable"] == "low"
    assert spec_of(TOKEN_METRICS["k3"])["notable"] == "high"
    assert spec_of(TOKEN_METRICS["k3"])["formula"] == TOKEN_METRICS["k3"].formula


def test_an_unknown_array_diverges_only_where_both_signs_occur():
    assert unknown_metric("x", np.array([-1.0, math.nan, 2.0])).kind == "diverging"
    assert unknown_metric("x", np.array([0.0, 2.0])).kind == "sequential"
    assert unknown_metric("x", None).kind == "sequential"
