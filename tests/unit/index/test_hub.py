"""A data set of the hub is a root as a store's folder is: read by ranges, by revision, and no more."""

import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import hub_server
import pytest
from hub_server import Hub
from read_formats import SAMPLES

from board import cli
from board.analysis.rollout import open_rollout
from board.errors import BoardError, ChoiceError, NotFoundError
from board.formats.io.locations import location_of
from board.index.discovery.discovered_runs import discover
from board.query.open_run import Follower, Run, open_run

ROOT = f"hf://datasets/{hub_server.NAME}"


def rows(*steps: int) -> bytes:
    lines = [{"step": s, "prompt": "p", "response": f"r{s}", "reward": 0.5} for s in steps]
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setenv("ROLLOUT_BOARD_CACHE", str(tmp_path / "cache"))
    # Other test modules of this process keep the libraries off the network before they are imported.
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    with hub_server.running() as server:
        server.files["main"] = {"README.md": b"# Logs", "logs/run/rank0.jsonl": rows(1, 2, 2)}
        server.files["old"] = {"logs/run/rank0.jsonl": rows(7)}
        yield server


def opened(url: str) -> Run:
    (info,) = discover(location_of(url)).runs
    return open_run(info)


def test_a_run_is_read_from_its_revision(hub):
    assert opened(ROOT).counts == {1: 1, 2: 2}
    assert opened(f"{ROOT}/logs/run").counts == {1: 1, 2: 2}
    old = opened(f"{ROOT}@old/logs")
    assert (old.counts, old.frame(("response",))["response"].tolist()) == ({7: 1}, ["r7"])
    with pytest.raises(NotFoundError, match="holds no object"):
        discover(location_of(f"{ROOT}/nothing"))


def test_the_bundled_run_is_the_same_from_the_hub(hub):
    folder = SAMPLES / "grpo_calculator_trl"
    paths = [path for path in folder.rglob("*") if path.is_file()]
    hub.files["main"] = {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
    # The reward of this log is a sum that the trainer's metrics tell, which no store is asked for.
    names = ["step", "index", "rewards.correct", "rewards.tool_errors", "response"]
    (local,) = discover(folder).runs
    assert opened(ROOT).frame(names).equals(Follower().run(local).frame(names))


def test_a_rollout_is_opened_by_one_request_for_its_range(hub):
    run = opened(ROOT)
    hub.asked.clear()
    assert open_rollout(run, 2, 1).response_text == "r2"
    size = len(rows(2))
    start = len(rows(1, 2))
    asked = [(path.partition("/resolve/")[2], part) for _, path, part in hub.asked if part]
    assert asked == [("main/logs/run/rank0.jsonl", f"bytes={start}-{start + size - 1}")]


def test_a_new_commit_is_noticed(hub):
    url = location_of(ROOT)
    follower = Follower()
    (info,) = discover(url).runs
    assert follower.run(info).counts == {1: 1, 2: 2}
    hub.files["main"]["logs/run/rank0.jsonl"] += rows(3)
    (info,) = discover(url).runs
    assert follower.run(info).counts == {1: 1, 2: 2, 3: 1}
    hub.files["main"]["logs/run/rank0.jsonl"] = rows(1, 2, 2, 4)
    (info,) = discover(url).runs
    assert follower.run(info).counts == {1: 1, 2: 2, 4: 1}


def test_what_is_missing_is_said_with_what_to_do(hub, capsys, monkeypatch):
    assert cli.main(["runs", "hf://datasets/lab/private"]) == 2
    assert "a private one needs HF_TOKEN" in capsys.readouterr().err
    for url in ("hf://datasets", "hf://datasets/lab", "hf://lab", "hf://"):
        with pytest.raises(ChoiceError, match=r"names no (data set|bucket)"):
            location_of(url)
    fsspec = import_module("fsspec")

    def missing(protocol: str) -> None:
        raise ImportError(protocol)

    monkeypatch.setattr(fsspec, "get_filesystem_class", missing)
    with pytest.raises(BoardError, match=r'needs huggingface_hub.*"rollout-board\[hf\]"'):
        location_of(ROOT)
