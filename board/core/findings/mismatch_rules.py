"""The engine that samples is not the policy that learns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from board.core.findings.digest import Digest
from board.core.findings.facts import Facts
from board.core.findings.finding import Finding, Target, rounded
from board.core.findings.thresholds import Limits
from board.core.findings.trailing import onset, stretches
from board.core.metrics.shares import percent

_SOURCE: Final = (
    "mean exp|d|: NeMo-RL's token_mult_prob_error, to investigate above 1.05 (NeMo-RL@7ea279a "
    "docs/adding-new-models.md); ESS: verl@1dda039 docs/algo/rollout_corr.md, which warns below 0.3; the "
    "severe thresholds are set by Rollout Board; effect on training: Yao et al. 2025, Your Efficient RL "
    "Framework Secretly Brings You Off-Policy RL Training"
)
_DRIFT_SOURCE: Final = (
    "NeMo-RL@7ea279a docs/guides/grpo.md: where token_mult_prob_error trends upward past 1 to 2 %, "
    "weights are usually not updated as they should be; the factor 3 is set by Rollout Board"
)
_EBB: Final = 4


def mismatch(facts: Facts, limits: Limits) -> Iterator[Finding]:
    """Sampler and trainer give tokens other probabilities, with the same weights where that is known.

    A run without old_logprobs whose trainer makes several updates of a batch has staleness in it too.
    """
    digests = facts.digests
    values = np.array([d.engine.multiplicative if d.engine else np.nan for d in digests])
    ess = np.array([d.engine.ess if d.engine else np.nan for d in digests])
    for stretch in stretches(values > limits["warning"], np.nan_to_num(values)):
        digest = digests[stretch.worst]
        part = slice(stretch.first, stretch.last + 1)
        far = (values[part] > limits["severe"]) | (ess[part] < limits["ess"])
        # One step alone may be one token that was sampled against all odds.
        severe = int(far.sum()) >= limits["severe_steps"]
        second, first = digest.engine_pair
        yield Finding(
            "mismatch",
            "severe" if severe else "warning" if stretch.count > 1 else "lead",
            "Sampler and trainer disagree",
            f"At step {digest.step} the mean of exp|{second} - {first}| is "
            f"{rounded(float(values[stretch.worst]), 5)} and "
            f"{percent(ess[stretch.worst])} of the tokens remain effective after reweighting; the "
            f"largest difference of one token is {rounded(_largest(digest), 2)} nats. Do precision, "
            "temperature, tokenization or weights differ, or is it a single token?",
            digest.step,
            digests[stretch.first].step,
            digests[stretch.last].step,
            float(values[stretch.worst]),
            limits["warning"],
            _SOURCE,
            Target("mismatch", digest.step, metric="mismatch_kl"),
            "mean exp|d|",
            digest.engine_worst,
        )


def _largest(digest: Digest) -> float:
    return digest.engine.d_largest if digest.engine else float("nan")


def mismatch_drift(facts: Facts, limits: Limits) -> Iterator[Finding]:
    """The mismatch grows over the run, while it may still be small."""
    values = np.array([d.engine.multiplicative - 1 if d.engine else np.nan for d in facts.digests])
    steps = int(limits["steps"])
    if len(values) < 2 * steps or not np.isfinite(values[:steps]).all():
        return
    early = float(np.median(values[:steps]))
    late = np.array([np.median(values[max(i - steps + 1, 0) : i + 1]) for i in range(len(values))])
    bound = max(limits["times"] * early, limits["least"])
    fires = late > bound
    # What ebbs and comes back is one drift.
    for stretch in stretches(fires, np.nan_to_num(late), calm=_EBB * steps):
        digest = facts.digests[stretch.worst]
        first = onset(values, bound, stretch.first, steps)
        yield Finding(
            "mismatch_drift",
            "warning",
            "Sampler and trainer drift apart over time",
            f"Mean exp|d| - 1 was {rounded(early, 2)} in the first steps and is "
            f"{rounded(float(late[stretch.worst]), 2)} in those up "
            f"to {digest.step}. Are all of the sampler's weights still being updated?",
            digest.step,
            facts.digests[first].step,
            facts.digests[stretch.last].step,
            float(late[stretch.worst]),
            bound,
            _DRIFT_SOURCE,
            Target("mismatch", digest.step, metric="mismatch_kl"),
            "mean exp|d| - 1",
            digest.engine_worst,
        )
