from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from board.core.expression_parser import parse
from board.core.expressions import evaluate
from board.errors import ExpressionError

NAN = float("nan")
COLUMNS: dict[str, Any] = {
    "a": np.array([1.0, 2.0, NAN]),
    "b": np.array([0.0, 4.0, 1.0]),
    "rewards.correct": np.array([0.0, 1.0, 1.0]),
    "rewards.a-b": np.array([7.0, 8.0, 9.0]),
    "odd name": np.array([5.0, 6.0, 7.0]),
    "env": np.array(["math", "Code", None], object),
    "group_id": np.array(["3", "2024-01-02", "swe-py"], object),
    "response": np.array(["I think so", r"\boxed{2} f(x)", None], object),
}


def values(text: str) -> list[float | None]:
    found = evaluate(parse(text, COLUMNS), lambda name: COLUMNS[name])
    return [None if x != x else float(x) for x in found.tolist()]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a + 2 * b", [1, 10, None]),
        ("-a ** 2", [-1, -4, None]),
        ("2 ** 3 ** 0", [2]),
        ("7 // 2 % 2 - 1 - 1", [-1]),
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
    ],
)
def test_an_expression_has_its_value_and_missing_stays_missing(
    text: str, expected: list[float | None]
) -> None:
    assert values(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
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
    ],
)
def test_a_text_stands_with_quotes_or_without_and_a_backslash_is_one(
    text: str, expected: list[float | None]
) -> None:
    assert values(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')",
        "a.__class__()",
        "(1).__class__",
        "[x for x in a]",
        "a[0]",
        "lambda: 1",
        "a if b else 1",
        "f'{a}'",
        "a := 1",
        "open('x')",
        "abs(x=1)",
        "abs(a, b)",
        "a @ b",
        "abs(*a)",
        "",
        "a >",
        "a > 1 and",
        "env in math",
        "env in (math",
        "response contains",
        "contains(response, a)",
        "(a > 1",
        "a > 1)",
        "'env",
        "(" * 500 + "a" + ")" * 500,
        "-" * 500 + "a",
        "not " * 500 + "a",
        "a" + " + a" * 500,
        "a" * 9000,
        "a\0b",
    ],
)
def test_what_the_language_does_not_have_is_refused(text: str) -> None:
    with pytest.raises(ExpressionError):
        parse(text, COLUMNS)


@pytest.mark.parametrize(
    ("text", "wrong", "instead"),
    [
        ("a > 1 and rewards.corect == 1", "rewards.corect", "rewards.correct"),
        ("a =< 1", "=<", "<="),
        ("a > 1 && b > 1", "&&", "and"),
        ("a > 1 || b > 1", "||", "or"),
        ("response like 'x'", "like", "contains"),
        ("response contians 'x'", "contians", "contains"),
        ("a > 1 adn b > 1", "adn", "and"),
        ("lgo(a) > 1", "lgo", "log"),
        ("col('od name') > 1", "'od name'", '"odd name"'),
    ],
)
def test_an_error_names_its_place_and_what_may_have_been_meant(
    text: str, wrong: str, instead: str
) -> None:
    with pytest.raises(ExpressionError) as raised:
        parse(text, COLUMNS)
    error = raised.value
    assert text[error.start : error.end] == wrong
    assert error.instead == instead
    assert f"at character {text.index(wrong) + 1}: " in str(error)
    assert "did you mean" in str(error)


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
def test_texts_are_not_calculated_with(text: str, wrong: str) -> None:
    with pytest.raises(ExpressionError) as raised:
        values(text)
    assert text[raised.value.start : raised.value.end] == wrong


def test_a_huge_power_is_an_infinity_and_takes_no_time() -> None:
    assert values("9 ** 9 ** 9 ** 9") == [np.inf]
