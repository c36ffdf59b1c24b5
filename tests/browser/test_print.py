"""A page on paper: light in every theme, whole, and without what is there to be clicked."""

import pytest
import written_logs
from board_steps import SAMPLES, board_on, settled
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

CUT = """box => [box, ...box.querySelectorAll("*")].filter((one) => one.clientHeight > 60 &&
  one.scrollHeight > one.clientHeight + 1 && getComputedStyle(one).overflowY !== "visible").length"""
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


def test_a_long_rollout_is_printed_whole_and_without_its_tools(page, serve, tmp_path):
    text = "\n".join(f"Line {n} of the answer" for n in range(300))
    written_logs.write_lines(
        tmp_path / "run" / "log.jsonl",
        [{"step": 0, "prompt": "Why?", "response": text, "reward": 1.0}],
    )
    page.goto(f"{board_on(serve, tmp_path)}/rollouts?run=run&index=0")
    reader = page.locator(".reader")
    expect(reader.get_by_text("Line 299 of the answer")).to_be_attached()
    assert reader.evaluate(CUT) > 0
    page.emulate_media(media="print")
    try:
        assert reader.evaluate(CUT) == 0
        assert reader.evaluate("e => e.getBoundingClientRect().height") > 300 * 10
        expect(reader.get_by_role("button", name="Compare")).to_be_hidden()
    finally:
        page.emulate_media(media="null")


@pytest.mark.parametrize("width", [800, 1440, 1920])
def test_what_fits_the_window_fits_the_paper(page, serve, width):
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(f"{board_on(serve, SAMPLES)}/overview?run=grpo_arithmetic")
    expect(page.locator(".curves canvas").first).to_be_visible()
    page.emulate_media(media="print")
    try:
        zoom = page.locator(".stApp").evaluate("e => Number(getComputedStyle(e).zoom)")
        assert zoom * width == pytest.approx(min(width, 1047), abs=2)
    finally:
        page.emulate_media(media="null")
