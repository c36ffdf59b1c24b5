import math

import numpy as np
import pytest
from made_tokens import step_tokens

from board.core.tokens import mismatch
from board.core.tokens.masks import RULES, hit, numbers_from_text, numbers_text
from board.core.tokens.mismatch import Ratios
from board.core.tokens.rule_counts import count_rules


def test_engine_and_staleness_add_up_to_the_mismatch():
    dice = np.random.default_rng(0)
    arrays = {name: -dice.random(50) for name in ("logprobs", "old_logprobs", "sampling_logprobs")}
    result = mismatch.decompose(step_tokens([50], {k: v.tolist() for k, v in arrays.items()}))
    assert result.total.d_mean == pytest.approx(result.engine.d_mean + result.staleness.d_mean)
    assert result.engine_share + result.staleness_share + result.cross_share == pytest.approx(1)


def test_without_old_logprobs_there_is_no_decomposition():
    result = mismatch.decompose(
        step_tokens([2], {"logprobs": [-1, -1], "sampling_logprobs": [-1, -2]})
    )
    assert result.engine is None
    assert mismatch.decompose(step_tokens([1], {"logprobs": [-1]})) is None


def test_slices_hold_every_token_once():
    arrays = {"logprobs": [-1.0] * 6, "sampling_logprobs": [-1.0, -2, -0.01, -3, -9, -0.5]}
    tokens = step_tokens([2, 4], arrays, [0, 1, 2, 3, 4, -1], policy_version=[5, 3])
    d = tokens.log_ratio(*mismatch.WHOLE)
    for parts in (
        mismatch.by_kind(Ratios(tokens, d)),
        mismatch.by_position(Ratios(tokens, d), 3),
        mismatch.by_probability(Ratios(tokens, d)),
        mismatch.by_lag(Ratios(tokens, d)),
    ):
        assert sum(part.tokens for part in parts) == 6
        assert sum(part.tokens * part.d_mean for part in parts) == pytest.approx(d.sum())
    assert [part.name for part in mismatch.by_lag(Ratios(tokens, d))] == ["0", "2"]


def test_tokens_outside_the_loss_are_in_no_slice():
    arrays = {"logprobs": [-1.0, -1.0], "sampling_logprobs": [-1.0, -5.0]}
    tokens = step_tokens([2], arrays, in_loss=[True, False])
    d = tokens.log_ratio(*mismatch.WHOLE)
    assert sum(part.tokens for part in mismatch.by_kind(Ratios(tokens, d))) == 1


def test_tis_and_icepop_go_by_the_trainer_before_its_updates_where_that_is_recorded():
    # Four tokens; the sampler gave each 0.1, the old policy 0.1, 0.3, 0.02 and 0.6, the new one 0.6.
    arrays = {
        "sampling_logprobs": [math.log(0.1)] * 4,
        "old_logprobs": [math.log(p) for p in (0.1, 0.3, 0.02, 0.6)],
        "logprobs": [math.log(0.6)] * 4,
    }
    result = {counts.rule: counts for counts in count_rules(step_tokens([4], arrays))}
    assert {result[name].metric for name in ("tis", "icepop")} == {"engine_ratio"}
    assert result["tis"].shares({}).hit == 0.5  # 3 and 6 are above 2
    icepop = result["icepop"].shares({})
    assert (icepop.low, icepop.high) == (0.25, 0.25)  # 0.2 is below 0.5, 6 above 5
    del arrays["old_logprobs"]
    result = {counts.rule: counts for counts in count_rules(step_tokens([4], arrays))}
    assert {result[name].metric for name in ("tis", "icepop")} == {"mismatch_ratio"}
    assert "ratio_clip" not in result
    assert result["tis"].shares({}).hit == result["icepop"].shares({}).hit == 1


def test_a_log_ratio_that_is_far_below_zero_stays_finite():
    result = mismatch.apart(np.array([-3.4e38, -50.0, 0.1]))
    assert result.d_largest == 80
    assert result.flipped_k3 == pytest.approx(math.exp(80) / 3)
    assert result.forward_k3 == pytest.approx((79 + 49 + math.expm1(0.1) - 0.1) / 3)


def drawn(size: int) -> dict[str, np.ndarray]:
    dice = np.random.default_rng(3)
    policy = -dice.exponential(size=size)
    arrays = {
        name: policy + dice.normal(scale=0.4, size=size)
        for name in ("logprobs", "old_logprobs", "sampling_logprobs")
    }
    arrays["sampling_logprobs"][::17] = np.nan
    return arrays | {"advantages": dice.choice([-1.5, 0.0, 1.0, np.nan], size)}


def plainly_stopped(rule: str, one: dict[str, float]) -> str | None:
    """Which bound a token is beyond, as the papers have it; None where it is not stopped."""
    advantage, ratio = one["advantages"], math.exp(one["old_logprobs"] - one["sampling_logprobs"])
    if rule == "ratio_clip":
        clip = math.exp(one["logprobs"] - one["old_logprobs"])
        if advantage > 0 and clip > 1.2:
            return "high"
        return "low" if advantage < 0 and clip < 0.8 else None
    if rule == "dppo":
        delta = math.exp(one["logprobs"]) - math.exp(one["sampling_logprobs"])
        if advantage > 0:
            return "high" if delta > 0.2 else None
        return "low" if advantage <= 0 and delta < -0.2 else None
    if rule == "icepop":
        return "high" if ratio > 5 else "low" if ratio < 0.5 else None
    return "high" if ratio > 2 else None


def share(hits: list[bool]) -> float:
    return sum(hits) / len(hits) if hits else math.nan


def test_shares_by_bound_and_sign_are_those_of_a_plain_loop_over_tokens():
    arrays, in_loss = drawn(800), [i % 5 > 0 for i in range(800)]
    tokens = step_tokens([500, 300], arrays, in_loss=in_loss)
    needs = {"ratio_clip": "old_logprobs"}
    counted = count_rules(tokens)
    assert [counts.rule for counts in counted] == [*RULES]
    for counts in counted:
        first = needs.get(counts.rule, "sampling_logprobs")
        remaining = [
            {name: float(values[i]) for name, values in arrays.items()}
            for i in range(800)
            if in_loss[i] and not math.isnan(arrays[first][i])
        ]
        beyond = [plainly_stopped(counts.rule, one) for one in remaining]
        shares = counts.shares({})
        assert shares.tokens == len(remaining)
        assert shares.hit == pytest.approx(share([b is not None for b in beyond]))
        assert shares.hit > 0
        for side in ("low", "high"):
            if getattr(RULES[counts.rule], side) is None:  # not recorded is not zero
                assert math.isnan(getattr(shares, side))
                continue
            assert getattr(shares, side) == pytest.approx(share([b == side for b in beyond]))
            for sign, own in ((1, shares.positive), (-1, shares.negative)):
                among = [
                    b == side
                    for b, one in zip(beyond, remaining, strict=True)
                    if one["advantages"] * sign > 0
                ]
                text = getattr(own, side)
                # Never stopped: not drawn as zero.
                is_stopped = not RULES[counts.rule].by_sign or (sign > 0) == (side == "high")
                assert text == pytest.approx(share(among)) if is_stopped else math.isnan(text)


@pytest.mark.parametrize("advantage", [2.0, -2.0, 0.0])
@pytest.mark.parametrize("ratio", [0.5, 0.79, 0.81, 1.0, 1.27, 1.29, 3.0])
def test_a_token_is_clipped_where_ppo_s_objective_is_flat(advantage, ratio):
    def objective(r: float) -> float:
        return min(r * advantage, min(max(r, 1 - 0.2), 1 + 0.28) * advantage)

    slope = (objective(ratio + 1e-6) - objective(ratio - 1e-6)) / 2e-6
    numbers = {"ε low": 0.2, "ε high": 0.28}
    clipped = hit(RULES["ratio_clip"], np.array([ratio]), numbers, np.array([advantage]))
    assert clipped[0] == (advantage != 0 and slope == pytest.approx(0))


def test_estimators_are_those_of_a_plain_loop_over_tokens():
    arrays = drawn(300)
    result = mismatch.decompose(step_tokens([300], arrays))
    pairs = {
        "total": ("logprobs", "sampling_logprobs"),
        "engine": ("old_logprobs", "sampling_logprobs"),
        "staleness": ("logprobs", "old_logprobs"),
    }
    for part, (second, first) in pairs.items():
        d = [x - y for x, y in zip(arrays[second], arrays[first], strict=True) if x - y == x - y]
        r, n = [math.exp(x) for x in d], len(d)
        expected = {
            "tokens": n,
            "d_largest": max(abs(x) for x in d),
            "forward_k1": sum(-x for x in d) / n,
            "forward_k3": sum(y - 1 - x for x, y in zip(d, r, strict=True)) / n,
            "reverse_k1": sum(y * x for x, y in zip(d, r, strict=True)) / n,
            "reverse_k3": sum(y * x - y + 1 for x, y in zip(d, r, strict=True)) / n,
            "flipped_k3": sum(1 / y - 1 + x for x, y in zip(d, r, strict=True)) / n,
            "multiplicative": sum(max(y, 1 / y) for y in r) / n,
            "chi2": sum(y * y for y in r) / n - 1,
            "ess": sum(r) ** 2 / (n * sum(y * y for y in r)),
        }
        for name, value in expected.items():
            assert getattr(getattr(result, part), name) == pytest.approx(value), (part, name)


def test_slices_are_means_of_a_plain_loop_and_pool_by_tokens():
    arrays = drawn(60)
    tokens = step_tokens([40, 20], arrays, policy_version=[5, 3])
    d = tokens.log_ratio(*mismatch.WHOLE)
    whole = mismatch.by_lag(Ratios(tokens, d))
    halves = [
        mismatch.by_lag(Ratios(tokens, np.where(np.arange(60) % 3 == part, d, np.nan)))
        for part in range(3)
    ]
    for slices in (whole, mismatch.pooled(part for half in halves for part in half)):
        by_lag = {part.name: part for part in slices}
        assert {*by_lag} == {"0", "2"}
        for name, places in (("0", range(40)), ("2", range(40, 60))):
            own = [float(d[i]) for i in places if d[i] == d[i]]
            assert by_lag[name].tokens == len(own)
            assert by_lag[name].d_mean == pytest.approx(sum(own) / len(own))
            assert by_lag[name].d_abs == pytest.approx(sum(map(abs, own)) / len(own))
            k3 = sum(math.exp(x) - 1 - x for x in own) / len(own)
            assert by_lag[name].k3 == pytest.approx(k3)


def test_counts_say_of_every_number_what_the_rule_itself_would_stop():
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
        ends = {t.name: t.highest for t in rule.thresholds.values()}
        some = {t.name: t.lowest + 7 * t.step for t in rule.thresholds.values()}
        for numbers in ({}, ends, some, own.get(rule.name, {})):
            stopped = hit(rule, values, numbers, arrays["advantages"])
            shares = counts.shares(numbers)
            assert shares.hit == pytest.approx(stopped.mean())
            assert shares.positive.hit == pytest.approx(stopped[arrays["advantages"] > 0].mean())
            assert shares.negative.hit == pytest.approx(stopped[arrays["advantages"] < 0].mean())


def test_numbers_of_rules_survive_the_url():
    numbers = numbers_from_text("ratio_clip:0.2:0.28,tis:3")
    assert numbers == {"ratio_clip": {"ε low": 0.2, "ε high": 0.28}, "tis": {"C": 3.0}}
    assert numbers_text(numbers) == "ratio_clip:0.2:0.28,tis:3"
    for wrong in ("tis", "tis:1:2", "tis:99", "tis:nan", "is_masked", "tis:x", "soap:1"):
        with pytest.raises(ValueError, match=r"."):
            numbers_from_text(wrong)


def test_nll_of_tool_tokens_is_told_by_tool():
    tokens = step_tokens([3], {"logprobs": [-1, -2, -6], "sft_mask": [0, 1, 1]})
    (every,) = mismatch.sft_nll(tokens)
    assert (every.tokens, every.mean, every.largest) == (2, 4, 6)
