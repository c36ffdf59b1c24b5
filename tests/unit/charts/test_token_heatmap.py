from __future__ import annotations

import numpy as np
import pytest

from board.charts.layout import notes_of
from board.charts.token_heatmap import MAX_COLUMNS, largest_of_each, token_heatmap

NAN = float("nan")


def tokens(n: int) -> list[str]:
    return [f"t{i}" for i in range(n)]


def test_each_row_holds_the_exact_values_with_gaps_where_not_recorded() -> None:
    masked = np.ma.MaskedArray([1.0, 2.0, 3.0], mask=[False, True, False])
    figure = token_heatmap({"k1": [0.1, NAN, -0.2], "entropy": masked}, tokens(3), dark=False)
    np.testing.assert_array_equal(figure.data[0].z, [[0.1, NAN, -0.2]])
    np.testing.assert_array_equal(figure.data[1].z, [[1.0, NAN, 3.0]])
    assert all(row.hoverongaps is False for row in figure.data)


def test_rows_are_named_by_the_registry() -> None:
    figure = token_heatmap({"k3": [0.0]}, tokens(1), dark=True)
    assert figure.layout.yaxis.ticktext == ("KL(policy‖ref), k3",)


def test_diverging_rows_are_centred_on_zero_and_ratios_on_one() -> None:
    figure = token_heatmap(
        {"advantages": [-1.0, 3.0], "importance_ratio": [0.5, 1.2]}, tokens(2), dark=False
    )
    advantages, ratio = figure.data
    assert advantages.zmin == -advantages.zmax
    assert (ratio.zmin + ratio.zmax) / 2 == pytest.approx(1)


def test_an_unknown_metric_with_both_signs_is_centred_on_zero() -> None:
    (row,) = token_heatmap({"logged": [-1.0, 3.0]}, tokens(2), dark=False).data
    assert row.zmin == -row.zmax


def test_a_row_spans_its_first_to_ninety_ninth_percentile() -> None:
    values = np.arange(1001.0)
    (row,) = token_heatmap({"entropy": values}, tokens(1001), dark=False).data
    assert (row.zmin, row.zmax) == pytest.approx((10, 990))


@pytest.mark.parametrize("values", [[0.0] * 5, [2.0] * 5, [NAN] * 5, []])
@pytest.mark.parametrize("name", ["advantages", "entropy", "loss_mask", "logged"])
def test_a_row_without_spread_has_a_scale(name: str, values: list[float]) -> None:
    (row,) = token_heatmap({name: values}, tokens(len(values)), dark=False).data
    assert row.zmin < row.zmax


def test_one_spike_among_zeros_sets_the_scale() -> None:
    spike = np.zeros(1000)
    spike[-1] = 1.5
    for name in ("token_rewards", "k3"):
        assert token_heatmap({name: spike}, tokens(1000), dark=False).data[0].zmax == 1.5


def test_long_responses_share_columns_and_say_so() -> None:
    values = np.zeros(9000)
    values[4242] = -7
    figure = token_heatmap({"k1": values}, tokens(9000), dark=False)
    (row,) = figure.data
    place = int(np.argmin(row.z[0]))
    assert row.z.shape[1] <= MAX_COLUMNS
    assert row.z[0][place] == -7
    assert row.text[0][place] == "4,242 &nbsp;t4242"
    assert figure.layout.meta["tokens_per_column"] == 3
    assert notes_of(figure) == (
        "9,000 tokens, 3 in a column: of each the entry of largest magnitude.",
    )


def test_largest_of_each_stretch_is_by_magnitude_and_skips_missing() -> None:
    values = np.array([1.0, -3.0, NAN, 2.0, NAN, NAN, 5.0])
    assert largest_of_each(values, 2).tolist() == [1, 3, 4, 6]


def test_tokens_are_text_with_their_blanks_and_controls_visible() -> None:
    hostile = ["<b>x</b>", " a\n", "\u202e\ud800", "%{z}"]
    (row,) = token_heatmap({"k1": np.zeros(4)}, hostile, dark=False).data
    assert [text.split("&nbsp;")[1] for text in row.text[0]] == [
        "&lt;b&gt;x&lt;/b&gt;",
        "␣a⏎",
        "⟨U+202E⟩⟨U+D800⟩",
        "%{z}",
    ]


def test_a_metric_name_from_a_log_is_text_and_no_template() -> None:
    figure = token_heatmap({"<i>%{z}": [1.0]}, ["a"], dark=False)
    assert figure.layout.yaxis.ticktext == ("&lt;i&gt;%{z}",)
    assert figure.data[0].name == "&lt;i&gt;%{z}"
    assert "&lt;i" not in figure.data[0].hovertemplate


def test_arrays_of_unequal_length_are_neither_shifted_nor_cut() -> None:
    figure = token_heatmap({"k1": [1.0, 2.0], "entropy": [1.0, 2.0, 3.0]}, ["a", "b"], dark=False)
    assert [row.z.shape[1] for row in figure.data] == [2, 3]
    assert figure.data[1].text[0][2] == "2 &nbsp;(no token)"
    assert notes_of(figure) == ("Arrays of unequal length: shorter rows end early.",)


def test_no_metrics_make_an_empty_figure() -> None:
    assert len(token_heatmap({}, tokens(3), dark=True).data) == 0
