"""The table of a whole run, of which only what is looked at is read, is the table that is read whole."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from board.query.narrowing import narrowed, of_split
from board.store.discovery import discover, location_of
from board.store.run import Follower, OpenOptions, Run, open_run
from board.store.table import order_by
from board.store.whole_run import FrameRows, rows_of_run

ROOT = Path(__file__).parents[3]
DATA = ROOT / "tests" / "formats" / "data"


def _run_at(path: Path, cap: int | None = None) -> Run:
    info = discover(location_of(str(path))).runs[0]
    return open_run(info, OpenOptions(max_per_step=cap))


RUNS: dict[str, Callable[[], Run]] = {
    "two ranks": lambda: _run_at(ROOT / "rollout_samples" / "grpo_arithmetic"),
    "one environment": lambda: narrowed(
        _run_at(ROOT / "rollout_samples" / "grpo_arithmetic"), ["add"]
    ),
    "superseded rows": lambda: _run_at(ROOT / "rollout_samples" / "resumed"),
    "a cap": lambda: _run_at(ROOT / "rollout_samples" / "resumed", cap=3),
    "a split": lambda: of_split(_run_at(DATA / "verifiers"), "train"),
    "joined logs": lambda: _run_at(DATA / "slime"),
}


@pytest.mark.parametrize("name", RUNS)
def test_columns_and_rows_are_those_of_the_table_that_is_read_whole(name: str) -> None:
    run = RUNS[name]()
    found, whole = rows_of_run(run), run.rollouts.reset_index(drop=True)
    assert len(found) == len(whole)
    for column in (name for name in found.columns if name in whole):
        own, expected = found[column].reset_index(drop=True), whole[column]
        if isinstance(expected.dtype, pd.CategoricalDtype):
            expected = expected.astype(object).astype("str")
            own = own.astype(object).astype("str")
        pd.testing.assert_series_equal(own, expected, check_index_type=False, check_names=False)
    places = np.random.default_rng(0).permutation(len(whole))[:7]
    rows = found.at(places, ["response", "reward", "step", "index"])
    wanted = whole.loc[places, list(rows.columns)]
    pd.testing.assert_frame_equal(rows.reset_index(drop=True), wanted.reset_index(drop=True))
    assert found.at(places, ["step", "index"])["index"].tolist() == wanted["index"].tolist()
    assert len(found.at(np.zeros(0, np.int64), ["reward"])) == 0


def test_an_index_on_disk_gives_rows_out_of_several_tables(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "rollout_samples" / "grpo_arithmetic", tmp_path / "run")
    info = discover(location_of(str(tmp_path))).runs[0]
    run = Follower(persist=True).run(info)
    found, frame = rows_of_run(run), FrameRows(run.rollouts)
    order = order_by(found["reward"], descending=True, limit=50)
    names = ["step", "index", "env", "group_id", "response"]
    sides = [rows.at(order, names).astype(str).reset_index(drop=True) for rows in (found, frame)]
    pd.testing.assert_frame_equal(*sides)
