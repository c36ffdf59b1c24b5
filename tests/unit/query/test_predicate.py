"""Filters and own metrics by SQL have the values that the language promises."""

import math
from typing import Any

import pytest
from read_formats import run_at, run_of
from written_logs import native_run, write_lines

from board.errors import ChoiceError, ExpressionError
from board.query.open_run import Run
from board.query.rollouts import Sorting, frame
from board.query.steps import OWN, own_steps

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


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    rows = [{"step": n // 2, **row} for n, row in enumerate(ROWS)]
    return run_of(tmp_path_factory.mktemp("texts"), rows)


def places(run: Run, text: str) -> list[int]:
    """The places of the rollouts for which it holds, among all."""
    result = frame(run.where(text), ["step", "index"], Sorting())
    return (result["step"] * 2 + result["index"]).tolist()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("reward < 0.5", [2, 3]),
        ("not reward < 0.5", [0]),
        ("env == 'a' or missing(env)", [0, 2, 3]),
        ("col('odd name') == 2.0", [1]),
        ('"odd name" == three', [2]),
        ("file == log.jsonl", [0, 1, 2, 3]),
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
def test_a_filter_sees_whole_texts_and_what_is_not_known_does_not_hold(run, text, expected):
    assert places(run, text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [("rewrad > 1", "did you mean reward"), ("env", "is text"), ("().__class__", "is unexpected")],
)
def test_what_can_t_be_a_filter_is_said(run, text, message):
    with pytest.raises(ExpressionError, match=message):
        run.where(text)


def test_an_own_metric_has_the_mean_and_spread_of_its_rollouts(tmp_path):
    run = run_at(native_run(tmp_path / "run"))
    result = own_steps(run, "reward * 2 - reward")
    assert result[f"{OWN}_mean"].tolist() == pytest.approx(run.steps["reward_mean"].tolist())
    assert result[f"{OWN}_std"].tolist() == pytest.approx(run.steps["reward_std"].tolist())
    share = own_steps(run, "env == 'math'")
    assert share[f"{OWN}_mean"].tolist() == [0.5] * 4
    with pytest.raises(ChoiceError, match="no column"):
        own_steps(run, "nothing")


def test_an_own_metric_over_texts_is_over_whole_ones(run):
    result = own_steps(run, 'response contains "I think" or response contains traceback')
    assert result[f"{OWN}_mean"].tolist() == [0.5, 0.5]


COLUMNS: list[dict[str, Any]] = [
    {"a": 1.0, "b": 0.0, "env": "math", "group_id": "3", "response": "I think so"},
    {"a": 2.0, "b": 4.0, "env": "Code", "group_id": "2024-01-02", "response": r"\boxed{2} f(x)"},
    {"b": 1.0, "group_id": "swe-py"},
]
OTHERS: list[dict[str, Any]] = [
    {"rewards.correct": 0.0, "rewards.a-b": 7.0, "odd name": 5.0},
    {"rewards.correct": 1.0, "rewards.a-b": 8.0, "odd name": 6.0},
    {"rewards.correct": 1.0, "rewards.a-b": 9.0, "odd name": 7.0},
]


@pytest.fixture(scope="module")
def columns(tmp_path_factory: pytest.TempPathFactory) -> Run:
    rows = [{"step": 0, **one, **other} for one, other in zip(COLUMNS, OTHERS, strict=True)]
    return run_of(tmp_path_factory.mktemp("columns"), rows)


def values(run: Run, text: str) -> list[float | None]:
    """Of each rollout, in their order."""
    result = run.number(text)
    sql = f"SELECT {result.sql} AS v FROM {run.view} ORDER BY line"
    return run.table(sql, result.parameters)["v"].to_pylist()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a + 2 * b", [1, 10, None]),
        ("-a ** 2", [-1, -4, None]),
        ("2 ** 3 ** 0", [2, 2, 2]),
        ("7 // 2 % 2 - 1 - 1", [-1, -1, -1]),
        ("a > 1", [0, 1, None]),
        ("a != 1", [0, 1, None]),
        ("not a > 1", [1, 0, None]),
        ("a > 1 or b == 1", [0, 1, 1]),
        ("a > 1 and b == 0", [0, 0, 0]),
        ("a > 1 and b == 1", [0, 0, None]),
        ("a > 1 AND NOT b == 1", [0, 1, 0]),
        ("0 <= b < 2", [1, 0, 1]),
        ("rewards.correct == 1 and a > 0", [0, 1, None]),
        ("rewards.a-b - b", [7, 4, 8]),
        ("col('odd name') - 5", [0, 1, 2]),
        ('"odd name" > 5', [0, 1, 1]),
        ("env == 'math'", [1, 0, None]),
        ("env in ('math', 'Code')", [1, 1, None]),
        ("env in (math, Code)", [1, 1, None]),
        ("env not in [math]", [0, 1, None]),
        ("a not in (1, 3)", [0, 1, None]),
        ("contains(env, 'CO')", [0, 1, None]),
        ("env contains CO", [0, 1, None]),
        ("missing(a) or missing(env)", [0, 0, 1]),
        ("max(a, b) - min(a, b)", [1, 2, None]),
        ("sqrt(b)", [0, 2, 1]),
        ("a / 0 > 5", [1, 1, None]),
        ("a == true", [1, 0, None]),
        # Texts with quotes and without, and a backslash that is one.
        ('a < 2 and response contains "I think"', [1, 0, None]),
        ('not (response contains "i THINK")', [0, 1, None]),
        ('response not contains "think"', [0, 1, None]),
        (r'response contains "\boxed{2}"', [0, 1, None]),
        ("(response contains f(x))", [0, 1, None]),
        ("response contains think or a == 2", [1, 1, None]),
        ("env = math", [1, 0, None]),
        ("a = 1", [1, 0, None]),
        ("group_id == swe-py", [0, 0, 1]),
        ("group_id == 2024-01-02", [0, 1, 0]),
        ("group_id == 3 or group_id = 'swe-py'", [1, 0, 1]),
        ("group_id in (3, swe-py)", [1, 0, 1]),
        ("a == '1'", [1, 0, None]),
        ("b == b and a == b/2", [0, 1, None]),
        ("env == 'it''s' or env == \"a\"\"b\"", [0, 0, None]),
        # Values are never SQL.
        ('response contains "\' OR 1=1 --"', [0, 0, None]),
        ('env == "$where0" or env == math', [1, 0, None]),
    ],
)
def test_an_expression_has_its_value_and_missing_stays_missing(columns, text, expected):
    assert values(columns, text) == expected


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("env + 1", "env"),
        ("b > 0 and env > 'a'", "env"),
        ("contains(a, 'x')", "a"),
        ("-env", "env"),
        ("a > env", "a"),
        ("a == many", "many"),
        ("a == 'many'", "'many'"),
        ("env", "env"),
    ],
)
def test_texts_are_not_calculated_with(columns, text, wrong):
    with pytest.raises(ExpressionError) as raised:
        values(columns, text)
    assert text[raised.value.start : raised.value.end] == wrong


def test_a_huge_power_is_an_infinity_and_takes_no_time(columns):
    assert values(columns, "9 ** 9 ** 9 ** 9") == [math.inf] * 3


def test_what_would_repeat_itself_without_end_is_refused(columns):
    text = "a"
    for _ in range(30):
        text = f"(0 < {text} < 1)"
    with pytest.raises(ExpressionError, match="too deep"):
        values(columns, text)


def test_an_operand_that_is_not_known_makes_the_result_not_known(columns):
    for text in ("a ** 0", "1 ** a", "min(a, 0)", "max(a, 0)", "log(b - 2)", "0 % b"):
        assert None in values(columns, text)


def test_a_text_that_is_also_the_name_of_a_column_of_numbers_is_a_value_beside_texts(tmp_path):
    names = ["reward", "tool_calls", "tokens"]
    rows = [
        {"step": 0, "prompt": "p", "response": "r", "finish_reason": name, "reward": 1.0, name: 0.5}
        for name in [*names, "stop"]
    ]
    write_lines(tmp_path / "run" / "a.jsonl", rows)
    run = run_at(tmp_path / "run")
    for place, name in enumerate(names):
        for text in (f"finish == {name}", f'finish == "{name}"', f"finish in [{name}, other]"):
            assert places(run, text) == [place], text
        assert len(places(run, f"finish != {name}")) == len(names)
