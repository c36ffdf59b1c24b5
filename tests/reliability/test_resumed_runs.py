"""A run that was ended and goes on with other ranks, as the board shows it."""

from pathlib import Path

import pytest
from read_formats import run_at

from exporters import RolloutExporter

ROLLOUT = {"prompt_ids": [[1]], "response_ids": [[2]]}


def train(folder: Path, attempt: str, ranks: int, steps: range, reward: float) -> None:
    for rank in range(ranks):
        with RolloutExporter(
            folder, rank=rank, world_size=ranks, attempt=attempt, start_step=steps[0]
        ) as exporter:
            for step in steps:
                exporter.log(step, **ROLLOUT, rewards=[reward])
                exporter.end_step(step)


@pytest.mark.parametrize(
    ("first", "second", "sizes", "superseded"),
    [
        ((4, range(1, 21)), (2, range(11, 16)), [4] * 10 + [2] * 5, 40),
        ((1, range(1, 4)), (3, range(3, 5)), [1, 1, 3, 3], 1),
    ],
    ids=["fewer", "more"],
)
def test_a_run_resumed_with_other_ranks_shows_each_step_once_and_whole(
    tmp_path, first, second, sizes, superseded
):
    train(tmp_path, "a", *first, 0.0)
    train(tmp_path, "b", *second, 1.0)
    run = run_at(tmp_path)
    assert run.steps["rollouts"].tolist() == sizes
    resumed = len(second[1])
    assert run.steps["reward_mean"].tolist() == [0.0] * (len(sizes) - resumed) + [1.0] * resumed
    assert run.superseded == superseded
    assert any("were written again" in problem.reason for problem in run.problems)
    assert all(run.steps["complete"])


def test_a_rotated_run_is_read_as_one(tmp_path):
    with RolloutExporter(tmp_path, rotate_bytes=1 << 16) as exporter:
        for step in range(20):
            exporter.log(step, prompt_ids=[[1]], response_ids=[list(range(4000))])
            exporter.end_step(step)
    assert len(list(tmp_path.glob("*.jsonl"))) > 3
    run = run_at(tmp_path)
    assert list(run.steps["step"]) == list(range(20))
    assert all(run.steps["complete"])
    assert not run.problems
