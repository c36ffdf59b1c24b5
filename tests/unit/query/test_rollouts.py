"""A page of rollouts is the part of the whole table, sorted, that it should be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from written_logs import write_lines

from board.index.discovery.discovered_runs import discover, location_of
from board.query.open_run import Follower, OpenOptions, Run, open_run
from board.query.rollouts import Sorting, batches, count, frame, place_of
from board.query.splits import of_split

ROOT = Path(__file__).parents[3]
DATA = ROOT / "tests" / "formats" / "data"


def run_at(path: Path, cap: int | None = None) -> Run:
    info = discover(location_of(str(path))).runs[0]
    return open_run(info, OpenOptions(max_per_step=cap))


RUNS: dict[str, Callable[[], Run]] = {
    "two ranks": lambda: run_at(ROOT / "rollout_samples" / "grpo_arithmetic"),
    "one environment": lambda: run_at(ROOT / "rollout_samples" / "grpo_arithmetic").where(
        envs=["add"]
    ),
    "superseded rows": lambda: run_at(ROOT / "rollout_samples" / "resumed"),
    "a cap": lambda: run_at(ROOT / "rollout_samples" / "resumed", cap=3),
    "a split": lambda: of_split(run_at(DATA / "verifiers"), "train"),
    "joined logs": lambda: run_at(DATA / "slime"),
}


@pytest.mark.parametrize("name", RUNS)
def test_rows_are_those_of_the_table_that_is_read_whole(name: str) -> None:
    run = RUNS[name]()
    selection, whole = run, run.rollouts.reset_index(drop=True)
    columns = [name for name in run.columns if name in whole]
    assert count(selection) == len(whole)
    found = frame(selection, columns, Sorting())
    pd.testing.assert_frame_equal(found.astype(object), whole[columns].astype(object))
    columns = [name for name in ("reward", "index", "step") if name in whole]
    page = frame(selection, columns, Sorting(), limit=4, offset=3)
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
    return Follower(persist=True).run(discover(location_of(str(folder))).runs[0])


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("column", ["reward", "whole", "env", "note", "step", "index", "file"])
def test_a_page_is_a_part_of_the_whole_table_sorted(
    run: Run, column: str, descending: bool
) -> None:
    rows = run.rollouts.astype({"env": object, "note": object})
    order = rows.sort_values(
        column, ascending=not descending, kind="stable", na_position="last", ignore_index=True
    )
    sorting, selection = Sorting(column, descending), run
    wanted = order[["step", "index", "rollout_id" if "rollout_id" in rows else "line"]]
    for limit, offset in ((None, 0), (1, 0), (7, 60), (200, 139)):
        found = frame(selection, list(wanted.columns), sorting, limit=limit, offset=offset)
        end = None if limit is None else offset + limit
        assert found.values.tolist() == wanted[offset:end].values.tolist()
    for place in (0, 77, 139):
        at = order.iloc[place]
        assert place_of(selection, sorting, int(at["step"]), int(at["index"])) == place
    assert place_of(selection, sorting, 99, 0) == 0


def test_batches_have_whole_texts_in_the_order(run: Run) -> None:
    for sorting in (Sorting(), Sorting(descending=True), Sorting("whole")):
        found = batches(run, ["response", "line"], ["response"], sorting, limit=None, size=11)
        tables = list(found)
        assert max(map(len, tables)) <= 11
        texts = pd.concat(tables)["response"].tolist()
        expected = frame(run, ["line"], sorting)["line"]
        assert texts == [f"{'long ' * 99}{line - 1}" for line in expected]


def test_filters_steps_and_environments_hold_together(run: Run) -> None:
    chosen = run.where("reward > 0", envs=("a", "b"), steps=(1, 2))
    rows = run.rollouts
    own = rows[rows["env"].isin(["a", "b"]) & (rows["reward"] > 0) & rows["step"].between(1, 2)]
    assert 0 < count(chosen.where("whole < 5")) < count(chosen) == len(own)
    found = frame(chosen, ["step", "index"], Sorting())
    assert found.values.tolist() == own[["step", "index"]].values.tolist()
