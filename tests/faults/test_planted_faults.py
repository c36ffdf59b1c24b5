"""Each fault, planted in a real run, is found where it was planted; clean runs raise nothing severe."""

from __future__ import annotations

from pathlib import Path

import pytest
from faults.plant import FAULTS, Fault, clean

from board.core.findings import RULES
from board.core.findings.finding import Finding
from board.store.discovery import discover
from board.store.findings import diagnose
from board.store.run import Run, open_run

SAMPLES = Path(__file__).parents[2] / "rollout_samples"


def opened(folder: Path) -> Run:
    (info,) = discover(folder).runs
    return open_run(info)


def planted(fault: Fault, folder: Path) -> tuple[Finding, ...]:
    log = clean()
    fault.plant(log)
    return diagnose(opened(log.write(folder / "run")), tokens=fault.tokens).findings


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_planted_fault_is_found_where_it_was_planted(fault: Fault, tmp_path: Path) -> None:
    findings = planted(fault, tmp_path)
    found = next(
        (found for found in findings if found.rule == fault.rule and at(found, fault)), None
    )
    assert found, [(found.rule, found.first_step) for found in findings]
    assert found.severity == fault.severity
    named = {evidence.index for evidence in found.evidence}
    assert not fault.rollouts or named & fault.rollouts
    if fault.position is not None:
        assert found.evidence[0].position == fault.position
        assert found.evidence[0].index in fault.rollouts or not fault.rollouts
    if fault.piece is not None:
        assert {evidence.piece for evidence in found.evidence} == {fault.piece}
    severe = {found.rule for found in findings if found.severity == "severe"}
    assert severe <= {fault.rule, *fault.also}


def at(found: Finding, fault: Fault) -> bool:
    first = found.first_step
    return first is not None and fault.first - fault.early <= first <= fault.first + fault.late


def test_every_rule_finds_a_planted_fault() -> None:
    assert {rule.name for rule in RULES} <= {fault.rule for fault in FAULTS} | {"mismatch_drift"}


@pytest.fixture(scope="module")
def unharmed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Finding, ...]:
    return diagnose(opened(clean().write(tmp_path_factory.mktemp("clean") / "run"))).findings


@pytest.mark.parametrize("rule", [rule.name for rule in RULES if rule.name != "kl_spike"])
def test_a_rule_is_silent_on_the_run_without_a_fault(
    rule: str, unharmed: tuple[Finding, ...]
) -> None:
    assert rule not in {found.rule for found in unharmed}


@pytest.mark.parametrize("name", ["grpo_arithmetic", "ppo_critic", "resumed"])
def test_clean_runs_raise_nothing_severe(name: str) -> None:
    found = diagnose(open_run(discover(SAMPLES).run(name)))
    assert not [f for f in found.findings if f.severity == "severe"]


def test_the_bundled_reward_hack_is_found() -> None:
    found = diagnose(open_run(discover(SAMPLES).run("grpo_reward_hack")), tokens=False).findings
    assert {"part_falls", "truncation", "length_without_gain", "reward_length"} <= {
        f.rule for f in found
    }
