"""A file of which a part could not be read loses nothing: it is read again on the next refresh."""

from __future__ import annotations

from contextlib import nullcontext

import pandas as pd
import pytest
from live_writer import LiveWriter

from board.core.records import ReadOptions
from board.index import build
from board.index.discovery.discovered_runs import discover
from board.index.reading import batch
from board.index.reading.shard import Shard
from board.index.reading.workers import InProcess, PendingBatch
from board.index.storage import MemoryStorage
from board.query.open_run import Follower, open_run


class Failing(InProcess):
    """Fails to read the batch of that number."""

    def __init__(self, job, number, width):
        super().__init__(job)
        self.left = number
        self.parallel, self.max_in_flight = width, max(width, 1)

    def submit(self, batch):
        read = super().submit(batch)
        return PendingBatch(lambda: self.failed(read.result()))

    def failed(self, result):
        self.left -= 1
        if self.left != -1:
            return result
        for found in result.files:
            found.failed, found.consumed = "Input/output error", found.shard.start
            found.tallies, found.lines, found.tail, found.tail_rows = {}, 0, None, None
        return build.BatchResult((), result.files)


@pytest.mark.parametrize("width", [0, 2])
@pytest.mark.parametrize("number", [0, 1, 3])
def test_a_part_that_could_not_be_read_is_read_at_the_next_look(
    tmp_path, monkeypatch, number, width
):
    monkeypatch.setattr(build, "SHARD_BYTES", 4_000)
    writer = LiveWriter(tmp_path / "run", seed=4)
    content = b"".join(writer.line(step) for step in range(8) for _ in range(10))
    (tmp_path / "run" / "rank_0.jsonl").write_bytes(content)
    (info,) = discover(tmp_path / "run").runs
    failing = Follower(
        persist=True, engine=lambda job, size: nullcontext(Failing(job, number, width))
    )
    run = failing.run(info)
    assert any("could not be read" in problem.reason for problem in run.problems)
    assert run.rollout_count == len(run.rollouts) < 80
    whole = open_run(info)
    read_anew = Follower(persist=True).run(info)
    pd.testing.assert_frame_equal(read_anew.rollouts, whole.rollouts)
    pd.testing.assert_frame_equal(read_anew.steps, whole.steps)
    assert read_anew.problems == whole.problems
    assert len(whole.rollouts) == 80


class FullDisk(MemoryStorage):
    """Can't keep rows the first time."""

    def __init__(self):
        super().__init__()
        self.is_full = True

    def put(self, kind, table):
        if self.is_full:
            self.is_full = False
            raise OSError(28, "No space left on device")
        return super().put(kind, table)


def test_rows_that_can_t_be_kept_end_the_batch_and_are_no_fault_of_the_log(tmp_path, monkeypatch):
    monkeypatch.setattr(batch, "PART_ROWS", 5)
    writer = LiveWriter(tmp_path / "run", seed=4)
    path = tmp_path / "run" / "rank_0.jsonl"
    path.write_bytes(b"".join(writer.line(step) for step in range(8)))
    shard = Shard(path, "rank_0.jsonl", "native")
    with pytest.raises(OSError, match="No space left"):
        batch.index_batch(batch.Job(FullDisk(), ReadOptions(), None), [shard])
