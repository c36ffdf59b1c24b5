"""What people say of failures that are alike: it overrules the cause, here and as a rule elsewhere."""

import re
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from read_formats import info_at
from written_logs import write_lines

from board.core.failures.causes import CAUSES
from board.errors import ChoiceError
from board.index.cause_rules import add_rule, rule_of, rules_text
from board.index.discovery.cause_patterns import parse_patterns
from board.query.failures import clusters
from board.query.open_run import Run, open_run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two failures that are alike, and one of another kind."""
    errors = ("odd (7) thing", "odd (42) thing", "ConnectionResetError")
    rows = [{"step": 1, "prompt": "p", "response": "r", "reward": 0.0, "error": e} for e in errors]
    return write_lines(tmp_path / "run" / "a.jsonl", rows).parent


def causes(run: Run) -> list[tuple[str, str]]:
    frame = run.frame(["cause", "cause_basis"])
    return [*zip(frame["cause"], frame["cause_basis"], strict=True)]


def test_a_verdict_holds_for_all_failures_that_are_alike_and_the_newest_decides(folder):
    info = info_at(folder)
    before = open_run(info)
    assert causes(before) == [("unknown", "recorded")] * 2 + [("server", "recorded")]
    pattern = clusters(before).table.loc[0, "pattern"]
    add_rule(info, "sandbox", pattern, "me")
    add_rule(info, "judge", pattern, "me")
    after = open_run(info)
    assert causes(after) == [("judge", "confirmed")] * 2 + [("server", "recorded")]
    assert after.version != before.version
    assert not after.problems


def test_the_rules_of_a_run_are_a_causes_toml_for_others(folder, tmp_path):
    add_rule(info_at(folder), "judge", "error=odd (#) thing", "me")
    other = tmp_path / "other"
    other.mkdir()
    (other / "a.jsonl").write_text((folder / "a.jsonl").read_text())
    (other / "causes.toml").write_text(rules_text(info_at(folder)))
    assert [cause for cause, _ in causes(open_run(info_at(other)))] == ["judge", "judge", "server"]


def test_rules_that_can_not_be_read_are_named_and_left_out(folder):
    add_rule(info_at(folder), "judge", "error=odd (#) thing", "me")
    (rules,) = folder.rglob("causes.rules.toml")
    rules.write_text("[[evidence]]\ncause = 'gremlins'\n")
    run = open_run(info_at(folder))
    assert causes(run)[0] == ("unknown", "recorded")
    assert any("gremlins" in problem.reason for problem in run.problems)


@given(text=st.text(max_size=80), cause=st.sampled_from([*CAUSES]))
def test_any_evidence_makes_a_rule_that_can_be_read_or_says_why_not(text, cause):
    rule = None
    with suppress(ChoiceError):  # a text that no expression can hold
        (rule,) = parse_patterns(rule_of(cause, text, "me")).evidence
    assert rule is None or re.fullmatch(rule.pattern, text)
