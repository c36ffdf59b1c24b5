import pytest

from board.errors import ExpressionError
from board.query.run_filter import matching, number_in

ROWS = [
    {"reward": 0.5, "lr": 3e-6, "name": "math"},
    {"reward": 0.3, "lr": 3e-6, "name": "code"},
    {"reward": None, "lr": 1e-5, "name": "math_long", "loss": "dapo"},
]


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("reward > 0.4", [0]),
        ("reward > 0.4 and lr = 3e-6", [0]),
        ("not reward > 0.4", [1]),  # what is not recorded is neither
        ("missing(reward)", [2]),
        ("name contains math", [0, 2]),
        ("lr in (1e-5, 2)", [2]),
        ("loss == dapo or reward < 0.4", [1, 2]),
    ],
)
def test_an_expression_finds_the_rows_for_which_it_holds(text, places):
    assert matching(ROWS, text) == places


@pytest.mark.parametrize("text", ["reward >", "speed > 1", "name > 3"])
def test_what_cannot_be_read_is_refused(text):
    with pytest.raises(ExpressionError):
        matching(ROWS, text)


MIXED = [
    *({"lr": value, "base": 1e-6} for value in (1e-6, "1e-06", "auto", None, -2, 64.0)),
    {"other": "auto", "version": "1.10"},
]


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("lr = 1e-6", [0, 1]),
        ('lr = "0.000001"', [0, 1]),
        ("lr != 1e-6", [2, 4, 5]),  # a text equals no number
        ("not lr = 1e-6", [2, 4, 5]),
        ("lr = auto", [2]),
        ("lr = -2", [4]),
        ("lr in (auto, 64)", [2, 5]),
        ("lr > 1e-7", [0, 1, 5]),  # whether a text is larger is not known
        ("not lr > 1e-7", [4]),
        ("0 < lr <= 1e-6", [0, 1]),
        ("lr == base", [0, 1]),
        ("lr = 64 * base * 1e6", [5]),
        ("lr contains 1e-6", [0, 1]),
        ("missing(lr)", [3, 6]),
        ("lr == other", []),
        ("version == 1.10", [6]),
        ("version == 1.1", []),  # of a column of texts alone nothing is a number
    ],
)
def test_texts_and_numbers_of_one_column_are_compared_as_numbers_where_both_are(text, places):
    assert matching(MIXED, text) == places


def test_a_filter_that_is_nested_deep_is_refused_at_once():
    text = "lr"
    for _ in range(50):
        text = f"1 < ({text}) < 3"
    with pytest.raises(ExpressionError):
        matching(MIXED, text)


@pytest.mark.parametrize(
    ("value", "number"),
    [
        *((3, 3.0), (True, 1.0), ("1e-6", 1e-6), ("true", 1.0)),
        *((value, None) for value in ("dapo", None, "nan", float("inf"))),
    ],
)
def test_a_text_that_is_written_as_a_number_is_one(value, number):
    assert number_in(value) == number


def test_other_names_mean_what_the_rows_have():
    rows = [{"config.lr": 1.0, "reward": 1.0}, {"config.lr": 2.0, "reward": 1.0, "env": "lr"}]
    also = {"lr": ("config.lr",), "score": ("reward", "env")}
    assert matching(rows, "lr > 1", also) == [1]
    assert matching(rows, "reward == lr", also) == [0]
    assert matching(rows, "env == lr", also) == [1]
    with pytest.raises(ExpressionError, match="may mean reward, env"):
        matching(rows, "score > 1", also)
