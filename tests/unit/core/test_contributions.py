from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from made_tokens import step_tokens

from board.core.tokens.contributions import (
    TOKEN_SOURCES,
    context,
    contributions,
    headline,
    whole,
)

NAN = float("nan")


@given(
    st.lists(st.integers(0, 6), min_size=1, max_size=6),
    st.randoms(use_true_random=False),
    st.data(),
)
def test_contributions_add_up_to_the_mean_of_rollout_means(lengths, dice, data):
    total = sum(lengths)
    values = data.draw(
        arrays(np.float64, total, elements=st.one_of(st.just(NAN), st.floats(-5, 5)))
    )
    mask = data.draw(arrays(np.bool_, total))
    codes = data.draw(arrays(np.int32, total, elements=st.integers(-1, 4)))
    tokens = step_tokens(lengths, {"entropy": values}, codes, mask)
    result = contributions(tokens, "entropy")
    starts = np.cumsum([0, *lengths])
    means = [values[a:b][mask[a:b] & np.isfinite(values[a:b])] for a, b in pairwise(starts)]
    expected = np.mean([part.mean() for part in means if len(part)] or [NAN])
    assert result.mean == pytest.approx(expected, nan_ok=True)
    for parts in (result.by("kind"), result.by("piece"), result.by("role")):
        assert sum(part.contribution for part in parts) == pytest.approx(
            0.0 if np.isnan(expected) else expected
        )


def test_the_guilty_token_stands_first_with_its_place():
    tokens = step_tokens([2, 3], {"entropy": [1, 1, 0, 10, 2]}, [0, 2, 0, 1, 2])
    result = contributions(tokens, "entropy")
    top = result.top_tokens(1)[0]
    assert (top.index, top.position, top.piece, top.kind) == (1, 1, "1", "digits")
    assert top.contribution == pytest.approx(10 / 3 / 2)
    assert top.share == pytest.approx(top.contribution / result.mean)


def test_a_token_type_has_its_count_share_and_mean():
    tokens = step_tokens([2, 2], {"entropy": [1, 3, 1, 5]}, [0, 2, 0, 2])
    end, word = contributions(tokens, "entropy").by("kind")
    assert (end.name, end.count, end.mean) == ("end of text", 2, 4.0)
    assert (end.share, word.share) == (pytest.approx(0.8), pytest.approx(0.2))


def test_a_metric_around_zero_is_ranked_by_size():
    arrays_ = {"logprobs": [-1, -9, 0], "ref_logprobs": [-1, -1, -1]}
    assert contributions(step_tokens([3], arrays_), "k1").top_tokens(1)[0].value == -8


def test_a_rollout_without_the_metric_takes_no_part():
    result = contributions(step_tokens([2, 2], {"entropy": [NAN, NAN, 1, 3]}), "entropy")
    assert (result.mean, result.rollouts) == (2.0, 1)
    assert {t.index for t in result.top_tokens()} == {1}


def test_td_errors_do_not_look_into_the_next_rollout():
    tokens = step_tokens([1, 1], {"token_rewards": [0, 0], "values": [1, 5]})
    assert tokens.metric("td_error").tolist() == [-1.0, -5.0]


def test_the_context_of_a_token_stays_within_its_response():
    tokens = step_tokens([2, 3], {}, [0, 1, 2, 3, 4])
    assert [*context(tokens, 1, 0, around=1)] == ["<eos>", " 中"]


def test_a_metric_that_is_not_recorded_is_refused():
    with pytest.raises(KeyError):
        contributions(step_tokens([1], {"logprobs": [-1]}), "k3")


def nats(lengths: list[int], values: list[float], codes: list[int] | None = None):
    """Tokens whose k1 is `values`."""
    return step_tokens(lengths, {"logprobs": values, "ref_logprobs": [0.0] * len(values)}, codes)


def test_the_mean_of_largest_tokens_is_of_one_token_of_each_rollout():
    tokens = nats([3, 0, 2, 1], [1.0, 5.0, 5.0, NAN, 2.0, NAN])
    result = contributions(tokens, *TOKEN_SOURCES["k1_max"])
    assert result.mean == pytest.approx((5 + 2) / 2)
    assert [(t.index, t.position) for t in result.top_tokens()] == [(0, 1), (2, 1)]


def test_the_largest_token_outside_the_loss_does_not_count():
    arrays = {"logprobs": [9.0, 1.0], "ref_logprobs": [0.0, 0.0]}
    tokens = step_tokens([2], arrays, in_loss=[False, True])
    assert contributions(tokens, *TOKEN_SOURCES["k1_max"]).mean == 1.0


def test_a_mean_column_is_taken_apart_as_its_token_metric():
    tokens = nats([2, 1], [1.0, 3.0, 4.0])
    assert TOKEN_SOURCES["k1_mean"] == ("k1", "mean")
    assert contributions(tokens, *TOKEN_SOURCES["k1_mean"]).mean == contributions(tokens, "k1").mean


@pytest.mark.parametrize(
    ("grouping", "name", "expected"),
    [
        ("kind", "digits", [1]),
        ("piece", "<eos>", [2]),
        ("kind", "no such", []),
        ("role", "user", []),
    ],
)
def test_one_type_alone_keeps_its_share_of_all_tokens(grouping, name, expected):
    result = contributions(nats([3], [1.0, 2.0, 3.0], [0, 1, 2]), "k1")
    part = result.only(grouping, name)
    assert [t.position for t in part.top_tokens()] == expected
    assert part.mean == result.mean
    assert sum(t.share for t in part.top_tokens()) == pytest.approx(
        sum(expected) / 6 + len(expected) / 6
    )


def test_a_share_of_values_of_both_signs_is_of_their_size():
    result = contributions(nats([2], [3.0, -1.0]), "k1")
    assert whole(result) == pytest.approx(2.0)
    assert whole(contributions(nats([2], [3.0, 1.0]), "k1")) == pytest.approx(2.0)
    assert whole(contributions(nats([2], [-3.0, -1.0]), "k1")) == pytest.approx(-2.0)


def test_the_headline_names_the_one_token_that_carries_a_third():
    result = headline(contributions(nats([6], [5.0, 1.0, 1.0, 1.0, 1.0, 1.0]), "k1"))
    assert result.what == "token"
    assert result.share == pytest.approx(0.5)


def test_the_headline_names_the_piece_that_carries_half_with_few_tokens():
    values = [4.0 if i % 4 == 0 else 0.1 for i in range(16)]
    codes = [2 if i % 4 == 0 else 0 for i in range(16)]
    result = headline(contributions(nats([16], values, codes), "k1"))
    assert (result.what, result.type.name, result.of_tokens) == ("piece", "<eos>", 0.25)


def test_the_headline_names_nothing_where_most_is_of_what_there_is_most():
    result = headline(contributions(nats([16], [1.0] * 16, [0] * 12 + [2] * 4), "k1"))
    assert result.what == "spread"


@pytest.mark.parametrize("values", [[], [NAN, NAN], [0.0, 0.0]])
def test_without_a_value_there_is_no_headline(values):
    assert headline(contributions(nats([len(values)], values), "k1")) is None
    assert np.isnan(contributions(nats([2], [NAN, NAN]), *TOKEN_SOURCES["k1_max"]).mean)
