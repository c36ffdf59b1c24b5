from __future__ import annotations

import json
from collections import deque
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from read_formats import reasons, run_at

from board.core.records import Record
from board.store.discovery import discover
from board.store.repeats import NO_KEY, overlap, repeat_key, repeated
from board.store.run import Follower


def ints(*values: int) -> Any:
    return np.array(values, np.int64)


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
    assert not repeated(keys, "line_buffer", dumps).any()


@settings(max_examples=60)
@given(st.lists(st.integers(0, 5), max_size=12), st.integers(5, 8))
def test_of_a_buffer_of_distinct_rollouts_each_is_shown_once(news, size):
    buffer: deque[int] = deque(maxlen=size)
    keys: list[int] = []
    dumps: list[int] = []
    written = 0
    for dump, new in enumerate([size, *news]):
        # A stretch of one row can't be told from the same being said again: none is made here.
        new += new == size - 1
        buffer.extend(range(written, written + new))
        written += new
        keys += buffer
        dumps += [dump] * len(buffer)
    hidden = repeated(ints(*keys), "line_buffer", ints(*dumps))
    assert np.array(keys)[~hidden].tolist() == list(range(written))


def test_of_rows_with_one_id_the_last_is_shown_and_rows_without_one_all_are():
    hidden = repeated(ints(5, 6, 5, NO_KEY, NO_KEY, 6), "same_id", ints(*range(6)))
    assert hidden.tolist() == [True, True, False, False, False, False]


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
    assert ("rollouts that the log holds already were written again", 6) in reasons(run)


def test_a_resume_that_writes_steps_again_is_superseded_and_no_repeat(tmp_path):
    lines = [table(1, range(4)), table(2, range(4, 8)), table(1, range(10, 14)), table(2, range(8))]
    (tmp_path / "completions.jsonl").write_text("".join(lines))
    run = run_at(tmp_path)
    assert (run.superseded, run.repeated) == (8, 0)
    assert run.counts == {1: 4, 2: 8}
