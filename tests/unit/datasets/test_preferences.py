"""Pairs are the best and the worst of their group, one for each prompt."""

from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from read_formats import run_of

from board.datasets.preferences import best_and_worst
from board.errors import ChoiceError
from board.query.open_run import OpenOptions, Run


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    random = np.random.default_rng(5)

    def row(step: int, group: int) -> dict[str, Any]:
        values = {
            "reward": random.choice([0.0, 0.25, 1.0, None]),
            "cause": random.choice(["sandbox", "policy", None], p=[0.2, 0.2, 0.6]),
        }
        values = {name: value for name, value in values.items() if value is not None}
        prompt = f"prompt {group % 3}"
        return {"step": step, "group_id": f"g{group}", "prompt": prompt, "response": "A", **values}

    return [
        row(step, group)
        for step in (1, 3, 4)
        for group in range(4)
        for _ in range(int(random.integers(1, 7)))
    ]


@pytest.fixture(scope="module")
def run(rows: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run_of(tmp_path_factory.mktemp("pairs"), rows)


@pytest.mark.parametrize("margin", [0.0, 0.5, 0.75, 1.0, 2.0])
def test_pairs_are_those_of_a_plain_search(run, rows, margin):
    expected: dict[str, tuple[Any, ...]] = {}
    groups = failed = 0
    for (step, _), own in groupby(rows, key=lambda row: (row["step"], row["group_id"])):
        scored = [row for row in own if "reward" in row]
        groups += bool(scored)
        usable = [row for row in scored if row.get("cause") != "sandbox"]
        failed += len(scored) - len(usable)
        if len(usable) < 2:
            continue
        best = max(usable, key=lambda row: row["reward"])
        worst = min(usable, key=lambda row: row["reward"])
        difference = best["reward"] - worst["reward"]
        before = expected.get(best["prompt"])
        if 0 < difference >= margin and (before is None or difference >= before[0]):
            expected[best["prompt"]] = (difference, step, rows.index(best), rows.index(worst))
    result = best_and_worst(run, margin)
    lines = [(p.margin, p.step, p.chosen["line"] - 1, p.rejected["line"] - 1) for p in result.pairs]
    same = {index: rows.index(row) for index, row in enumerate(rows)}
    assert sorted((m, s, same[c], same[r]) for m, s, c, r in lines) == sorted(expected.values())
    assert (result.groups, result.infrastructure) == (groups, failed)
    assert result.left_out.total() + len(result.pairs) == groups


def test_rollouts_that_a_filter_left_out_are_in_no_pair(run):
    filtered = best_and_worst(run.where("reward < 1 and step > 1"), 0.0)
    assert {p.score_chosen for p in filtered.pairs} == {0.25}
    assert all(pair.step > 1 for pair in filtered.pairs)


def test_groups_are_made_by_prompt_where_that_is_asked(tmp_path: Path):
    rows = [{"step": 1, "prompt": "Q", "response": str(n), "reward": n} for n in range(3)]
    with pytest.raises(ChoiceError, match="--group-by-prompt"):
        best_and_worst(run_of(tmp_path / "a", rows), 0.0)
    run = run_of(tmp_path / "b", rows, OpenOptions(group_by_prompt=True))
    (pair,) = best_and_worst(run, 0.0).pairs
    assert (pair.score_chosen, pair.score_rejected) == (2, 0)
