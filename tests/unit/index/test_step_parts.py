"""What is kept of each step gives what all rollouts of the run give, however the log came about."""

import json
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from plain_facts import plain_facts
from plain_groups import is_right
from read_formats import info_at, run_of

from board.analysis.findings import default_thresholds, facts_of
from board.core.findings.facts import Facts
from board.core.findings.finding import Finding
from board.core.findings.rules import find
from board.core.groups.solve_rates import pass_at_k_by_step
from board.core.groups.statistics import CONVENTIONS, by_step
from board.index import build
from board.index.reading import batch, scan
from board.query import steps
from board.query.columns import numbers
from board.query.environments import environment_curves
from board.query.groups import run_groups
from board.query.open_run import Follower, OpenOptions, Run

STEPS = 6
NUMBERS = ("reward", "advantage", "response_tokens", "timestamp", "rank", "rewards.correct")


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups span segments, steps span chunks, and every kind has several parts."""
    for module, name, value in (
        (scan, "PART_ROWS", 7),
        (batch, "PART_ROWS", 7),
        (build, "PART_ROWS", 7),
        (steps, "_CHUNK_VALUES", 30),
    ):
        monkeypatch.setattr(module, name, value)


def rollouts(dice: np.random.Generator, rank: int, step: int, *, parts: bool) -> Iterator[Any]:
    """One rank's rollouts of a step: unequal groups that other ranks share, and gaps in everything."""
    for place in range(int(dice.integers(3, 10))):
        row: dict[str, Any] = {"step": step, "rank": rank, "response": f"r{dice.integers(9)}"}
        row["response_tokens"] = ["x"] * int(dice.integers(1, 5))
        optional = {
            "group_id": f"g{dice.integers(4)}",
            "env": str(dice.choice(["all", "maths"])),
            "prompt": f"p{dice.integers(5)}",
            "reward": float(dice.integers(3)) / 2,
            "advantage": float(dice.normal()),
            "timestamp": 100.0 * step + place,
            "rollout_id": f"i{dice.integers(40)}",
        }
        row |= {name: value for name, value in optional.items() if dice.random() < 0.85}
        if parts:
            row["rewards"] = {"correct": float(dice.integers(2)), "style": float(dice.random())}
        yield row


def grown(folder: Path, seed: int, options: OpenOptions) -> Iterator[Run]:
    """A run as it is followed: steps come rank by rank, then a resume writes some again, then more."""
    dice = np.random.default_rng(seed)
    folder.mkdir()
    follower = Follower(options)
    for step in (*range(STEPS), *range(STEPS // 2, STEPS + 2)):
        for rank in range(2):
            with (folder / f"data_rank{rank}.jsonl").open("a") as file:
                rows = rollouts(dice, rank, step, parts=bool(seed % 2))
                file.writelines(json.dumps(row) + "\n" for row in rows)
            if dice.random() < 0.08:
                yield follower.run(info_at(folder))
    yield follower.run(info_at(folder))


def plain(run: Run) -> tuple[Facts, pd.DataFrame]:
    """The facts by a look at every rollout."""
    rows = run.rollouts
    stored = {n: numbers(rows, n) for n in (*NUMBERS, "rewards.style") if n in rows}
    codes = {
        n: np.asarray(rows[n].cat.codes, np.int64) if n in rows else None
        for n in ("group_id", "env")
    }
    envs = None if codes["env"] is None else (codes["env"], [*rows["env"].cat.categories])
    facts = facts_of(run)
    made = plain_facts(
        facts.curves,
        rows["step"].to_numpy(np.int64),
        rows["index"].to_numpy(np.int64),
        stored,
        codes["group_id"],
        right_of(rows),
        envs,
        world_sizes=facts.world_sizes,
        growing=facts.growing,
        copies=facts.copies,
        rewritten=facts.rewritten,
        by_restart=facts.by_restart,
        # Why rollouts failed has tests of its own.
        causes=facts.causes,
        failures_by=facts.failures_by,
        failed_of=facts.failed_of,
    )
    return made, rows


def right_of(rows: pd.DataFrame) -> np.ndarray:
    values = numbers(rows, "rewards.correct")
    if not np.isfinite(values).any():
        return is_right(numbers(rows, "reward"))
    return np.where(np.isfinite(values), (values >= np.nanmax(values)).astype(float), np.nan)


def assert_same(result: object, expected: object, name: str = "") -> None:
    """Equal arrays, but for the last bits of sums, in dataclasses, dictionaries and tuples alike."""
    if is_dataclass(result):
        for field in fields(result):
            if field.name not in ("codes", "prompts"):
                name = field.name
                assert_same(getattr(result, name), getattr(expected, name), name)
    elif isinstance(result, dict):
        for key in result:
            assert_same(result[key], expected[key], f"{name} {key}")
    elif isinstance(result, tuple):
        for left, right in zip(result, expected, strict=True):
            assert_same(left, right, name)
    elif isinstance(expected, np.ndarray):
        np.testing.assert_allclose(result, expected, rtol=1e-9, atol=1e-9, err_msg=name)


@pytest.mark.parametrize(
    ("seed", "options"),
    [(0, OpenOptions()), (1, OpenOptions()), (2, OpenOptions(max_per_step=5))],
    ids=["without parts of the reward", "with parts", "capped"],
)
def test_what_is_kept_of_steps_says_what_all_rollouts_say(seed, options, tmp_path):
    resumed = False
    for run in grown(tmp_path / "run", seed, options):
        expected, rows = plain(run)
        facts = facts_of(run)
        resumed |= run.superseded > 0
        assert_same(facts.checks, expected.checks)
        assert_same(facts.fit, expected.fit)
        if facts.expected_advantages is not None:
            for name in CONVENTIONS:
                values = facts.expected_advantages(facts.steps[-1], name)
                assert_same(values, expected.expected_advantages(facts.steps[-1], name))
        assert_groups(run, expected)
        assert_rows(facts, expected)
        for column in ("reward", "response_tokens", "step"):
            assert_environments(run, rows, column)
        for limits in (default_thresholds(), eager()):
            message = find(facts, limits)
            assert rounded(message) == rounded(find(expected, limits))
    assert resumed
    assert {"advantages", "reward_length", "unscored"} <= {f.rule for f in message}


def rounded(findings: list[Finding]) -> list[Finding]:
    """Without the last digits of sums."""
    return [
        replace(one, value=round(one.value, 9), strength=round(one.strength, 9)) for one in findings
    ]


def eager() -> dict[str, dict[str, float]]:
    """Thresholds at which most rules have something to say of a short random run."""
    return {
        rule: {name: 2.0 if "steps" in name else 0.01 for name in limits} | {"enabled": 1.0}
        for rule, limits in default_thresholds().items()
    }


def assert_rows(facts: Facts, expected: Facts) -> None:
    for step in facts.steps.tolist():
        result, wanted = facts.rows_of(step), expected.rows_of(step)
        assert result.indices.tolist() == wanted.indices.tolist()
        assert result.read_groups().tolist() == wanted.read_groups().tolist()
        assert result.read_envs().tolist() == wanted.read_envs().tolist()


def assert_groups(run: Run, expected: Facts) -> None:
    result = run_groups(run)
    if expected.groups is None:
        assert result is None
        return
    assert_same(result.groups, expected.groups)
    assert_same(result.by_step, by_step(expected.groups))
    assert_same(pass_at_k_by_step(result.groups, 2), pass_at_k_by_step(expected.groups, 2))
    for step in run.counts:
        assert result.of(step).groups.tolist() == expected.rows_of(step).read_groups().tolist()


def assert_environments(run: Run, rows: pd.DataFrame, column: str) -> None:
    result = environment_curves(run, column)
    by_env = rows.groupby(["env", "step"], observed=True)[column]
    for name, means, counts in zip(result.names, result.means, result.counts, strict=True):
        own = by_env.mean().reindex([(name, step) for step in result.steps.tolist()])
        np.testing.assert_allclose(means, own)
        assert counts.sum() == by_env.count()[name].sum()
    np.testing.assert_allclose(result.overall, rows.groupby("step")[column].mean())


def test_copies_are_kept_with_the_rank_that_wrote_them(tmp_path):
    row = {"step": 1, "response": "a", "rollout_id": "x", "reward": 1.0, "prompt": "p"}
    run = run_of(tmp_path, ({**row, "rank": rank} for rank in range(2)), persist=True)
    (copy,) = facts_of(run).copies
    assert (copy.step, copy.index, copy.of, copy.rank) == (1, 1, 0, 1)
