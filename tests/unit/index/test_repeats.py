from __future__ import annotations

import json
from collections import deque
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from read_formats import DATA, reasons, run_at

from board.core.records import Record
from board.index.discovery.discovered_runs import discover
from board.index.repeat_keys import NO_KEY, overlap, repeat_key
from board.query import duplicates
from board.query.database import database_of
from board.query.open_run import Follower


def ints(*values: int) -> Any:
    return np.array(values, np.int64)


def candidates(keys: Any, files: Any) -> pa.Table:
    """Rows of step 1 as duplicates are looked for in."""
    lines = np.arange(len(keys))
    same = np.zeros(len(keys), np.int64)
    columns = (files, files, same + 1, lines, same, keys)
    return pa.table([pa.array(column) for column in columns], schema=duplicates._SCHEMA)


def repeated(keys: Any, dumps: Any) -> list[bool]:
    """Which rows of buffers end the one before."""
    table = candidates(keys, dumps)
    starts = duplicates._buffer_starts(table, "file_buffer")
    lines = duplicates._overlapping(table, starts)["line"].to_pylist()
    return [line in lines for line in range(len(keys))]


@pytest.mark.parametrize(
    ("before", "after", "shared"),
    [
        ((1, 2, 3, 4), (3, 4, 5, 6), 2),
        ((1, 2, 3, 4), (1, 2, 3, 4), 4),
        ((1, 2), (1, 2, 3), 2),
        ((1, 2, 3, 4), (5, 6, 7, 8), 0),
        ((1, 2, 3, 4), (2, 3, 5, 6), 0),
        ((1, 2, 1, 2), (1, 2, 1, 2), 4),
        ((), (1, 2), 0),
        ((1, 2), (), 0),
    ],
)
def test_a_repeat_is_the_end_of_one_buffer_at_the_beginning_of_the_next(before, after, shared):
    assert overlap(ints(*before), ints(*after)) == shared


def test_equal_rows_alone_are_no_repeat():
    same = ints(7, 7, 7, 7)
    assert overlap(same, same) == 0
    keys, dumps = ints(1, 2, 3, 1, 2, 4), ints(0, 0, 0, 1, 1, 1)
    assert not any(repeated(keys, dumps))


@settings(max_examples=60)
@given(st.lists(st.integers(0, 5), max_size=12), st.integers(5, 8))
def test_of_a_buffer_of_distinct_rollouts_each_is_shown_once(news, size):
    buffer: deque[int] = deque(maxlen=size)
    keys: list[int] = []
    dumps: list[int] = []
    written = 1  # after NO_KEY
    for dump, new in enumerate([size, *news]):
        # A stretch of one row can't be told from the same being said again: none is made here.
        new += new == size - 1
        buffer.extend(range(written, written + new))
        written += new
        keys += buffer
        dumps += [dump] * len(buffer)
    hidden = repeated(ints(*keys), ints(*dumps))
    assert np.array(keys)[~np.array(hidden)].tolist() == list(range(1, written))


def test_of_rows_with_one_id_the_last_is_shown_and_rows_without_one_all_are():
    with database_of().cursor() as cursor:
        cursor.register("candidates", candidates(ints(5, 6, 5, NO_KEY, NO_KEY, 6), ints(*range(6))))
        found = cursor.sql(duplicates._BY_ID).to_arrow_table()
    assert sorted(found["line"].to_pylist()) == [0, 1]


def test_an_id_is_one_within_its_step_and_split_only():
    keys = {
        repeat_key(Record(step, {"rollout_id": "a", "split": split}), "same_id")
        for step in (1, 2)
        for split in ("train", "eval")
    }
    assert len(keys) == 4
    assert repeat_key(Record(1), "same_id") == NO_KEY


def table(step: int, rows: range) -> str:
    line = {
        "step": [str(step)] * len(rows),
        "prompt": [f"p{i}" for i in rows],
        "completion": [f"c{i}" for i in rows],
        "acc": [float(i) for i in rows],
        "advantages": [0.5] * len(rows),
    }
    return json.dumps(line) + "\n"


def test_a_run_that_grows_counts_repeats_as_if_it_were_read_at_once(tmp_path):
    path = tmp_path / "grown" / "completions.jsonl"
    whole = tmp_path / "whole" / "completions.jsonl"
    for file in (path, whole):
        file.parent.mkdir()
    lines = [
        table(1, range(4)),
        table(2, range(2, 6)),
        table(3, range(2, 6)),
        table(4, range(6, 9)),
    ]
    whole.write_text("".join(lines))
    follower = Follower()
    for number in range(len(lines)):
        path.write_text("".join(lines[: number + 1]))
        (info,) = discover(path.parent).runs
        run = follower.run(info)
    expected = run_at(whole.parent)
    assert expected.counts == run.counts == {1: 4, 2: 2, 4: 3}
    assert expected.repeated == run.repeated == 6
    assert run.steps["reward_mean"].tolist() == [1.5, 4.5, 7.0]
    assert run.steps.equals(expected.steps)
    assert ("rollouts already in the log were written again", 6) in reasons(run)


def ids_of_many_files(folder: Path) -> None:
    """open-instruct's lines of few ids, most of which stand several times in several files."""
    random = Random(3)
    for number in range(3):
        lines: list[str] = []
        for _ in range(30):
            step, sample = random.randrange(3), random.randrange(25)
            tokens = {"prompt_tokens": [1, 2], "response_tokens": [4, sample]}
            ids = {"step": step, "sample_idx": sample, "prompt_idx": sample // 4}
            scores = {"reward": random.random(), "advantage": 0.5, "finish_reason": "stop"}
            said = {"dataset": "gsm8k", "ground_truth": "7"}
            lines.append(json.dumps(ids | tokens | scores | said) + "\n")
        (folder / f"run_rollouts_{number:06}.jsonl").write_text("".join(lines))


def buffers_of_many_files(folder: Path) -> None:
    """TRL's tables of six rows, each of which begins with rows of the one before; one has no rows."""
    (folder / "completions").mkdir()
    for step, first in enumerate((0, 4, None, 8, 8, 14, 17), start=1):
        rows = range(0) if first is None else range(first, first + 6)
        columns = {
            "step": [step] * len(rows),
            "prompt": [f"p{i}" for i in rows],
            "completion": [f"c{i}" for i in rows],
            "acc": [float(i) for i in rows],
            "advantage": [0.5] * len(rows),
        }
        path = folder / "completions" / f"completions_{step:05}.parquet"
        pq.write_table(pa.table(columns), path)


@pytest.mark.parametrize("written", [ids_of_many_files, buffers_of_many_files])
@pytest.mark.parametrize("rows", [1, 7, 20])
def test_repeats_are_those_of_all_rows_however_few_are_looked_at_at_once(
    tmp_path, monkeypatch, written, rows
):
    written(tmp_path)
    expected = run_at(tmp_path)
    assert expected.repeated > 5
    monkeypatch.setattr(duplicates, "_BATCH_ROWS", rows)
    run = run_at(tmp_path)
    assert (run.repeated, run.counts) == (expected.repeated, expected.counts)
    pd.testing.assert_frame_equal(run.rollouts, expected.rollouts)


def test_a_resume_that_writes_steps_again_is_superseded_and_no_repeat(tmp_path):
    lines = [table(1, range(4)), table(2, range(4, 8)), table(1, range(10, 14)), table(2, range(8))]
    (tmp_path / "completions.jsonl").write_text("".join(lines))
    run = run_at(tmp_path)
    assert (run.superseded, run.repeated) == (8, 0)
    assert run.counts == {1: 4, 2: 8}


def verl_line(step: int, number: int, answer: str = "") -> dict[str, Any]:
    answer = answer or f"answer {number} of {step}"
    return {"input": f"ask {number // 2}", "output": answer, "score": 0.5, "step": step}


def rllb_line(step: int, number: int, answer: str = "") -> dict[str, Any]:
    line = verl_line(step, number, answer)
    return {"step": step, "prompt": line["input"], "response": line["output"], "reward": 1.0}


def test_a_step_that_was_copied_to_another_file_is_shown_once_and_counted(write_log, opened):
    # Answers of a group may be equal, within a dump and so in its copy.
    dump = [verl_line(1, i, "4" if i < 3 else "5") for i in range(6)]
    write_log("1.jsonl", *dump)
    write_log("resumed_1.jsonl", *dump)
    write_log("2.jsonl", *(verl_line(2, i) for i in range(6)))
    run = opened()
    assert (run.counts, run.repeated) == ({1: 6, 2: 6}, 6)
    assert run.of_step(1)["response"].tolist() == [line["output"] for line in dump]
    assert ("rollouts already in the log were written again", 6) in reasons(run)


@pytest.mark.parametrize("change", ["another answer", "a line less", "another order", "all alike"])
def test_a_step_that_merely_looks_alike_is_shown_whole(write_log, opened, change):
    dump = [verl_line(1, i) for i in range(6)]
    other = {
        "another answer": [*dump[:5], verl_line(1, 5, "answer 6 of 1")],
        "a line less": dump[:5],
        "another order": dump[::-1],
        "all alike": [dump[0]] * 4,
    }[change]
    write_log("1.jsonl", *([dump[0]] * 4 if change == "all alike" else dump))
    write_log("resumed_1.jsonl", *other)
    run = opened()
    assert (run.rollout_count, run.repeated) == (sum(run.counts.values()), 0)
    assert run.rollout_count == len(other) + (4 if change == "all alike" else 6)


def test_ranks_that_come_to_say_the_same_are_no_copies_of_each_other(write_log, opened):
    # A policy that collapsed answers alike on every rank; a copy is one from its first step on.
    for rank in (0, 1):
        own = [rllb_line(1, i, f"by rank {rank}, {i}") for i in range(4)]
        write_log(f"rollout_data_rank{rank}.jsonl", *own, *(rllb_line(2, i) for i in range(4)))
    run = opened()
    assert (run.counts, run.repeated) == ({1: 8, 2: 8}, 0)


def test_a_file_that_begins_as_a_copy_is_shown_from_where_it_goes_its_own_way(write_log, opened):
    copied = [rllb_line(step, i) for step in (1, 2) for i in range(4)]
    write_log("rollout_data_rank0.jsonl", *copied, *(rllb_line(3, i) for i in range(4)))
    own = [rllb_line(3, i, f"again {i}") for i in range(4)]
    write_log("rollout_data_rank1.jsonl", *copied, *own)
    run = opened()
    assert (run.counts, run.repeated) == ({1: 4, 2: 4, 3: 8}, 8)
    assert run.rows.file_counts()["rollout_data_rank1.jsonl"] == (4, 3, 3)


def test_shards_that_were_merged_into_one_more_file_are_shown_once(tmp_path):
    # NeMo-Gym's aggregate sorts the lines of all shards and writes them again.
    lines = (DATA / "nemo_gym/adder_rollouts.jsonl").read_bytes().splitlines(keepends=True)
    shards = {"rollouts-rs0": lines[:2], "rollouts-rs1": lines[2:], "rollouts": lines[::-1]}
    for name, own in shards.items():
        (tmp_path / f"{name}.jsonl").write_bytes(b"".join(own))
    run = run_at(tmp_path)
    assert (run.rollout_count, run.repeated) == (5, 5)
    assert set(run.rows.file_counts()) == {"rollouts-rs0.jsonl", "rollouts-rs1.jsonl"}
    (tmp_path / "rollouts-rs1.jsonl").write_bytes(b"".join(lines[3:]))  # a line stands in no shard
    assert run_at(tmp_path).rollout_count == 9


def test_copies_that_come_while_a_run_is_followed_are_found(tmp_path, write_log):
    dump = [verl_line(1, i) for i in range(4)]
    write_log("1.jsonl", *dump)
    follower = Follower()
    (info,) = discover(tmp_path).runs
    assert follower.run(info).repeated == 0
    write_log("resumed_1.jsonl", *dump[:2])
    (info,) = discover(tmp_path).runs
    assert follower.run(info).counts == {1: 6}
    write_log("resumed_1.jsonl", *dump)
    (info,) = discover(tmp_path).runs
    run = follower.run(info)
    assert (run.counts, run.repeated) == ({1: 4}, 4)
    assert run.steps["rollouts"].tolist() == [4]


def test_copies_of_several_steps_are_found_where_rows_are_read_thousands_at_a_time(
    tmp_path, write_log
):
    """Of what is read for one step the rows of others are left out, however many come with it."""
    first, second = ([verl_line(step, i) for i in range(5000)] for step in (1, 2))
    for prefix, last in (("", second), ("resumed_", second[:2000])):
        write_log(f"{prefix}1.jsonl", *first)
        write_log(f"{prefix}2.jsonl", *last)
    (info,) = discover(tmp_path).runs
    run = Follower(persist=True).run(info)
    assert (run.counts, run.repeated) == ({1: 5000, 2: 7000}, 5000)


def test_answers_to_other_questions_behind_one_long_system_prompt_are_no_repeats(tmp_path):
    folder = tmp_path / "completions"
    folder.mkdir()
    for step, questions in ((1, ("Is 7 prime?", "Is 9 odd?")), (2, ("Is 8 odd??", "Is Rome old?"))):
        rows = {
            "step": [step] * 4,
            "prompt": ["You are a careful assistant. " * 9 + questions[i // 2] for i in range(4)],
            "completion": ["no", "yes"] * 2,
            "accuracy_reward": [0.0, 1.0] * 2,
            "advantage": [-0.5, 0.5] * 2,
        }
        pq.write_table(pa.table(rows), folder / f"completions_{step:05d}.parquet")
    run = run_at(tmp_path)
    assert (run.counts, run.repeated) == ({1: 4, 2: 4}, 0)
