"""Many rollouts reduced at once give what one loop per rollout gives."""

import math

import numpy as np
import pytest

from board.core.metrics import aggregate
from board.core.metrics.aggregate import COLUMNS, Aggregator

NAN = float("nan")
SIGNATURES = (
    ("loss_mask", "logprobs", "ref_logprobs", "old_logprobs", "sampling_logprobs", "entropy"),
    ("logprobs", "ref_logprobs"),
    ("loss_mask", "entropy"),
    ("logprobs",),
    ("loss_mask", "ref_logprobs", "logprobs"),
    (),
)


def reference(arrays: dict[str, np.ndarray]) -> dict[str, float]:
    """The columns of one rollout, token by token in plain Python."""

    def per_token(needs, formula):
        if not all(need in arrays for need in needs):
            return None
        return np.array(
            [formula(*values) for values in zip(*(arrays[n].tolist() for n in needs), strict=True)]
        )

    def excess(x):
        return math.exp(x) - 1 - x if math.isfinite(x) else abs(x)

    policies = ("logprobs", "ref_logprobs")
    engines = ("logprobs", "sampling_logprobs")
    metrics = {
        "k1": per_token(policies, lambda p, q: p - q),
        "k2": per_token(policies, lambda p, q: (p - q) ** 2 / 2),
        "k3": per_token(policies, lambda p, q: excess(q - p)),
        "k3_by_ratio": per_token(
            (*policies, "old_logprobs"), lambda p, q, old: excess(q - p) * math.exp(p - old)
        ),
        "mismatch_kl": per_token(engines, lambda p, q: excess(p - q)),
        "mismatch_ratio": per_token(engines, lambda p, q: math.exp(p - q)),
        "importance_ratio": per_token(("logprobs", "old_logprobs"), lambda p, q: math.exp(p - q)),
        "entropy": per_token(("entropy",), lambda e: e),
        "logprobs": per_token(("logprobs",), lambda p: p),
        **{
            name: per_token((name,), lambda masked: masked)
            for name in ("is_masked", "is_masked_high", "is_masked_low", "clipped")
        },
    }
    mask = arrays.get("loss_mask")
    row = dict.fromkeys(COLUMNS, NAN)
    for column, metric, reduction in aggregate.REDUCTIONS:
        values = metrics[metric]
        if values is None or len(values) == 0:
            continue
        remaining = [
            v for i, v in enumerate(values) if math.isfinite(v) and (mask is None or mask[i] > 0)
        ]
        if reduction == "mean":
            row[column] = math.fsum(remaining) / len(remaining) if remaining else NAN
        else:
            row[column] = max(remaining, default=NAN)
    length = len(next(iter(arrays.values()), []))
    if length:
        in_loss = np.ones(length) if mask is None else mask
        if mask is not None:
            row["loss_tokens"] = float((mask > 0).sum())
        row["missing_values"] = float(
            sum(
                in_loss[i] > 0 and not math.isfinite(values[i])
                for name, values in arrays.items()
                if name != "loss_mask"
                for i in range(length)
            )
        )
    return row


def random_rollout(random: np.random.Generator) -> dict[str, np.ndarray]:
    length = int(random.choice([0, 1, 2, 7, 40]))
    arrays = {}
    for name in SIGNATURES[random.integers(len(SIGNATURES))]:
        if name == "loss_mask":
            arrays[name] = (random.random(length) < random.choice([0.0, 0.5, 1.0])).astype(float)
            continue
        values = random.normal(-1, 1, length)
        values[random.random(length) < 0.1] = random.choice([NAN, -math.inf])
        arrays[name] = values
    return arrays


@pytest.mark.parametrize("max_pending", [1, 10, 64, 1 << 19])
def test_rollouts_reduced_together_equal_rollouts_reduced_one_by_one(monkeypatch, max_pending):
    monkeypatch.setattr(aggregate, "_MAX_PENDING_TOKENS", max_pending)
    random = np.random.default_rng(max_pending)
    rollouts = [random_rollout(random) for _ in range(300)]
    aggregator = Aggregator()
    for arrays in rollouts:
        aggregator.add(arrays)
    columns = aggregator.finish()
    assert tuple(columns) == COLUMNS
    expected = [reference(arrays) for arrays in rollouts]
    for name in COLUMNS:
        wanted = np.array([row[name] for row in expected])
        np.testing.assert_allclose(columns[name], wanted, rtol=1e-9, atol=1e-12, err_msg=name)


def test_without_any_array_there_are_no_columns():
    assert Aggregator().finish() == {}
