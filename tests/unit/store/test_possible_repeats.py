"""Files that may hold copies are read a second time; no other is, and only what is equal is a copy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from read_formats import run_at

from board.store import batch, build, build_pace, memory_storage
from board.store.discovery import discover
from board.store.manifest import Manifest
from board.store.run import Follower, open_run
from board.store.shard import Shard
from board.store.storage import FolderStorage


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


def keyed(run: Any) -> set[str]:
    """The names of files whose rows have keys."""
    return {Path(state.path).stem for state in run.shown.files if state.keyed}


def times_begun(run: Any) -> int:
    """How often a file was read from its beginning."""
    return run.shown.manifest.next_id


def test_a_log_without_copies_is_read_once_and_has_no_keys(write_log, opened):
    for rank in (0, 1):
        lines = [line for step in (1, 2) for line in dump(step, said=f"by {'rank' * rank}")]
        write_log(f"rollout_data_rank{rank}.jsonl", *lines)
    run = opened()
    assert (times_begun(run), keyed(run), run.repeated) == (2, set(), 0)
    assert "repeat_key" not in run.shown.index.read(None, None).column_names


def test_of_a_log_with_copies_only_what_may_be_one_is_read_again(write_log, opened):
    for name, step in (("1", 1), ("2", 2), ("resumed_2", 2), ("3", 3)):
        write_log(f"{name}.jsonl", *dump(step))
    run = opened()
    assert (times_begun(run), keyed(run)) == (6, {"2", "resumed_2"})
    assert (run.counts, run.repeated) == ({1: 4, 2: 4, 3: 4}, 4)


@pytest.mark.parametrize("place", [0, 700, 1399])
def test_a_line_that_differs_in_a_single_sign_is_no_copy(write_log, opened, place):
    first = dump(1, said="word " * 280)
    other = [dict(line) for line in first]
    other[2]["output"] = other[2]["output"][:place] + "W" + other[2]["output"][place + 1 :]
    write_log("1.jsonl", *first)
    write_log("resumed_1.jsonl", *other)
    run = opened()
    assert (keyed(run), run.counts, run.repeated) == ({"1", "resumed_1"}, {1: 8}, 0)


def test_rows_of_a_buffer_that_differ_in_a_single_sign_are_no_repeats(tmp_path):
    (tmp_path / "completions").mkdir()
    for step, sign in ((1, "w"), (2, "W")):
        said = ["word " * 100 + f"{i}" + " word" * 100 for i in range(4)]
        said[1] = said[1][:499] + sign + said[1][500:]
        columns = {"step": [step] * 4, "prompt": ["p"] * 4, "completion": said, "acc": [1.0] * 4}
        path = tmp_path / "completions" / f"completions_{step:05}.parquet"
        pq.write_table(pa.table(columns | {"advantage": [0.5] * 4}), path)
    run = run_at(tmp_path)
    assert (len(keyed(run)), run.counts, run.repeated) == (2, {1: 4, 2: 4}, 0)


def test_a_copy_that_lacks_its_last_newline_is_one(write_log, opened, tmp_path):
    write_log("1.jsonl", *dump(1))
    write_log("resumed_1.jsonl", (tmp_path / "1.jsonl").read_bytes().rstrip(b"\n"))
    run = opened()
    assert (run.counts, run.repeated) == ({1: 4}, 4)


def test_a_buffer_repeats_only_the_one_right_before_it(tmp_path):
    """The fifth begins as the second ends, which is no repeat: others, without keys, stand between."""
    buffers(
        tmp_path, range(6), range(3, 9), range(20, 26), range(30, 36), range(6, 12), range(9, 15)
    )
    run = run_at(tmp_path)
    assert keyed(run) == {f"completions_{n:05}" for n in (1, 2, 5, 6)}
    assert run.counts == {1: 6, 2: 3, 3: 6, 4: 6, 5: 6, 6: 3}


def test_progress_never_falls_where_files_are_read_again(write_log, tmp_path):
    for name in ("1", "resumed_1", "2"):
        write_log(f"{name}.jsonl", *dump(int(name[-1])))
    (info,) = discover(tmp_path).runs
    seen: list[tuple[int, int]] = []
    open_run(info, progress=lambda done, total: seen.append((done, total)))
    again = sum(file.size for file in info.files if file.path.stem != "2")
    assert seen == sorted(seen)
    assert seen[-1] == (info.bytes + again, info.bytes + again)


def test_an_index_on_disk_knows_its_copies_and_new_files_of_the_run_are_read_once(
    write_log, tmp_path
):
    for name in ("1", "resumed_1"):
        write_log(f"{name}.jsonl", *dump(1))

    def look() -> Any:
        (info,) = discover(tmp_path).runs
        return Follower(persist=True).run(info)

    first, second = look(), look()
    assert (first.repeated, second.repeated) == (4, 4)
    assert (times_begun(first), times_begun(second)) == (4, 4)
    write_log("2.jsonl", *dump(2))
    write_log("resumed_2.jsonl", *dump(2))
    third = look()
    assert (third.counts, third.repeated, times_begun(third)) == ({1: 4, 2: 4}, 8, 6)


def test_of_many_buffers_the_first_tell_whether_the_others_repeat_each_other(tmp_path):
    """Files are not read a second time then but for these, and what is shown is the same."""
    rows = [range(first, first + 6) for first in range(0, 60, 3)]
    buffers(tmp_path / "many", *rows)
    many = run_at(tmp_path / "many")
    assert times_begun(many) == len(rows) + 4
    assert many.repeated == 3 * (len(rows) - 1)
    assert many.rollouts["response"].tolist() == [f"c{i:03}" for i in range(63)]
    buffers(tmp_path / "few", *rows[:3])
    few = run_at(tmp_path / "few")
    assert (times_begun(few), few.repeated) == (6, 6)


class StoppedError(Exception):
    """Somebody ended the build."""


@pytest.mark.parametrize("batches", range(8))
def test_copies_are_found_whenever_an_earlier_build_was_ended(
    write_log, tmp_path, monkeypatch, batches
):
    for name in ("1", "resumed_1", "2", "resumed_2"):
        write_log(f"{name}.jsonl", *dump(int(name[-1])))

    def look() -> Any:
        (info,) = discover(tmp_path).runs
        return Follower(persist=True).run(info)

    def stopping(self: Any, done: int) -> Any:
        nonlocal batches
        batches -= 1
        if batches < 0:
            raise StoppedError
        return "steps"

    with monkeypatch.context() as patched:
        patched.setattr(build, "_MOST_FILES", 1)
        patched.setattr(build_pace.Pace, "due", stopping)
        with pytest.raises(StoppedError):
            look()
    for _ in range(2):
        run = look()
        assert (run.counts, run.repeated) == ({1: 4, 2: 4}, 8)


def test_rollouts_do_not_leave_an_index_while_files_are_read_again(
    write_log, tmp_path, monkeypatch
):
    for name in ("1", "resumed_1", "2", "resumed_2"):
        write_log(f"{name}.jsonl", *dump(int(name[-1])))
    monkeypatch.setattr(build, "_MOST_FILES", 1)
    monkeypatch.setattr(build_pace.Pace, "due", lambda self, done: "rows")
    real, held = FolderStorage.commit, list[int]()

    def commit(storage: FolderStorage, manifest: Manifest) -> None:
        held.append(sum(segment.rows for segment in manifest.all_segments))
        real(storage, manifest)

    monkeypatch.setattr(FolderStorage, "commit", commit)
    (info,) = discover(tmp_path).runs
    assert Follower(persist=True).run(info).repeated == 8
    assert held == [4, 8, 12, 16, 16]


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
    monkeypatch.setattr(memory_storage, "KEEP_SECONDS", -1.0)
    follower = Follower()
    for name in (*"123456", *(f"resumed_{step}" for step in "123456")):
        write_log(f"{name}.jsonl", *dump(int(name[-1])))
        (info,) = discover(tmp_path).runs
        run = follower.run(info)
    assert follower._memory._tables.keys() <= run.shown.manifest.names


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


def test_a_file_that_cant_be_read_again_stays_as_it_was_until_it_can(write_log, tmp_path, damaged):
    write_log("1.jsonl", *dump(1), *dump(2), dump(3)[0], json.dumps(dump(3)[1]).encode())
    follower = Follower(persist=True)

    def look() -> Any:
        (info,) = discover(tmp_path).runs
        return follower.run(info)

    assert look().counts == {1: 4, 2: 4, 3: 2}
    write_log("resumed_1.jsonl", *dump(1))
    damaged.add("1")
    for _ in range(2):
        run = look()
        assert (run.counts, run.repeated) == ({1: 8, 2: 4, 3: 2}, 0)
        assert len(run.rollouts) == run.rollout_count
        assert "can't be read: Input/output error" in {problem.reason for problem in run.problems}
    damaged.clear()
    run = look()
    assert (run.counts, run.repeated) == ({1: 4, 2: 4, 3: 2}, 4)


def test_copies_are_told_in_what_can_be_read_of_a_file(write_log, opened, damaged, monkeypatch):
    size = write_log("1.jsonl", *dump(1)).stat().st_size
    monkeypatch.setattr(build, "SHARD_BYTES", size)
    for name in ("1", "resumed_1"):
        write_log(f"{name}.jsonl", *dump(1), *dump(2))
    damaged.add("resumed_1 behind")
    run = opened()
    assert (run.counts, run.repeated) == ({1: 4, 2: 4}, 4)
