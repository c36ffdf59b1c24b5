"""Shards of a file are read by several, in any order, and every line has its number."""

from __future__ import annotations

import random
from collections import deque
from contextlib import nullcontext
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pandas as pd
import pytest
from live_writer import LiveWriter

from board.index import build, line_numbers
from board.index.batch import BatchResult, FileRead, Work
from board.index.discovery.discovered_runs import discover
from board.index.discovery.log_file import LogFile
from board.index.engines import Awaited, InProcess
from board.index.line_numbers import LineNumbers, lines_between
from board.index.shard import Shard
from board.index.unread_ranges import Rest, next_for
from board.query.open_run import Follower, open_run

_FILES = 3
_LINES = 60


class Several:
    """Readers that each read their batches in turn, and get them as chance has it."""

    width, most = 2, 5

    def __init__(self, job, seed):
        self.readers = [InProcess(job), InProcess(job), InProcess(job)]
        self.chance = random.Random(seed)
        self.next = 0
        self.lost = self.chance.randrange(8)

    def reader(self):
        return self.next

    def submit(self, batch):
        reader = self.readers[self.next]
        self.next = self.chance.randrange(2)
        self.lost -= 1
        if self.lost == 0:  # as when a process was killed: one reads it that has read nothing yet
            reader = self.readers[2]
        found = reader.submit(batch).result()
        return Awaited(lambda: found, lambda: self.chance.random() < 0.5)


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


def works(path: Path) -> deque[Work]:
    """A shard of each two lines, none of which says what line it begins with."""
    ends = [0]
    for line in path.read_bytes().splitlines(keepends=True):
        ends.append(ends[-1] + len(line))
    shards = [Shard(path, path.name, "native", begin, end, 0) for begin, end in pairwise(ends[::2])]
    return deque(Work(shard, 0) for shard in shards)


def test_what_a_plan_knows_of_a_file_is_counted_from(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"a\n" * 20)
    for known, expected in (((0, 1), 9), ((16, 109), 109), ((12, 107), 109), ((18, 999), 9)):
        (work,) = LineNumbers().numbered([replace(works(path)[4], known=known)])
        assert work.shard.first_line == expected, known


def test_what_was_read_anywhere_before_a_shard_is_counted_from(tmp_path):
    """Whichever came last: what is behind the shard says nothing of it."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"a\n" * 20)
    numbers = LineNumbers()
    for number, line in ((7, 115), (2, 105), (9, 119)):
        work = works(path)[number]
        read = FileRead(
            replace(work, shard=replace(work.shard, first_line=line)), 4 * number + 4, 2
        )
        numbers.learn(BatchResult((), (read,)))
    lines = [
        work.shard.first_line for work in numbers.numbered([works(path)[n] for n in range(10)])
    ]
    assert lines == [1, 3, 5, 107, 109, 111, 113, 115, 117, 119]


def test_what_was_read_here_is_not_counted_elsewhere(tmp_path, monkeypatch):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"a\n" * 20)
    here, elsewhere = LineNumbers(), LineNumbers()
    (work,) = here.numbered([works(path)[3]])
    here.learn(BatchResult((), (FileRead(work, 16, 2),)))
    told = here.told([works(path)[n] for n in (4, 5)])
    counted: list[tuple[int, int]] = []
    monkeypatch.setattr(
        line_numbers, "lines_between", lambda path, *bounds: counted.append(bounds) or 0
    )
    assert [work.shard.first_line for work in elsewhere.numbered(told)] == [9, 9]
    assert counted == [(16, 16), (16, 20)]


@pytest.mark.parametrize("line", [b"\n", b"{}\n", b"x" * 20_000 + b"\n"])
def test_newlines_are_counted_however_far_apart_they_are(tmp_path, line):
    path = tmp_path / "a.jsonl"
    content = line * (600_000 // len(line)) + b"x\n\nx"
    path.write_bytes(content)
    for start, end in ((0, len(content)), (5, len(content)), (3, len(content) - 1), (7, 300_001)):
        assert lines_between(path, start, end) == content.count(b"\n", start, end)


def test_each_of_two_readers_has_a_file_of_its_own_where_there_are_two(tmp_path):
    path = tmp_path / "a.jsonl"
    file = LogFile(path, "native", 9, 0, 0)
    free, ours, theirs = (
        Rest(file, 0, "a", 0, 1, path, False, reader=reader) for reader in (None, 0, 1)
    )
    for waiting, shared, expected in (
        ([free, free], True, free),
        ([free, ours], True, ours),
        ([ours, free], True, ours),
        ([free, ours], False, free),
        ([free, theirs, ours], True, free),
        ([theirs, free], True, free),
        ([theirs, ours], True, ours),
        ([theirs], True, theirs),
        ([free], True, free),
    ):
        assert waiting[next_for(0, waiting, shared=shared)] is expected


def test_lines_of_a_file_that_is_gone_are_not_counted(tmp_path):
    (work,) = LineNumbers().numbered([Work(Shard(tmp_path / "gone", "gone", "native", 8, 9, 0), 0)])
    assert work.shard.first_line == 1
