"""Rules that look over a run and say where to look first. Leads, never verdicts.

A rule is a function of the facts and its own thresholds that yields Findings. To add one: write it in
the file whose story it belongs to, list it in RULES, give it a table in thresholds.toml, and a test
that it fires and one that it stays silent.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from board.core.findings import (
    kl_rules,
    learning_rules,
    log_rules,
    reward_rules,
    text_rules,
)
from board.core.findings.facts import Facts
from board.core.findings.finding import Finding, Limits, Thresholds, worst_first
from board.core.metrics.definitions import REWARD_PART

State = Literal["checked", "not recorded", "off", "not read"]
Needs = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """needs: columns of the table of rollouts, one of each entry; REWARD_PART is any part of the reward.
    needs_tokens: whether it looks at what was read of tokens.
    """

    look: Callable[[Facts, Limits], Iterator[Finding]]
    needs: Needs = ()
    needs_tokens: bool = False

    @property
    def name(self) -> str:
        """Its function's, and of its table in thresholds.toml."""
        return self.look.__name__

    @property
    def about(self) -> str:
        """What it looks for, in a sentence."""
        return (inspect.getdoc(self.look) or self.name).split("\n\n")[0].replace("\n", " ")


_K3: Final = (("k3_mean",),)
_REWARD: Final = (("reward",),)
_GROUPS: Final = (("group_id",), ("reward",))
_RESPONSE: Final = (("response", "response_tokens"),)
_GROUPED_RESPONSE: Final = (("group_id",), *_RESPONSE)
# Arrays of NaN alone have no mean: their gaps are counted all the same.
_ARRAYS: Final = (("logprobs_mean", "entropy_mean", "loss_tokens", "missing_values"),)
_PAIRS: Final = (("k3_mean", "mismatch_kl_mean", "importance_ratio_mean"),)
_SAMPLER: Final = (("mismatch_kl_mean",),)

RULES: Final = (
    Rule(log_rules.misaligned, _PAIRS, needs_tokens=True),
    Rule(log_rules.duplicated_rollouts, (("rollout_id",),)),
    Rule(log_rules.stopped_rank, (("rank",),)),
    Rule(log_rules.missing_values, _ARRAYS, needs_tokens=True),
    Rule(log_rules.unequal_arrays, _ARRAYS, needs_tokens=True),
    Rule(log_rules.resumed),
    Rule(log_rules.clock_gap, (("timestamp",),)),
    Rule(kl_rules.kl_spike, _K3),
    Rule(kl_rules.token_type_kl, _K3, needs_tokens=True),
    Rule(learning_rules.entropy_collapse, (("entropy_mean",),)),
    Rule(learning_rules.zero_gradient, _GROUPS),
    Rule(learning_rules.advantages, (*_GROUPS, ("advantage",))),
    Rule(reward_rules.truncation, (("is_truncated",),)),
    Rule(reward_rules.length_without_gain, (("response_tokens",), ("reward", REWARD_PART))),
    Rule(reward_rules.reward_length, (*_GROUPS, ("response_tokens",))),
    Rule(reward_rules.part_falls, (*_REWARD, (REWARD_PART,))),
    Rule(reward_rules.hidden_env, (("env",), *_REWARD)),
    Rule(reward_rules.reward_outliers, _REWARD),
    Rule(reward_rules.unscored, _REWARD),
    Rule(text_rules.repetition, _RESPONSE, needs_tokens=True),
    Rule(text_rules.garbled, _RESPONSE, needs_tokens=True),
    Rule(text_rules.foreign_script, _RESPONSE, needs_tokens=True),
    Rule(text_rules.duplicates, _GROUPED_RESPONSE, needs_tokens=True),
    Rule(text_rules.same_everywhere, _GROUPED_RESPONSE, needs_tokens=True),
    Rule(kl_rules.mismatch, _SAMPLER, needs_tokens=True),
    Rule(kl_rules.mismatch_drift, _SAMPLER, needs_tokens=True),
)
TOKEN_RULES: Final = frozenset(rule.name for rule in RULES if rule.needs_tokens)

_WORDS: Final = {
    "k3_mean": "logprobs and ref_logprobs",
    "mismatch_kl_mean": "logprobs and sampling_logprobs",
    "importance_ratio_mean": "logprobs and old_logprobs",
    "logprobs_mean": "logprobs",
    "entropy_mean": "entropy",
    "loss_tokens": "token arrays",
    "missing_values": "token arrays",
    "response_tokens": "response tokens",
    REWARD_PART: "parts of the reward",
}


def find(facts: Facts, thresholds: Thresholds) -> list[Finding]:
    """What all rules find, the worst first. A rule whose table says enabled = 0 is left out."""
    findings: list[Finding] = []
    for rule in RULES:
        limits = thresholds[rule.name]
        if limits.get("enabled", 1.0) and len(facts.steps):
            findings += rule.look(facts, limits)
    return worst_first(findings)


@dataclass(frozen=True, slots=True)
class Coverage:
    """Whether a rule checked the run, and if not, why: a rule without data says nothing about a run.

    about: what it looks for. missing: what is not recorded.
    """

    rule: str
    about: str
    state: State
    missing: str = ""


def coverage(
    columns: Collection[str], thresholds: Thresholds, *, tokens_read: bool
) -> list[Coverage]:
    """Of every rule. columns: of the table of rollouts. tokens_read: whether token arrays were read."""
    # Any part of the reward serves for what REWARD_PART stands for.
    known = {REWARD_PART if name.startswith(REWARD_PART) else name for name in columns}
    covered: list[Coverage] = []
    for rule in RULES:
        state: State = "checked"
        missing = [needs for needs in rule.needs if known.isdisjoint(needs)]
        if not thresholds[rule.name].get("enabled", 1.0):
            state, missing = "off", []
        elif missing:
            state = "not recorded"
        elif rule.needs_tokens and not tokens_read:
            state = "not read"
        words = (" or ".join(dict.fromkeys(_WORDS.get(n, n) for n in needs)) for needs in missing)
        covered.append(Coverage(rule.name, rule.about, state, " and ".join(words)))
    return covered
