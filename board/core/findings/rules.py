"""Rules that look over a run and say where to look first. Leads, never verdicts.

A rule is a function of the facts and its own thresholds that yields what it found. To add one: write it
in the file whose story it belongs to, list it in RULES, give it a table in rules.toml (what it needs,
and what its findings are called) and one in thresholds.toml, and a test that it fires and one that it
stays silent.
"""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Final

import numpy as np

from board.core.findings import (
    change_rules,
    contradiction_rules,
    failure_rules,
    kl_rules,
    learning_rules,
    log_rules,
    reward_rules,
    text_rules,
)
from board.core.findings.facts import Facts
from board.core.findings.finding import Finding, Limits, Match, Thresholds, merged, worst_first


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule with its table in rules.toml.

    needs: columns of the table of rollouts, one of each entry; REWARD_PART is any part of the reward.
    needs_tokens: whether it looks at what was read of tokens. needs_steps, needs_rollouts: numbers and
    names of thresholds, whose sum is how many must be recorded. title, unit, source: of its findings.
    effects: rules whose findings may follow from one of this rule.
    """

    check: Callable[[Facts, Limits], Iterator[Match]]
    needs: Sequence[Sequence[str]] = ()
    needs_tokens: bool = False
    needs_steps: Sequence[str | int] = (1,)
    needs_rollouts: Sequence[str | int] = ()
    title: str = ""
    unit: str = ""
    source: str = "threshold set by Rollout Board"
    effects: Sequence[str] = ()

    @property
    def name(self) -> str:
        """Its function's, and of its tables in rules.toml and thresholds.toml."""
        return self.check.__name__

    @property
    def about(self) -> str:
        """What it looks for, in a sentence."""
        return (inspect.getdoc(self.check) or self.name).split("\n\n")[0].replace("\n", " ")

    def findings(self, facts: Facts, limits: Limits) -> Iterator[Finding]:
        """What it finds. What rests on one rollout alone is a lead at most."""
        for one in self.check(facts, limits):
            _, first, last = one.steps
            count = len(facts.steps)
            if first is not None and last is not None:
                count = int(np.count_nonzero((facts.steps >= first) & (facts.steps <= last)))
            yield Finding(
                self.name,
                "lead" if one.rollouts == 1 else one.severity,
                one.title or self.title,
                one.text,
                *one.steps,
                one.value,
                one.threshold,
                one.source or self.source,
                one.target,
                one.unit or self.unit,
                one.evidence,
                one.strength(count),
                one.subject,
                () if one.steps[0] is None else (one.steps,),
            )


def _rules(*checks: Callable[[Facts, Limits], Iterator[Match]]) -> tuple[Rule, ...]:
    table = (
        resources.files("board.core.findings").joinpath("rules.toml").read_text(encoding="utf-8")
    )
    about = tomllib.loads(table)
    return tuple(Rule(check, **about[check.__name__]) for check in checks)


RULES: Final = _rules(
    log_rules.misaligned,
    log_rules.duplicated_rollouts,
    log_rules.stopped_rank,
    log_rules.missing_values,
    log_rules.unequal_arrays,
    log_rules.resumed,
    log_rules.clock_gap,
    log_rules.trainer_differs,
    contradiction_rules.contradiction,
    change_rules.change,
    kl_rules.kl_spike,
    learning_rules.entropy_collapse,
    learning_rules.zero_std_groups,
    learning_rules.advantages,
    reward_rules.truncation,
    reward_rules.reward_length,
    reward_rules.part_falls,
    reward_rules.reward_outliers,
    reward_rules.unscored,
    failure_rules.plumbing,
    failure_rules.burst,
    failure_rules.placeholder_reward,
    text_rules.repetition,
    text_rules.garbled,
    text_rules.duplicates,
    text_rules.same_everywhere,
    kl_rules.mismatch,
)
TOKEN_RULES: Final = frozenset(rule.name for rule in RULES if rule.needs_tokens)


def find(
    facts: Facts, thresholds: Thresholds, only: Collection[str] | None = None
) -> list[Finding]:
    """What all rules find, the worst first; only: those of these names. A rule whose table says
    enabled = 0 is left out.
    """
    findings: list[Finding] = []
    for rule in RULES:
        limits = thresholds[rule.name]
        is_asked = only is None or rule.name in only
        if is_asked and limits.get("enabled", 1.0) and len(facts.steps):
            findings += rule.findings(facts, limits)
    return in_order(merged(findings))


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Findings of any rules, the worst first and causes before their effects."""
    return worst_first(findings, {rule.name: rule.effects for rule in RULES})
