"""What the critic's values say about each token."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from board.core.metrics.kl import FloatArray


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
    under `algorithm` (verl). What is no number in 0..1 is passed over.
    """
    config = _fields(settings.get("config"))
    for part in (settings, config, _fields(config.get("algorithm"))):
        gamma = part.get("gamma")
        if isinstance(gamma, int | float) and not isinstance(gamma, bool) and 0 <= gamma <= 1:
            return float(gamma)
    return 1.0


def _fields(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
