"""Files of different models, checkpoints or seeds are runs of their own; parts of one run are one run."""

from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from read_formats import reasons
from written_logs import write_lines

from board.cli.runs import find_run
from board.errors import NotFoundError
from board.index.discovery.discovered_runs import discover
from board.query.open_run import Follower

MODELS = ("gpt4", "gpt-3.5", "qwen2.5-7b", "qwen2.5-14b", "llama_seed1", "llama_seed2")
PARTS = ("rank0", "rank_12", "part-00001-of-00004", "shard3", "2024-05-01", "20240501T101010", "7")


def answers(reward: float, **extra: Any) -> list[dict[str, Any]]:
    return [
        {"question": f"q{n}", "completion": f"answer {n} {reward}", "score": reward, **extra}
        for n in range(3)
    ]


def runs_in(files: dict[str, list[dict[str, Any]]]) -> dict[str, list[str]]:
    """By name of each run, its files."""
    with TemporaryDirectory() as folder:
        for name, lines in files.items():
            write_lines(Path(folder, "results", name), lines)
        found = discover(Path(folder)).runs
        return {run.name: sorted(file.path.name for file in run.files) for run in found}


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from(MODELS), min_size=1, max_size=3, unique=True),
    st.lists(st.sampled_from(PARTS), min_size=1, max_size=3, unique=True),
)
def test_a_model_in_the_name_is_a_run_and_parts_are_of_one(models, parts):
    pairs = [*product(models, parts)]
    files = {
        f"results_{model}_{part}.jsonl": answers(number / 10)
        for number, (model, part) in enumerate(pairs)
    }
    expected = [sorted(f"results_{model}_{part}.jsonl" for part in parts) for model in models]
    assert sorted(runs_in(files).values()) == sorted(expected)


@pytest.mark.parametrize("key", ["model", "checkpoint", "seed", "model_name_or_path"])
@pytest.mark.parametrize("is_inside", [False, True])
def test_a_constant_key_tells_runs_apart_whatever_the_files_are_called(key, is_inside):
    def lines(value: Any) -> list[dict[str, Any]]:
        return answers(0.5, **({"metadata": {key: value}} if is_inside else {key: value}))

    files = {"0.jsonl": lines("first"), "1.jsonl": lines("second"), "2.jsonl": lines("second")}
    assert sorted(runs_in(files).values()) == [["0.jsonl"], ["1.jsonl", "2.jsonl"]]


def test_the_checkpoint_of_each_step_of_training_makes_no_run():
    files = {
        f"rank{n}.jsonl": [
            {
                "step": n,
                "prompt": "p",
                "response": f"r{i}",
                "reward": 0.0,
                "model": f"ckpt/step_{n}",
            }
            for i in range(2)
        ]
        for n in range(3)
    }
    assert [*runs_in(files).values()] == [sorted(files)]


def test_two_models_are_two_means_and_are_chosen_by_name(tmp_path):
    write_lines(tmp_path / "eval" / "results_gpt4.jsonl", answers(1.0))
    write_lines(tmp_path / "eval" / "results_qwen.jsonl", answers(0.0))
    runs = {run.name: Follower().run(run) for run in discover(tmp_path).runs}
    means = {name: run.rollouts["reward"].mean() for name, run in runs.items()}
    assert means == {"eval/results_gpt4.jsonl": 1.0, "eval/results_qwen.jsonl": 0.0}
    with pytest.raises(NotFoundError, match="models"):
        find_run(str(tmp_path / "eval"))
    assert find_run(str(tmp_path / "eval"), "results_qwen.jsonl").only == "results_qwen.jsonl"


def test_a_copy_of_results_counts_once(tmp_path):
    for name in ("results.jsonl", "results copy.jsonl", "results_backup.jsonl"):
        write_lines(tmp_path / "eval" / name, answers(1.0))
    (info,) = discover(tmp_path).runs
    run = Follower().run(info)
    assert run.rollout_count == 3
    assert sum("is a copy" in reason for reason, _ in reasons(run)) == 2
