from typing import Any

import pytest

from board.components.reader import Choice, Chosen, first_choice, latest
from board.components.token_data import TokenContent

TEN_TOKENS = TokenContent(["a"] * 10, {"k1": None, "k3": None})


def run(
    before: Choice | None, wanted: Chosen, state: dict[str, Any], signature: str = "a"
) -> Choice:
    return latest(before, signature, wanted, state, TEN_TOKENS)


def message(value: object, signature: str = "a") -> dict[str, Any]:
    return {"signature": signature, "value": value}


def test_the_caller_decides_first():
    assert run(None, Chosen("k1", 3), {}).current == Chosen("k1", 3)


def test_a_new_report_wins_over_an_old_wish_and_lasts():
    first = run(None, Chosen("k1", None), {})
    second = run(first, Chosen("k1", None), {"pinned": message(4)})
    assert second.current == Chosen("k1", 4)
    assert run(second, Chosen("k1", None), {"pinned": message(4)}).current.pinned == 4


def test_a_new_wish_wins_over_an_old_report():
    first = run(None, Chosen("k1", None), {})
    second = run(first, Chosen("k1", None), {"metric": message("k3")})
    third = run(second, Chosen("k3", None), {"metric": message("k3")})
    assert third.current.metric == "k3"
    assert run(third, Chosen("k1", None), {"metric": message("k3")}).current.metric == "k1"


def test_quick_reports_are_not_undone_by_the_wish_that_echoes_the_first():
    first = run(None, Chosen("k1", None), {})
    second = run(first, Chosen("k1", None), {"pinned": message(2)})
    assert run(second, Chosen("k1", 2), {"pinned": message(7)}).current.pinned == 7


def test_unpinning_is_a_report():
    first = run(None, Chosen("k1", 3), {})
    assert run(first, Chosen("k1", 3), {"pinned": message(None)}).current.pinned is None


def test_reports_about_another_rollout_are_left_out():
    first = run(None, Chosen("k1", None), {})
    state = {"pinned": message(4), "metric": message("k3")}
    second = run(first, Chosen("k1", None), state)
    assert run(second, Chosen("k1", None), state, signature="b").current == Chosen("k1", None)


def test_coming_back_to_a_rollout_shows_what_is_wanted_and_not_the_old_report():
    state = {"pinned": message(4)}
    first = run(None, Chosen("k1", None), state)
    other = run(first, Chosen("k1", None), state, signature="b")
    assert run(other, Chosen("k1", 1), state).current.pinned == 1


def test_masks_strip_and_zoom_are_reported_as_they_were_chosen():
    first = run(None, Chosen("k1"), {})
    state = {"masks": message([["tis", 3], None]), "strip": message("k3"), "zoom": message([2, 9])}
    current = run(first, Chosen("k1"), state).current
    assert current == Chosen("k1", strip="k3", masks=(("tis", (3.0,)), None), zoom=(2, 9))


@pytest.mark.parametrize(
    ("field", "nonsense"),
    [
        ("pinned", (99, -1, "4", True, 1.5, [1])),
        ("metric", ("nope", 1, None, ["k3"])),
        ("masks", ([["tis", "3"], None], [["tis"]], "tis", [["x"], None], [["tis", 1e9], None])),
        ("zoom", ([3, 2], [0, 10], [-1, 3], [1], "1-2", [True, 3])),
        ("strip", ("nope",)),
        ("heat", (1, "true", None)),
        ("over", ("run", None)),
    ],
)
def test_what_no_browser_of_ours_would_report_is_left_out(field, nonsense):
    wanted = Chosen("k1", 3)
    first = run(None, wanted, {})
    for value in nonsense:
        assert run(first, wanted, {field: message(value)}).current == wanted
    assert run(first, wanted, {field: "k3"}).current == wanted


def test_a_wish_for_what_is_not_on_offer_is_left_out():
    wish = Chosen("nope", 10, strip="nope", zoom=(3, 99), masks=(("tis", ()), None))
    assert first_choice(wish, TEN_TOKENS) == Chosen("k1", masks=(("tis", ()), None))
