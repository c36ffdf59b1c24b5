import json
from pathlib import Path

from board import cli
from board.index.discovery.discovered_runs import discover
from board.query.open_run import open_run

ROLLOUT = {"step": 1, "prompt": "p", "response": "r", "reward": 1.0}


def make(root: Path, *names: str) -> None:
    """Files that can't be read."""
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"\x80 hidden")
        (root / name).chmod(0)


def names_by_kind(ignored) -> dict[str, tuple[int, tuple[str, ...]]]:
    return {one.kind: (one.count, one.names) for one in ignored}


def test_what_lies_beside_a_log_is_counted_by_suffix_unopened_and_is_no_problem(
    tmp_path, write_log
):
    write_log("exp/run/log.jsonl", ROLLOUT)
    make(tmp_path, "exp/run/Config.JSON", "exp/run/.hydra/config.yaml", "exp/run/pictures/1.png")
    make(tmp_path, *(f"exp/run/checkpoint-{n}/weights" for n in range(5)), "other/args.json")
    write_log("exp/run/vocab.json", {"pieces": ["a"]})
    result = discover(tmp_path)
    (info,) = result.runs
    assert names_by_kind(result.ignored) == {".json": (1, ("other/args.json",))}
    assert names_by_kind(info.ignored) == {
        ".json": (1, ("Config.JSON",)),
        ".png": (1, ("pictures/1.png",)),
        "other files": (5, tuple(f"checkpoint-{n}/weights" for n in range(3))),
    }
    assert (info.left_out, open_run(info).problems) == ((), ())


def test_of_several_runs_each_has_what_lies_in_its_folder_and_the_root_the_rest(
    tmp_path, write_log
):
    for name in ("a", "b", "b/deeper"):
        write_log(f"{name}/log.jsonl", ROLLOUT)
    make(tmp_path, "sweep.yaml", "a/config.yaml", "b/deeper/x/config.yaml")
    result = discover(tmp_path)
    assert {run.name: [one.names for one in run.ignored] for run in result.runs} == {
        "a": [("config.yaml",)],
        "b": [],
        "b/deeper": [("x/config.yaml",)],
    }
    assert names_by_kind(result.ignored) == {".yaml": (1, ("sweep.yaml",))}


def test_lines_of_rollouts_that_still_run_are_no_log_and_no_trouble(tmp_path, write_log):
    live = "traces/live/"
    write_log("traces/stream/00000.jsonl", ROLLOUT)
    names = [f"{live}{name}" for name in ("0b1c.jsonl", "77aa.jsonl", "pending/e2.json")]
    make(tmp_path, *names)
    result = discover(tmp_path)
    running = names_by_kind(result.ignored)["rollouts that are still being sampled"]
    assert (running[0], {*running[1]}) == (3, {*names})
    assert result.left_out == result.runs[0].left_out == ()
    write_log("traces/live/0b1c.jsonl", ROLLOUT)
    for opened in ("traces", "traces/live"):
        assert {run.name for run in discover(tmp_path / opened).runs} <= {"stream"}
    write_log("other/traces/live/log.jsonl", ROLLOUT)  # of somebody else: nothing waits there
    assert len(discover(tmp_path).runs) == 2


def test_a_run_is_the_same_run_with_another_checkpoint_beside_it(tmp_path, write_log):
    write_log("log.jsonl", ROLLOUT)
    before = discover(tmp_path).runs
    make(tmp_path, "model.safetensors")
    after = discover(tmp_path).runs
    assert before == after
    assert after[0].ignored


def test_check_sniff_and_runs_name_them(tmp_path, write_log, capsys):
    write_log("log.jsonl", ROLLOUT)
    make(tmp_path, "wandb/wandb-summary.json", "config.yaml")
    assert cli.main(["check", str(tmp_path)]) == 0
    visible = capsys.readouterr().out
    assert "skipped by name: .yaml: config.yaml\n" in visible
    assert "skipped by name: .json: wandb/wandb-summary.json\n" in visible
    assert "no problems" in visible
    assert cli.main(["check", str(tmp_path), "--json"]) == 0
    sidecar = json.loads(capsys.readouterr().out)["beside"]
    assert [one["kind"] for one in sidecar] == [".json", ".yaml"]
    cli.main(["sniff", str(tmp_path)])
    assert "skipped by name: .yaml: config.yaml\n" in capsys.readouterr().out
    (tmp_path / "log.jsonl").unlink()
    assert cli.main(["runs", str(tmp_path)]) == 0
    assert "(.json: wandb/wandb-summary.json; .yaml" in capsys.readouterr().err
