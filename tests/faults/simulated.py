"""Runs that nobody trained, for families of faults and of honest runs.

To add a family, write a function in a file of your own, import that file in `family_results.py`, and
decorate it (see `first_families.py`):

    @fault("judge gives half marks", sized=True)
    def _(run: Simulated) -> None:
        run.lower_rewards(env=run.envs[0])

    @honest("batches of another size")
    def _(run: Simulated) -> None:
        for row in run.from_begin():
            ...

It gets a run that is made and not yet written: `run.rows`, a Row for each rollout, ascending by step.
It changes the rows that it wants (values, texts, keys: also `extras`, which are written as they are), or
replaces the list. What it draws comes from `run.dice`. A fault begins at `run.begin`, which is drawn; one
that grows says over how many steps: `@fault(..., grows=True)`, `run.growth`. `sized=True`: its size is
`run.size` standard deviations of the step's mean from step to step, drawn between 1 and 10;
`by_noise(of)` is that in units of the metric. Other families are as large as they are. Nothing else has
to be said: no rule's name is asked for. A family counts as found where any finding begins within three
steps of it.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from board.index.discovery.discovered_runs import discover
from board.query.open_run import Run, open_run

FORMATS = ("tokens", "native", "generic")
_WORDS = [
    f"{a}{b}" for a in ("ba", "ko", "mi", "ru", "te", "sa") for b in ("n", "l", "r", "st", "x")
]


@dataclass
class Row:
    """A rollout. parts: of the reward, which is their sum with weights 1 and 0.2 unless `reward` is set.
    tokens: of the response; entropy, apart and kl: means over these of the entropy, of |policy - sampler|
    and of policy - reference, in nats. extras: further keys.
    """

    step: int
    rank: int
    env: str
    group: str
    prompt: str
    response: str
    parts: dict[str, float]
    tokens: int
    entropy: float
    apart: float
    kl: float
    finish: str = "stop"
    version: int = 0
    reward: float | None = None
    extras: dict[str, Any] = field(default_factory=dict)

    @property
    def score(self) -> float:
        """The reward."""
        if self.reward is not None:
            return self.reward
        return self.parts["correct"] + 0.2 * self.parts["format"]


@dataclass
class Simulated:
    """A run before it is written. format: in which; begin, growth, size: see above."""

    seed: str
    dice: random.Random
    steps: int
    envs: list[str]
    ranks: int
    groups: int
    group_size: int
    format: str
    begin: int
    growth: int
    size: float
    rows: list[Row] = field(default_factory=list)

    def from_begin(self, env: str | None = None, rank: int | None = None) -> Iterator[Row]:
        """The rollouts from the fault's step on, of an environment or a rank where it is given."""
        for row in self.rows:
            if row.step >= self.begin and env in (None, row.env) and rank in (None, row.rank):
                yield row

    def grown(self, row: Row) -> float:
        """The part of a growing fault that a rollout has, from 0 to 1."""
        return min((row.step - self.begin + 1) / self.growth, 1.0)

    def means(self, of: str, env: str | None = None, rank: int | None = None) -> np.ndarray:
        """By step the mean of "reward", "tokens", "entropy", "apart" or "kl", of an environment or a rank
        where it is given.
        """
        key = "score" if of == "reward" else of
        by_step: dict[int, list[float]] = {}
        for row in self.rows:
            if env in (None, row.env) and rank in (None, row.rank):
                by_step.setdefault(row.step, []).append(float(getattr(row, key)))
        return np.array([np.mean(values) for _, values in sorted(by_step.items())])

    def by_noise(self, of: str, env: str | None = None, rank: int | None = None) -> float:
        """`size` standard deviations of the step's mean from step to step."""
        return self.size * float(np.diff(self.means(of, env, rank)).std() / np.sqrt(2))

    def lower_rewards(
        self, by: float | None = None, env: str | None = None, rank: int | None = None
    ) -> None:
        """Right answers are called wrong until the mean reward of these rollouts is lower by so much, or
        by `size` standard deviations; `size` is what that comes to where no more can be lost.
        """
        level = np.mean([row.parts["correct"] for row in self.from_begin(env, rank)])
        if by is None:
            by = self.by_noise("reward", env, rank)
            self.size *= min(float(level) / by, 1.0)
        for row in self.from_begin(env, rank):
            if row.parts["correct"] and self.dice.random() < by / max(level, 1e-9):
                row.parts["correct"] = 0.0


@dataclass(frozen=True)
class Family:
    """A kind of run. change: what makes it of an ordinary one."""

    name: str
    change: Callable[[Simulated], None]
    is_fault: bool
    is_sized: bool = False
    grows: bool = False
    needs: str = ""
    written: str = ""


FAMILIES: list[Family] = []
Change = Callable[[Simulated], None]


def fault(
    name: str, *, sized: bool = False, grows: bool = False, needs: str = ""
) -> Callable[[Change], Change]:
    """Lists a family of faults. needs: "envs" or "ranks", of which two are drawn then, or a format."""

    def listed(change: Change) -> Change:
        written = change.__module__.rpartition(".")[2]
        FAMILIES.append(Family(name, change, True, sized, grows, needs, written))
        return change

    return listed


def honest(name: str, *, needs: str = "") -> Callable[[Change], Change]:
    """Lists a family of runs in which nothing is wrong."""

    def listed(change: Change) -> Change:
        written = change.__module__.rpartition(".")[2]
        FAMILIES.append(Family(name, change, False, needs=needs, written=written))
        return change

    return listed


def simulated(family: Family, seed: int) -> Simulated:
    """A run of a family: all that is not of the family is drawn."""
    dice = random.Random(f"{family.name} {seed}")
    steps = dice.randrange(50, 121)
    envs = dice.choice((1, 1, 2, 3)) if family.needs != "envs" else dice.choice((2, 3))
    ranks = dice.choice((1, 2, 4)) if family.needs != "ranks" else dice.choice((2, 4))
    run = Simulated(
        f"{family.name} {seed}",
        dice,
        steps,
        [f"env{n}" for n in range(envs)],
        ranks,
        dice.choice((4, 8, 12)),
        dice.choice((2, 4, 8)),
        family.needs if family.needs in FORMATS else dice.choice(FORMATS),
        dice.randrange(steps * 3 // 10, steps - 9),
        dice.randrange(4, 13),
        dice.uniform(1, 10),
    )
    run.rows = _ordinary(run)
    family.change(run)
    return run


def _ordinary(run: Simulated) -> list[Row]:
    """Rollouts of a policy that learns smoothly, or does not."""
    dice, places = run.dice, range(run.steps)
    low, gain = dice.uniform(0.15, 0.6), dice.choice((0.0, 0.2, 0.35))
    middle, width = dice.uniform(0.2, 0.8) * run.steps, dice.uniform(0.1, 0.25) * run.steps
    wander = np.cumsum([dice.gauss(0, 0.05) for _ in places])
    rise = [1 / (1 + np.exp(-(step - middle) / width)) for step in places]
    length, longer = dice.uniform(20, 60), dice.uniform(-0.3, 0.5)
    entropy, less = dice.uniform(0.3, 1.2), dice.uniform(0.0, 0.6)
    noise = dice.uniform(0.002, 0.01)
    prompts = [(" ".join(dice.sample(_WORDS, 4)), dice.betavariate(2, 2)) for _ in range(400)]
    offset = {env: dice.gauss(0, 0.4) for env in run.envs}
    rows: list[Row] = []
    for step in places:
        for group in range(run.groups):
            prompt, ease = dice.choice(prompts)
            env = run.envs[group % len(run.envs)]
            level = np.log(low / (1 - low)) + 5 * gain * rise[step] + wander[step] + offset[env]
            chance = 1 / (1 + np.exp(-(level + 3 * (ease - 0.5))))
            for _ in range(run.group_size):
                tokens = max(int(dice.gauss(length * (1 + longer * rise[step]), length / 4)), 3)
                parts = {
                    "correct": float(dice.random() < chance),
                    "format": float(dice.random() < 0.9),
                }
                rows.append(
                    Row(
                        step,
                        group % run.ranks,
                        env,
                        f"{step}-{group}",
                        f"{env}: {prompt}",
                        " ".join(dice.choices(_WORDS, k=tokens)),
                        parts,
                        tokens,
                        max(dice.gauss(entropy * (1 - less * rise[step]), 0.1), 0.01),
                        abs(dice.gauss(noise, noise / 4)),
                        abs(dice.gauss(0.02, 0.01)) * (0.2 + rise[step]),
                        version=step,
                    )
                )
    return rows


def write(run: Simulated, folder: Path) -> Run:
    """Writes a run in its format and opens it."""
    folder.mkdir(parents=True)
    line_of = {"tokens": _tokens, "native": _native, "generic": _generic}[run.format]
    dice = np.random.default_rng(len(run.rows))
    lines = [
        orjson.dumps(line_of(row, dice), option=orjson.OPT_SERIALIZE_NUMPY) for row in run.rows
    ]
    (folder / "log.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    (info,) = discover(folder).runs
    return open_run(info)


def _native(row: Row, dice: np.random.Generator) -> dict[str, Any]:
    return {
        "type": "sample",
        "step": row.step,
        "rank": row.rank,
        "env": row.env,
        "group_id": row.group,
        "prompt": row.prompt,
        "response": row.response,
        "reward": row.score,
        "rewards": row.parts,
        "finish_reason": row.finish,
        "policy_version": row.version,
        **row.extras,
    }


def _tokens(row: Row, dice: np.random.Generator) -> dict[str, Any]:
    n = max(row.tokens, 1)
    policy = -dice.exponential(row.entropy, n)
    arrays = {
        "response_ids": dice.integers(100, 900, n),
        "logprobs": policy.round(5),
        "sampling_logprobs": (policy + dice.normal(0, row.apart * 1.25, n)).round(5),
        "ref_logprobs": (policy - row.kl + dice.normal(0, 0.05, n)).round(5),
        "entropy": dice.exponential(row.entropy, n).round(5),
    }
    return {**_native(row, dice), **arrays, **row.extras}


def _generic(row: Row, dice: np.random.Generator) -> dict[str, Any]:
    line = {"step": row.step, "env": row.env, "question": row.prompt, "completion": row.response}
    scores = {
        "score": row.score,
        "group_id": row.group,
        "stop_reason": row.finish,
        "tokens": row.tokens,
    }
    return {**line, **scores, **row.extras}
