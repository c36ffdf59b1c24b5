"""Tables whose rows are clicked: a click is on what was shown, and heads have room for their words."""

from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
import streamlit as st

from board.views.shared import tables
from board.views.shared.tables import Column

KEY = "rows"


class Page:
    """A page with a table, in a session of its own, and its clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds, self.row, self.note_pick = 100.0, None, lambda: None
        self.state: dict[str, Any] = {}
        monkeypatch.setattr(st, "session_state", self.state)
        monkeypatch.setattr(tables.time, "monotonic", lambda: self.seconds)
        monkeypatch.setattr(tables, "draw", self._drawn)

    def _drawn(self, columns: object, *, key: str, on_select: Any) -> int | None:
        self.note_pick = on_select
        return self.row

    def draw(self, *targets: str) -> str | None:
        return tables.pick({}, targets, key=KEY)

    def click(self, row: int | None) -> None:
        self.row = row
        cells = [] if row is None else [(row, "a column")]
        self.state[KEY] = SimpleNamespace(selection=SimpleNamespace(cells=cells))
        self.note_pick()


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Page:
    return Page(monkeypatch)


def test_a_click_is_on_the_rows_that_were_shown_whatever_is_drawn_next(page):
    page.draw("a", "b")
    page.click(1)
    assert page.draw("c", "d") == "b"
    assert page.draw("c", "d") is None  # once
    page.click(None)  # the same cell again
    assert page.draw("c", "d") is None


def test_rows_that_changed_a_moment_ago_were_not_aimed_at(page):
    page.draw("a", "b")
    page.seconds += 60
    page.draw("c")
    page.seconds += 0.3
    page.click(0)
    assert page.draw("c") == "a"
    page.seconds += 60
    page.click(0)
    assert page.draw("c") == "c"


def test_a_row_that_is_not_there_any_more_opens_nothing(page):
    page.draw("a", "b")
    page.seconds += 60
    page.draw("c")
    page.seconds += 60
    page.click(1)
    assert page.draw("c") is None


@pytest.mark.parametrize("words", ["to", "interquartile mean", "minus " + "a_long_name_" * 20])
def test_a_head_has_the_room_of_its_words_or_a_tooltip_with_them(words):
    look = Column([1.0], "%.4g", words, 20).config(pd.Series([1.0]))
    assert look["width"] >= min(6 * len(words), 300)
    assert look["width"] >= 6 * len(words) or words[:300] in look["help"].replace("\\", "")
