"""A step of very many rollouts is summed up in pieces, to the same as one that is summed up at once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from test_step_parts import append, rollouts

from board.store import batch, build, large_rows, large_step, renewal, scan, step_store
from board.store.discovery import discover
from board.store.run import Follower, Run

STEPS = 2


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every step has several segments and pieces, and is summed up alone."""
    for module, name, value in (
        (scan, "PART_ROWS", 17),
        (batch, "PART_ROWS", 17),
        (build, "PART_ROWS", 17),
        (large_rows, "_PIECE", 11),
        (large_rows, "_SORTED", 5),
        (large_step, "_PROMPTS", 7),
        (renewal, "_PART_ROWS", 16),
        (renewal, "_FULL_ROWS", 32),
        (step_store, "_CHUNK_ROLLOUTS", 1),
    ):
        monkeypatch.setattr(module, name, value)


def written(folder: Path, seed: int) -> Path:
    """Two ranks whose rollouts share groups, with gaps; by seed without groups, with splits, or with
    more environments than are kept.
    """
    dice = np.random.default_rng(seed)
    folder.mkdir()
    for step in range(STEPS):
        for rank in range(2):
            rows = [
                row for _ in range(3) for row in rollouts(dice, rank, step, parts=bool(seed % 2))
            ]
            for row in rows:
                if seed == 1:
                    row.pop("group_id", None)
                if seed == 2 and dice.random() < 0.7:
                    row["split"] = str(dice.choice(["train", "eval", "x"]))
                if seed == 3:
                    row["env"] = f"e{dice.integers(90)}"
            append(folder, rank, iter(rows))
    return folder


def indexed(folder: Path, monkeypatch: pytest.MonkeyPatch, *, large: bool) -> Run:
    monkeypatch.setattr(step_store, "_LARGE", 0 if large else 1 << 40)
    return Follower().run(discover(folder).runs[0])


def kinds(run: Run) -> Iterator[tuple[str, pa.Table]]:
    for kind in run.shown.manifest.parts:
        table = run.shown.part(kind)
        assert table is not None
        yield kind, table


def is_same(one: Any, other: Any) -> bool:
    """Equal, but for the last digits of sums."""
    if isinstance(one, list):
        return len(one) == len(other) and all(map(is_same, one, other))
    is_float = isinstance(one, float) and isinstance(other, float)
    return one == other or (is_float and bool(np.isclose(one, other, rtol=1e-12, equal_nan=True)))


@pytest.mark.parametrize("seed", range(4))
def test_what_is_kept_of_a_step_is_the_same_in_pieces(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = written(tmp_path / "run", seed)
    one = indexed(folder, monkeypatch, large=False)
    other = indexed(folder, monkeypatch, large=True)

    pd.testing.assert_frame_equal(one.steps, other.steps)
    wanted, found = dict(kinds(one)), dict(kinds(other))
    assert wanted.keys() == found.keys()
    for kind, table in wanted.items():
        of_pieces = found[kind]
        assert {*table.schema} == {*of_pieces.schema}, kind
        for name in table.column_names:
            pairs = zip(
                table.column(name).to_pylist(), of_pieces.column(name).to_pylist(), strict=True
            )
            assert all(is_same(*pair) for pair in pairs), (kind, name)


def test_rows_of_a_large_step_stay_in_their_order_when_other_steps_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = tmp_path / "run"
    folder.mkdir()
    monkeypatch.setattr(step_store, "_LARGE", 40)
    follower = Follower()

    def grows(steps: list[int]) -> Run:
        with (folder / "log.jsonl").open("a") as file:
            for number, step in enumerate(steps):
                row = {"step": step, "prompt": f"p{number}", "response": "r", "reward": 1.0}
                file.write(json.dumps(row) + "\n")
        return follower.run(discover(folder).runs[0])

    for steps in ([0, 0, 1, 1], [2] * 90, [3, 3], [4, 4, 4]):
        run = grows(steps)
        prompts = run.shown.part("prompts", ("step", "text"))
        assert prompts is not None
        texts = (
            prompts.filter(pa.compute.equal(prompts.column("step"), 2)).column("text").to_pylist()
        )
        assert texts == [f"p{number}" for number in range(90)] or 2 not in run.counts
        assert prompts.column("step").to_pylist() == sorted(prompts.column("step").to_pylist())
