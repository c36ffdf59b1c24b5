"""Files of different models, checkpoints or seeds are runs of their own; parts of one run are one run."""

from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from read_formats import ONE_OF_EACH, real_run, reasons, run_of
from written_logs import write_lines

from board.cli.runs import find_run
from board.errors import NotFoundError
from board.index.discovery.discovered_runs import discover
from board.query.open_run import Follower, Run
from board.query.splits import splits_of

MODELS = ("gpt4", "gpt-3.5", "qwen2.5-7b", "qwen2.5-14b", "llama_seed1", "llama_seed2")
PARTS = ("rank0", "rank_12", "part-00001-of-00004", "shard3", "2024-05-01", "20240501T101010", "7")


def answers(reward: float, **extra: Any) -> list[dict[str, Any]]:
    return [
        {"question": f"q{n}", "completion": f"answer {n} {reward}", "score": reward, **extra}
        for n in range(3)
    ]


def models_of_means(folder: Path) -> list[set[str]]:
    """The models over which a mean is taken: those of each split of each run."""
    found: list[set[str]] = []
    for info in discover(folder).runs:
        run = Follower().run(info)
        found += [models_in(run.where(split=name)) for name in splits_of(run)]
    return found


def models_in(run: Run) -> set[str]:
    return {*run.frame(["model"])["model"].dropna()} if "model" in run.columns else set()


NAMED = [(info, *models) for info in ONE_OF_EACH if len(models := models_in(real_run(info))) == 1]


def answered_twice(info: Any, model: str, folder: Path, *, same_file: bool) -> None:
    """Writes a run as two models would have: each file, and what another model answered, beside it."""
    for path in filter(Path.is_file, info.path.rglob("*")):
        content, name = path.read_bytes(), path.relative_to(info.path)
        other = content.replace(model.encode(), b"other/model-9b")
        if same_file and path.suffix in (".jsonl", ".ndjson"):
            content += other if other != content else b""
        write_bytes(folder / name, content)
        if not same_file and len(name.parts) > 1:
            write_bytes(folder / f"{name.parts[0]}_2" / Path(*name.parts[1:]), other)
        elif not same_file:
            stem, dot, suffix = name.name.partition(".")
            write_bytes(folder / f"{stem}_2{dot}{suffix}", other)


def write_bytes(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


@pytest.mark.parametrize("same_file", [False, True])
@pytest.mark.parametrize(
    ("info", "model"), NAMED, ids=[f"{info.formats[0]}-{info.path.name}" for info, _ in NAMED]
)
def test_a_folder_in_which_two_models_answered_is_never_one_mean(tmp_path, info, model, same_file):
    answered_twice(info, model, tmp_path / "job", same_file=same_file)
    means = models_of_means(tmp_path / "job")
    assert means
    assert all(len(models) <= 1 for models in means)


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
def test_files_and_tables_that_name_two_models_are_two_runs(tmp_path, ending):
    for number, model in enumerate(("small", "large")):
        rows = [row | {"model": model} for row in answers(number / 2)]
        path = tmp_path / "eval" / f"{number}.{ending}"
        path.parent.mkdir(exist_ok=True)
        if ending == "jsonl":
            write_lines(path, rows)
        elif ending == "csv":
            pd.DataFrame(rows).to_csv(path, index=False)
        else:
            pq.write_table(pa.Table.from_pylist(rows), path)
    assert sorted(map(sorted, models_of_means(tmp_path / "eval"))) == [["large"], ["small"]]


@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.sampled_from(MODELS), min_size=2, max_size=3, unique=True),
    st.sampled_from(["model", "model_name", "model_path"]),
    st.integers(1, 4),
    st.randoms(use_true_random=False),
)
def test_rows_of_several_models_in_one_file_are_a_split_each(models, key, steps, random):
    rows = [
        row | {"step": step, key: model, "score": float(number)}
        for step in range(steps)
        for number, model in enumerate(models)
        for row in answers(number)
    ]
    by_step = [
        rows[start : start + 3 * len(models)] for start in range(0, len(rows), 3 * len(models))
    ]
    for of_step in by_step:
        random.shuffle(of_step)
    with TemporaryDirectory() as folder:
        run = run_of(Path(folder), [row for of_step in by_step for row in of_step])
        means = {
            name.partition(" · ")[2]: run.where(split=name)
            .frame(["reward"])["reward"]
            .unique()
            .tolist()
            for name in splits_of(run)
        }
        assert means == {model: [float(number)] for number, model in enumerate(models)}
        assert "several models answered" in reasons(run)[-1][0]


@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from(["ckpt/step_{}", "adapter-{:06d}", "hub/policy-v{}"]),
    st.integers(2, 12),
    st.integers(0, 3),
)
def test_the_versions_of_a_model_in_training_are_one_split(name, steps, lag):
    rows = [
        row | {"step": step, "model": name.format(max(step - late, 0))}
        for step in range(steps)
        for late in range(lag + 1)
        for row in answers(0.5)
    ]
    with TemporaryDirectory() as folder:
        assert [*splits_of(run_of(Path(folder), rows))] == ["train"]


def test_a_file_that_names_no_model_is_with_those_of_the_only_one(tmp_path):
    write_lines(tmp_path / "eval" / "0.jsonl", answers(0.0, model="small"))
    write_lines(tmp_path / "eval" / "1.jsonl", answers(1.0))
    assert len(discover(tmp_path).runs) == 1


@pytest.mark.parametrize("names", [("small", "openai/small"), ("a/small", "b/a/small")])
def test_a_model_and_who_serves_it_are_one_model(tmp_path, names):
    for number, name in enumerate(names):
        write_lines(tmp_path / "eval" / f"{number}.jsonl", answers(number, model=name))
    (info,) = discover(tmp_path).runs
    assert len(splits_of(Follower().run(info))) == 1


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


@pytest.mark.parametrize("name", ["seed{}.jsonl", "run_seed-{}_0.jsonl", "Seed_{}.jsonl"])
def test_a_seed_in_the_name_is_a_run_whatever_reads_the_file(name):
    rows = [{"step": 1, "prompt": "p", "response": f"r{i}", "reward": 0.0} for i in range(2)]
    files = {name.format(seed): rows for seed in (1, 2)}
    assert sorted(runs_in(files).values()) == [[name.format(1)], [name.format(2)]]


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
