"""Which rows of several logs are one rollout."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from read_formats import DATA
from slime_files import MILES

from board.index.discovery.discovered_runs import discover
from board.index.discovery.run_info import JOINED
from board.index.repeat_keys import NO_KEY
from board.index.segments import JOIN_KEYS
from board.query.database import database_of
from board.query.joins import join_pairs
from board.query.open_run import Run, open_run

PRIME = DATA / "prime_rl" / "joined"
LOOKED_AT = ("reward", "advantage", "response_tokens", "group_id", "split", "file", "line")


def joined(folder: Path) -> Run:
    (info,) = (run for run in discover(folder).runs if run.source == JOINED)
    return open_run(info)


def step_by_step(run: Run) -> pd.DataFrame:
    """The rows of each step, read by itself."""
    return pd.concat([run.frame(LOOKED_AT, (step, step)) for step in run.counts], ignore_index=True)


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
        for found in (run.frame(LOOKED_AT), run.frame(LOOKED_AT, every)):
            assert plain(found) == plain(expected[found.columns])


def brute_force(sides: list[int], keys: list[int]) -> dict[int, int]:
    """The row that each row is added to, row by row."""
    counts = Counter(zip(sides, keys, strict=True))
    once = [k != NO_KEY and counts[s, k] == 1 for s, k in zip(sides, keys, strict=True)]
    found = {}
    for row, key in enumerate(keys):
        same = [i for i in range(len(keys)) if keys[i] == key and once[i]] if once[row] else []
        lead = min(same, key=lambda i: sides[i], default=row)
        if lead != row:
            found[row] = lead
    return found


def pairs(sides: list[int], *keys: list[int]) -> dict[int, int]:
    """The row that each row is added to, by SQL."""
    columns = {"line": range(len(sides)), "side": sides}
    columns |= dict(zip(JOIN_KEYS, keys, strict=False))
    with database_of().cursor() as cursor:
        cursor.register("log", pa.table({n: pa.array(v, pa.int64()) for n, v in columns.items()}))
        sql = join_pairs("SELECT *, 0 AS file, 0 AS part FROM log", frozenset(columns))
        return dict(cursor.sql(f"SELECT line, lead_line FROM ({sql})").fetchall())


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 6)), max_size=20))
def test_rows_are_joined_where_a_key_stands_once_in_each_log(rows):
    sides, keys = [side for side, _ in rows], [key for _, key in rows]
    assert pairs(sides, keys) == brute_force(sides, keys)
    assert pairs(sides, [NO_KEY] * len(keys), keys) == brute_force(sides, keys)


def test_a_later_key_joins_no_rows_that_an_earlier_one_tells_apart():
    assert pairs([0, 0, 1, 1], [1, 2, 1, 3], [5, 6, 6, 5]) == {2: 0}
    assert pairs([0, 0, 1, 1], [1, NO_KEY, 1, NO_KEY], [5, 6, 7, 6]) == {2: 0, 3: 1}


def test_a_later_key_joins_no_second_row_of_a_log():
    assert pairs([0, 1, 1], [1, 1, NO_KEY], [5, NO_KEY, 5]) == {1: 0}
    assert pairs([0, 1, 2], [1, 1, NO_KEY], [5, NO_KEY, 5]) == {1: 0, 2: 0}
