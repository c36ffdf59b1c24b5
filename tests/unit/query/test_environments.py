"""A run narrowed to environments and a split is the run that would hold these rollouts alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from plain_steps import plain_steps, rows_of_split
from written_logs import write_lines

from board.analysis.findings import facts_of
from board.core.groups.statistics import fitted_convention
from board.index.discovery.discovered_runs import discover
from board.query import run_rows, steps
from board.query.groups import run_groups
from board.query.open_run import Follower, OpenOptions, Run
from board.query.prompts import prompt_table, run_prompts
from board.query.splits import of_split

ENVS = ("all", "code", "maths")
CHOICES = (("maths",), ("code", "maths"))


def rollouts() -> Iterator[dict[str, Any]]:
    """Steps of one environment, of several, and of several with rollouts that name none; groups and
    prompts of one, of several and of none, and rollouts that are there twice.
    """
    dice = np.random.default_rng(3)
    for step in range(7):
        held = ([ENVS[step % 3]], [*ENVS], [*ENVS, None], ["code", "maths"])[step % 4]
        for place in range(int(dice.integers(12, 24))):
            env = held[int(dice.integers(len(held)))]
            own = f"{env} " if step % 2 else ""
            row: dict[str, Any] = {"step": step, "rank": int(dice.integers(2)), "response": "r"}
            row["env"] = env
            row["group_id"] = f"{own}g{dice.integers(4)}"
            row["prompt"] = f"{own}p{dice.integers(4)}"
            row["reward"] = float(dice.integers(3)) / 2
            row["rewards"] = {"correct": float(dice.integers(2)), "style": float(dice.random())}
            row["advantage"] = float(dice.normal())
            row["timestamp"] = 100.0 * step + place
            row["response_tokens"] = ["x"] * int(dice.integers(1, 5))
            row["rollout_id"] = f"i{dice.integers(9)}"
            row["split"] = str(dice.choice(["train", "eval"])) if step in (1, 2, 5) else None
            yield {k: v for k, v in row.items() if v is not None and dice.random() < 0.95}


def with_step(rows: Iterator[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if "step" in row]


def run_in(folder: Path, rows: Sequence[dict[str, Any]], options: OpenOptions, **kind: bool) -> Run:
    write_lines(folder / "log.jsonl", rows)
    return Follower(options, **kind).run(discover(folder).runs[0])


@pytest.fixture(scope="module", params=["in memory", "on disk", "capped"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("envs")
    options = OpenOptions(max_per_step=15 if request.param == "capped" else None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps, "_CHUNK_ROLLOUTS", 50)
        kept = request.param == "on disk"
        return run_in(folder / "run", with_step(rollouts()), options, persist=kept)


def rows_of(run: Run, envs: Sequence[str], split: str | None) -> pd.DataFrame:
    rows = run.rollouts
    own = rows["env"].isin(envs)
    if split is not None:
        own &= rows_of_split(rows["split"], split)
    return rows[own].reset_index(drop=True)


@pytest.mark.parametrize(
    ("envs", "split"),
    [
        (("maths",), None),
        (("all",), "eval"),
        (("code", "maths"), None),
        (("code", "maths"), "train"),
        (ENVS, None),
    ],
)
def test_steps_are_those_of_the_rollouts(
    run: Run, envs: tuple[str, ...], split: str | None
) -> None:
    found = (run if split is None else of_split(run, split)).where(envs=envs)
    rows = rows_of(run, envs, split)
    expected = plain_steps(rows, run.metrics)
    pd.testing.assert_frame_equal(found.steps, expected, rtol=1e-12)
    assert found.counts == rows.groupby("step").size().to_dict()


@pytest.mark.parametrize("is_resumed", [False, True])
def test_quantiles_of_several_environments_are_those_of_the_rollouts_that_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_resumed: bool
) -> None:
    """Whether or not each row of the index is one, over several ranges of steps."""
    monkeypatch.setattr(run_rows, "_CHUNK_ROWS", 30)
    rows = with_step(rollouts())
    again = [row | {"reward": row.get("reward", 0.0) + 3.0} for row in rows if row["step"] > 4]
    run = run_in(tmp_path / "run", rows + again * is_resumed, OpenOptions(), persist=True)
    assert (run.superseded > 0) == is_resumed
    found = run.where(envs=("code", "maths"))
    own = rows_of(run, ("code", "maths"), None)
    expected = plain_steps(own, run.metrics)
    between = [
        name
        for name in map(str, expected)
        if name.endswith(("_q05", "_q25", "_q50", "_q75", "_q95"))
    ]
    assert between
    pd.testing.assert_frame_equal(found.steps[between], expected[between], rtol=1e-12)


def test_narrowing_is_the_run_that_holds_these_rollouts_alone(tmp_path: Path) -> None:
    rows = with_step(rollouts())
    whole = run_in(tmp_path / "whole", rows, OpenOptions())
    for envs in CHOICES:
        own = [row for row in rows if row.get("env") in envs]
        alone = run_in(tmp_path / envs[0] / str(len(envs)), own, OpenOptions())
        found = whole.where(envs=envs)
        pd.testing.assert_frame_equal(found.steps, alone.steps, rtol=1e-12)
        ours, theirs = run_groups(found), run_groups(alone)
        assert ours is not None
        assert theirs is not None
        for name in ("steps", "size", "scored", "right", "graded", "outcomes", "mean"):
            mine, others = getattr(ours.groups, name), getattr(theirs.groups, name)
            np.testing.assert_array_equal(mine, others, err_msg=name)
        assert visits(found) == visits(alone)


def visits(run: Run) -> dict[int, str]:
    """By key of a prompt how it went."""
    found = run_prompts(run)
    assert found is not None
    table = prompt_table(run, found.keys.tolist())
    rounded = [[*np.round(rewards, 9)] for rewards in table["rewards"]]
    ends = table[["first_rate", "last_rate", "rollouts"]].round(9).to_numpy().tolist()
    return dict(zip(found.keys.tolist(), map(repr, zip(rounded, ends, strict=True)), strict=True))


def test_an_environment_may_have_groups_at_some_steps_alone(tmp_path: Path) -> None:
    """Its tables of steps are of one type with those of the others."""
    rows = with_step(rollouts())
    for row in rows:
        if row["step"] < 4 and row.get("env") == "maths":
            row.pop("group_id", None)
    run = run_in(tmp_path / "run", rows, OpenOptions())
    groups = run.where(envs=["maths"]).steps["groups"]
    assert groups.isna().any()
    assert (groups > 0).any()


@pytest.mark.parametrize("envs", [("code",), ("code", "maths")])
def test_advantages_scaled_by_the_spread_of_a_step_are_recognised_in_each_environment(
    tmp_path: Path, envs: tuple[str, ...]
) -> None:
    """The trainer scaled by all rewards of the step, not by those that are looked at."""
    dice = np.random.default_rng(1)
    rows: list[dict[str, Any]] = []
    for step in range(6):
        widths = {"all": 1.0, "code": 5.0, "maths": 0.1}
        rewards = {env: dice.normal(size=(4, 4)) * width for env, width in widths.items()}
        spread = np.concatenate([*rewards.values()]).std(ddof=1) + 1e-4
        for env, groups in rewards.items():
            for number, group in enumerate(groups):
                own = {"step": step, "env": env, "group_id": f"{env} {number}"}
                made = (group - group.mean()) / spread
                for reward, advantage in zip(group.tolist(), made.tolist(), strict=True):
                    rows.append(own | {"reward": reward, "advantage": advantage})
    run = run_in(tmp_path / "run", rows, OpenOptions())
    counts = facts_of(run.where(envs=envs)).fit
    found = run_groups(run.where(envs=envs))
    assert counts is not None
    assert fitted_convention(counts).convention == "batch_std"
    assert found is not None
    fit = found.fit(3)
    assert fit is not None
    assert not fit.differs.any()
