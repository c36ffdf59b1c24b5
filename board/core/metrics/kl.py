"""Estimators that compare two policies token by token, each with its definition and direction.

All inputs are natural-log probabilities of the sampled tokens, float arrays of any one shape; all
results are float64 of that shape, in nats where they have a unit. NaN in either input gives NaN.

Source of k1, k2, k3: J. Schulman, "Approximating KL Divergence" (2020),
http://joschu.net/blog/kl-approx.html. With tokens sampled from the policy p and r = q(x)/p(x), all
three estimate KL(p‖q): k1 = -log r, k2 = (log r)²/2, k3 = (r - 1) - log r.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from board.core.arrays import FloatArray
from board.core.records import is_number
from board.core.texts.messages import as_fields

MAX_LOG_RATIO = 80.0
"""Log-ratios are clamped here before exp(), instead of an overflow. An infinite log-ratio gives an
infinity: means leave it out and count it as missing."""
FILL = -1e4
"""A log-probability below it is none: exp() of it is 0 in every precision that is trained in, and masks
write such numbers (-1e4, -65504 in float16, -1e9, -3.4e38 in float32). It is taken as -inf."""


def without_fill(logprobs: npt.ArrayLike) -> FloatArray:
    """Log-probabilities, any shape, with -inf for those not above FILL; the same array where all are."""
    values = np.asarray(logprobs, np.float64)
    if not np.fmin.reduce(values, axis=None, initial=0.0) <= FILL:
        return values
    return np.where(values <= FILL, -np.inf, values)


def _difference(a: npt.ArrayLike, b: npt.ArrayLike) -> FloatArray:
    left, right = without_fill(a), without_fill(b)
    if left.shape != right.shape:
        raise ValueError(f"log-probabilities of unequal shapes: {left.shape} and {right.shape}")
    with np.errstate(invalid="ignore", over="ignore"):
        return left - right


def _excess(log_ratio: FloatArray) -> FloatArray:
    """exp(x) - 1 - x, exact near zero: expm1 keeps the digits that exp(x) - 1 loses."""
    if not _is_moderate(log_ratio):
        clamped = np.minimum(log_ratio, MAX_LOG_RATIO)
        return np.where(log_ratio == np.inf, np.inf, _excess(clamped))
    growth = np.expm1(log_ratio)
    growth -= log_ratio
    # Never negative, and the last bit of expm1 must not make it so.
    return np.maximum(growth, 0.0)


def _ratio(log_ratio: FloatArray) -> FloatArray:
    if _is_moderate(log_ratio):
        return np.exp(log_ratio)
    clamped = np.exp(np.minimum(log_ratio, MAX_LOG_RATIO))
    return np.where(log_ratio == np.inf, np.inf, clamped)


def _is_moderate(log_ratio: FloatArray) -> bool:
    """Whether no entry has to be clamped: the quick test."""
    return not np.fmax.reduce(log_ratio, axis=None, initial=-np.inf) > MAX_LOG_RATIO


def k1(logprobs: npt.ArrayLike, ref_logprobs: npt.ArrayLike) -> FloatArray:
    """KL(policy‖reference), estimator k1 = logprobs - ref_logprobs, in nats.

    Unbiased under tokens sampled from the policy; single tokens may be negative.
    """
    return _difference(logprobs, ref_logprobs)


def k2(logprobs: npt.ArrayLike, ref_logprobs: npt.ArrayLike) -> FloatArray:
    """KL(policy‖reference), estimator k2 = (logprobs - ref_logprobs)² / 2, in nats.

    Biased, never negative, symmetric in the two policies.
    """
    difference = _difference(logprobs, ref_logprobs)
    with np.errstate(over="ignore"):
        return 0.5 * difference**2


def k3(logprobs: npt.ArrayLike, ref_logprobs: npt.ArrayLike) -> FloatArray:
    """KL(policy‖reference), estimator k3 = exp(-d) - 1 + d with d = logprobs - ref_logprobs, in nats.

    Unbiased under tokens sampled from the policy, never negative, low variance. RLLoggingBoard's
    own `kl` is exp(d) - 1 - d: this with the sign of d reversed, hence a different quantity.
    """
    return _excess(_difference(ref_logprobs, logprobs))


def reference(
    logprobs: npt.ArrayLike, ref_logprobs: npt.ArrayLike
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """k1, k2 and k3 at the price of one difference."""
    difference = _difference(logprobs, ref_logprobs)
    with np.errstate(over="ignore"):
        return difference, 0.5 * difference**2, _excess(-difference)


def k3_by_ratio(
    logprobs: npt.ArrayLike, ref_logprobs: npt.ArrayLike, old_logprobs: npt.ArrayLike
) -> FloatArray:
    """k3 times the importance ratio exp(logprobs - old_logprobs), in nats.

    Unbiased where the old policy drew the tokens. It is what TRL 1.16 puts into the loss by default
    (`use_bias_correction_kl`, trl/trainer/grpo_trainer.py:3104).
    """
    return k3(logprobs, ref_logprobs) * ratio(logprobs, old_logprobs)


K3_LOG_RATIO_LIMIT = 20.0
K3_LIMIT = 10.0


def k3_clamped(logprobs: npt.ArrayLike, ref_logprobs: npt.ArrayLike) -> FloatArray:
    """k3 as trainers clamp it: the log-ratio to ±20 before exp(), the result to at most 10 nats.

    Differs from k3 only where the policies are worlds apart; there it is what enters the loss. Source:
    verl@1dda039 verl/trainer/ppo/core_algos.py, `low_var_kl`.
    """
    difference = _difference(ref_logprobs, logprobs)
    clamped = np.clip(difference, -K3_LOG_RATIO_LIMIT, K3_LOG_RATIO_LIMIT)
    return np.minimum(_excess(clamped), K3_LIMIT)


def ratio(logprobs: npt.ArrayLike, others: npt.ArrayLike) -> FloatArray:
    """exp(logprobs - others), the probability under one policy over that under another; no unit.

    Above 1: the first policy makes the token more likely. The importance ratio is trainer over trainer
    before its updates, as PPO and GRPO clip it (arXiv 1707.06347); the mismatch ratio trainer over
    sampler; the engine ratio trainer before its updates over sampler, which TIS truncates and IcePop
    bounds.
    Sources of the last: verl@1dda039 verl/trainer/ppo/rollout_corr_helper.py; TRL@f2cd577
    trl/trainer/grpo_trainer.py; NeMo-RL@7ea279a nemo_rl/algorithms/loss/loss_functions.py,
    prev_logprobs - generation_logprobs.
    """
    return _ratio(_difference(logprobs, others))


def mismatch_kl(logprobs: npt.ArrayLike, sampling_logprobs: npt.ArrayLike) -> FloatArray:
    """KL(sampler‖trainer), r - 1 - log r with r = exp(logprobs - sampling_logprobs), in nats.

    This is k3 with the sampling engine as the policy that drew the tokens, as prime-rl logs it
    (prime-rl@559b447 src/prime_rl/trainer/rl/loss.py).
    """
    return _excess(_difference(logprobs, sampling_logprobs))


def mismatch(
    logprobs: npt.ArrayLike, sampling_logprobs: npt.ArrayLike
) -> tuple[FloatArray, FloatArray]:
    """`ratio` and `mismatch_kl` at the price of one exponential; the first may differ from that of
    `ratio` in its last bit.
    """
    difference = _difference(logprobs, sampling_logprobs)
    if not _is_moderate(difference):
        return _ratio(difference), _excess(difference)
    growth = np.expm1(difference)
    return growth + 1.0, np.maximum(growth - difference, 0.0)


def probability(logprobs: npt.ArrayLike) -> FloatArray:
    """exp(logprobs), the probability that the policy gave the sampled token, 0 to 1."""
    with np.errstate(over="ignore"):  # a positive log-probability is not one of any probability
        return np.exp(np.asarray(logprobs, np.float64))


def prob_delta(logprobs: npt.ArrayLike, sampling_logprobs: npt.ArrayLike) -> FloatArray:
    """exp(logprobs) - exp(sampling_logprobs), trainer minus sampler, -1 to 1; no unit.

    Its size is the total variation between the two policies when all but the sampled token are taken
    as one (binary TV). Source: DPPO, arXiv 2602.04879; prime-rl@559b447
    src/prime_rl/trainer/rl/loss.py.
    """
    _difference(logprobs, sampling_logprobs)  # refuses unequal shapes
    with np.errstate(invalid="ignore"):
        return probability(logprobs) - probability(sampling_logprobs)


def td_error(token_rewards: FloatArray, values: FloatArray, gamma: float = 1.0) -> FloatArray:
    """token_rewards[t] + gamma * values[t + 1] - values[t], with 0 for the value after the last token.

    Both [R], same unit as the reward: the one-step error δ of GAE (arXiv 1506.02438). gamma: 1
    as language-model trainers have it by default (verl `algorithm.gamma: 1.0`). GAE's λ weighs sums of
    these errors and does not enter here. A response cut off by the length limit gets no value after its
    end either, as in these trainers. NaN in an input gives NaN. Raises ValueError on unequal lengths.
    """
    if token_rewards.shape != values.shape:
        raise ValueError(f"{len(token_rewards)} token_rewards for {len(values)} values")
    following = np.append(values[1:], 0.0) if len(values) else values
    with np.errstate(invalid="ignore"):
        return token_rewards + gamma * following - values


def recorded_gamma(settings: Mapping[str, Any]) -> float:
    """The discount that a run's settings name; 1 without one.

    settings: the content of run-*.json; looked for as `gamma` at the top and in `config`, and there
    under `algorithm` (verl). Anything but a number in 0..1 is passed over.
    """
    config = as_fields(settings.get("config")) or {}
    parts = (settings, config, as_fields(config.get("algorithm")) or {})
    known = (part.get("gamma") for part in parts)
    return next((float(gamma) for gamma in known if is_number(gamma) and 0 <= gamma <= 1), 1.0)
