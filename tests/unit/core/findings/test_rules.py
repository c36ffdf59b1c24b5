"""What rules must not say; that each of them fires is tested on planted faults in tests/faults."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from made_tokens import step_tokens
from plain_advantages import by_convention, fit_counts
from plain_facts import plain_facts
from plain_groups import groups_of

from board.analysis.findings import default_thresholds
from board.core.findings import RULES, coverage, find
from board.core.findings.digest import Digest, digest
from board.core.findings.facts import Facts
from board.core.findings.finding import Finding, changed, in_words, parse, rounded
from board.core.groups.statistics import fitted_convention
from board.errors import ChoiceError

LIMITS = default_thresholds()
S = 40


def facts(digests: tuple[Digest, ...] = (), **curves: np.ndarray) -> Facts:
    steps = np.arange(S)
    each = np.zeros(S, np.int64)
    return plain_facts(curves, steps, each, {}, digests=digests)


def found(of: Facts, rule: str) -> list[Finding]:
    return [finding for finding in find(of, LIMITS) if finding.rule == rule]


def test_a_run_without_anything_recorded_has_no_findings() -> None:
    assert find(facts(), LIMITS) == []


def test_kl_that_grows_from_nothing_is_no_spike() -> None:
    assert not found(facts(k3_mean=0.01 * np.arange(S)), "kl_spike")


def test_kl_that_doubles_is_no_spike() -> None:
    assert not found(facts(k3_mean=np.where(np.arange(S) < 20, 0.1, 0.2)), "kl_spike")


def test_a_tiny_kl_that_jumps_is_no_spike() -> None:
    assert not found(facts(k3_mean=np.where(np.arange(S) == 20, 1e-2, 1e-4)), "kl_spike")


def test_one_step_of_kl_is_a_lead_and_several_are_severe() -> None:
    alone = found(facts(k3_mean=np.where(np.arange(S) == 20, 5.0, 0.01)), "kl_spike")
    several = found(facts(k3_mean=np.where(np.arange(S) >= 20, 5.0, 0.01)), "kl_spike")
    assert [(f.severity, f.first_step) for f in alone] == [("lead", 20)]
    assert [(f.severity, f.first_step, f.last_step) for f in several] == [("severe", 20, S - 1)]


def test_entropy_that_halves_has_not_collapsed() -> None:
    assert not found(facts(entropy_mean=np.linspace(0.4, 0.2, S)), "entropy_collapse")


def test_one_step_of_truncation_is_no_finding() -> None:
    assert not found(facts(is_truncated_mean=np.where(np.arange(S) == 9, 1.0, 0.0)), "truncation")


def test_truncation_of_fewer_steps_than_are_averaged_is_not_severe() -> None:
    for steps, severity in ((2, "warning"), (5, "severe")):
        each = np.arange(steps)
        of = plain_facts({"is_truncated_mean": np.ones(steps)}, each, np.zeros(steps, np.int64), {})
        assert [f.severity for f in found(of, "truncation")] == [severity]


def test_what_is_shown_of_truncation_was_truncated() -> None:
    steps, index = np.repeat(np.arange(5), 4), np.tile(np.arange(4), 5)
    cut = np.where(index == 2, 1.0, 0.0)
    curve = {"is_truncated_mean": np.full(5, 0.25)}
    of = plain_facts(curve, steps, index, {"is_truncated": cut})
    (finding,) = found(of, "truncation")
    assert [e.index for e in finding.evidence] == [2]
    assert finding.target.index == 2


def test_the_advantages_named_are_the_furthest_of_the_whole_run() -> None:
    dice = np.random.default_rng(5)
    steps, index = np.repeat(np.arange(S), 8), np.tile(np.arange(8), S)
    rewards, recorded = dice.normal(size=8 * S), dice.normal(size=8 * S)
    codes = np.tile(np.repeat([0, 1], 4), S)
    columns = {"reward": rewards, "advantage": recorded}
    (finding,) = found(plain_facts({}, steps, index, columns, codes), "advantages")
    groups = groups_of(steps, codes, rewards)
    closest = fitted_convention(fit_counts(rewards, recorded, groups)).closest
    expected, _ = by_convention(closest, rewards, recorded, groups)
    most = np.argsort(-np.abs(recorded - expected))[:3]
    named = [(e.step, e.index, e.value) for e in finding.evidence]
    assert named == [(steps[i], index[i], recorded[i]) for i in most]
    assert (finding.target.step, finding.target.index) == named[0][:2]


def test_a_share_is_told_as_a_percentage_and_any_other_number_with_its_unit() -> None:
    assert in_words(0.925, "share of rollouts") == "92.5 % of rollouts"
    assert in_words(0.12868, "nats") == "0.1287 nats"
    assert in_words(3.0, "") == "3"
    assert in_words(1.0, "steps") == "1 step"
    assert in_words(2471.86, "mean exp|d|") == "mean exp|d| 2472"


def test_no_number_up_to_millions_has_an_exponent_in_a_sentence() -> None:
    assert [rounded(value) for value in (1257.4, 999.7, 0.16341, 3e-7, 4.2e5)] == [
        *("1,257", "1,000", "0.163", "3e-07", "420,000")
    ]


def test_an_array_of_nan_alone_is_a_gap_and_not_an_array_that_is_not_recorded() -> None:
    nan = [float("nan")] * 2
    step = digest(
        step_tokens([2], {"logprobs": nan, "entropy": [0.5, 0.6]}),
        np.zeros(1, np.int64),
        np.full(1, np.nan),
    )
    (finding,) = found(facts((step,)), "missing_values")
    assert (finding.severity, finding.value, finding.title) == (
        "severe",
        1.0,
        "logprobs has missing values",
    )


def test_an_array_that_lags_behind_the_newest_steps_has_not_ended() -> None:
    missing = [{"logprobs": 0.0}] * 8 + [{}] * 2
    digests = tuple(Digest(step, 1, missing=own) for step, own in enumerate(missing))
    assert not found(facts(digests), "missing_values")


def test_an_array_that_ends_where_the_trainers_own_log_does_has_not_ended() -> None:
    missing = [{"logprobs": 0.0, "sampling_logprobs": 0.0}] * 8 + [{"sampling_logprobs": 0.0}] * 5
    of = facts(tuple(Digest(step, 1, missing=own) for step, own in enumerate(missing)))
    (ended,) = found(of, "missing_values")
    assert (ended.title, ended.step) == ("logprobs stops being recorded", 8)
    assert not found(replace(of, trained_until=7), "missing_values")
    assert found(replace(of, trained_until=10), "missing_values")


def test_reward_that_rises_with_its_parts_is_no_finding() -> None:
    rising = np.linspace(0, 1, S)
    of = plain_facts(
        {"reward_mean": rising, "rewards.a_mean": 0.5 + rising},
        np.arange(S),
        np.zeros(S, np.int64),
        {"reward": rising, "rewards.a": 0.5 + rising},
    )
    assert not found(of, "part_falls")


def fallen_of(envs: int, by: float) -> set[str | None]:
    """The environments named where the first of so many loses so much reward, and the others gain it."""
    steps, each, draw = 200, 4, np.random.default_rng(0)
    step_of = np.repeat(np.arange(steps), envs * each)
    env_of = np.tile(np.repeat(np.arange(envs), each), steps)
    rewards = draw.normal(1.0, 1.0, len(step_of))
    rewards += np.where(step_of < steps // 2, 0.0, np.where(env_of == 0, -by, by))
    names = [f"env {i}" for i in range(envs)]
    of = plain_facts({}, step_of, env_of, {"reward": rewards}, envs=(env_of, names))
    return {finding.target.env for finding in found(of, "hidden_env")}


def test_chance_alone_names_none_of_many_environments() -> None:
    assert fallen_of(64, 0.0) == set()
    assert fallen_of(64, 0.7) == fallen_of(2, 0.7) == {"env 0"}


def responses(*codes: list[int], logprob: float) -> Digest:
    flat = [code for response in codes for code in response]
    arrays = {"sampling_logprobs": [logprob] * len(flat)}
    tokens = step_tokens([len(c) for c in codes], arrays, flat)
    groups = np.zeros(len(codes), np.int64)
    return digest(tokens, groups, np.zeros(len(codes)))


def test_equal_responses_that_were_likely_are_no_duplicates() -> None:
    likely = responses(*[[0, 1, 2]] * 8, logprob=-0.01)
    assert (likely.pairs.pairs, likely.pairs.equal) == (28, 28)
    assert not found(facts((likely,)), "duplicates")


def test_equal_responses_that_were_unlikely_are_duplicates() -> None:
    unlikely = responses(*[[0, 1, 2]] * 8, logprob=-5.0)
    assert [f.severity for f in found(facts((unlikely,)), "duplicates")] == ["warning"]


def test_other_responses_are_no_duplicates() -> None:
    assert responses([0, 1], [1, 0], [0, 1, 1], logprob=-1).pairs.equal == 0


def test_a_loop_is_found_with_its_place_and_period() -> None:
    (loop,) = responses([0, 2, *[1, 3] * 15], logprob=-1).loops
    assert (loop.position, loop.tokens) == (2, 30)
    assert loop.piece == "1 中"


def test_a_loop_does_not_go_on_in_the_next_response() -> None:
    assert not responses([0, 1], [0, 1], [0, 1], logprob=-1).loops


def test_a_short_response_that_repeats_is_no_finding() -> None:
    assert not found(facts((responses([1] * 8, logprob=-1),)), "repetition")


def test_every_rule_has_a_table_and_every_table_a_rule() -> None:
    assert {rule.name for rule in RULES} == set(default_thresholds())


def test_a_file_changes_what_it_names_and_nothing_else() -> None:
    defaults = default_thresholds()
    found = changed(defaults, parse("[truncation]\nwarning = 0.1\n[kl_spike]\nenabled = false"))
    assert found["truncation"] == {**defaults["truncation"], "warning": 0.1}
    assert found["kl_spike"]["enabled"] == 0.0
    assert found["mismatch"] == defaults["mismatch"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[truncatoin]\nwarning = 1", "did you mean truncation"),
        ("[truncation]\nwarnings = 1", "did you mean warning"),
        ("[truncation]\nwarning = 'a lot'", "expected a number"),
        ("truncation = 1", "is not a table"),
        ("[truncation", "not TOML"),
    ],
)
def test_a_mistake_in_a_file_is_named(text: str, message: str) -> None:
    with pytest.raises(ChoiceError, match=message):
        changed(default_thresholds(), parse(text))


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
    assert [rule.name for rule in RULES if not rule.needs] == ["resumed"]


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
