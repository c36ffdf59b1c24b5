"""The index of a small log is kept where reading it took long: packed, many files, or slow to parse."""

import json
import math
import shutil
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from read_formats import DATA

from board.index.discovery.discovered_runs import discover
from board.index.reading import batch
from board.query import open_run as opening
from board.query.open_run import open_run

KINDS = ("inspect", "human_eval", "many files", "unended")


@pytest.fixture
def read(monkeypatch) -> Iterator[list[str]]:
    """The paths of the files that were read."""
    paths: list[str] = []
    index_shard = batch.index_shard

    def counted(shard, *others):
        paths.append(shard.display_path)
        return index_shard(shard, *others)

    monkeypatch.setattr(batch, "index_shard", counted)
    return paths


def line(number: int) -> str:
    return json.dumps({"step": number, "prompt": "Q", "response": "r", "reward": number / 2})


def written(kind: str, folder: Path) -> Path:
    if kind == "many files":
        folder.mkdir()
        for number in range(60):
            (folder / f"rollouts_{number}.jsonl").write_text(line(number) + "\n")
    elif kind == "unended":
        folder.mkdir()
        (folder / "rollouts.jsonl").write_text(f"{line(1)}\n{line(2)}")
    else:
        shutil.copytree(DATA / kind, folder)
    return folder


@pytest.mark.parametrize("kind", KINDS)
def test_an_opening_that_took_long_is_made_once(kind, tmp_path, monkeypatch, read):
    monkeypatch.setattr(opening, "SLOW_SECONDS", 0)
    for info in discover(written(kind, tmp_path / "log")).runs[:1]:
        first = open_run(info)
        assert read
        read.clear()
        again = open_run(info)
        assert not read
        pd.testing.assert_frame_equal(again.rollouts, first.rollouts)
        pd.testing.assert_frame_equal(again.steps, first.steps)
        assert again.problems == first.problems


def test_only_what_is_new_is_read_of_a_log_that_took_long(tmp_path, monkeypatch, read):
    monkeypatch.setattr(opening, "SLOW_SECONDS", 0)
    folder = written("many files", tmp_path / "log")
    open_run(discover(folder).runs[0])
    read.clear()
    (folder / "rollouts_60.jsonl").write_text(line(60) + "\n")
    assert open_run(discover(folder).runs[0]).rollout_count == 61
    assert read == ["rollouts_60.jsonl"]


def test_nothing_is_written_beside_a_log_that_is_read_fast(tmp_path, monkeypatch, read):
    monkeypatch.setattr(opening, "SLOW_SECONDS", math.inf)
    folder = written("many files", tmp_path / "log")
    before = {*folder.rglob("*")}
    for _ in range(2):
        open_run(discover(folder).runs[0])
        assert len(read) == 60
        read.clear()
    assert {*folder.rglob("*")} == before


def test_a_log_beside_which_nothing_can_be_written_is_opened(tmp_path, monkeypatch):
    monkeypatch.setattr(opening, "SLOW_SECONDS", 0)
    monkeypatch.setattr(opening.FolderStorage, "put", _full)
    run = open_run(discover(written("many files", tmp_path / "log")).runs[0])
    assert run.rollout_count == 60
    assert not [problem for problem in run.problems if problem.severity != "note"]


def _full(*_):
    raise OSError(28, "No space left on device")
