"""Runs in which a style of failure appears, and what causes its rollouts are given."""

import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faults import held_out_styles, known_styles, later_styles, second_styles  # noqa: F401  # list their own
from faults.rollout_logs import FORMATS, Rollout, write_run
from faults.styles import STYLES as STYLES
from faults.styles import Style

from board.core.failures.causes import CLASSES

CLASS_OF = {cause: name for name, causes in CLASSES.items() for cause in causes}
_WORDS = ("red", "blue", "round", "heavy", "old", "small", "glass", "paper", "north", "quick")


@dataclass(frozen=True)
class Told:
    """What causes a style's rollouts have in a format. classes: how many of each; evidence: one that is
    not what it should be; others: rollouts besides that are called anything but the policy's.
    """

    style: Style
    format: str
    classes: Counter[str]
    evidence: str = ""
    others: int = 0

    @property
    def infrastructure(self) -> float:
        """The share of its rollouts that are called failures of infrastructure."""
        return self.classes["infrastructure"] / self.classes.total()

    @property
    def not_earned(self) -> float:
        """The same with those of unclear cause."""
        return self.infrastructure + self.classes["unclear"] / self.classes.total()


def formats_of(style: Style) -> list[str]:
    """The formats in which a style can be written."""
    return [name for name in FORMATS if not style.formats or name in style.formats]


def run_of_style(style: Style, dice: random.Random) -> tuple[list[Rollout], set[int]]:
    """A run of a policy that is right in half of its answers, and which of its rollouts fail in a style:
    a part of each step, from one in the middle on if it is of infrastructure, else throughout.
    """
    steps, prompts = dice.randrange(6, 11), dice.randrange(4, 9)
    begins = dice.randrange(3, steps - 1) if style.is_infrastructure else 0
    share, count = dice.uniform(0.15, 0.4), dice.choice((2, 4))
    rollouts: list[Rollout] = []
    failed: set[int] = set()
    for step in range(steps):
        for number in range(prompts):
            asked = " ".join(dice.sample(_WORDS, 3))
            for _ in range(count):
                one = _usual(step, f"How many {asked} things are there in {number}?", dice)
                if step >= begins and dice.random() < share:
                    one.reward = 0.0
                    style.change(one, dice)
                    failed.add(len(rollouts))
                rollouts.append(one)
    return rollouts, failed


def _usual(step: int, prompt: str, dice: random.Random) -> Rollout:
    right = dice.random() < 0.5
    found = (
        "search",
        f"There are {dice.randrange(99)} {dice.choice(_WORDS)} things in box {dice.getrandbits(24)}.",
    )
    answer = f"I count {' and '.join(dice.sample(_WORDS, 2))}, so it is {dice.randrange(999)}."
    turns = [found, ("model", answer)] if dice.random() < 0.5 else [("model", answer)]
    return Rollout(step, prompt, turns, float(right), {}, "stop", dice.randrange(5, 40))


def told(style: Style, name: str, seed: int, folder: Path) -> Told:
    """What is told of a run of a style in a format."""
    rollouts, failed = run_of_style(style, random.Random(f"{style.name} {seed}"))
    causes = _causes(rollouts, name, folder)
    classes, evidence, others = Counter[str](), "", 0
    for at, (cause, words) in enumerate(causes):
        known = CLASS_OF.get(cause, "policy")
        if at not in failed:
            others += known != "policy"
            continue
        classes[known] += 1
        if (known == "infrastructure") != style.is_infrastructure:
            evidence = f"{cause}: {words}"
    return Told(style, name, classes, evidence, others)


def told_together(name: str, seed: int, folder: Path, each: int = 4) -> list[Told]:
    """The same of a few rollouts of every style that a format can write, all in one run: quicker, and
    without what only the course of a run shows.
    """
    dice = random.Random(seed)
    rollouts = [_usual(step, f"How many are {n}?", dice) for step in range(4) for n in range(40)]
    styles: list[Style | None] = [None] * len(rollouts)
    for style in (one for one in STYLES if name in formats_of(one)):
        for number in range(each):
            one = _usual(4, f"How many {dice.choice(_WORDS)} things are {number}?", dice)
            one.reward = 0.0
            style.change(one, dice)
            rollouts.append(one)
            styles.append(style)
    classes: dict[str, Counter[str]] = {style.name: Counter() for style in styles if style}
    for style, (cause, _) in zip(styles, _causes(rollouts, name, folder), strict=True):
        if style is not None:
            classes[style.name][CLASS_OF.get(cause, "policy")] += 1
    return [Told(one, name, classes[one.name]) for one in STYLES if one.name in classes]


def _causes(rollouts: list[Rollout], name: str, folder: Path) -> list[tuple[Any, Any]]:
    """Cause and evidence of each rollout, of a run that is written in a format."""
    frame = write_run(folder, rollouts, name).frame(["cause", "cause_evidence"])
    assert len(frame) == len(rollouts)
    nothing = [None] * len(frame)
    columns = (frame.get(key, nothing) for key in ("cause", "cause_evidence"))
    return [*zip(*columns, strict=True)]
