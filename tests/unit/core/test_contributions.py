from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from made_tokens import step_tokens

from board.core.tokens.contributions import context, contributions

NAN = float("nan")


@given(
    st.lists(st.integers(0, 6), min_size=1, max_size=6),
    st.randoms(use_true_random=False),
    st.data(),
)
def test_contributions_add_up_to_the_mean_of_rollout_means(
    lengths: list[int], dice: object, data: st.DataObject
) -> None:
    total = sum(lengths)
    values = data.draw(
        arrays(np.float64, total, elements=st.one_of(st.just(NAN), st.floats(-5, 5)))
    )
    mask = data.draw(arrays(np.bool_, total))
    codes = data.draw(arrays(np.int32, total, elements=st.integers(-1, 4)))
    tokens = step_tokens(lengths, {"entropy": values}, codes, mask)
    found = contributions(tokens, "entropy")
    starts = np.cumsum([0, *lengths])
    means = [values[a:b][mask[a:b] & np.isfinite(values[a:b])] for a, b in pairwise(starts)]
    expected = np.mean([part.mean() for part in means if len(part)] or [NAN])
    assert found.mean == pytest.approx(expected, nan_ok=True)
    for parts in (found.by("kind"), found.by("piece"), found.by("role"), found.top_rollouts()):
        assert sum(part.contribution for part in parts) == pytest.approx(
            0.0 if np.isnan(expected) else expected
        )


def test_the_guilty_token_stands_first_with_its_place() -> None:
    tokens = step_tokens([2, 3], {"entropy": [1, 1, 0, 10, 2]}, [0, 2, 0, 1, 2])
    found = contributions(tokens, "entropy")
    top = found.top_tokens(1)[0]
    assert (top.index, top.position, top.piece, top.kind) == (1, 1, "1", "digits")
    assert top.contribution == pytest.approx(10 / 3 / 2)
    assert top.share == pytest.approx(top.contribution / found.mean)


def test_a_token_type_has_its_count_share_and_mean() -> None:
    tokens = step_tokens([2, 2], {"entropy": [1, 3, 1, 5]}, [0, 2, 0, 2])
    end, word = contributions(tokens, "entropy").by("kind")
    assert (end.name, end.count, end.mean) == ("end of text", 2, 4.0)
    assert (end.share, word.share) == (pytest.approx(0.8), pytest.approx(0.2))


def test_a_metric_around_zero_is_ranked_by_size() -> None:
    arrays_ = {"logprobs": [-1, -9, 0], "ref_logprobs": [-1, -1, -1]}
    assert contributions(step_tokens([3], arrays_), "k1").top_tokens(1)[0].value == -8


def test_a_rollout_without_the_metric_takes_no_part() -> None:
    found = contributions(step_tokens([2, 2], {"entropy": [NAN, NAN, 1, 3]}), "entropy")
    assert (found.mean, found.rollouts) == (2.0, 1)
    assert [r.index for r in found.top_rollouts()] == [1]


def test_td_errors_do_not_look_into_the_next_rollout() -> None:
    tokens = step_tokens([1, 1], {"token_rewards": [0, 0], "values": [1, 5]})
    assert tokens.metric("td_error").tolist() == [-1.0, -5.0]


def test_the_context_of_a_token_stays_within_its_response() -> None:
    tokens = step_tokens([2, 3], {}, [0, 1, 2, 3, 4])
    assert [*context(tokens, 1, 0, around=1)] == ["<eos>", " 中"]


def test_a_metric_that_is_not_recorded_is_refused() -> None:
    with pytest.raises(KeyError):
        contributions(step_tokens([1], {"logprobs": [-1]}), "k3")
