"""Whether each rule checked a run, and if not, what it lacks: without data it says nothing about the run.

What a rule needs is in rules.toml alone: `needs`, `needs_tokens`, and `needs_steps` and `needs_rollouts`,
whose numbers are of thresholds.toml.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from board.core.findings.finding import Limits, Thresholds
from board.core.findings.rules import RULES, Rule
from board.core.metrics.definitions import REWARD_PART
from board.core.metrics.trainer import PREFIX

State = Literal["checked", "not enough data", "not recorded", "not read", "off"]

_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "k3_mean": ("logprobs", "ref_logprobs"),
    "mismatch_kl_mean": ("logprobs", "sampling_logprobs"),
    "importance_ratio_mean": ("logprobs", "old_logprobs"),
    "logprobs_mean": ("logprobs",),
    "entropy_mean": ("entropy",),
    "loss_tokens": ("token arrays",),
    "missing_values": ("token arrays",),
    "response_tokens": ("response tokens",),
    PREFIX: ("a metric of the trainer that the rollouts have, too",),
    REWARD_PART: ("parts of the reward",),
    "cause": ("a reward, a limit or a stop reason",),
}
"""By columns of the table of rollouts what a log records for them, where it has another name."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a run has for rules. columns: of its table of rollouts, and PREFIX where the trainer has
    metrics of them. steps, rollouts: how many. steps_of: by column the steps that have a mean of it.
    steps_read: of how many tokens were read; None: they were not.
    """

    columns: Collection[str]
    steps: int
    rollouts: int
    steps_of: Mapping[str, int]
    steps_read: int | None


@dataclass(frozen=True, slots=True)
class Coverage:
    """Whether a rule checked a run. about: what it looks for. missing: what it lacks, in words; keys:
    what is not recorded, each by itself.
    """

    rule: str
    about: str
    state: State
    missing: str = ""
    keys: tuple[str, ...] = ()


def coverage(recorded: Recorded, thresholds: Thresholds) -> tuple[Coverage, ...]:
    """Of every rule."""
    return tuple(_coverage_of(rule, recorded, thresholds[rule.name]) for rule in RULES)


def _coverage_of(rule: Rule, recorded: Recorded, limits: Limits) -> Coverage:
    """The first of what keeps a rule from checking a run."""
    covered = Coverage(rule.name, rule.about, "checked")
    # REWARD_PART means any part of the reward.
    known = {REWARD_PART if name.startswith(REWARD_PART) else name for name in recorded.columns}
    missing = [needs for needs in rule.needs if known.isdisjoint(needs)]
    if not limits.get("enabled", 1.0):
        return replace(covered, state="off")
    if missing:
        words = (" or ".join(dict.fromkeys(" and ".join(_keys(n)) for n in m)) for m in missing)
        has = {key for name in known for key in _keys(name)}
        keys = (key for m in missing for key in _keys(m[0]) if key not in has)
        state: State = "not recorded"
        return replace(
            covered, state=state, missing=" and ".join(words), keys=(*dict.fromkeys(keys),)
        )
    if rule.needs_tokens and recorded.steps_read is None:
        return replace(covered, state="not read")
    has = {"steps": _steps_of(rule, recorded), "rollouts": recorded.rollouts}
    least = {"steps": _sum(rule.needs_steps, limits), "rollouts": _sum(rule.needs_rollouts, limits)}
    lacking = [
        f"has {has[name]:,} {name}, needs {least[name]:,}"
        for name in has
        if has[name] < least[name]
    ]
    if lacking:
        return replace(covered, state="not enough data", missing="; ".join(lacking))
    return covered


def _keys(column: str) -> tuple[str, ...]:
    return _KEYS.get(column, (column,))


def _steps_of(rule: Rule, recorded: Recorded) -> int:
    """Steps that have all that a rule needs."""
    every = recorded.steps
    counts = [max(recorded.steps_of.get(name, every) for name in needs) for needs in rule.needs]
    read = recorded.steps_read if rule.needs_tokens else None
    return min(every, *counts, every if read is None else read)


def _sum(numbers: Sequence[str | int], limits: Limits) -> int:
    """Numbers, and thresholds by their names, added."""
    return sum(int(limits[one]) if isinstance(one, str) else one for one in numbers)


def checked_words(rules: Sequence[Coverage]) -> str:
    """How many rules checked a run, and what the others lack, in two sentences at most."""
    by_state: dict[State, list[Coverage]] = {}
    for rule in rules:
        by_state.setdefault(rule.state, []).append(rule)
    failed = [*by_state.get("not recorded", ()), *by_state.get("not enough data", ())]
    words = [f"{len(by_state.get('checked', ()))} of {len(rules)} rules checked the run"]
    if not failed:
        return f"{words[0]}."
    keys = [*dict.fromkeys(key for rule in failed for key in rule.keys)]
    why = [f"{_listed(keys)} {'is' if len(keys) == 1 else 'are'} not recorded"] if keys else []
    if few := by_state.get("not enough data"):
        why.append(f"{len(few)} {'needs' if len(few) == 1 else 'need'} more data")
    return f"{words[0]}. {len(failed)} of {len(rules)} could not: {'; '.join(why)}."


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
