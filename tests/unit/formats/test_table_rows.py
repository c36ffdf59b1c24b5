"""Rows of tables that trainers log: what a null means of a reward function, and of anything else."""

import json
import math

import pytest
from read_formats import reasons, run_at

from board.formats.table_rows import with_missing_rewards

COLUMNS = ["step", "prompt", "completion", "right", "short", "note", "advantage"]


def table(rows):
    """A W&B table of TRL's completions; rows: right, short and note of each."""
    data = [[1, "a question?", f"answer {n}", *row, 0.5] for n, row in enumerate(rows)]
    return json.dumps({"columns": COLUMNS, "data": data})


@pytest.mark.parametrize(
    ("rows", "rewards"),
    [
        ([(1.0, None, None), (0.0, 0.5, "x")], None),
        ([(1.0, None, None), (0.0, None, "x")], [1.0, 0.0]),
    ],
)
def test_a_row_that_one_of_several_functions_scored_has_no_reward_of_that_one(
    tmp_path, rows, rewards
):
    folder = tmp_path / "media" / "table"
    folder.mkdir(parents=True)
    (folder / "completions_1_0123abcd.table.json").write_text(table(rows))
    run = run_at(tmp_path)
    if rewards is None:
        assert "reward" not in run.rollouts
        assert any(reason.startswith("no reward is recorded") for reason, _ in reasons(run))
    else:
        assert run.rollouts["reward"].tolist() == rewards


def test_only_rewards_of_other_rows_are_missing():
    rows = [{"right": 1.0, "note": None, "advantage": None}, {"right": None, "advantage": 0.5}]
    first, second = with_missing_rewards([{**rows[0], "advantage": 1.0}, rows[1]])
    assert first == {"right": 1.0, "note": None, "advantage": 1.0}
    assert math.isnan(second["right"])
    assert with_missing_rewards([{"score": 0.5}, {"score": None}])[1] == {"score": None}
