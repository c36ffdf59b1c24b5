from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from written_logs import native_run, write_lines

from board.errors import ChoiceError, ExpressionError
from board.store.discovery import discover
from board.store.expressed import OWN, narrow, own_steps, parsed, rows_where
from board.store.run import Run, open_run
from board.store.whole_run import FrameRows, rows_of_run

LONG = "word " * 200
MESSAGES = [
    {"role": "user", "content": "ask"},
    {"role": "assistant", "content": "call"},
    {"role": "tool", "content": "Traceback"},
]
ROWS: list[dict[str, Any]] = [
    {"prompt": "p", "response": LONG + "I think", "reward": 1.0, "env": "a", "odd name": 1},
    {"prompt": "p", "response": LONG, "env": "b", "odd name": 2},
    {"prompt": "p", "response": "short", "reward": 0.2, "odd name": "three"},
    {"reward": 0.1, "messages": MESSAGES},
]


def run_of(folder: Path, rows: list[dict[str, Any]] = ROWS) -> Run:
    write_lines(folder / "run" / "x.jsonl", [{"step": n // 2, **row} for n, row in enumerate(rows)])
    (info,) = discover(folder / "run").runs
    return open_run(info)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return run_of(tmp_path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("reward < 0.5", [2, 3]),
        ("not reward < 0.5", [0]),
        ("env == 'a' or missing(env)", [0, 2, 3]),
        ("col('odd name') == 2.0", [1]),
        ('"odd name" == three', [2]),
        ("1 == 1", [0, 1, 2, 3]),
        ("file == x.jsonl", [0, 1, 2, 3]),
        ('response contains "i think"', [0]),
        ('reward > 0.5 and response contains "word"', [0]),
        ('reward > 0.5 or response contains "word"', [0, 1]),
        ('not response contains "word"', [2, 3]),
        ("response == short", [2]),
        ("response contains traceback", [3]),
        ("prompt == ask", [3]),
        ("any_text contains ask or any_text contains short", [2, 3]),
        ("missing(ref_response) and reward < 1", [2, 3]),
    ],
)
def test_a_filter_sees_whole_texts_and_what_is_not_known_does_not_hold(
    run: Run, text: str, expected: list[int]
) -> None:
    assert rows_where(run, rows_of_run(run), text).nonzero()[0].tolist() == expected


def test_rows_of_a_step_are_filtered_as_those_of_the_run(run: Run) -> None:
    assert rows_where(run, FrameRows(run.of_step(1)), "any_text contains short").tolist() == [
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("text", "unread"),
    [
        ('reward > 0.5 and response contains "x"', [0]),
        ('response contains "x" and missing(env) and reward < 1', [2, 3]),
        ('reward > 0.5 or response contains "x"', [1, 2, 3]),
        ("reward > 0.5", []),
        ('reward > 5 and response contains "x"', []),
    ],
)
def test_texts_are_read_only_where_columns_leave_it_open(
    run: Run, text: str, unread: list[int]
) -> None:
    rows = rows_of_run(run)
    assert narrow(run, rows, parsed(run, text)).unread.tolist() == unread


def test_progress_counts_the_rollouts_whose_texts_are_read(run: Run) -> None:
    seen: list[tuple[int, int]] = []
    text = "reward < 0.5 and response contains o"
    rows_where(run, rows_of_run(run), text, lambda *done: seen.append(done))
    assert seen == [(1, 2), (2, 2)]


@pytest.mark.parametrize(
    ("text", "said"),
    [("rewrad > 1", "did you mean reward"), ("env", "is text"), ("().__class__", "is unexpected")],
)
def test_what_can_t_be_a_filter_is_said(run: Run, text: str, said: str) -> None:
    with pytest.raises(ExpressionError, match=said):
        rows_where(run, rows_of_run(run), text)


def test_an_own_metric_has_the_mean_and_spread_of_its_rollouts(tmp_path: Path) -> None:
    (info,) = discover(native_run(tmp_path / "run")).runs
    run = open_run(info)
    found = own_steps(run, "reward * 2 - reward")
    assert found[f"{OWN}_mean"].tolist() == pytest.approx(run.steps["reward_mean"].tolist())
    assert found[f"{OWN}_std"].tolist() == pytest.approx(run.steps["reward_std"].tolist())
    share = own_steps(run, "env == 'math'")
    assert share[f"{OWN}_mean"].tolist() == [0.5] * 4
    with pytest.raises(ChoiceError, match="no column"):
        own_steps(run, "nothing")


def test_an_own_metric_over_texts_is_over_whole_ones(run: Run) -> None:
    found = own_steps(run, 'response contains "I think" or response contains traceback')
    assert found[f"{OWN}_mean"].tolist() == [0.5, 0.5]
