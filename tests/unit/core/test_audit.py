from __future__ import annotations

import numpy as np
import pytest
from made_tokens import step_tokens

from board.core.audit import audit, audit_pair, culprit

DICE = np.random.default_rng(0)
TRUE = -DICE.exponential(size=400)


def near(values: np.ndarray) -> list[float]:
    return (values + DICE.normal(scale=0.01, size=len(values))).tolist()


@pytest.mark.parametrize("shift", [-1, 0, 1])
def test_the_shift_that_was_made_is_found(shift: int) -> None:
    tokens = step_tokens(
        [400], {"logprobs": np.roll(TRUE, -shift).tolist(), "sampling_logprobs": near(TRUE)}
    )
    assert audit_pair(tokens, "logprobs", "sampling_logprobs").shift == shift


def test_unrelated_arrays_have_no_best_shift() -> None:
    arrays = {"logprobs": near(TRUE), "ref_logprobs": near(-DICE.exponential(size=400))}
    assert audit_pair(step_tokens([400], arrays), "logprobs", "ref_logprobs").shift == 0


def test_few_tokens_say_nothing() -> None:
    arrays = {"logprobs": near(TRUE[:50]), "ref_logprobs": near(TRUE[:50])}
    assert audit_pair(step_tokens([50], arrays), "logprobs", "ref_logprobs").shift is None


def test_the_array_that_shifted_pairs_share_is_the_culprit() -> None:
    arrays = {
        "logprobs": np.roll(TRUE, 1).tolist(),
        "sampling_logprobs": near(TRUE),
        "ref_logprobs": near(TRUE),
    }
    assert culprit(audit(step_tokens([400], arrays))) == "logprobs"
    assert culprit([]) is None


def test_a_shift_does_not_reach_into_the_next_rollout() -> None:
    lengths = [1] * 400  # no token has a neighbour
    tokens = step_tokens(lengths, {"logprobs": near(TRUE), "ref_logprobs": near(TRUE)})
    found = audit_pair(tokens, "logprobs", "ref_logprobs")
    assert np.isnan(found.correlations[1])
    assert found.shift == 0
