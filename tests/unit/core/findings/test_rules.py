"""What rules must not say; that each of them fires is tested on planted faults in tests/faults."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_tokens import step_tokens
from plain_advantages import by_convention, fit_counts
from plain_facts import plain_facts
from plain_groups import groups_of

from board.analysis.findings import default_thresholds
from board.core.findings.coverage import Recorded, checked_words, coverage
from board.core.findings.digest import Digest, digest
from board.core.findings.facts import Facts
from board.core.findings.finding import (
    Evidence,
    Finding,
    Thresholds,
    changed,
    in_words,
    parse,
    rounded,
)
from board.core.findings.rules import RULES, find
from board.core.groups.statistics import fitted_convention
from board.errors import ChoiceError

LIMITS = default_thresholds()
S = 40
EACH = np.arange(S)


def facts(digests: tuple[Digest, ...] = (), **curves: np.ndarray) -> Facts:
    return plain_facts(curves, EACH, np.zeros(S, np.int64), {}, digests=digests)


def result(of: Facts, rule: str) -> list[Finding]:
    return [finding for finding in find(of, LIMITS) if finding.rule == rule]


def test_a_run_without_anything_recorded_has_no_findings():
    assert find(facts(), LIMITS) == []


@pytest.mark.parametrize(
    ("rule", "curves"),
    [
        ("kl_spike", {"k3_mean": 0.01 * EACH}),  # grows from nothing
        ("kl_spike", {"k3_mean": np.where(EACH < 20, 0.1, 0.2)}),  # doubles
        ("kl_spike", {"k3_mean": np.where(EACH == 20, 1e-2, 1e-4)}),  # jumps, and stays tiny
        ("entropy_collapse", {"entropy_mean": np.linspace(0.4, 0.2, S)}),  # halves
        ("truncation", {"is_truncated_mean": np.where(EACH == 9, 1.0, 0.0)}),  # one step
        ("part_falls", {"reward_mean": EACH / S, "rewards.a_mean": 0.5 + EACH / S}),  # both rise
    ],
)
def test_what_is_usual_is_no_finding(rule, curves):
    columns = {name.removesuffix("_mean"): values for name, values in curves.items()}
    assert not result(plain_facts(curves, EACH, np.zeros(S, np.int64), columns), rule)


def test_one_step_of_kl_is_a_lead_and_several_are_severe():
    alone = result(facts(k3_mean=np.where(EACH == 20, 5.0, 0.01)), "kl_spike")
    several = result(facts(k3_mean=np.where(EACH >= 20, 5.0, 0.01)), "kl_spike")
    assert [(f.severity, f.first_step) for f in alone] == [("lead", 20)]
    assert [(f.severity, f.first_step, f.last_step) for f in several] == [("severe", 20, S - 1)]


@given(
    seed=st.integers(0, 10**6),
    large=st.floats(200, 500),
    at=st.lists(st.integers(20, S - 2), min_size=3, max_size=3, unique=True),
)
def test_the_largest_jump_out_of_the_noise_is_named_and_the_others_are_mentioned(seed, large, at):
    """Each is of so many times the noise of the steps before it, and neither the first nor the last."""
    k3 = 0.1 + 0.01 * np.random.default_rng(seed).uniform(-1, 1, S)
    first, middle, last = sorted(at)
    k3[[first, last]] += 1.0
    k3[middle] += 1.0 * (1 + large / 100)
    hits = result(facts(k3_mean=k3), "kl_spike")
    (named,) = [one for one in hits if one.step == middle]
    others = [first, last]
    if middle - first > 2 and last - middle > 2:  # else they are of one period
        assert [worst for worst, _, _ in named.periods] == [first, middle, last]
        assert all(str(step) in named.text.partition(" Also at ")[2] for step in others)


def test_a_jump_late_in_a_run_counts_by_the_noise_there():
    """By multiples of the median alone, the small jump of the beginning would be named."""
    each, dice = np.arange(100), np.random.default_rng(3)
    grown = np.interp(each, [20, 60], [0.03, 0.5])
    k3 = grown + 0.02 * dice.uniform(-1, 1, 100)
    k3[12], k3[90] = 0.16, 1.0
    of = plain_facts({"k3_mean": k3}, each, np.zeros(100, np.int64), {})
    (named,) = result(of, "kl_spike")
    assert (named.step, [first for _, first, _ in named.periods]) == (90, [12, 90])
    assert "Also at step 12" in named.text


def test_nothing_is_a_warning_from_one_rollout():
    for rollouts, severity in ((1, "lead"), (2, "warning")):
        broken = tuple(Evidence(5, index, value=1.0) for index in range(rollouts))
        read = (Digest(5, 32, broken=broken),)
        (garbled,) = result(facts(read), "garbled")
        assert (garbled.severity, f"{rollouts} of 32 (" in garbled.text) == (severity, True)


def test_truncation_of_fewer_steps_than_are_averaged_is_not_severe():
    for steps, severity in ((2, "warning"), (5, "severe")):
        each = np.arange(steps)
        of = plain_facts({"is_truncated_mean": np.ones(steps)}, each, np.zeros(steps, np.int64), {})
        assert [f.severity for f in result(of, "truncation")] == [severity]


def test_what_is_shown_of_truncation_was_truncated():
    steps, index = np.repeat(np.arange(5), 4), np.tile(np.arange(4), 5)
    cut = np.where(index == 2, 1.0, 0.0)
    curve = {"is_truncated_mean": np.full(5, 0.25)}
    of = plain_facts(curve, steps, index, {"is_truncated": cut})
    (finding,) = result(of, "truncation")
    assert [e.index for e in finding.evidence] == [2]
    assert finding.target.index == 2


def test_the_advantages_named_are_the_furthest_of_the_whole_run():
    dice = np.random.default_rng(5)
    steps, index = np.repeat(EACH, 8), np.tile(np.arange(8), S)
    rewards, recorded = dice.normal(size=8 * S), dice.normal(size=8 * S)
    codes = np.tile(np.repeat([0, 1], 4), S)
    columns = {"reward": rewards, "advantage": recorded}
    (finding,) = result(plain_facts({}, steps, index, columns, codes), "advantages")
    groups = groups_of(steps, codes, rewards)
    closest = fitted_convention(fit_counts(rewards, recorded, groups)).closest
    expected, _ = by_convention(closest, rewards, recorded, groups)
    most = np.argsort(-np.abs(recorded - expected))[:3]
    named = [(e.step, e.index, e.value) for e in finding.evidence]
    assert named == [(steps[i], index[i], recorded[i]) for i in most]
    assert (finding.target.step, finding.target.index) == named[0][:2]


def test_a_share_is_told_as_a_percentage_and_any_other_number_with_its_unit():
    assert in_words(0.925, "share of rollouts") == "92.5 % of rollouts"
    assert in_words(0.12868, "nats") == "0.1287 nats"
    assert in_words(3.0, "") == "3"
    assert in_words(1.0, "steps") == "1 step"
    assert in_words(2471.86, "mean exp|d|") == "mean exp|d| 2472"


def test_no_number_up_to_millions_has_an_exponent_in_a_sentence():
    assert [rounded(value) for value in (1257.4, 999.7, 0.16341, 3e-7, 4.2e5)] == [
        *("1,257", "1,000", "0.163", "3e-07", "420,000")
    ]


def test_an_array_of_nan_alone_is_a_gap_and_not_an_array_that_is_not_recorded():
    nan = [float("nan")] * 2
    step = digest(
        step_tokens([2, 2], {"logprobs": nan * 2, "entropy": [0.5, 0.6] * 2}),
        np.zeros(2, np.int64),
        np.full(2, np.nan),
    )
    (finding,) = result(facts((step,)), "missing_values")
    assert (finding.severity, finding.value, finding.title) == (
        "severe",
        1.0,
        "logprobs has missing values",
    )


def test_an_array_that_lags_behind_the_newest_steps_has_not_ended():
    missing = [{"logprobs": 0.0}] * 8 + [{}] * 2
    digests = tuple(Digest(step, 1, missing=own) for step, own in enumerate(missing))
    assert not result(facts(digests), "missing_values")


def test_an_array_that_ends_where_the_trainers_own_log_does_has_not_ended():
    missing = [{"logprobs": 0.0, "sampling_logprobs": 0.0}] * 8 + [{"sampling_logprobs": 0.0}] * 5
    of = facts(tuple(Digest(step, 1, missing=own) for step, own in enumerate(missing)))
    (ended,) = result(of, "missing_values")
    assert (ended.title, ended.step) == ("logprobs stops being recorded", 8)
    assert not result(replace(of, trained_until=7), "missing_values")
    assert result(replace(of, trained_until=10), "missing_values")


def responses(*codes: list[int], logprob: float) -> Digest:
    flat = [code for response in codes for code in response]
    arrays = {"sampling_logprobs": [logprob] * len(flat)}
    tokens = step_tokens([len(c) for c in codes], arrays, flat)
    groups = np.zeros(len(codes), np.int64)
    return digest(tokens, groups, np.zeros(len(codes)))


def test_equal_responses_are_duplicates_where_they_were_unlikely():
    likely, unlikely = (responses(*[[0, 1, 2]] * 8, logprob=p) for p in (-0.01, -5.0))
    assert (likely.pairs.pairs, likely.pairs.equal) == (28, 28)
    assert not result(facts((likely,)), "duplicates")
    assert [f.severity for f in result(facts((unlikely,)), "duplicates")] == ["warning"]
    assert responses([0, 1], [1, 0], [0, 1, 1], logprob=-1).pairs.equal == 0


@given(
    sampled=st.lists(st.floats(-3, 0), min_size=1, max_size=4),
    results=st.lists(st.floats(-30, 0) | st.just(float("nan")), max_size=4),
    rollouts=st.integers(2, 6),
)
def test_how_likely_a_response_was_says_nothing_of_tokens_that_nobody_sampled(
    sampled, results, rollouts
):
    row, length = [*sampled, *results], len(sampled) + len(results)
    loss = [True] * len(sampled) + [False] * len(results)
    arrays = {"sampling_logprobs": row * rollouts}
    codes = [place % 3 for place in range(length)]
    tokens = step_tokens([length] * rollouts, arrays, codes * rollouts, loss * rollouts)
    pairs = digest(tokens, np.zeros(rollouts, np.int64), np.zeros(rollouts)).pairs
    assert pairs.equal == pairs.pairs == rollouts * (rollouts - 1) // 2
    assert pairs.expected == pytest.approx(np.exp(sum(sampled)) * pairs.pairs)


def test_a_loop_is_found_with_its_place_and_period_within_one_response():
    (loop,) = responses([0, 2, *[1, 3] * 15], logprob=-1).loops
    assert (loop.position, loop.tokens, loop.piece) == (2, 30, "1 中")
    assert not responses([0, 1], [0, 1], [0, 1], logprob=-1).loops
    short = responses([1] * 8, logprob=-1)
    assert not result(facts((short,)), "repetition")


def test_every_rule_has_a_table_and_every_table_a_rule():
    assert {rule.name for rule in RULES} == set(default_thresholds())


def test_a_file_changes_what_it_names_and_nothing_else():
    defaults = default_thresholds()
    result = changed(defaults, parse("[truncation]\nwarning = 0.1\n[kl_spike]\nenabled = false"))
    assert result["truncation"] == {**defaults["truncation"], "warning": 0.1}
    assert result["kl_spike"]["enabled"] == 0.0
    assert result["mismatch"] == defaults["mismatch"]


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
def test_a_mistake_in_a_file_is_named(text, message):
    with pytest.raises(ChoiceError, match=message):
        changed(default_thresholds(), parse(text))


EVERYTHING = {
    "trainer/",
    *("reward", "rewards.correct", "group_id", "env", "advantage", "rollout_id", "rank"),
    *("timestamp", "response", "response_tokens", "is_truncated", "loss_tokens", "cause"),
    *("entropy_mean", "k3_mean", "logprobs_mean", "mismatch_kl_mean"),
}


def states(columns: set[str], limits: Thresholds = LIMITS, *, read: bool = True) -> dict[str, str]:
    """State of each rule, or what is missing."""
    covered = coverage(Recorded(columns, 40, 1280, {}, 40 if read else None), limits)
    assert all(rule.about for rule in covered)
    return {rule.rule: rule.missing or rule.state for rule in covered}


def test_a_rule_says_whether_it_has_looked_and_else_why_not():
    whole = [rule.name for rule in RULES if not rule.needs]
    assert whole == ["resumed", "contradiction", "change"]
    assert {*states(EVERYTHING).values()} == {"checked"}
    unread = {rule for rule, state in states(EVERYTHING, read=False).items() if state == "not read"}
    assert unread == {rule.name for rule in RULES if rule.needs_tokens}
    missing = states({"reward", "group_id"})
    assert missing["kl_spike"] == "logprobs and ref_logprobs"
    assert missing["part_falls"] == "parts of the reward"
    assert missing["zero_std_groups"] == "checked"
    assert missing["stopped_rank"] == "rank"
    off = states(EVERYTHING, {**LIMITS, "kl_spike": {"enabled": 0.0}})
    assert [rule for rule, state in off.items() if state == "off"] == ["kl_spike"]


def test_a_rule_without_enough_data_says_what_there_is_and_what_it_needs():
    few = Recorded(EVERYTHING, 8, 40, {"k3_mean": 3, "entropy_mean": 8}, 2)
    missing = {rule.rule: rule.missing for rule in coverage(few, LIMITS)}
    assert missing["entropy_collapse"] == "has 8 steps, needs 20"
    assert missing["kl_spike"] == "has 3 steps, needs 6"
    assert missing["reward_length"] == "has 40 rollouts, needs 64"
    assert missing["truncation"] == ""


def test_a_rule_is_checked_from_the_number_of_steps_on_that_it_needs():
    for rule in RULES:
        limits = LIMITS[rule.name]
        needs = sum(int(limits[n]) if isinstance(n, str) else n for n in rule.needs_steps)
        enough = Recorded(EVERYTHING, needs, 10_000, {}, needs)
        states = {one.rule: one.state for one in coverage(enough, LIMITS)}
        less = {one.rule: one.state for one in coverage(replace(enough, steps=needs - 1), LIMITS)}
        assert (states[rule.name], less[rule.name]) == ("checked", "not enough data")


def test_the_words_name_what_is_not_recorded_once_each():
    covered = coverage(Recorded({"reward", "cause", "logprobs_mean"}, 40, 1280, {}, 40), LIMITS)
    words = checked_words(covered)
    assert words.count("ref_logprobs") == 1
    assert {"sampling_logprobs", "group_id"} <= {*words.replace(",", "").split()}
    assert " logprobs" not in words.replace("ref_logprobs", "").replace("sampling_logprobs", "")
    everything = Recorded(EVERYTHING, 40, 1280, {}, 40)
    count = len(RULES)
    words = checked_words(coverage(everything, LIMITS))
    assert words == f"{count} of {count} rules checked the run."
