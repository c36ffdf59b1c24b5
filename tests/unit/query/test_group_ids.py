"""A group is of one step, one split and one id."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from written_logs import native_sample, write_lines

from board.index.discovery.discovered_runs import discover
from board.query.environments import table_of_step
from board.query.groups import group_codes, group_names, run_groups, step_grid
from board.query.open_run import open_run
from board.query.splits import of_split


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory):
    """At steps 1 and 2 groups 0 and 1 of training, with mixed rewards, and group 0 of two evaluations,
    all right and all wrong.
    """
    root = tmp_path_factory.mktemp("groups")
    rows = [
        native_sample(step, 0, index)
        | {"group_id": str(group), "split": split, "reward": float(reward)}
        for step in (1, 2)
        for index, (split, group, reward) in enumerate(
            [
                *(("train", 0, 1), ("eval/b", 0, 0), ("train", 1, 0), ("eval/a", 0, 1)),
                *(("train", 0, 0), ("eval/b", 0, 0), ("train", 1, 1), ("eval/a", 0, 1)),
            ]
        )
    ]
    write_lines(root / "run" / "log.jsonl", rows)
    (info,) = discover(root).runs
    return open_run(info)


def plain(run, step: int) -> pd.DataFrame:
    rows = run.of_step(step).astype({"group_id": str, "split": str})
    return rows.groupby(["group_id", "split"])["reward"].agg(["size", "mean"])


def test_one_id_in_several_splits_is_a_group_in_each(run):
    found = run_groups(run)
    assert found is not None
    for step in (1, 2):
        own = found.groups.steps == step
        expected = plain(run, step)
        assert found.groups.size[own].tolist() == expected["size"].tolist() == [2, 2, 2, 2]
        assert found.groups.mean[own].tolist() == expected["mean"].tolist()
        rollouts = found.of(step)
        for place in np.flatnonzero(own).tolist():
            members = rollouts.groups == place
            assert rollouts.rewards[members].mean() == found.groups.mean[place]
            assert (
                len({name for name, is_own in zip(rollouts.names, members, strict=True) if is_own})
                == 1
            )


def test_steps_and_environments_count_them_apart(run):
    assert run.steps["groups"].tolist() == [4, 4]
    assert run.steps["zero_std_group_fraction"].tolist() == [0.5, 0.5]
    table = table_of_step(run.of_step(1), ["reward"])
    assert table["without_gradient"].iloc[0] == 0.5


def test_a_name_has_its_split_only_where_the_id_alone_is_not_enough(run):
    laid, names = step_grid(run, 1)
    assert set(names) == {"0 (train)", "0 (eval/a)", "0 (eval/b)", "1"}
    assert (laid.rows >= 0).sum(axis=1).tolist() == [2, 2, 2, 2]
    alone = of_split(run, "eval/a")
    assert step_grid(alone, 1)[1] == ["0"]
    assert group_names(alone.of_step(1)).tolist() == ["0", "0"]


def test_rollouts_without_a_split_are_of_trainings_groups():
    rows = pd.DataFrame(
        {"group_id": ["a", "a", None, "a"], "split": [None, "train", "eval", "eval"]}
    )
    codes = group_codes(rows)
    assert codes[0] == codes[1] != codes[3]
    assert codes[2] == -1
    assert group_names(rows).tolist() == ["a (train)", "a (train)", "", "a (eval)"]
    assert group_codes(pd.DataFrame({"step": [1, 2]})).tolist() == [-1, -1]
