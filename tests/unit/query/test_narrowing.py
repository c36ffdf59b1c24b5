"""A run narrowed to environments, a split or a filter is the run that would hold these rollouts alone."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
import written_logs
from plain_steps import plain_steps, rows_of_split
from read_formats import run_at, run_of

from board.analysis.findings import facts_of
from board.analysis.step_tokens import read_step
from board.core import sampling
from board.core.groups.statistics import fitted_convention
from board.query import steps
from board.query.advantages import advantage_fit
from board.query.groups import run_groups
from board.query.open_run import OpenOptions, Run
from board.query.prompts import prompt_table, run_prompts

ENVS = ("all", "code", "maths")


def rollouts() -> Iterator[dict[str, Any]]:
    """Steps of one environment, of several, and of several with rollouts that name none; groups and
    prompts of one, of several and of none, and rollouts that are there twice.
    """
    dice = np.random.default_rng(3)
    for step in range(7):
        stored = ([ENVS[step % 3]], [*ENVS], [*ENVS, None], ["code", "maths"])[step % 4]
        for place in range(int(dice.integers(12, 24))):
            env = stored[int(dice.integers(len(stored)))]
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
            row = {k: v for k, v in row.items() if v is not None and dice.random() < 0.95}
            if "step" in row:
                yield row


@pytest.fixture(scope="module", params=["in memory", "on disk", "capped", "resumed"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Over several ranges of steps, and of rows."""
    kind, rows = request.param, [*rollouts()]
    again = [row | {"reward": row.get("reward", 0.0) + 3.0} for row in rows if row["step"] > 4]
    options = OpenOptions(max_per_step=15 if kind == "capped" else None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps, "_CHUNK_VALUES", 50)
        patch.setattr(sampling, "_CHUNK_ROWS", 30)
        folder, written = tmp_path_factory.mktemp("envs"), rows + again * (kind == "resumed")
        result = run_of(folder, written, options, persist=kind == "on disk")
        assert (result.superseded > 0) == (kind == "resumed")
        yield result


@pytest.mark.parametrize(
    ("envs", "split"),
    [(("all",), "eval"), (("code", "maths"), "train"), (ENVS, None)],
)
def test_steps_are_those_of_the_rollouts(run, envs, split):
    result = run.where(envs=envs, split=split)
    rows = run.rollouts
    own = rows["env"].isin(envs)
    if split is not None:
        own &= rows_of_split(rows["split"], split)
    rows = rows[own].reset_index(drop=True)
    pd.testing.assert_frame_equal(
        result.step_table(quantiles=True).to_pandas(), plain_steps(rows, run.metrics), rtol=1e-12
    )
    assert result.counts == rows.groupby("step").size().to_dict()


@pytest.mark.parametrize("envs", [("maths",), ("code", "maths")])
def test_narrowing_is_the_run_that_holds_these_rollouts_alone(tmp_path, envs):
    rows = [*rollouts()]
    result = run_of(tmp_path / "whole", rows).where(envs=envs)
    alone = run_of(tmp_path / "alone", [row for row in rows if row.get("env") in envs])
    pd.testing.assert_frame_equal(
        result.step_table(quantiles=True).to_pandas(), alone.steps, rtol=1e-12
    )
    ours, theirs = run_groups(result), run_groups(alone)
    for name in ("steps", "size", "scored", "right", "graded", "outcomes", "mean"):
        mine, others = getattr(ours.groups, name), getattr(theirs.groups, name)
        np.testing.assert_array_equal(mine, others, err_msg=name)
    assert visits(result) == visits(alone)


def visits(run: Run) -> dict[int, str]:
    """By key of a prompt how it went."""
    result = run_prompts(run)
    table = prompt_table(run, result.keys.tolist())
    rounded = [[*np.round(rewards, 9)] for rewards in table["rewards"]]
    ends = table[["rollouts"]].round(9).to_numpy().tolist()
    return dict(zip(result.keys.tolist(), map(repr, zip(rounded, ends, strict=True)), strict=True))


def test_an_environment_may_have_groups_at_some_steps_alone(tmp_path):
    """Its tables of steps are of one type with those of the others."""
    rows = [*rollouts()]
    for row in rows:
        if row["step"] < 4 and row.get("env") == "maths":
            row.pop("group_id", None)
    groups = run_of(tmp_path, rows).where(envs=["maths"]).steps["groups"]
    assert groups.isna().any()
    assert (groups > 0).any()


@pytest.mark.parametrize("envs", [("code",), ("code", "maths")])
def test_advantages_scaled_by_the_spread_of_a_step_are_recognised_in_each_environment(
    tmp_path, envs
):
    """The trainer scaled by all rewards of the step, not by those that are looked at."""
    dice = np.random.default_rng(1)
    rows: list[dict[str, Any]] = []
    for step in range(6):
        widths = {"all": 1.0, "code": 5.0, "maths": 0.1}
        rewards = {env: dice.normal(size=(4, 4)) * width for env, width in widths.items()}
        distribution = np.concatenate([*rewards.values()]).std(ddof=1) + 1e-4
        for env, groups in rewards.items():
            for number, group in enumerate(groups):
                own = {"step": step, "env": env, "group_id": f"{env} {number}"}
                made = (group - group.mean()) / distribution
                for reward, advantage in zip(group.tolist(), made.tolist(), strict=True):
                    rows.append(own | {"reward": reward, "advantage": advantage})
    run = run_of(tmp_path, rows).where(envs=envs)
    counts, result = facts_of(run).fit, run_groups(run)
    assert fitted_convention(counts).convention == "batch_std"
    fit = result.fit(3)
    assert not fit.differs.any()


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run_at(written_logs.native_run(tmp_path_factory.mktemp("narrowed") / "run"))


def test_a_rollout_keeps_its_index_and_is_found_by_it(native):
    result = native.where(envs=["code"])
    rows = result.of_step(20)
    assert rows["index"].tolist() == [1, 3, 5, 7]
    assert result.row(20, 7)["rollout_id"] == rows["rollout_id"].iloc[-1]
    assert read_step(result, 20).indices.tolist() == [1, 3, 5, 7]


def test_no_choice_is_the_run_itself_and_what_holds_for_none_has_no_steps(native):
    assert native.where(envs=[]) is native
    for none in (native.where(envs=["mars"]), native.where("reward > 1e9")):
        assert none.rollout_count == len(none.steps) == 0


FIRST = ("reward > 0.5", lambda rows: rows["reward"] > 0.5)
CODE = ("env == code", lambda rows: rows["env"] == "code")
TEXT = ('response contains "1"', lambda rows: rows["response"].str.contains("1"))


@pytest.mark.parametrize("filters", [[FIRST], [TEXT], [FIRST, CODE], [CODE, FIRST]])
def test_filters_leave_the_run_that_holds_these_rollouts_alone(native, filters):
    result, rows = native, native.rollouts
    for text, holds in filters:
        result, rows = result.where(text), rows[holds(rows)]
    assert 0 < result.rollout_count == len(rows) < native.rollout_count
    assert result.rollouts["rollout_id"].tolist() == rows["rollout_id"].tolist()
    means = rows.groupby("step")["reward"].mean().tolist()
    assert result.steps["reward_mean"].tolist() == pytest.approx(means)
    assert native.where(" and ".join(text for text, _ in filters)).counts == result.counts


def test_a_range_of_steps_has_the_steps_of_the_range_alone(native):
    first, *_, before_last, _ = native.counts
    result = native.where(steps=(first, before_last))
    assert {**result.counts} == {s: n for s, n in native.counts.items() if s <= before_last}
    assert result.steps["step"].tolist() == [*result.counts]
    assert result.columns == native.columns


def test_advantages_under_a_filter_are_compared_with_whole_groups(tmp_path):
    rewards = [0.0, 1.0, 2.0, 5.0]
    rows = [
        {"step": 1, "group_id": "g", "response": "r", "reward": r, "advantage": r - 2.0}
        for r in rewards
    ]
    fit = advantage_fit(run_of(tmp_path, rows).where("reward > 0.5"))
    assert fit.differs["dr_grpo"].tolist() == [0]
    assert fit.informative.tolist() == [2]  # a reward at the group's mean tells nothing


def test_a_filter_and_environments_hold_together_in_either_order(native):
    one = native.where(envs=["code"]).where("reward > 0.5")
    other = native.where("reward > 0.5").where(envs=["code"])
    assert one.rollouts["rollout_id"].tolist() == other.rollouts["rollout_id"].tolist()
    for run in (one, other):
        assert (run.envs, run.expression) == (("code",), "reward > 0.5")


def test_another_choice_is_another_version(native):
    choices = [native.where(envs=envs) for envs in ([], ["code"], ["math"])]
    choices += [native.where("env == code"), native.where("reward > 0.5").where("env == code")]
    assert len({run.version for run in choices}) == len(choices)
