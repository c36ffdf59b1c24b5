"""Shards of a file are read by several, in any order, and every line has its number."""

import random
from contextlib import nullcontext
from pathlib import Path

import pandas as pd
import pytest
from live_writer import LiveWriter

from board.index import build
from board.index.discovery.discovered_runs import discover
from board.index.reading.shard import count_newlines
from board.index.reading.workers import InProcess, PendingBatch
from board.query.open_run import Follower, open_run

_FILES = 3
_LINES = 60


class Several:
    """Results of earlier batches may come later than those of later ones."""

    parallel, max_in_flight = 2, 5

    def __init__(self, job, seed):
        self.here = InProcess(job)
        self.chance = random.Random(seed)

    def submit(self, batch):
        results = self.here.submit(batch).result()
        return PendingBatch(lambda: results, lambda: self.chance.random() < 0.5)


def several_files(folder: Path) -> None:
    writer = LiveWriter(folder, seed=2)
    for number in range(_FILES):
        lines = [writer.line(step) for step in range(6) for _ in range(_LINES // 6)]
        lines.insert(7, b"\n")
        lines.insert(9, b"{no rollout\n")
        (folder / f"rank_{number}.jsonl").write_bytes(b"".join(lines))


@pytest.mark.parametrize("seed", range(2))
def test_rows_have_the_lines_that_one_reader_gives_them(tmp_path, monkeypatch, seed):
    several_files(tmp_path / "run")
    (info,) = discover(tmp_path / "run").runs
    whole = open_run(info)
    monkeypatch.setattr(build, "SHARD_BYTES", 3_000)
    monkeypatch.setattr(build, "_LAST_SHARD_BYTES", 500)
    shared = Follower(engine=lambda job, size: nullcontext(Several(job, seed))).run(info)
    columns = ["step", "file", "line", "offset"]
    pd.testing.assert_frame_equal(shared.rollouts[columns], whole.rollouts[columns])
    assert len(shared.rollouts) == _FILES * _LINES
    assert shared.problems == whole.problems


@pytest.mark.parametrize("line", [b"\n", b"{}\n", b"x" * 20_000 + b"\n"])
def test_newlines_are_counted_however_far_apart_they_are(tmp_path, line):
    path = tmp_path / "a.jsonl"
    content = line * (600_000 // len(line)) + b"x\n\nx"
    path.write_bytes(content)
    for start, end in ((0, len(content)), (5, len(content)), (3, len(content) - 1), (7, 300_001)):
        assert count_newlines(path, start, end) == content.count(b"\n", start, end)
