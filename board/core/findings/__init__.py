"""Rules that look over a run and say where to look first. Leads, never verdicts.

A rule is a function of the facts and its own thresholds that yields Findings. To add one: write it in
the file whose story it belongs to, name it in RULES, give it a table in thresholds.toml, and a test
that it fires and one that it stays silent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from board.core.findings import (
    kl_rules,
    learning_rules,
    length_rules,
    log_rules,
    mismatch_rules,
    reward_rules,
    text_rules,
)
from board.core.findings.facts import Facts
from board.core.findings.finding import Finding, worst_first
from board.core.findings.thresholds import Limits, Thresholds

__all__ = ["RULES", "TOKEN_RULES", "Rule", "find"]


@dataclass(frozen=True, slots=True)
class Rule:
    """name: of its table in thresholds.toml. needs_tokens: it looks at what was read of tokens."""

    name: str
    look: Callable[[Facts, Limits], Iterator[Finding]]
    needs_tokens: bool = False


RULES: Final = (
    Rule("misaligned", log_rules.misaligned, needs_tokens=True),
    Rule("duplicated_rollouts", log_rules.duplicated_rollouts),
    Rule("stopped_rank", log_rules.stopped_rank),
    Rule("missing_values", log_rules.missing_values, needs_tokens=True),
    Rule("unequal_arrays", log_rules.unequal_arrays, needs_tokens=True),
    Rule("resumed", log_rules.resumed),
    Rule("clock_gap", log_rules.clock_gap),
    Rule("kl_spike", kl_rules.kl_spike),
    Rule("token_type_kl", kl_rules.token_type_kl, needs_tokens=True),
    Rule("entropy_collapse", learning_rules.entropy_collapse),
    Rule("zero_gradient", learning_rules.zero_gradient),
    Rule("advantages", learning_rules.advantages),
    Rule("truncation", length_rules.truncation),
    Rule("length_without_gain", length_rules.length_without_gain),
    Rule("reward_length", length_rules.reward_length),
    Rule("part_falls", reward_rules.part_falls),
    Rule("hidden_env", reward_rules.hidden_env),
    Rule("reward_outliers", reward_rules.reward_outliers),
    Rule("unscored", reward_rules.unscored),
    Rule("repetition", text_rules.repetition, needs_tokens=True),
    Rule("garbled", text_rules.garbled, needs_tokens=True),
    Rule("foreign_script", text_rules.foreign_script, needs_tokens=True),
    Rule("duplicates", text_rules.duplicates, needs_tokens=True),
    Rule("same_everywhere", text_rules.same_everywhere, needs_tokens=True),
    Rule("mismatch", mismatch_rules.mismatch, needs_tokens=True),
    Rule("mismatch_drift", mismatch_rules.mismatch_drift, needs_tokens=True),
)
TOKEN_RULES: Final = frozenset(rule.name for rule in RULES if rule.needs_tokens)


def find(facts: Facts, thresholds: Thresholds) -> list[Finding]:
    """What all rules find, the worst first. A rule whose table says enabled = 0 is left out."""
    findings: list[Finding] = []
    for rule in RULES:
        limits = thresholds[rule.name]
        if limits.get("enabled", 1.0) and len(facts.steps):
            findings += rule.look(facts, limits)
    return worst_first(findings)
