import pytest

from board.errors import ExpressionError
from board.query.run_filter import matching

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
