"""Every fault with the rule that is to find it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from faults import plant
from faults.scene import Log, Planted


@dataclass(frozen=True)
class Fault:
    """One fault. what: in words, at the size of 1. plant: changes a log and says what it changed. rule:
    that is to find it, as at least `severity`. also: rules that the same fault trips rightly. tokens:
    whether tokens are read to find it. is_gradual: it is beyond a threshold only some steps after it
    begins. needs: keys of the log's lines without which it can't be planted; ranks: how many at least.
    """

    name: str
    what: str
    plant: Callable[[Log], Planted]
    rule: str
    severity: str = "severe"
    also: frozenset[str] = frozenset()
    tokens: bool = False
    is_gradual: bool = False
    needs: frozenset[str] = frozenset()
    ranks: int = 1

    def fits(self, log: Log) -> bool:
        """Whether a log has what the fault changes."""
        lines = log.step(log.scene.at)
        known = {key for line in lines for key in line}
        return self.needs <= known and len({line["rank"] for line in lines}) >= self.ranks


FAULTS = (
    Fault(
        "off by one",
        "logprobs are of the next token",
        plant.shift_logprobs,
        "misaligned",
        also=frozenset(("kl_spike", "mismatch", "token_type_kl")),
        tokens=True,
    ),
    Fault(
        "reference off by one",
        "ref_logprobs are of the token before",
        plant.shift_reference,
        "misaligned",
        also=frozenset(("kl_spike", "token_type_kl")),
        tokens=True,
    ),
    Fault(
        "one rank off by one",
        "sampling_logprobs of rank 1 are of the token before",
        plant.shift_one_rank,
        "misaligned",
        also=frozenset(("mismatch",)),
        tokens=True,
        ranks=2,
    ),
    Fault(
        "KL of one token type",
        "`<eos>` is 12 nats less likely for the reference",
        plant.blow_up_eos,
        "token_type_kl",
        also=frozenset(("kl_spike",)),
        tokens=True,
    ),
    Fault(
        "one token",
        "token 5 of a rollout is 6.5 nats likelier for the reference",
        plant.one_token,
        "kl_spike",
        severity="lead",
        tokens=True,
    ),
    Fault(
        "policy leaves",
        "all tokens are less likely for the reference, by noise of 1.5 nats",
        plant.leave_reference,
        "kl_spike",
        also=frozenset(("token_type_kl",)),
    ),
    Fault(
        "sampler drift",
        "noise on sampling_logprobs grows by 0.01 nats a step, from 8 steps before",
        plant.drift,
        "mismatch",
        tokens=True,
        is_gradual=True,
    ),
    Fault(
        "slow sampler drift",
        "noise on sampling_logprobs grows by 0.002 nats a step, from 8 steps before",
        plant.drift_slowly,
        "mismatch_drift",
        severity="warning",
        tokens=True,
        is_gradual=True,
    ),
    Fault(
        "stale sampler",
        "noise of 0.2 nats on sampling_logprobs",
        plant.stale_sampler,
        "mismatch",
        tokens=True,
    ),
    Fault(
        "collapsed groups",
        "all rewards of a group are its first",
        plant.collapse_groups,
        "zero_gradient",
    ),
    Fault("truncation", "5 of 8 responses cut off", plant.truncate, "truncation"),
    Fault(
        "repetition",
        "three rollouts end in 12 times the same 3 tokens",
        plant.go_in_circles,
        "repetition",
        severity="warning",
        also=frozenset(("kl_spike", "mismatch")),
        tokens=True,
    ),
    Fault(
        "duplicated rank",
        "rank 1 logs rank 0's rollouts",
        plant.duplicate_rank,
        "duplicated_rollouts",
        ranks=2,
    ),
    Fault("resume", "four steps are written twice", plant.resume, "resumed", severity="lead"),
    Fault(
        "reward hack",
        "format pays 1.5, nothing is right, from 4 steps before",
        plant.hack_reward,
        "part_falls",
        also=frozenset(("zero_gradient",)),
    ),
    Fault(
        "garbled bytes",
        "8 bytes that are no text in two rollouts",
        plant.garble,
        "garbled",
        severity="warning",
        tokens=True,
    ),
    Fault("stopped rank", "rank 1 writes no more", plant.stop_rank, "stopped_rank", ranks=2),
    Fault(
        "duplicate responses",
        "all responses of a group are its least likely one",
        plant.repeat_responses,
        "duplicates",
        tokens=True,
    ),
    Fault(
        "one response to all",
        "all responses of a step are its first",
        plant.say_one_thing,
        "same_everywhere",
        also=frozenset(("duplicates",)),
        tokens=True,
    ),
    Fault(
        "gaps",
        "every tenth value of logprobs is null",
        plant.lose_values,
        "missing_values",
        severity="warning",
        tokens=True,
    ),
    Fault(
        "arrays end",
        "logprobs and entropy are null",
        plant.end_arrays,
        "missing_values",
        severity="warning",
        tokens=True,
    ),
    Fault(
        "unequal arrays",
        "ref_logprobs of every fourth rollout lack the last token",
        plant.cut_array,
        "unequal_arrays",
        severity="warning",
        tokens=True,
    ),
    Fault("entropy collapse", "entropy is a 50th", plant.collapse_entropy, "entropy_collapse"),
    Fault("reward outlier", "one rollout has reward 50", plant.one_reward, "reward_outliers"),
    Fault(
        "one env fails",
        "the reward of env add is 0, that of env subtract 1 higher",
        plant.fail_one_env,
        "hidden_env",
        severity="warning",
        also=frozenset(("zero_gradient",)),
    ),
    Fault(
        "lost rewards",
        "every fifth reward is null",
        plant.lose_rewards,
        "unscored",
        severity="warning",
    ),
    Fault(
        "flipped advantages",
        "advantages have the other sign",
        plant.flip_advantages,
        "advantages",
        severity="warning",
        needs=frozenset(("advantage",)),
    ),
    Fault(
        "length pays",
        "reward is 0.02 a character",
        plant.pay_length,
        "reward_length",
        severity="lead",
    ),
    Fault(
        "longer, not better",
        "responses are said twice",
        plant.grow,
        "length_without_gain",
        severity="warning",
        also=frozenset(("truncation",)),
    ),
    Fault(
        "another script",
        "every sixth token is Chinese",
        plant.switch_script,
        "foreign_script",
        severity="lead",
        tokens=True,
    ),
    Fault(
        "pause", "two hours between two steps", plant.stop_the_clock, "clock_gap", severity="lead"
    ),
)
