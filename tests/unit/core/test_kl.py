"""The estimators against their closed forms, at ordinary, tiny and broken inputs."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from board.core.metrics import kl
from board.core.metrics.aggregate import Aggregator
from board.core.metrics.kl import recorded_gamma, td_error

PAIRWISE = (
    kl.k1,
    kl.k2,
    kl.k3,
    kl.ratio,
    kl.mismatch_kl,
)
logprob = st.floats(-50, 0)


@pytest.mark.parametrize("estimator", PAIRWISE)
def test_every_divergence_is_zero_and_every_ratio_one_when_policies_match(estimator):
    expected = 1 if estimator is kl.ratio else 0
    assert estimator([-1.5, -0.25, 0.0], [-1.5, -0.25, 0.0]).tolist() == [expected] * 3


@given(logprob, logprob)
def test_estimators_meet_their_closed_forms(p, q):
    d = p - q
    assert kl.k1([p], [q])[0] == d
    assert kl.k2([p], [q])[0] == pytest.approx(d * d / 2, rel=1e-15)
    assert kl.k3([p], [q])[0] == pytest.approx(math.exp(-d) - 1 + d, rel=1e-9, abs=1e-12)
    assert kl.ratio([p], [q])[0] == pytest.approx(math.exp(d))
    r = math.exp(d)
    assert kl.mismatch_kl([p], [q])[0] == pytest.approx(r - 1 - math.log(r), rel=1e-9, abs=1e-12)
    assert kl.probability([p])[0] == pytest.approx(math.exp(p), rel=1e-15)


@given(st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_k3_and_mismatch_kl_are_never_negative(p, q):
    for estimator in (kl.k3, kl.mismatch_kl, kl.k2):
        value = estimator([p], [q])[0]
        assert math.isnan(value) or value >= 0


@given(st.lists(st.tuples(st.floats(), st.floats()), min_size=1, max_size=5))
def test_what_is_made_together_is_what_is_made_alone_and_leaves_its_operands(pairs):
    ours, theirs = np.array(pairs).T.copy()
    before = ours.copy(), theirs.copy()
    with np.errstate(all="ignore"):
        together = kl.reference(ours, theirs)
        alone = [estimator(ours, theirs) for estimator in (kl.k1, kl.k2, kl.k3)]
        _, excess = kl.mismatch(ours, theirs)
        kl.ratio(ours, theirs)
    for one, other in zip((*together, excess), (*alone, kl.k3(theirs, ours)), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal((ours, theirs), before)


@pytest.mark.parametrize("d", [1e-3, 1e-5, 1e-6, -1e-6, 1e-7])
def test_tiny_differences_keep_their_digits(d):
    # exp(-d) - 1 + d in plain floats has lost every digit at 1e-8 and half of them at 1e-6.
    exact = d * d / 2 - d**3 / 6 + d**4 / 24
    assert kl.k3([d], [0.0])[0] == pytest.approx(exact, rel=1e-8)


@pytest.mark.parametrize("estimator", PAIRWISE)
def test_a_missing_value_stays_missing(estimator):
    assert np.isnan(estimator([np.nan, -1.0], [-1.0, np.nan])).all()


@pytest.mark.parametrize("estimator", PAIRWISE)
@pytest.mark.parametrize("shapes", [(2, 1), ((2, 2), 2)])
def test_unequal_shapes_are_refused_and_none_is_broadcast(estimator, shapes):
    with pytest.raises(ValueError, match="unequal shapes"):
        estimator(*map(np.zeros, shapes))


@pytest.mark.parametrize("estimator", PAIRWISE)
@pytest.mark.parametrize("p", [-np.inf, np.inf, -3.4e38, 3.4e38, 1e300])
def test_huge_and_infinite_inputs_give_no_nan_and_no_warning(estimator, p):
    for pair in ([p], [-1.0]), ([-1.0], [p]):
        value = estimator(*pair)[0]
        assert not math.isnan(value)


@pytest.mark.parametrize("estimator", [kl.k3, kl.mismatch_kl])
def test_a_log_probability_of_minus_float_max_is_as_one_of_minus_infinity(estimator):
    for pair in ([-3.4e38], [-1.0]), ([-1.0], [-3.4e38]):
        assert estimator(*pair)[0] == np.inf


def test_an_infinite_log_ratio_gives_an_infinity_that_means_can_leave_out():
    assert kl.k3([-np.inf], [-1.0])[0] == np.inf
    assert kl.ratio([-1.0], [-np.inf])[0] == np.inf
    assert kl.ratio([-np.inf], [-1.0])[0] == 0
    assert np.isnan(kl.k1([-np.inf], [-np.inf])[0])


def test_k3_clamped_is_k3_where_policies_are_near():
    logprobs, reference = np.array([-1.0, -2.0]), np.array([-1.5, -1.0])
    assert kl.k3_clamped(logprobs, reference).tolist() == kl.k3(logprobs, reference).tolist()


def test_k3_clamped_ends_at_ten_nats_on_both_sides():
    assert kl.k3_clamped([-30.0, 0.0], [0.0, -100.0]).tolist() == [10.0, 10.0]


def test_prob_delta_is_the_difference_of_probabilities():
    assert kl.prob_delta(np.log([0.5, 0.1]), np.log([0.25, 0.4])) == pytest.approx([0.25, -0.3])


@pytest.mark.parametrize(
    ("rewards", "values", "gamma", "errors"),
    [([1.0], [0.25], 1.0, [0.75]), ([], [], 1.0, []), ([0.0, 0.0], [1.0, 2.0], 0.5, [0.0, -2.0])],
    ids=["the last token has no value after it", "no tokens", "a discount"],
)
def test_a_td_error_is_the_reward_and_the_discounted_value_that_follows(
    rewards, values, gamma, errors
):
    assert td_error(np.array(rewards), np.array(values), gamma=gamma).tolist() == errors


def test_lengths_must_agree():
    with pytest.raises(ValueError, match="2 token_rewards for 1 values"):
        td_error(np.zeros(2), np.zeros(1))


def test_the_discount_is_taken_from_where_trainers_write_it():
    assert recorded_gamma({"config": {"gamma": 0.99, "gae_lambda": 0.95}}) == 0.99
    assert recorded_gamma({"config": {"algorithm": {"gamma": 0.9}}}) == 0.9
    assert recorded_gamma({"gamma": 1}) == 1.0


def test_without_a_usable_discount_it_is_one():
    for settings in ({}, {"config": None}, {"gamma": "0.9"}, {"gamma": 7}, {"gamma": True}):
        assert recorded_gamma(settings) == 1.0


@pytest.mark.parametrize("fill", [-3.4e38, -1e9, -65504.0, -1e4])
@pytest.mark.parametrize("side", ["logprobs", "ref_logprobs", "sampling_logprobs"])
def test_what_a_mask_wrote_is_left_out_and_counted_as_minus_infinity_is(fill, side):
    draw = np.random.default_rng(0)
    arrays = {
        name: -draw.exponential(1, 16) for name in ("logprobs", "ref_logprobs", "sampling_logprobs")
    }
    filled = {name: values.copy() for name, values in arrays.items()}
    filled[side][3] = fill
    infinite = {name: values.copy() for name, values in arrays.items()}
    infinite[side][3] = -np.inf
    columns = []
    for of in (filled, infinite):
        aggregator = Aggregator()
        aggregator.add(of)
        columns.append(aggregator.finish())
        assert aggregator.gaps() == {side: [0]}
    assert columns[0]["missing_values"][0] == 1
    assert abs(columns[0]["k3_mean"][0]) < 100
    for name, values in columns[0].items():
        np.testing.assert_array_equal(values, columns[1][name])
    far = np.array([-9_000.0, -0.1])
    assert kl.without_fill(far) is far
