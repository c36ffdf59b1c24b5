from __future__ import annotations

import json
from pathlib import Path

import pytest

from board import cli
from board.index.discovery import candidates
from board.index.discovery.candidates import kind_of
from board.index.discovery.discovered_runs import discover
from board.query.open_run import open_run

ROLLOUT = {"step": 1, "prompt": "p", "response": "r", "reward": 1.0}
KINDS = {
    "configuration": (
        *("config.json", "config.yaml", "config.yml", "pyproject.toml", "args.json", "params.yaml"),
        *("hparams.json", "generation_config.json", "train-args.json", "Config.JSON"),
    ),
    "metrics or a summary": (
        *("wandb-summary.json", "metrics.json", "all_results.json", "progress.csv", "summary.json"),
    ),
    "state of the trainer": (
        *("trainer_state.json", "training_args.bin", "optimizer.pt", "rng_state_0.pth"),
    ),
    "TensorBoard events": ("events.out.tfevents.1755000000.host.1.0",),
    "files of Weights & Biases": ("run-a1b2.wandb", "wandb-metadata.json"),
    "weights or other tensors": (
        *("model-00001-of-00002.safetensors", "model.safetensors.index.json", "pytorch_model.bin"),
    ),
    "tokenizer": ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"),
    "printed output": ("train.log", "slurm-12.out"),
    "": (
        *("data.json", "picture.png", "weights", "reconfigured.json", "notes.txt", "data.bin"),
        *("run-config.json", "metadata.json", "rollout-board.toml", "thresholds.toml"),
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_files_that_are_no_logs_are_known_by_their_names(kind):
    assert {name: kind_of(name) for name in KINDS[kind]} == dict.fromkeys(KINDS[kind], kind)


def test_documents_of_rollouts_that_still_run_are_known_by_their_folder():
    running = "rollouts that are still being sampled"
    assert kind_of("8c1f.json", "exp/traces/live") == kind_of("0.json", "pending") == running
    assert (
        kind_of("8c1f.jsonl", "traces/live") == kind_of("0.json", "traces/live/pending") == running
    )
    assert kind_of("8c1f.json", "exp/live") == kind_of("8c1f.jsonl", "pending") == ""
    assert kind_of("config.json", "traces/live") == "configuration"


def make(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"\x80 hidden")


def told(beside) -> dict[str, tuple[int, tuple[str, ...]]]:
    return {one.kind: (one.count, one.names) for one in beside}


def test_what_lies_beside_a_log_is_counted_by_kind_and_is_no_problem(tmp_path, write_log):
    write_log("exp/run/log.jsonl", ROLLOUT)
    make(tmp_path, "exp/run/config.json", "exp/run/.hydra/config.yaml", "exp/config.toml")
    make(tmp_path, *(f"exp/run/checkpoint-{n}/trainer_state.json" for n in range(5)))
    make(tmp_path, "exp/run/pictures/1.png", "other/args.json")
    found = discover(tmp_path)
    (info,) = found.runs
    assert told(found.ignored) == {"configuration": (1, ("other/args.json",))}
    assert told(info.ignored) == {
        "configuration": (3, ("../config.toml", ".hydra", "config.json")),
        "state of the trainer": (5, tuple(f"checkpoint-{n}/trainer_state.json" for n in range(3))),
    }
    assert (info.left_out, open_run(info).problems) == ((), ())


def test_of_several_runs_each_has_what_lies_in_its_folder_and_the_root_the_rest(
    tmp_path, write_log
):
    for name in ("a", "b", "b/deeper"):
        write_log(f"{name}/log.jsonl", ROLLOUT)
    make(tmp_path, "sweep.yaml", "a/config.yaml", "b/deeper/x/config.yaml")
    found = discover(tmp_path)
    assert {run.name: [one.names for one in run.ignored] for run in found.runs} == {
        "a": [("config.yaml",)],
        "b": [],
        "b/deeper": [("x/config.yaml",)],
    }
    assert told(found.ignored) == {"configuration": (1, ("sweep.yaml",))}


def test_lines_of_rollouts_that_still_run_are_no_log_and_no_trouble(tmp_path, write_log):
    live = "traces/live/"
    write_log("traces/stream/00000.jsonl", ROLLOUT)
    make(tmp_path, f"{live}0b1c.jsonl", f"{live}77aa.jsonl", f"{live}pending/e2.json")
    names = tuple(f"{live}{name}" for name in ("0b1c.jsonl", "77aa.jsonl", "pending/e2.json"))
    found = discover(tmp_path)
    running = told(found.ignored)["rollouts that are still being sampled"]
    assert (running[0], {*running[1]}) == (3, {*names})
    assert found.left_out == found.runs[0].left_out == ()
    write_log("other/traces/live/log.jsonl", ROLLOUT)  # of somebody else: nothing waits there
    assert len(discover(tmp_path).runs) == 2


def test_a_run_is_the_same_run_with_another_checkpoint_beside_it(tmp_path, write_log):
    write_log("log.jsonl", ROLLOUT)
    before = discover(tmp_path).runs
    make(tmp_path, "model.safetensors")
    after = discover(tmp_path).runs
    assert before == after
    assert after[0].ignored


def test_a_name_is_asked_once_and_nothing_is_opened(tmp_path, write_log, monkeypatch):
    write_log("log.jsonl", ROLLOUT)
    make(tmp_path, "config.json", "events.out.tfevents.1", "training_args.bin", "a.png")
    asked: list[str] = []

    def noted(name: str, folder: str) -> str:
        asked.append(name)
        return kind_of(name, folder)

    monkeypatch.setattr(candidates, "kind_of", noted)
    for name in ("config.json", "events.out.tfevents.1", "training_args.bin", "a.png"):
        (tmp_path / name).chmod(0)
    discover(tmp_path)
    assert sorted(asked) == ["a.png", "config.json", "events.out.tfevents.1", "training_args.bin"]


def test_check_and_sniff_name_them(tmp_path, write_log, capsys):
    write_log("log.jsonl", ROLLOUT)
    make(tmp_path, "wandb/wandb-summary.json")
    (tmp_path / "config.json").write_text(json.dumps({"lr": 1e-6, "model": "x"}))
    assert cli.main(["check", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "skipped by name: configuration: config.json\n" in shown
    assert "metrics or a summary: wandb/wandb-summary.json\n" in shown
    assert "no problems" in shown
    assert cli.main(["check", str(tmp_path), "--json"]) == 0
    beside = json.loads(capsys.readouterr().out)["beside"]
    assert [one["kind"] for one in beside] == ["configuration", "metrics or a summary"]
    cli.main(["sniff", str(tmp_path)])
    assert "skipped by name: configuration: config.json\n" in capsys.readouterr().out
    assert cli.main(["sniff", str(tmp_path / "config.json")]) == 1
    assert "its name says it is configuration" in capsys.readouterr().out
    (tmp_path / "log.jsonl").unlink()
    assert cli.main(["runs", str(tmp_path)]) == 0
    assert "(configuration: config.json; metrics" in capsys.readouterr().err
