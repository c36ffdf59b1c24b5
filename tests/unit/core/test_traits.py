"""What rollouts are like: what is counted of texts, and what of it is told as a change."""

import numpy as np
import pytest

from board.core.findings.digest import Digest
from board.core.findings.series import Series, changes_of
from board.core.findings.trait_series import changes_of_digests
from board.core.texts.traits import (
    LENGTH,
    REWARD,
    Traits,
    last_sign,
    step_traits,
    words_of,
)

STEPS = np.arange(60)
CHANGE = 30


def digests(dice: np.random.Generator, traits_at) -> list[Digest]:
    """Of STEPS, with 16 rollouts in 4 groups. traits_at: what one is like, by (dice, step, reward)."""
    found: list[Digest] = []
    for step in STEPS.tolist():
        rewards = dice.integers(0, 2, 16).astype(np.float64)
        traits = [traits_at(dice, step, reward) for reward in rewards]
        of_step = step_traits(traits, rewards, np.arange(16) // 4)
        found.append(Digest(step, 16, traits=of_step))
    return found


def is_late(dice: np.random.Generator, step: int, share: float) -> bool:
    return bool(step >= CHANGE and dice.random() < share)


FAULTS = {
    "a word": lambda d, s, r: Traits(
        words={"responses": frozenset({"a", *(["Note"] if is_late(d, s, 0.7) else [])})}
    ),
    "a value": lambda d, s, r: Traits(values={"system prompt": "new" if s >= CHANGE else "old"}),
    "a number": lambda d, s, r: Traits({"timing.ms": d.gamma(9) * (4 if s >= CHANGE else 1)}),
    "a relation": lambda d, s, r: Traits(
        {"quality": d.normal() + (0.0 if s >= CHANGE else 4 * r), LENGTH: d.normal()}
    ),
    "a machine": lambda d, s, r: Traits(values={"meta.node": str(d.integers(2))}),
}


@pytest.mark.parametrize("name", [name for name in FAULTS if name != "a machine"])
def test_a_change_of_anything_that_rollouts_have_is_told_at_its_step(name):
    hits = changes_of_digests(STEPS, digests(np.random.default_rng(0), FAULTS[name])).hits
    assert hits
    assert all(abs(hit.place - CHANGE) <= 1 for hit in hits)


def test_what_stays_as_it_is_has_few_changes():
    hits = 0
    for seed in range(12):
        dice = np.random.default_rng(seed)

        def steady(dice: np.random.Generator, step: int, reward: float) -> Traits:
            words = frozenset(f"w{n}" for n in dice.integers(0, 30, 12))
            numbers = {"n": float(dice.normal()), "heavy": float(dice.pareto(1.5))}
            return Traits(numbers, {"kind": str(dice.integers(5))}, {"responses": words})

        hits += bool(changes_of_digests(STEPS, digests(dice, steady)).hits)
    assert hits <= 2


def test_a_number_that_the_index_has_is_no_series_twice():
    traits = [
        Digest(step, 8, traits=step_traits([Traits({"n": 1.0})] * 8, *unknown()))
        for step in STEPS.tolist()
    ]
    names = {one.name for one in changes_of_digests(STEPS, traits, known=["n"]).series}
    assert "mean n" not in names


def unknown() -> tuple[np.ndarray, np.ndarray]:
    return np.full(8, np.nan), np.full(8, -1)


def test_a_share_is_told_as_it_is_and_not_as_it_is_compared():
    values = np.r_[np.full(30, 0.04), np.full(30, 0.64)]
    (hit,) = changes_of([Series("s", "share of rollouts", values)]).hits
    assert (hit.before, hit.after) == pytest.approx((0.04, 0.64))


def test_the_reward_of_a_log_without_one_is_its_part_that_says_what_is_right():
    dice = np.random.default_rng(0)
    right = dice.integers(0, 2, 16).astype(float)
    traits = [
        Traits({"rewards.format": dice.random(), "rewards.correct": r, "q": r}) for r in right
    ]
    found = step_traits(traits, np.full(16, np.nan), np.arange(16) // 4)
    assert found.relations["q", REWARD] > 2


def test_words_of_any_script_are_found_and_numbers_are_not():
    assert words_of("The answer</think> is 42, 我们 <|im_end|>") == [
        *("The", "answer", "</think>", "is", ",", "我", "们", "<|im_end|>")
    ]


@pytest.mark.parametrize(
    ("text", "sign"), [("so.", "."), ("so", "a word"), ("", "nothing"), ("}\n", "}")]
)
def test_what_a_text_ends_with(text, sign):
    assert last_sign(text) == sign
