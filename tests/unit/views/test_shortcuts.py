"""Keys that the server answers: each once, in order, and only on the page that they were pressed for."""

import pytest
import streamlit as st
from hypothesis import given, strategies

from board.views.shared import pages, shortcuts

ITEMS = "abcdefg"


@pytest.fixture(autouse=True)
def session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(st, "session_state", {})


def drawn(page: str, chosen: list[str], *, is_complete: bool = True) -> shortcuts.PageKeys:
    """A run of the page's script, which goes through ITEMS by J and K."""
    keys = shortcuts.begin(pages.page_of(page), {})
    shortcuts.walk(("k", "j"), ITEMS, ITEMS.index(chosen[-1]), chosen.append)
    if is_complete:
        shortcuts.end()
    return keys


def sent(keys: str, page: str = "prompts", first: int = 0) -> list[dict[str, str]]:
    return [{"id": f"{n}", "key": key, "page": page} for n, key in enumerate(keys, first)]


@given(strategies.text("jk", max_size=12), strategies.data())
def test_keys_move_as_often_as_they_were_pressed_however_they_are_sent(keys, data):
    st.session_state.clear()
    chosen = ["d"]
    entries = sent(keys)
    drawn("prompts", chosen)
    known: list[str] = []
    while len(known) < len(
        entries
    ):  # in batches, some of them again, after runs that were not finished
        end = data.draw(strategies.integers(len(known), len(entries)))
        shortcuts.receive(entries[data.draw(strategies.integers(0, len(known))) : end])
        known = [*drawn("prompts", chosen, is_complete=data.draw(strategies.booleans())).received]
    at = 3
    for key in keys:
        at = min(max(at + (1 if key == "j" else -1), 0), len(ITEMS) - 1)
    assert chosen[-1] == ITEMS[at]


def test_keys_of_a_page_that_was_left_do_nothing_and_are_answered():
    chosen = ["d"]
    drawn("step", chosen)
    shortcuts.receive(sent("jj", page="prompts"))
    assert chosen == ["d"]
    assert [*drawn("step", chosen).received] == ["0", "1"]


@pytest.mark.parametrize(
    "rubbish", [None, 3, "jj", [None, 1, {}], [{"id": [], "key": {}, "page": 1}]]
)
def test_whatever_a_browser_sends_does_no_harm(rubbish):
    chosen = ["d"]
    drawn("prompts", chosen)
    shortcuts.receive(rubbish)
    assert chosen == ["d"]


@pytest.mark.parametrize("page", [page.name for page in pages.PAGES])
def test_every_key_of_the_help_is_named_to_the_browser_as_it_calls_it(page):
    offered = {*shortcuts.begin(pages.page_of(page), {}).offered}
    assert {"ArrowLeft", "ArrowRight", "?"} <= offered
    assert not {"←", "→", "Esc", "Space", "Shift+w"} & offered
    assert ("9" in offered) == (page == "rollouts")
