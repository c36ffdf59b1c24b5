"""A page on paper: light in every theme, whole, and without what is there to be clicked."""

import pytest
from board_steps import SAMPLES, board_on, settled
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

CUT = """list => [...list.querySelectorAll(".grid, .scroller, .rows")].filter((one) =>
  getComputedStyle(one).overflow !== "visible" && one.scrollHeight > one.clientHeight).length"""
LIGHTNESS = """e => { const [r, g, b] = getComputedStyle(e).color.match(/\\d+/g).map(Number);
  return (r + g + b) / 765; }"""


def test_a_list_is_printed_whole_and_in_dark_letters_without_navigation(page, serve):
    page.emulate_media(color_scheme="dark")
    page.goto(f"{board_on(serve, SAMPLES)}/rollouts?run=grpo_arithmetic&step=97")
    table = page.locator(".list")
    expect(table.locator(".row").first).to_be_visible()
    settled(page)
    page.emulate_media(media="print", color_scheme="dark")
    try:
        for hidden in ("stSidebar", "stHeader"):
            expect(page.get_by_test_id(hidden)).to_be_hidden()
        expect(page.get_by_role("button", name="Export")).to_be_hidden()
        assert table.evaluate(CUT) == 0
        assert page.locator(".st-key-title h3").evaluate(LIGHTNESS) < 0.3
        assert table.locator(".row .cell").first.evaluate(LIGHTNESS) < 0.4
    finally:
        page.emulate_media(media="null", color_scheme="light")
