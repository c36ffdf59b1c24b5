from __future__ import annotations

import math

import numpy as np
import pytest
from made_tokens import step_tokens

from board.core import mismatch
from board.core.masks import RULES, hit, numbers_from_text, numbers_text, thresholds_of
from board.core.rule_counts import count_rules


def test_policies_that_agree_are_not_apart() -> None:
    found = mismatch.apart(np.zeros(5))
    assert (found.forward_k1, found.forward_k3, found.reverse_k3, found.chi2) == (0, 0, 0, 0)
    assert (found.multiplicative, found.ess, found.tokens) == (1, 1, 5)


def test_estimators_are_what_they_say_for_one_token() -> None:
    d = math.log(2)
    found = mismatch.apart(np.array([d]))
    assert found.forward_k1 == pytest.approx(-d)
    assert found.forward_k3 == pytest.approx(2 - 1 - d)
    assert found.reverse_k1 == pytest.approx(2 * d)
    assert found.reverse_k3 == pytest.approx(2 * d - 1)
    assert found.flipped_k3 == pytest.approx(0.5 - 1 + d)
    assert (found.multiplicative, found.chi2) == (pytest.approx(2), pytest.approx(3))


def test_estimators_agree_with_the_divergences_they_estimate() -> None:
    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.4, 0.4, 0.2])
    draws = np.repeat(np.arange(3), [5000, 3000, 2000])  # exactly as often as the sampler p says
    found = mismatch.apart(np.log(q / p)[draws])
    assert found.forward_k1 == pytest.approx((p * np.log(p / q)).sum())
    assert found.forward_k3 == pytest.approx(found.forward_k1)
    assert found.reverse_k1 == pytest.approx((q * np.log(q / p)).sum())
    assert found.reverse_k3 == pytest.approx(found.reverse_k1)
    assert found.chi2 == pytest.approx((q**2 / p).sum() - 1)
    assert found.ess == pytest.approx(1 / (1 + found.chi2))


def test_engine_and_staleness_add_up_to_the_mismatch() -> None:
    dice = np.random.default_rng(0)
    arrays = {name: -dice.random(50) for name in ("logprobs", "old_logprobs", "sampling_logprobs")}
    found = mismatch.decompose(step_tokens([50], {k: v.tolist() for k, v in arrays.items()}))
    assert found is not None
    assert found.engine is not None
    assert found.staleness is not None
    assert found.total.d_mean == pytest.approx(found.engine.d_mean + found.staleness.d_mean)
    assert found.engine_share + found.staleness_share + found.cross_share == pytest.approx(1)


def test_without_old_logprobs_there_is_no_decomposition() -> None:
    found = mismatch.decompose(
        step_tokens([2], {"logprobs": [-1, -1], "sampling_logprobs": [-1, -2]})
    )
    assert found is not None
    assert found.engine is None
    assert mismatch.decompose(step_tokens([1], {"logprobs": [-1]})) is None


def test_slices_hold_every_token_once() -> None:
    arrays = {"logprobs": [-1.0] * 6, "sampling_logprobs": [-1.0, -2, -0.01, -3, -9, -0.5]}
    tokens = step_tokens([2, 4], arrays, [0, 1, 2, 3, 4, -1], policy_version=[5, 3])
    d = mismatch.log_ratio(tokens)
    assert d is not None
    for parts in (
        mismatch.by_kind(tokens, d),
        mismatch.by_position(tokens, d, 3),
        mismatch.by_probability(tokens, d),
        mismatch.by_lag(tokens, d),
    ):
        assert sum(part.tokens for part in parts) == 6
        assert sum(part.tokens * part.d_mean for part in parts) == pytest.approx(d.sum())
    assert [part.name for part in mismatch.by_lag(tokens, d)] == ["0", "2"]


def test_tokens_outside_the_loss_are_in_no_slice() -> None:
    arrays = {"logprobs": [-1.0, -1.0], "sampling_logprobs": [-1.0, -5.0]}
    tokens = step_tokens([2], arrays, in_loss=[True, False])
    d = mismatch.log_ratio(tokens)
    assert d is not None
    assert sum(part.tokens for part in mismatch.by_kind(tokens, d)) == 1


def test_rules_tell_low_from_high_and_the_advantage_s_sign() -> None:
    d = [math.log(10), math.log(0.1), 0, 0]
    arrays = {"logprobs": [x - 5 for x in d], "sampling_logprobs": [-5.0] * 4}
    tokens = step_tokens([2, 2], arrays, advantage=[1, -1])
    found = {counts.rule: counts.shares({}) for counts in count_rules(tokens)}
    assert (found["icepop"].low, found["icepop"].high, found["icepop"].hit) == (0.25, 0.25, 0.5)
    assert (found["icepop"].positive, found["icepop"].negative) == (1.0, 0.0)
    assert (found["tis"].low, found["tis"].high) == (0.0, 0.25)
    assert "ratio_clip" not in found  # no old_logprobs


def test_counts_say_of_every_number_what_the_rule_itself_would_stop() -> None:
    rng = np.random.default_rng(3)
    size = 400
    arrays = {
        "logprobs": rng.normal(-2, 1, size),
        "old_logprobs": rng.normal(-2, 1, size),
        "sampling_logprobs": rng.normal(-2, 1, size),
        "advantages": rng.choice([-1.0, 0.0, 1.0, np.nan], size),
    }
    tokens = step_tokens([size], arrays)
    own = {"ratio_clip": {"ε low": 3e-4, "ε high": 4e-4}}
    for counts in count_rules(tokens, own):
        rule = RULES[counts.rule]
        values = tokens.metric(rule.metric)
        ends = {t.name: t.highest for t in thresholds_of(rule)}
        some = {t.name: t.lowest + 7 * t.step for t in thresholds_of(rule)}
        for numbers in ({}, ends, some, own.get(rule.name, {})):
            stopped = hit(rule, values, numbers, arrays["advantages"])
            shares = counts.shares(numbers)
            assert shares.hit == pytest.approx(stopped.mean())
            assert shares.positive == pytest.approx(stopped[arrays["advantages"] > 0].mean())
            assert shares.negative == pytest.approx(stopped[arrays["advantages"] < 0].mean())


def test_numbers_of_rules_survive_the_url() -> None:
    numbers = numbers_from_text("ratio_clip:0.2:0.28,tis:3")
    assert numbers == {"ratio_clip": {"ε low": 0.2, "ε high": 0.28}, "tis": {"C": 3.0}}
    assert numbers_text(numbers) == "ratio_clip:0.2:0.28,tis:3"
    for wrong in ("tis", "tis:1:2", "tis:99", "tis:nan", "is_masked", "tis:x", "soap:1"):
        with pytest.raises(ValueError, match=r"."):
            numbers_from_text(wrong)


def test_nll_of_tool_tokens_is_told_by_tool() -> None:
    tokens = step_tokens([3], {"logprobs": [-1, -2, -6], "sft_mask": [0, 1, 1]})
    (every,) = mismatch.sft_nll(tokens)
    assert (every.tokens, every.mean, every.largest) == (2, 4, 6)
