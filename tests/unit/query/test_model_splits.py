"""Where several models answered the same steps every question is answered for one of them alone."""

from itertools import product
from pathlib import Path
from typing import Any

import pytest
from read_formats import run_at, run_of
from written_logs import write_lines

from board.cli import main
from board.query.group_sizes import group_sizes
from board.query.groups import group_table
from board.query.splits import splits_of

MODELS = {"small": 0.0, "large": 1.0}


def rows_of_two(splits: tuple[str, ...] = ("train", "eval")) -> list[dict[str, Any]]:
    """Four rollouts of each of three groups by each of two models, whose rewards tell them."""
    places = product(range(3), splits or ("",), range(3), MODELS, range(4))
    return [
        {
            "step": step,
            **({"split": split} if split else {}),
            "group_id": f"g{group}",
            "prompt": f"task {group}",
            "response": f"{model} {step} {number}",
            "reward": MODELS[model],
            "model": model,
        }
        for step, split, group, model, number in places
    ]


@pytest.mark.parametrize("splits", [("train", "eval"), ("eval",), ()])
def test_groups_and_their_sizes_are_those_of_one_model(tmp_path, splits):
    run = run_of(tmp_path, rows_of_two(splits))
    for name in splits_of(run):
        part = run.where(split=name)
        assert part.rollout_count == 36
        assert group_table(part)["rollouts"].tolist() == [4] * 9
        assert part.steps["reward_mean"].nunique() == 1
    sizes = group_sizes(run)
    assert sizes is not None
    assert (sizes.groups, sizes.incomplete) == (18 * max(len(splits), 1), 0)


COMMANDS = ["steps", "findings", "failures", "rollouts", "check", "metrics"]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("splits", [("train", "eval"), ()])
def test_every_command_answers_of_one_model_or_says_of_which(tmp_path, command, splits, capsys):
    write_lines(tmp_path / "run" / "log.jsonl", rows_of_two(splits))
    assert main([command, str(tmp_path / "run")]) == 0
    assert "several models answered" in "".join(capsys.readouterr())


def test_a_model_that_comes_later_makes_splits_of_the_steps_before(tmp_path: Path):
    rows = rows_of_two(("train",))
    first = [row for row in rows if row["model"] == "small" and row["step"] < 2]
    write_lines(tmp_path / "run" / "log.jsonl", first)
    assert [*splits_of(run_at(tmp_path / "run", persist=True))] == ["train"]
    later = [row for row in rows if row["step"] == 2]
    write_lines(tmp_path / "run" / "log.jsonl", [*first, *later])
    run = run_at(tmp_path / "run", persist=True)
    assert splits_of(run) == {
        "train · small": dict.fromkeys(range(3), 12),
        "train · large": {2: 12},
    }
    assert group_table(run)["rollouts"].tolist() == [4] * 12
