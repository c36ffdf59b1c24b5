import numpy as np
import pytest
from made_tokens import step_tokens

from board.core.findings.audit import audit, audit_pair, culprit
from board.core.tokens.step_tokens import StepTokens

DICE = np.random.default_rng(0)
TRUE = -DICE.exponential(size=400)


def near(values: np.ndarray) -> list[float]:
    return (values + DICE.normal(scale=0.01, size=len(values))).tolist()


@pytest.mark.parametrize("shift", [-1, 0, 1])
def test_the_shift_that_was_made_is_found(shift):
    tokens = step_tokens(
        [400], {"logprobs": np.roll(TRUE, -shift).tolist(), "sampling_logprobs": near(TRUE)}
    )
    assert audit_pair(tokens, "logprobs", "sampling_logprobs").shift == shift


@pytest.mark.parametrize(
    ("lengths", "arrays", "shift"),
    [
        ([400], (TRUE, -DICE.exponential(size=400)), 0),
        ([50], (TRUE[:50], TRUE[:50]), None),
        ([1] * 400, (TRUE, TRUE), 0),  # no token has a neighbour
    ],
    ids=["unrelated arrays", "few tokens", "rollouts of one token"],
)
def test_no_shift_is_found_where_none_can_be(lengths, arrays, shift):
    names = ("logprobs", "ref_logprobs")
    tokens = step_tokens(lengths, dict(zip(names, map(near, arrays), strict=True)))
    result = audit_pair(tokens, *names)
    assert result.shift == shift
    assert len(lengths) == 1 or np.isnan(result.correlations[1])


def test_the_array_that_shifted_pairs_share_is_the_culprit():
    arrays = {
        "logprobs": np.roll(TRUE, 1).tolist(),
        "sampling_logprobs": near(TRUE),
        "ref_logprobs": near(TRUE),
    }
    assert culprit(audit(step_tokens([400], arrays))) == "logprobs"
    assert culprit([]) is None


def by_rank(ranks: list[int], logprobs: list[float]) -> StepTokens:
    arrays = {"logprobs": logprobs, "sampling_logprobs": near(TRUE)}
    return step_tokens([400 // len(ranks)] * len(ranks), arrays, rank=ranks)


def test_a_shifted_rank_is_named_though_the_whole_fits_no_shift_better():
    mine = np.concatenate([TRUE[:200], np.roll(TRUE[200:], -1)])
    whole, own = audit(by_rank([0, 1], mine.tolist()))
    assert (whole.rank, whole.shift) == (None, 0)
    assert (own.rank, own.shift, own.tokens) == (1, 1, 200)


def test_no_rank_is_named_where_all_fit_or_all_are_shifted():
    assert [a.rank for a in audit(by_rank([0, 1], near(TRUE)))] == [None]
    everywhere = audit(by_rank([0, 1], np.roll(TRUE, 1).tolist()))
    assert [(a.rank, a.shift) for a in everywhere] == [(None, -1)]


def test_arrays_that_hardly_vary_say_nothing():
    """Late in training most tokens are certain: what is left is rounding."""
    flat = -1e-3 * np.arange(400) / 400
    arrays = {"logprobs": np.roll(flat, 1).tolist(), "sampling_logprobs": flat.tolist()}
    assert audit_pair(step_tokens([400], arrays), "logprobs", "sampling_logprobs").shift is None


@pytest.mark.parametrize("seed", range(20))
def test_one_token_against_all_odds_in_certain_text_is_no_shift(seed):
    """A sampler's outlier beside a trainer's would make any shift fit that joins them."""
    dice = np.random.default_rng(seed)
    a, b = -np.abs(dice.normal(scale=0.02, size=(2, 400)))
    a[100], b[101] = -9.0, -9.0
    arrays = {"logprobs": a.tolist(), "sampling_logprobs": b.tolist()}
    result = audit_pair(step_tokens([400], arrays), "logprobs", "sampling_logprobs")
    assert result.correlations[1] > 0.9
    assert result.shift == 0


def test_few_unrelated_tokens_are_seldom_alike_enough_to_be_called_shifted():
    dice = np.random.default_rng(1)
    for _ in range(300):
        a, b = -dice.exponential(size=(2, 120))
        arrays = {"logprobs": a.tolist(), "ref_logprobs": b.tolist()}
        assert not audit_pair(step_tokens([120], arrays), "logprobs", "ref_logprobs").shift


@pytest.mark.parametrize("length", [2, 3, 5])
def test_short_rollouts_are_judged_by_the_tokens_that_have_a_neighbour(length):
    values = TRUE[: 400 // length * length]
    lengths = [length] * (400 // length)
    rolled = np.roll(values.reshape(-1, length), -1, axis=1).ravel().tolist()
    fitting = {"logprobs": near(values), "sampling_logprobs": near(values)}
    shifted = {"logprobs": rolled, "sampling_logprobs": near(values)}
    for arrays, shift in ((fitting, 0), (shifted, 1)):
        result = audit_pair(step_tokens(lengths, arrays), "logprobs", "sampling_logprobs")
        assert result.shift == shift
