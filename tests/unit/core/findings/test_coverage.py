from __future__ import annotations

from board.analysis.own_thresholds import default_thresholds
from board.core.findings import RULES
from board.core.findings.coverage import NEEDS, coverage

EVERYTHING = {
    *(
        "reward",
        "rewards.correct",
        "group_id",
        "env",
        "advantage",
        "rollout_id",
        "rank",
        "timestamp",
    ),
    *("response", "response_tokens", "is_truncated", "loss_tokens", "entropy_mean", "k3_mean"),
    *("logprobs_mean", "mismatch_kl_mean"),
}


def test_every_rule_says_what_it_needs() -> None:
    assert set(NEEDS) == {rule.name for rule in RULES}


def test_all_rules_look_where_everything_is_recorded() -> None:
    found = coverage(EVERYTHING, default_thresholds(), tokens_read=True)
    assert {rule.state for rule in found} == {"checked"}
    assert all(rule.about for rule in found)


def test_rules_of_tokens_have_not_looked_before_tokens_were_read() -> None:
    found = coverage(EVERYTHING, default_thresholds(), tokens_read=False)
    unread = {rule.rule for rule in found if rule.state == "not read"}
    assert unread == {rule.name for rule in RULES if rule.needs_tokens}


def test_a_rule_without_its_columns_says_which_are_missing() -> None:
    found = coverage({"reward", "group_id"}, default_thresholds(), tokens_read=True)
    missing = {rule.rule: rule.missing for rule in found if rule.state == "not recorded"}
    assert missing["kl_spike"] == "logprobs and ref_logprobs"
    assert missing["part_falls"] == "parts of the reward"
    assert "zero_gradient" not in missing


def test_a_rule_that_is_switched_off_is_off() -> None:
    limits = default_thresholds()
    limits["kl_spike"]["enabled"] = 0.0
    found = coverage(EVERYTHING, limits, tokens_read=True)
    assert [rule.rule for rule in found if rule.state == "off"] == ["kl_spike"]
