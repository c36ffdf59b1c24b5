"""What the rules on failures must not say; that they fire is tested on planted faults."""

from dataclasses import replace

import numpy as np
import pytest
from plain_facts import plain_facts

from board.analysis.findings import default_thresholds
from board.core.findings.facts import Facts, FailedRows, FailuresBy, RewardModes
from board.core.findings.finding import Finding
from board.core.findings.rules import find

LIMITS = default_thresholds()
S, N = 40, 32
STEPS, INDEX = np.repeat(np.arange(S), N), np.tile(np.arange(N), S)


def result(of: Facts, rule: str) -> list[Finding]:
    return [finding for finding in find(of, LIMITS) if finding.rule == rule]


def at(*counts: int, step: int = 20) -> np.ndarray:
    """[S] these counts from a step on, 0 at the others."""
    every = np.zeros(S, np.int64)
    every[step : step + len(counts)] = counts
    return every


def rows(step: int) -> FailedRows:
    values = {"rank": ["0"] * N}
    return FailedRows(np.arange(N), ["timeout"] * N, ["says so"] * N, np.zeros(N), values)


def facts(rewards: np.ndarray | None = None, groups: int = 8, **others: object) -> Facts:
    reward = np.where(INDEX % 2, 1.0, 0.0) if rewards is None else rewards
    codes = STEPS * groups + INDEX % groups if groups else None
    made = plain_facts({}, STEPS, INDEX, {"reward": reward}, codes)
    return replace(made, failed_of=rows, **others)


def of_rank(failed: np.ndarray, others: np.ndarray, prompts: int = 4, ranks: int = 4) -> FailuresBy:
    """Failures of rank 0, and of the others together."""
    own, every = np.full((1, S), N // ranks), np.full(S, N)
    counted = np.minimum(failed, prompts)[None]
    return FailuresBy("rank", ["0"], ranks, own, failed[None], counted, every, failed + others)


@pytest.mark.parametrize(("count", "severity"), [(3, None), (4, "warning"), (16, "severe")])
def test_plumbing_needs_four_rollouts_of_a_step_and_is_severe_from_half_on(count, severity):
    of = facts(causes={"judge": at(count, count)})
    assert [f.severity for f in result(of, "plumbing")] == ([severity] if severity else [])


def test_every_failure_that_was_not_earned_is_a_finding_and_limits_and_wrong_answers_are_none():
    names = ("judge", "server", "timeout", "policy", "truncated", "unknown", "aborted")
    found = result(facts(causes=dict.fromkeys(names, at(8))), "plumbing")
    assert {f.subject: f.severity for f in found} == {
        **dict.fromkeys(("judge", "server", "unknown"), "warning"),
        "aborted": "lead",
    }


@pytest.mark.parametrize(
    ("count", "times", "is_found"), [(2, 40, True), (1, 40, False), (2, 1, False)]
)
def test_failures_that_are_few_at_each_step_are_found_over_the_whole_run(count, times, is_found):
    every = np.zeros(S, np.int64)
    every[:: S // times] = count
    found = result(facts(causes={"unknown": every}), "plumbing")
    assert len(found) == is_found


@pytest.mark.parametrize(
    ("failed", "others", "prompts"),
    [
        (at(8), at(24), 4),  # everywhere alike
        (at(3), at(0), 4),  # too few
        (at(8), at(0), 1),  # one prompt
        (at(*[1] * 12), at(*[3] * 12), 4),  # a few of all ranks, always
    ],
)
def test_what_chance_or_a_prompt_explains_is_no_burst(failed, others, prompts):
    of = facts(failures_by=(of_rank(failed, others, prompts),))
    assert not result(of, "burst")


def test_a_burst_begins_at_its_first_step_and_ends_at_its_last():
    of = facts(failures_by=(of_rank(at(8, 8, 8), at(1)),))
    (finding,) = result(of, "burst")
    assert (finding.severity, finding.subject) == ("warning", "rank 0")
    assert (finding.first_step, finding.last_step) == (20, 22)


def test_failures_that_no_step_shows_alone_are_found_over_three():
    alone = facts(failures_by=(of_rank(at(5), at(1)),))
    several = facts(failures_by=(of_rank(at(5, 5, 5), at(1)),))
    assert not result(alone, "burst")
    assert [f.first_step for f in result(several, "burst")] == [20]


def test_of_failures_by_chance_alone_next_to_none_is_a_burst():
    draw = np.random.default_rng(0)
    bursts = 0
    for _ in range(20):
        own, others = draw.binomial(8, 0.2, S), draw.binomial(24, 0.2, S)
        bursts += len(result(facts(failures_by=(of_rank(own, others),)), "burst"))
    assert bursts == 0


def modes(rewards: np.ndarray, prompts: int = 8) -> RewardModes:
    by_step = rewards.reshape(S, N)
    known = [np.unique(row, return_counts=True) for row in by_step]
    values = np.array([value[count.argmax()] for value, count in known])
    counts = np.array([count.max() for _, count in known])

    def with_reward(value: float) -> tuple[np.ndarray, np.ndarray]:
        own = (by_step == value).sum(axis=1)
        return own, np.minimum(own, prompts)

    return RewardModes(values, counts, with_reward)


def placeholders(rewards: np.ndarray, prompts: int = 8) -> list[tuple[str, int | None, int | None]]:
    of = facts(rewards, reward_modes=modes(rewards, prompts))
    found = result(of, "placeholder_reward")
    return [(f.severity, f.first_step, f.last_step) for f in found]


def usual(right: float = 0.5) -> np.ndarray:
    return np.random.default_rng(0).binomial(1, right, S * N).astype(np.float64)


def test_one_reward_for_all_is_a_lead_at_one_step_and_a_warning_at_several():
    one, several = (np.where((STEPS >= 20) & (end > STEPS), 0.0, usual()) for end in (21, 24))
    assert placeholders(one) == [("lead", 20, 20)]
    assert placeholders(several) == [("warning", 20, 23)]


@pytest.mark.parametrize(
    "rewards",
    [
        np.where(STEPS == 20, 1.0, usual()),  # the best reward of the run
        np.where(STEPS == 20, 0.0, usual(0.2)),  # nearly all have it anyway
        np.where(STEPS == 3, 0.0, usual()),  # too few steps before
        np.where((STEPS == 20) & (INDEX < 16), 0.0, usual()),  # not of all
        np.where(STEPS % 2 == 1, 0.0, usual(0.6)),  # zero std at half of the steps
    ],
)
def test_one_reward_that_is_not_unusual_is_no_placeholder(rewards):
    assert placeholders(rewards) == []


def test_one_reward_of_one_or_two_prompts_is_no_placeholder():
    assert placeholders(np.where(STEPS == 20, 0.0, usual()), prompts=2) == []
