"""Each fault, planted in a real run, is found where it was planted; clean runs raise nothing severe."""

from __future__ import annotations

from pathlib import Path

import pytest
from faults.plant import FAULTS, Fault, clean

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
    own = [found for found in findings if found.rule == fault.rule]
    assert own, f"only {[found.rule for found in findings]}"
    found = own[0]
    assert found.severity == fault.severity
    assert found.first_step is not None
    assert fault.first <= found.first_step <= fault.first + fault.late
    named = {evidence.index for evidence in found.evidence}
    assert fault.rollouts <= named or named <= fault.rollouts != frozenset()
    if fault.position is not None:
        assert found.evidence[0].position == fault.position
    if fault.piece is not None:
        assert {evidence.piece for evidence in found.evidence} == {fault.piece}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_planted_fault_raises_no_other_severe_finding(fault: Fault, tmp_path: Path) -> None:
    severe = {found.rule for found in planted(fault, tmp_path) if found.severity == "severe"}
    assert severe <= {fault.rule, *fault.also}


@pytest.mark.parametrize("name", ["grpo_arithmetic", "ppo_critic", "resumed"])
def test_clean_runs_raise_nothing_severe(name: str) -> None:
    found = diagnose(open_run(discover(SAMPLES).run(name)))
    assert not [f for f in found.findings if f.severity == "severe"]


def test_the_bundled_reward_hack_is_found() -> None:
    found = diagnose(open_run(discover(SAMPLES).run("grpo_reward_hack")), tokens=False).findings
    assert {"part_falls", "truncation", "length_without_gain", "reward_length"} <= {
        f.rule for f in found
    }
