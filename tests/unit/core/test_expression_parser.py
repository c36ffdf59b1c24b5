import pytest

from board.core.expressions import parse
from board.errors import ExpressionError

COLUMNS = (
    *("a", "b", "rewards.correct", "rewards.a-b", "odd name", "env", "group_id", "response"),
)


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
def test_what_the_language_does_not_have_is_refused(text):
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
def test_an_error_names_its_place_and_what_may_have_been_meant(text, wrong, instead):
    with pytest.raises(ExpressionError) as raised:
        parse(text, COLUMNS)
    error = raised.value
    assert text[error.start : error.end] == wrong
    assert error.instead == instead
    assert f"at character {text.index(wrong) + 1}: " in str(error)
    assert "did you mean" in str(error)
