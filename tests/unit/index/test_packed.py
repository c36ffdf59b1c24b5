"""Compressed logs are the logs they were, and cost what they may."""

import gzip
import json
import os

import pandas as pd
import pytest
import zstandard
from read_formats import info_at, run_at

from board.analysis.rollout import open_rollout
from board.index.discovery import packed
from board.index.discovery.discovered_runs import discover
from board.query.open_run import Follower

PACK = {"gz": gzip.compress, "zst": zstandard.ZstdCompressor().compress}
pytestmark = pytest.mark.parametrize("kind", PACK)
ROWS = [{"step": s, "prompt": "p", "response": f"r{s}", "logprobs": [-1.0 * s]} for s in range(9)]


def text(first: int = 0) -> bytes:
    rows = ({**row, "step": first + i} for i, row in enumerate(ROWS))
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


TEXT = text()


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ROLLOUT_BOARD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_compressed_log_is_the_log_it_was(tmp_path, write_log, kind):
    write_log("plain/x.jsonl", TEXT)
    write_log(f"packed/x.jsonl.{kind}", PACK[kind](TEXT))
    plain, run = (run_at(tmp_path / name) for name in ("plain", "packed"))
    pd.testing.assert_frame_equal(run.rollouts, plain.rollouts)
    pd.testing.assert_frame_equal(run.steps, plain.steps)
    assert run.problems == ()
    assert open_rollout(run, 3, 0).line == ROWS[3]


def test_a_log_beside_its_packed_copy_is_shown_once_and_the_copy_is_named(
    tmp_path, write_log, kind
):
    plain = write_log("run/x.jsonl", TEXT)
    write_log(f"run/x.jsonl.{kind}", PACK[kind](TEXT))
    write_log(f"run/y.jsonl.{kind}", PACK[kind](text(9)))
    run = run_at(plain.parent)
    assert run.rollout_count == 18
    (problem,) = run.problems
    assert (problem.path, problem.severity) == (f"x.jsonl.{kind}", "note")
    assert "uncompressed next to it" in problem.reason
    plain.unlink()
    assert run_at(plain.parent).rollout_count == 18


def test_a_log_of_several_compressed_pieces_is_read_whole_and_followed(tmp_path, write_log, kind):
    path = write_log(f"packed/x.jsonl.{kind}", PACK[kind](TEXT), PACK[kind](text(9)))
    follower = Follower()
    assert follower.run(info_at(path.parent)).rollout_count == 18
    with path.open("ab") as file:
        file.write(PACK[kind](text(18)))
    assert follower.run(info_at(path.parent)).rollout_count == 27


def test_what_is_there_of_a_file_that_is_still_written_shows(write_log, tmp_path, kind):
    noise = b"".join(
        json.dumps({"step": s, "prompt": os.urandom(600).hex(), "response": "r"}).encode() + b"\n"
        for s in range(900)
    )
    content = PACK[kind](noise)
    write_log(f"packed/x.jsonl.{kind}", content[: len(content) // 2], fresh=True)
    run = run_at(tmp_path / "packed")
    assert 0 < run.rollout_count < 900


def test_a_bomb_costs_a_bounded_number_of_bytes_and_is_named(
    write_log, tmp_path, monkeypatch, cache, kind
):
    monkeypatch.setattr(packed, "_ANY_SIZE", 1 << 20)
    bomb = TEXT + b" " * (64 << 20)
    write_log(f"packed/x.jsonl.{kind}", PACK[kind](bomb))
    write_log("packed/y.jsonl", TEXT)
    run = run_at(tmp_path / "packed")
    assert run.rollout_count == 9
    assert ["200 times its size" in problem.reason for problem in run.problems] == [True]
    assert sum(path.stat().st_size for path in cache.rglob("*") if path.is_file()) == 0


def test_rubbish_under_the_name_of_a_compressed_log_is_named(write_log, tmp_path, kind):
    write_log(f"packed/x.jsonl.{kind}", TEXT)
    write_log(f"packed/y.jsonl.{kind}", PACK[kind](TEXT)[:9] + b"no such thing\n" * 10)
    result = discover(tmp_path / "packed")
    assert result.runs == ()
    plain, damaged = (result.left_out[place].reason for place in (0, 1))
    assert "it is no" in plain
    assert "damaged" in damaged


def test_a_packed_log_that_was_cut_off_is_lost_at_once_with_what_is_there(
    write_log, tmp_path, kind
):
    rows = [{"step": 1, "response": os.urandom(8).hex()} for _ in range(9000)]
    content = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    whole = PACK[kind](content)
    path = write_log("whole/x.jsonl", whole, fresh=True)
    assert [p for p in run_at(path.parent).problems if p.severity != "note"] == []
    for fresh in (True, False):
        path = write_log(f"{fresh}/x.jsonl.{kind}", whole[: len(whole) // 2], fresh=fresh)
        run = run_at(path.parent)
        (problem,) = [p for p in run.problems if p.line is None and p.severity == "lost"]
        lines = int(problem.reason.split("after ")[1].split(" lines")[0].replace(",", ""))
        assert lines - 1 <= run.rollout_count <= lines
        # zstd says at its beginning how much there was
        assert (f"of {len(content):,} bytes" in problem.reason) == (kind == "zst")


def test_a_git_lfs_pointer_is_one_under_the_name_of_a_packed_log_too(write_log, tmp_path, kind):
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d\nsize 9\n"
    write_log(f"packed/x.jsonl.{kind}", pointer)
    (problem,) = discover(tmp_path / "packed").left_out
    assert "git-lfs pointer" in problem.reason
    assert problem.severity == "lost"


def test_what_the_path_of_a_packed_file_says_is_known(tmp_path, kind):
    row = {"idx": 0, "content": [["q", "a"]], "rewards": [1.0]}
    folder = tmp_path / "exp_001"
    folder.mkdir()
    (folder / f"val_data_step12.jsonl.{kind}").write_bytes(
        PACK[kind](json.dumps(row).encode() + b"\n")
    )
    run = run_at(folder)
    assert run.rollouts[["step", "split"]].values.tolist() == [[12, "eval"]]


@pytest.mark.parametrize("size", [1, 3, 100, 5000])
def test_what_stands_behind_a_packed_log_is_lost_and_counted(write_log, tmp_path, kind, size):
    write_log(f"x.jsonl.{kind}", PACK[kind](TEXT) + b"x" * size)
    run = run_at(tmp_path)
    assert run.rollout_count == 9
    (problem,) = run.problems
    assert problem.severity == "lost"
    assert problem.reason.startswith(f"{size:,} bytes behind the end")


def test_zeros_that_fill_a_block_are_no_loss(write_log, tmp_path, kind):
    write_log(f"x.jsonl.{kind}", PACK[kind](TEXT) + bytes(512))
    run = run_at(tmp_path)
    assert (run.rollout_count, run.problems) == (9, ())
