"""Each fault, planted in a real run, is found where it was planted; clean runs raise nothing severe."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache

import pytest
from faults.judge import Verdict, findings_of, opened, severe, verdict_on
from faults.plant import FAULTS, Fault
from faults.scene import LATER, TUNED, Place, clean
from read_formats import sample_run

from board.analysis.findings import diagnose
from board.core.findings.finding import SEVERITIES, Finding
from board.core.findings.rules import RULES
from board.query.open_run import Run

SHORT = replace(TUNED, last=35)
"""What is found soon after a fault begins is found later too."""


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Fault], Verdict]:
    """What is found of a fault, whose run is looked over once."""
    return cache(lambda fault: verdict_on(fault, tmp_path_factory.mktemp("fault"), SHORT))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_planted_fault_is_found_at_its_step_in_its_rollouts_and_tokens(fault, planted):
    verdict = planted(fault)
    assert verdict.own, [(result.rule, result.first_step) for result in verdict.findings]
    assert verdict.own.first_step == verdict.planted.step
    assert verdict.named, verdict.own.evidence
    assert SEVERITIES.index(verdict.own.severity) <= SEVERITIES.index(fault.severity)
    assert verdict.own.source
    assert None not in (verdict.own.value, verdict.own.threshold, verdict.own.target.step)
    assert not verdict.others


CAUSED = [one for one in FAULTS if one.cause]


@pytest.mark.parametrize("fault", CAUSED, ids=lambda fault: fault.name)
def test_exactly_the_rollouts_that_were_made_to_fail_have_that_cause(fault, planted, tmp_path):
    verdict = planted(fault)
    assert_caused(fault, verdict.run, verdict.planted.rollouts)
    log = clean(LATER)
    rollouts = fault.plant(log).rollouts
    assert_caused(fault, opened(log.write(tmp_path / "run")), rollouts)


def assert_caused(fault: Fault, run: Run, rollouts: Iterable[Place]) -> None:
    frame = run.frame(["cause"])
    causes = zip(frame["step"], frame["index"], frame["cause"].fillna(""), strict=True)
    own = {(step, index): cause for step, index, cause in causes}
    assert {own.pop(place) for place in rollouts} == {fault.cause}
    assert {*own.values()} <= {"policy", "truncated", ""}


def test_shifted_arrays_are_told_before_the_kl_that_they_make_up(planted):
    fault = next(one for one in FAULTS if one.name == "off by one")
    first, *others = planted(fault).findings
    assert first.rule == "misaligned"
    assert "kl_spike" in {one.rule for one in others if one.severity == first.severity}


# Of rules that compare with steps before; benchmarks/planted_faults.py does so with every fault.
HELD_OUT = ("policy leaves", "truncation", "entropy collapse", "reward hack", "one env fails")


@pytest.mark.parametrize(
    "fault", [one for one in FAULTS if one.name in HELD_OUT], ids=lambda fault: fault.name
)
def test_it_is_found_as_well_where_no_threshold_was_chosen(fault, tmp_path):
    verdict = verdict_on(fault, tmp_path, LATER)
    assert verdict.own, [(result.rule, result.first_step) for result in verdict.findings]
    assert verdict.own.first_step == verdict.planted.step
    assert verdict.named, verdict.own.evidence
    assert not verdict.others


def test_every_rule_finds_a_planted_fault():
    assert {rule.name for rule in RULES} == {fault.rule for fault in FAULTS}


@pytest.fixture(scope="module")
def unharmed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Finding, ...]:
    return findings_of(opened(clean().write(tmp_path_factory.mktemp("clean") / "run")))


@pytest.mark.parametrize("rule", [rule.name for rule in RULES if rule.name != "kl_spike"])
def test_a_rule_is_silent_on_the_run_without_a_fault(rule, unharmed):
    assert rule not in {result.rule for result in unharmed}


@pytest.mark.parametrize(
    "name",
    ["grpo_arithmetic", "grpo_calculator", "grpo_calculator_trl", "ppo_critic", "resumed"],
)
def test_clean_runs_raise_nothing_severe(name):
    result = diagnose(sample_run(name))
    assert not severe(result.findings)


def test_the_bundled_reward_hack_is_found():
    result = diagnose(sample_run("grpo_reward_hack"), tokens=False).findings
    assert {"part_falls", "truncation", "reward_length"} <= {f.rule for f in result}
