"""A run that is followed while it is written is the run that is opened anew, whatever its writer does.

ROLLOUT_BOARD_SOAK=600 pytest -s -k another_process    follows for ten minutes, not seconds.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
from live_writer import LiveWriter
from read_formats import info_at

from board.formats.io import lines as lines_module
from board.index import build
from board.index.discovery.discovered_runs import discover
from board.index.discovery.run_info import AT_REST_SECONDS
from board.index.reading import scan, workers
from board.query.open_run import Follower, Run, open_run


def same(tracked: Run, fresh: Run) -> None:
    """Raises where two runs differ in anything a user could see."""
    pd.testing.assert_frame_equal(tracked.rollouts, fresh.rollouts)
    pd.testing.assert_frame_equal(tracked.steps, fresh.steps)
    pd.testing.assert_frame_equal(tracked.superseded_rollouts(), fresh.superseded_rollouts())
    assert tracked.counts == fresh.counts
    assert tracked.metrics == fresh.metrics
    assert tracked.missing_ranks == fresh.missing_ranks
    assert tracked.superseded == fresh.superseded
    assert tracked.rollout_count == len(tracked.rollouts)
    folded = [
        sorted(f"{p.where} {p.field} {p.reason} {p.severity} {p.count}" for p in run.problems)
        for run in (tracked, fresh)
    ]
    assert folded[0] == folded[1]


def opened_anew(folder: Path) -> Run:
    info = info_at(folder)
    index = folder / ".rollout-board"
    aside = index.rename(folder.parent / "aside") if index.exists() else None
    try:
        return open_run(info)
    finally:
        if aside is not None:
            aside.rename(index)


@pytest.mark.parametrize("seed", range(3))
def test_a_followed_run_is_the_run_opened_anew(tmp_path, monkeypatch, seed):
    monkeypatch.setattr(scan, "PART_ROWS", 7)
    monkeypatch.setattr(build, "PART_ROWS", 40)
    monkeypatch.setattr(build, "SHARD_BYTES", 3000)
    monkeypatch.setattr(build, "_COMMIT_SECONDS", 0.0 if seed < 2 else 1.0)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    folder = tmp_path / "run"
    writer = LiveWriter(folder, seed)
    follower = Follower(persist=seed % 2 == 0)
    done: list[str] = []
    for _ in range(15):
        done.append(writer.act())
        for info in discover(folder).runs:
            tracked = follower.run(info)
            if writer.random.random() < 0.2:
                tracked.rollouts  # noqa: B018  # reads all tables of this state of the index
    for _ in discover(folder).runs:
        same(tracked, opened_anew(folder))


@pytest.fixture
def follow(tmp_path):
    follower = Follower(persist=True)
    return lambda: follower.run(info_at(tmp_path))


def rollout(step: int, **more: object) -> dict:
    return {"step": step, "response": "r", "reward": 1.0, **more}


def append(path: Path, *rows: dict | bytes) -> None:
    with path.open("ab") as file:
        for row in rows:
            file.write(row if isinstance(row, bytes) else json.dumps(row).encode() + b"\n")


def test_only_new_bytes_are_read(write_log, follow, monkeypatch):
    path = write_log("x.jsonl", *(rollout(step) for step in range(500)), fresh=True)
    follow()
    grown_from = path.stat().st_size
    append(path, rollout(500))
    read: list[int] = []
    real = lines_module._line_blocks

    def watched(pread, start, *remainder):
        read.append(start)
        return real(pread, start, *remainder)

    monkeypatch.setattr(lines_module, "_line_blocks", watched)
    monkeypatch.setattr(
        "board.index.discovery.format_detection.recognise_head",
        lambda *_: pytest.fail("read its head again"),
    )
    assert follow().rollout_count == 501
    assert read[-1] == grown_from
    assert sum(start == 0 for start in read) <= 1  # discovery looks at the head of a file


def test_a_line_is_waited_for_and_then_counted_once(write_log, follow):
    path = write_log("x.jsonl", rollout(1), fresh=True)
    whole = json.dumps(rollout(2)).encode()
    append(path, whole[:9])
    assert follow().counts == {1: 1}
    append(path, whole[9:])
    assert follow().counts == {1: 1, 2: 1}
    append(path, b"\n", rollout(3))
    run = follow()
    assert run.counts == {1: 1, 2: 1, 3: 1}
    assert run.rollouts["line"].tolist() == [1, 2, 3]
    assert run.problems == ()


def test_a_torn_line_that_was_given_up_is_taken_back_when_it_is_completed(write_log, follow):
    path = write_log("x.jsonl", rollout(1), b'{"step": 2, ')
    assert [p.line for p in follow().problems] == [2]
    append(path, b'"response": "r"}\n')
    run = follow()
    assert run.counts == {1: 1, 2: 1}
    assert run.problems == ()


def test_a_line_that_comes_to_rest_torn_becomes_a_problem(write_log, follow):
    path = write_log("x.jsonl", rollout(1), b'{"step": 2, ', fresh=True)
    (waited_for,) = follow().problems
    assert (waited_for.severity, waited_for.line) == ("note", 2)
    assert "12 bytes" in waited_for.hint
    an_hour_ago = time.time() - 3600
    os.utime(path, (an_hour_ago, an_hour_ago))
    assert [p.line for p in follow().problems] == [2]
    assert follow().counts == {1: 1}


def test_a_replaced_file_leaves_nothing_of_what_it_was(write_log, follow):
    path = write_log("x.jsonl", rollout(1, old=1), b"bad\n", fresh=True)
    other = write_log("y.jsonl", rollout(1), fresh=True)
    follow()
    path.write_bytes(json.dumps(rollout(7)).encode() + b"\n")
    run = follow()
    assert run.counts == {1: 1, 7: 1}
    assert "old" not in run.rollouts
    assert "old_mean" not in run.steps
    assert run.problems == ()
    other.unlink()
    assert follow().counts == {7: 1}


@pytest.mark.parametrize("step", [1, 2])
def test_a_file_that_another_took_the_place_of_is_read_again_where_it_differs(
    write_log, follow, step
):
    path = write_log("x.jsonl", rollout(1))
    assert follow().counts == {1: 1}
    other, at = path.with_suffix(".new"), path.stat()
    append(other, rollout(step))  # as long and as old as before
    os.utime(other, ns=(at.st_atime_ns, at.st_mtime_ns))
    other.replace(path)
    assert follow().counts == {step: 1}


def test_the_ranks_that_have_not_ended_a_step_are_named(write_log, follow):
    about = {"type": "header", "schema": 1, "attempt": "a", "started": 1, "world_size": 3}
    for rank in (0, 2):
        sample = {"type": "sample", "step": 1, "rank": rank, "reward": 1}
        write_log(f"r{rank}.jsonl", {**about, "rank": rank}, sample, fresh=True)
    assert follow().missing_ranks == {1: (0, 1, 2)}
    append(follow().info.files[0].path, {"type": "step_end", "step": 1})
    run = follow()
    assert run.missing_ranks == {1: (1, 2)}
    assert run.steps["complete"].tolist() == [False]


@pytest.mark.parametrize("before", [0, 1])
def test_an_edit_while_a_file_is_read_is_noticed_though_the_file_grows(
    tmp_path, monkeypatch, before
):
    path = tmp_path / "run" / "a.jsonl"
    path.parent.mkdir()
    row = b'{"step": 1, "prompt": "p1", "response": "r", "reward": 1.0}\n'
    path.write_bytes(row)
    many = row * 150  # more than is hashed at either end
    follower, read = Follower(persist=True), workers.index_batch

    def look() -> Run:
        return follower.run(info_at(path.parent))

    def edited(*arguments):
        result = read(*arguments)
        path.write_bytes(path.read_bytes().replace(b"p1", b"p2", 1))
        return result

    for _ in range(before):
        look()
    path.write_bytes(path.read_bytes() + many)
    with monkeypatch.context() as patched:
        patched.setattr(workers, "index_batch", edited)
        look()
    path.write_bytes(path.read_bytes() + row)
    same(look(), opened_anew(path.parent))


SECONDS = float(os.environ.get("ROLLOUT_BOARD_SOAK", "2.5"))
POLL_SECONDS = 2.0 if SECONDS > 60 else 0.2
WRITE = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from live_writer import LiveWriter
writer = LiveWriter(Path(sys.argv[1]), int(sys.argv[2]), edits_within=4096)
print("writes", flush=True)
end = time.monotonic() + float(sys.argv[4])
while time.monotonic() < end:
    try:
        writer.act()
    except FileNotFoundError:
        pass
    writer.random.random() < 0.9 or time.sleep(writer.random.random() * 0.3)
    len(list(writer.folder.iterdir())) < 40 or writer.delete(sorted(writer.folder.glob("*.jsonl"))[0])
print(writer.made, flush=True)
"""


def about_to_rest(folder: Path) -> bool:
    """Whether the end of a file may count as torn in the second of two looks and not in the first."""
    ages = (time.time() - file.stat().st_mtime for file in folder.glob("*.jsonl"))
    return any(AT_REST_SECONDS - 5 < age < AT_REST_SECONDS + 1 for age in ages)


@pytest.mark.timeout(120 + 2 * SECONDS)
def test_a_run_written_by_another_process_is_followed_to_the_truth(tmp_path):
    folder = tmp_path / "run"
    tests = str(Path(__file__).parents[2])
    command = [sys.executable, "-c", WRITE, str(folder), "3", tests, str(SECONDS)]
    follower = Follower(persist=True)
    polls = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout.readline() == "writes\n"
        while writer.poll() is None:
            for info in discover(folder).runs:
                run = follower.run(info)
                assert run.rollout_count == len(run.rollouts)
                polls += 1
            time.sleep(POLL_SECONDS)
    while about_to_rest(folder):
        time.sleep(0.5)
    for info in discover(folder).runs:
        same(follower.run(info), opened_anew(folder))
        print(f"{polls} looks in {SECONDS:g} s; {info.bytes:,} bytes in {len(info.files)} files")
    assert polls > 2
