from __future__ import annotations

import pytest

from board.charts.layout import fit_step_axis, new_figure, step_ends, step_ticks


@pytest.mark.parametrize(
    ("ends", "ticks"),
    [
        ((1, 150), [1, 50, 100, 150]),
        ((1, 100), [1, 20, 40, 60, 80, 100]),
        ((0, 3), [0, 1, 2, 3]),
        ((7, 7), [7]),
        ((48, 151), [50, 100, 150]),
        ((-5, -1), [-5, -4, -3, -2, -1]),
    ],
)
def test_ticks_are_round_steps_and_the_first_one_where_there_is_room(
    ends: tuple[int, int], ticks: list[int]
) -> None:
    assert step_ticks(*ends) == ticks


def test_every_tick_is_a_step_of_the_run() -> None:
    for first in range(-3, 60, 7):
        for last in (first, first + 1, first + 9, first + 12_345):
            ticks = step_ticks(first, last)
            assert first <= ticks[0]
            assert ticks[-1] <= last
            assert len(ticks) <= 7


def test_the_axis_of_one_step_has_a_width() -> None:
    assert step_ends(3, 3) == (2.5, 3.5)


def test_a_figure_names_the_steps_of_the_function() -> None:
    figure = new_figure(dark=False, height=100)
    fit_step_axis(figure, 1, 150)
    assert list(figure.layout.xaxis.tickvals) == step_ticks(1, 150)
