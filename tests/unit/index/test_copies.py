"""Rollouts that a log holds twice are shown once, and only what is equal is a copy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from read_formats import run_at

from board.index import build, storage
from board.index.discovery.discovered_runs import discover
from board.index.reading import batch
from board.index.reading.shard import Shard
from board.query.open_run import Follower


def dump(step: int, rollouts: int = 4, said: str = "answer") -> list[dict[str, Any]]:
    """Lines of verl of one step."""
    return [
        {"input": f"ask {i // 2}", "output": f"{said} {i} of {step}", "score": 0.5, "step": step}
        for i in range(rollouts)
    ]


def buffers(folder: Path, *rows: range) -> None:
    """TRL's tables, one for each range of numbers that its rows tell of."""
    (folder / "completions").mkdir(parents=True)
    for step, numbers in enumerate(rows, start=1):
        columns = {
            "step": [step] * len(numbers),
            "prompt": [f"p{i:03}" for i in numbers],
            "completion": [f"c{i:03}" for i in numbers],
            "acc": [float(i) for i in numbers],
            "advantage": [float(i) for i in numbers],
        }
        path = folder / "completions" / f"completions_{step:05}.parquet"
        pq.write_table(pa.table(columns), path)


@pytest.mark.parametrize("place", [0, 700, 1399])
def test_a_line_that_differs_in_a_single_sign_is_no_copy(write_log, opened, place):
    first = dump(1, said="word " * 280)
    other = [dict(line) for line in first]
    other[2]["output"] = other[2]["output"][:place] + "W" + other[2]["output"][place + 1 :]
    write_log("1.jsonl", *first)
    write_log("resumed_1.jsonl", *other)
    run = opened()
    assert (run.counts, run.repeated) == ({1: 8}, 0)


def test_rows_of_a_buffer_that_differ_in_a_single_sign_are_no_repeats(tmp_path):
    (tmp_path / "completions").mkdir()
    for step, sign in ((1, "w"), (2, "W")):
        said = ["word " * 100 + f"{i}" + " word" * 100 for i in range(4)]
        said[1] = said[1][:499] + sign + said[1][500:]
        columns = {"step": [step] * 4, "prompt": ["p"] * 4, "completion": said, "acc": [1.0] * 4}
        path = tmp_path / "completions" / f"completions_{step:05}.parquet"
        pq.write_table(pa.table(columns | {"advantage": [0.5] * 4}), path)
    run = run_at(tmp_path)
    assert (run.counts, run.repeated) == ({1: 4, 2: 4}, 0)


def test_a_copy_that_lacks_its_last_newline_is_one(write_log, opened, tmp_path):
    write_log("1.jsonl", *dump(1))
    write_log("resumed_1.jsonl", (tmp_path / "1.jsonl").read_bytes().rstrip(b"\n"))
    run = opened()
    assert (run.counts, run.repeated) == ({1: 4}, 4)


def test_a_buffer_repeats_only_the_one_right_before_it(tmp_path):
    """The fifth begins as the second ends, which is no repeat: others stand between."""
    buffers(
        tmp_path, range(6), range(3, 9), range(20, 26), range(30, 36), range(6, 12), range(9, 15)
    )
    run = run_at(tmp_path)
    assert run.counts == {1: 6, 2: 3, 3: 6, 4: 6, 5: 6, 6: 3}


def test_overlapping_buffers_show_each_rollout_once(tmp_path):
    rows = [range(first, first + 6) for first in range(0, 60, 3)]
    buffers(tmp_path, *rows)
    run = run_at(tmp_path)
    assert run.repeated == 3 * (len(rows) - 1)
    assert run.rollouts["response"].tolist() == [f"c{i:03}" for i in range(63)]


class StoppedError(Exception):
    """Somebody ended the build."""


@pytest.mark.parametrize("batches", range(4))
def test_copies_are_found_whenever_an_earlier_build_was_ended(
    write_log, tmp_path, monkeypatch, batches
):
    for name in ("1", "resumed_1", "2", "resumed_2"):
        write_log(f"{name}.jsonl", *dump(int(name[-1])))

    def look() -> Any:
        (info,) = discover(tmp_path).runs
        return Follower(persist=True).run(info)

    def stopping(*_: Any) -> bool:
        nonlocal batches
        batches -= 1
        if batches < 0:
            raise StoppedError
        return True

    with monkeypatch.context() as patched:
        patched.setattr(build, "_MAX_BATCH_FILES", 1)
        patched.setattr(build._Build, "_are_steps_due", stopping)
        with pytest.raises(StoppedError):
            look()
    for _ in range(2):
        run = look()
        assert (run.counts, run.repeated) == ({1: 4, 2: 4}, 8)


def test_a_line_that_a_restart_wrote_again_hides_no_copy_of_a_later_step(write_log, opened):
    first, second = dump(1, 1), dump(2, 2)
    early = {"prompt": "p", "response": "r", "reward": 1.0, "step": 0}
    said = [
        {"prompt": one["input"], "response": one["output"], "reward": 1.0, "step": one["step"]}
        for one in (*first, *second)
    ]
    write_log("rollout_data_rank0.jsonl", early, *said, early, *said[1:])
    write_log("rollout_data_rank1.jsonl", *said)
    run = opened()
    assert (run.counts, run.repeated) == ({0: 1, 1: 1, 2: 2}, 2)


def test_what_is_kept_in_memory_are_tables_that_something_names(write_log, tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "KEEP_SECONDS", -1.0)
    follower = Follower()
    for name in (*"123456", *(f"resumed_{step}" for step in "123456")):
        write_log(f"{name}.jsonl", *dump(int(name[-1])))
        (info,) = discover(tmp_path).runs
        run = follower.run(info)
    assert follower._memory._tables.keys() <= run.rows.manifest.names


@pytest.fixture
def damaged(monkeypatch) -> set[str]:
    """Names of files of which no shard, or none behind the first, can be read: `name`, `name behind`."""
    names, real = set[str](), batch.index_shard

    def index_shard(shard: Shard, *others: Any) -> Any:
        name = shard.path.stem
        if name in names or (shard.start and f"{name} behind" in names):
            raise OSError(5, "Input/output error")
        return real(shard, *others)

    monkeypatch.setattr(batch, "index_shard", index_shard)
    return names


def test_copies_are_told_in_what_can_be_read_of_a_file(write_log, opened, damaged, monkeypatch):
    size = write_log("1.jsonl", *dump(1)).stat().st_size
    monkeypatch.setattr(build, "SHARD_BYTES", size)
    for name in ("1", "resumed_1"):
        write_log(f"{name}.jsonl", *dump(1), *dump(2))
    damaged.add("resumed_1 behind")
    run = opened()
    assert (run.counts, run.repeated) == ({1: 4, 2: 4}, 4)
