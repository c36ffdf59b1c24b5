from __future__ import annotations

from typing import Any

from board.components.reader.choice import Choice, Chosen, Offer, fitting, latest


def run(
    before: Choice | None, wanted: Chosen, state: dict[str, Any], signature: str = "a"
) -> Choice:
    return latest(before, signature, wanted, state, Offer({"k1", "k3"}, 10))


def said(value: object, signature: str = "a") -> dict[str, Any]:
    return {"signature": signature, "value": value}


def test_the_caller_decides_first() -> None:
    assert run(None, Chosen("k1", 3), {}).shown == Chosen("k1", 3)


def test_a_new_report_wins_over_an_old_wish() -> None:
    first = run(None, Chosen("k1", None), {})
    assert run(first, Chosen("k1", None), {"pinned": said(4)}).shown == Chosen("k1", 4)


def test_a_new_wish_wins_over_an_old_report() -> None:
    first = run(None, Chosen("k1", None), {})
    second = run(first, Chosen("k1", None), {"metric": said("k3")})
    third = run(second, Chosen("k3", None), {"metric": said("k3")})
    assert third.shown.metric == "k3"
    assert run(third, Chosen("k1", None), {"metric": said("k3")}).shown.metric == "k1"


def test_quick_reports_are_not_undone_by_the_wish_that_echoes_the_first() -> None:
    first = run(None, Chosen("k1", None), {})
    second = run(first, Chosen("k1", None), {"pinned": said(2)})
    third = run(second, Chosen("k1", 2), {"pinned": said(7)})
    assert third.shown.pinned == 7


def test_unpinning_is_a_report() -> None:
    first = run(None, Chosen("k1", 3), {})
    assert run(first, Chosen("k1", 3), {"pinned": said(None)}).shown.pinned is None


def test_a_choice_lasts_over_runs_that_say_nothing_new() -> None:
    first = run(None, Chosen("k1", None), {})
    second = run(first, Chosen("k1", None), {"pinned": said(4)})
    assert run(second, Chosen("k1", None), {"pinned": said(4)}).shown.pinned == 4


def test_reports_about_another_rollout_are_left_out() -> None:
    first = run(None, Chosen("k1", None), {})
    state = {"pinned": said(4), "metric": said("k3")}
    second = run(first, Chosen("k1", None), state)
    assert run(second, Chosen("k1", None), state, signature="b").shown == Chosen("k1", None)


def test_coming_back_to_a_rollout_shows_what_is_wanted_and_not_the_old_report() -> None:
    state = {"pinned": said(4)}
    first = run(None, Chosen("k1", None), state)
    other = run(first, Chosen("k1", None), state, signature="b")
    assert run(other, Chosen("k1", 1), state).shown.pinned == 1


def test_reports_that_make_no_sense_are_left_out() -> None:
    first = run(None, Chosen("k1", 3), {})
    for nonsense in (99, -1, "4", True, 1.5, [1]):
        assert run(first, Chosen("k1", 3), {"pinned": said(nonsense)}).shown.pinned == 3
    for nonsense in ("nope", 1, None, ["k3"]):
        assert run(first, Chosen("k1", 3), {"metric": said(nonsense)}).shown.metric == "k1"
    assert run(first, Chosen("k1", 3), {"metric": "k3"}).shown.metric == "k1"


def test_masks_strip_and_zoom_are_reported_as_they_were_chosen() -> None:
    first = run(None, Chosen("k1"), {})
    state = {"masks": said([["tis", 3], None]), "strip": said("k3"), "zoom": said([2, 9])}
    shown = run(first, Chosen("k1"), state).shown
    assert shown == Chosen("k1", strip="k3", masks=(("tis", (3.0,)), None), zoom=(2, 9))


def test_what_no_browser_of_ours_would_report_is_left_out() -> None:
    first = run(None, Chosen("k1"), {})
    for nonsense in ([["tis", "3"], None], [["tis"]], "tis", [["x"], None], [["tis", 1e9], None]):
        assert run(first, Chosen("k1"), {"masks": said(nonsense)}).shown.masks is None
    for nonsense in ([3, 2], [0, 10], [-1, 3], [1], "1-2", [True, 3]):
        assert run(first, Chosen("k1"), {"zoom": said(nonsense)}).shown.zoom is None
    assert run(first, Chosen("k1"), {"strip": said("nope")}).shown.strip is None


def test_a_wish_for_what_is_not_on_offer_is_left_out() -> None:
    wish = Chosen("nope", 10, strip="nope", zoom=(3, 99), masks=(("tis", ()), None))
    assert fitting(wish, Offer({"k1"}, 10)) == Chosen(masks=(("tis", ()), None))
