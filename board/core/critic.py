"""What the critic's values say about each token."""

from __future__ import annotations

import numpy as np

from board.core.kl import FloatArray


def td_error(token_rewards: FloatArray, values: FloatArray) -> FloatArray:
    """token_rewards[t] + values[t + 1] - values[t], with 0 for the value after the last token.

    Both [R], same unit as the reward. Discount 1, as GAE for language models has it by default
    (arXiv 1506.02438, eq. 10, with gamma = 1; verl `algorithm.gamma: 1.0`): a run with another one
    should record its own `td_error`. NaN in an input gives NaN. Raises ValueError on unequal lengths.
    """
    if token_rewards.shape != values.shape:
        raise ValueError(f"{len(token_rewards)} token_rewards for {len(values)} values")
    following = np.append(values[1:], 0.0) if len(values) else values
    with np.errstate(invalid="ignore"):
        return token_rewards + following - values
