from __future__ import annotations

from board.core.metrics.definitions import TOKEN_METRICS
from board.core.metrics.metric_groups import in_menu_order, place_of


def test_every_known_token_metric_has_a_group_and_a_name_in_it():
    places = [place_of(name) for name in TOKEN_METRICS]
    assert "Other" not in {place.group for place in places}
    names = [(place.group, place.name) for place in places]
    assert len({*names}) == len(names)


def test_k3_comes_first_and_what_the_board_does_not_know_last():
    names = in_menu_order(["mine", *reversed(TOKEN_METRICS)])
    assert (names[0], names[-1]) == ("k3", "mine")


def test_the_metrics_of_a_group_stand_together():
    groups = [place_of(name).group for name in in_menu_order(TOKEN_METRICS)]
    assert groups == sorted(groups, key=groups.index)


def test_value_and_return_share_an_axis_and_an_unknown_metric_shares_none():
    assert place_of("values").axis == place_of("returns").axis != ""
    assert place_of("mine").axis == ""
