"""Which rows of several logs are one rollout, and that they are found once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from read_formats import DATA
from slime_files import MILES

from board.index.discovery.discovered_runs import JOINED, discover
from board.index.repeat_keys import NO_KEY
from board.query.joins import Joins, leads, stands_once
from board.query.open_run import Run, open_run

PRIME = DATA / "prime_rl" / "joined"
LOOKED_AT = ("reward", "advantage", "response_tokens", "group_id", "split", "file", "line")


def joined(folder: Path) -> Run:
    (info,) = (run for run in discover(folder).runs if run.source == JOINED)
    return open_run(info)


def step_by_step(run: Run) -> pd.DataFrame:
    """The rows of each step, read by itself."""
    return pd.concat([run.rows_of(step, LOOKED_AT) for step in run.counts], ignore_index=True)


def plain(rows: pd.DataFrame) -> list[dict]:
    return rows.astype(object).where(rows.notna(), None).to_dict("records")


@pytest.mark.parametrize("folder", [PRIME, MILES])
def test_rows_of_all_steps_are_those_of_each_step_by_itself(folder):
    if folder is MILES:
        pytest.importorskip("torch")
    run = joined(folder)
    expected = step_by_step(run)
    for _ in range(2):
        every = (min(run.counts), max(run.counts))
        for found in (run.chosen(LOOKED_AT), run.rows_of_steps(every, LOOKED_AT)):
            assert plain(found) == plain(expected[found.columns])


def test_which_rows_are_joined_is_found_once(monkeypatch):
    found: list[int] = []
    pairs = Joins.pairs_table
    monkeypatch.setattr(
        Joins, "pairs_table", lambda self, table: found.append(1) or pairs(self, table)
    )
    run = joined(PRIME)
    for columns in (("reward",), ("response_tokens", "advantage"), ("group_id",)):
        run.chosen(columns)
    assert len(found) == 1


def brute_force(sides: list[int], keys: list[int]) -> list[int]:
    """The row that each row is joined to, row by row."""
    counts = Counter(zip(sides, keys, strict=True))
    once = [k != NO_KEY and counts[s, k] == 1 for s, k in zip(sides, keys, strict=True)]
    found = []
    for row, key in enumerate(keys):
        same = [i for i in range(len(keys)) if keys[i] == key and once[i]] if once[row] else []
        found.append(min(same, key=lambda i: sides[i]) if len(same) > 1 else -1)
    return found


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 6)), max_size=20))
def test_rows_are_joined_where_a_key_stands_once_in_each_log(rows):
    sides, keys = [side for side, _ in rows], [key for _, key in rows]
    arrays = np.array(sides, np.int64), np.array(keys, np.int64)
    assert leads(arrays[0], [arrays[1]]).tolist() == brute_force(sides, keys)
    assert stands_once(*arrays).sum() == sum(
        key != NO_KEY and rows.count((side, key)) == 1 for side, key in rows
    )


def test_a_later_key_joins_no_rows_that_an_earlier_one_tells_apart():
    sides = np.array([0, 0, 1, 1], np.int64)
    first, second = np.array([1, 2, 1, 3], np.int64), np.array([5, 6, 6, 5], np.int64)
    assert leads(sides, [first, second]).tolist() == [0, -1, 0, -1]
    unknown = np.array([1, NO_KEY, 1, NO_KEY], np.int64)
    assert leads(sides, [unknown, np.array([5, 6, 7, 6], np.int64)]).tolist() == [0, 1, 0, 1]
