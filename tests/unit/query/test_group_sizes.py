"""Groups with fewer rollouts than is usual are counted, and no others."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from read_formats import run_of

from board.cli import main
from board.query.group_sizes import group_sizes, incomplete_groups
from board.query.open_run import Run


def run_with(folder: Path, sizes: dict[int, list[int]], **extra: str) -> Run:
    """A run of groups of these sizes, by step."""
    rows = [
        {"step": step, "group_id": f"g{g}", "response": f"{step} {g} {i}", "reward": 1.0, **extra}
        for step, of_step in sizes.items()
        for g, size in enumerate(of_step)
        for i in range(size)
    ]
    return run_of(folder, rows)


def counts(sizes: dict[int, list[int]]) -> tuple[int, int]:
    with TemporaryDirectory() as folder:
        found = group_sizes(run_with(Path(folder), sizes))
        assert found is not None
        return found.incomplete, found.groups


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(2, 8), st.integers(2, 6)), min_size=1, max_size=4))
def test_groups_of_a_step_that_are_of_one_size_are_complete_whatever_other_steps_have(steps):
    sizes = {step: [size] * groups for step, (size, groups) in enumerate(steps)}
    assert counts(sizes)[0] == 0


@settings(max_examples=25, deadline=None)
@given(st.integers(3, 8), st.lists(st.integers(1, 2), max_size=6))
def test_each_group_that_lacks_rollouts_counts(size, small):
    assert counts({1: [size, size, *small]}) == (len(small), 2 + len(small))


def test_six_of_eight_incomplete_groups_are_said_so(tmp_path, capsys):
    run = run_with(tmp_path, {1: [8, 8, 7, 5, 3, 3, 3, 1]})
    (problem,) = incomplete_groups(run)
    assert (problem.reason, problem.severity) == ("6 of 8 groups are incomplete", "note")
    assert "step 1" in problem.hint
    assert main(["check", str(tmp_path / "run"), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)["rows"]
    assert "6 of 8 groups are incomplete" in [one["reason"] for one in said]


@pytest.mark.parametrize("key", ["split", "env"])
def test_evaluation_and_environments_have_their_sizes(tmp_path, key):
    rows = [
        {"step": 1, "group_id": f"{kind}{g}", "response": f"{kind}{g}{i}", "reward": 0.0, key: kind}
        for kind, size in (("train", 8), ("eval", 2))
        for g in range(3)
        for i in range(size)
    ]
    assert not incomplete_groups(run_of(tmp_path, rows))


def test_a_step_with_a_single_group_is_compared_with_the_run(tmp_path):
    (problem,) = incomplete_groups(run_with(tmp_path, {1: [4, 4], 2: [4, 4], 3: [1]}))
    assert problem.reason == "1 of 5 groups is incomplete"
