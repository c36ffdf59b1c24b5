"""A page of rollouts, and a file of them, is the part of the whole table that it should be, sorted."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from read_formats import DATA, SAMPLES, run_at, run_of, sample_run
from written_logs import write_lines

from board.index.discovery.discovered_runs import discover
from board.query.open_run import OpenOptions, Run, open_run
from board.query.rollouts import Sorting, batches, count, frame, place_of

RUNS: dict[str, Callable[[], Run]] = {
    "one environment": lambda: sample_run("grpo_arithmetic").where(envs=["add"]),
    "superseded rows": lambda: sample_run("resumed"),
    "a cap": lambda: run_at(SAMPLES / "resumed", OpenOptions(max_per_step=3)),
    "a split": lambda: open_run(discover(DATA / "verifiers").runs[0]).where(split="train"),
    "joined logs": lambda: open_run(discover(DATA / "slime").runs[0]),
}


@pytest.mark.parametrize("name", RUNS)
def test_rows_are_those_of_the_table_that_is_read_whole(name):
    run = RUNS[name]()
    whole = run.rollouts.reset_index(drop=True)
    columns = [name for name in run.columns if name in whole]
    assert count(run) == len(whole)
    result = frame(run, columns, Sorting())
    pd.testing.assert_frame_equal(result.astype(object), whole[columns].astype(object))
    columns = [name for name in ("reward", "index", "step") if name in whole]
    page = frame(run, columns, Sorting(), limit=4, offset=3)
    wanted = whole[columns][3:7].reset_index(drop=True)
    pd.testing.assert_frame_equal(page, wanted)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    random = np.random.default_rng(2)

    def row(n: int) -> dict[str, Any]:
        values = {
            "reward": random.choice([0.0, 1.0, -2.5, np.nan]),
            "whole": float(random.integers(0, 9)),
            "env": random.choice(["b", "a", "é", "Z", ""]),
            "note": random.choice(["x", "z", "", "𝄞"]),
        }
        values = {key: value for key, value in values.items() if value not in ("",)}
        return {"step": n // 20, "response": f"{'long ' * 99}{n}", **values}

    folder = tmp_path_factory.mktemp("sorted")
    write_lines(folder / "a.jsonl", [row(n) for n in range(70)])
    write_lines(folder / "b.jsonl", [row(n) for n in range(70)])
    return run_at(folder, persist=True)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("column", ["reward", "whole", "env", "note", "step", "index", "file"])
def test_a_page_is_a_part_of_the_whole_table_sorted(run, column, descending):
    rows = run.rollouts.astype({"env": object, "note": object})
    order = rows.sort_values(
        column, ascending=not descending, kind="stable", na_position="last", ignore_index=True
    )
    sorting = Sorting(column, descending)
    wanted = order[["step", "index", "rollout_id" if "rollout_id" in rows else "line"]]
    for limit, offset in ((None, 0), (1, 0), (7, 60), (200, 139)):
        result = frame(run, list(wanted.columns), sorting, limit=limit, offset=offset)
        end = None if limit is None else offset + limit
        assert result.values.tolist() == wanted[offset:end].values.tolist()
    for place in (0, 77, 139):
        at = order.iloc[place]
        assert place_of(run, sorting, int(at["step"]), int(at["index"])) == place
    assert place_of(run, sorting, 99, 0) == 0


def test_batches_have_whole_texts_in_the_order(run):
    columns = ("whole", "file", "reward", "env", "index")
    sorted_by = [Sorting(name, up) for name in columns for up in (False, True)]
    for sorting in (Sorting(), Sorting(descending=True), *sorted_by):
        result = batches(run, ["response", "line"], ["response"], sorting, limit=None, size=11)
        tables = list(result)
        assert max(table.num_rows for table in tables) <= 11
        texts = [text for table in tables for text in table["response"].to_pylist()]
        expected = frame(run, ["line"], sorting)["line"]
        assert texts == [f"{'long ' * 99}{line - 1}" for line in expected]


def test_whole_texts_need_not_fit_into_the_databases_memory_in_any_order(tmp_path, monkeypatch):
    monkeypatch.setattr("board.query.database.MEMORY_LIMIT", "90MB")
    random = np.random.default_rng(3)
    texts = [random.bytes(5000).hex() for _ in range(12_000)]
    rows = [{"step": 1, "prompt": "Q", "response": text} for text in texts]
    run = run_of(tmp_path, rows, persist=True)
    for chosen in (run, run.where("response contains a")):
        parts = batches(chosen, ["index", "response"], ["response"], Sorting(), size=500)
        assert [text for part in parts for text in part["response"].to_pylist()] == texts
    last_first = Sorting("index", descending=True)
    parts = batches(run, ["index", "response"], ["response"], last_first, size=500)
    assert [text for part in parts for text in part["response"].to_pylist()] == texts[::-1]
