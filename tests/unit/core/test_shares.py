import pytest

from board.core.metrics.shares import percent


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (0.0, "0 %"),
        (0.0004, "<0.1 %"),
        (0.03125, "3.1 %"),
        (0.05, "5 %"),
        (0.0996, "10 %"),
        (0.125, "13 %"),
        (0.772, "77 %"),
        (0.9004, "90 %"),
        (0.994, "99.4 %"),
        (0.9996, ">99.9 %"),
        (1.0, "100 %"),
        (-0.034, "-3.4 %"),
        (float("nan"), "not recorded"),
    ],
)
def test_a_share_has_one_decimal_near_none_and_near_all_and_is_whole_between(share, words):
    assert percent(share) == words


def test_only_zero_and_one_read_as_none_and_all():
    assert percent(1e-9) != percent(0.0)
    assert percent(1 - 1e-9) != percent(1.0)
