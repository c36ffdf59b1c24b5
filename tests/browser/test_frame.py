"""Around the pages in a browser: help of keys, themes, and what the browser reports."""

import re

import pytest
from board_steps import ADDRESSES, SAMPLES, board_on, settled
from playwright.sync_api import ConsoleMessage, expect
from waits import until, until_none

from board.views.shared import pages

PAGES = [name for name in ADDRESSES if name != "runs"]
WIDER = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
BACKGROUNDS = {"dark": "rgb(14, 18, 32)", "light": "rgb(255, 255, 255)"}
COVERED = """found => found.filter((button) => {
  const box = button.getBoundingClientRect();
  const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
  const top = button.getRootNode().elementFromPoint(x, y); // null outside of the window
  return top !== null && !button.contains(top);
}).map((button) => button.outerHTML.slice(0, 200))"""
"""Of buttons those whose middle another element covers."""
CUT = """choices => choices.filter(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth + 1)
  .map((choice) => choice.outerHTML.slice(0, 200))"""
"""Of buttons side by side those whose text or icon is cut off."""


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_the_window_in_the_dark_and_in_the_light_and_complains_of_nothing(
    page, serve, name
):
    errors: list[str] = []

    def note(message: ConsoleMessage) -> None:
        if message.type == "error":
            errors.append(f"{message.text} {message.location['url']}")

    page.on("console", note)
    page.goto("about:blank")
    page.goto(f"{board_on(serve, SAMPLES)}/{ADDRESSES[name]}&run=grpo_arithmetic&step=97")
    expect(page.locator(".st-key-title h3")).to_have_text("grpo_arithmetic")
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)
        expect(page.get_by_test_id("stApp")).to_have_css("background-color", BACKGROUNDS[scheme])
        settled(page)
        until(page, f"it fits in the {scheme}", lambda: page.evaluate(WIDER) is False)
    expect(page).to_have_url(re.compile(r"[?&]step=97"))
    buttons = page.locator("button:visible:not([kind=elementToolbar])")
    assert "Run settings" in "".join(buttons.all_inner_texts())
    # 960 is the width of 1440 pixels at 150 %.
    for width in (800, 960, 1920, 1440):
        page.set_viewport_size({"width": width, "height": 900})
        until(page, f"it fits in {width} pixels", lambda: page.evaluate(WIDER) is False)
    # Export, and Smoothing beside it, stand at one place on all pages.
    export, smoothing = (
        page.locator(f".st-key-title_right {key} button").first
        for key in (".st-key-export_place", ":not(.st-key-export_place) > .stPopover")
    )
    box = export.bounding_box()
    assert 1440 - (box["x"] + box["width"]) < 24
    assert box["y"] + box["height"] < 100
    if smoothing.filter(has_text="Smoothing").count():
        beside = smoothing.bounding_box()
        assert beside["y"] == pytest.approx(box["y"], abs=8)
        assert 0 < box["x"] - beside["x"] - beside["width"] < 40
    choices = page.locator("[data-testid=stButtonGroup] button:visible")
    until_none(page, "no choice is cut off", lambda: choices.evaluate_all(CUT))
    # What is still being drawn may lie above others for a moment.
    until_none(page, "no button is covered", lambda: buttons.evaluate_all(COVERED))
    assert page.get_by_test_id("stException").count() == 0
    assert errors == []
    page.go_back()
    expect(page).to_have_url("about:blank")


@pytest.mark.parametrize("width", [420, 800, 960])
def test_in_a_narrow_window_the_links_to_pages_are_a_menu_for_the_keyboard_too(page, serve, width):
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(f"{board_on(serve, SAMPLES)}/rollouts?run=grpo_arithmetic&step=97")
    expect(page.locator(".list .row").first).to_be_visible()
    settled(page)
    menu = page.get_by_role("button", name="Pages, now Rollouts")
    links = page.locator(".st-key-pages a")
    expect(links.first).to_be_hidden()
    menu.focus()
    page.keyboard.press("Enter")
    expect(menu).to_have_attribute("aria-expanded", "true")
    titles = [one.title for one in pages.PAGES]
    for link, title in zip(links.all(), titles, strict=True):
        expect(link).to_contain_text(title)
        expect(link).to_be_in_viewport(ratio=0.99)
        page.keyboard.press("Tab")
        expect(link).to_be_focused()
    page.keyboard.press("Escape")
    expect(links.first).to_be_hidden()
    expect(menu).to_be_focused()
    page.keyboard.press("Enter")
    for _ in range(titles.index("Prompts") + 1):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/prompts\?"))
    expect(page.get_by_role("button", name="Pages, now Prompts")).to_be_visible()
    expect(links.first).to_be_hidden()


def test_a_question_mark_shows_the_keys_and_the_menu_of_runs_the_whole_name(page, serve):
    page.goto(f"{board_on(serve, SAMPLES)}/findings?run=grpo_arithmetic&step=97")
    button = page.get_by_role("button", name="Keyboard shortcuts")
    expect(button).to_be_visible()
    page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="Keyboard shortcuts")
    expect(keys).to_contain_text("next or previous finding")
    page.keyboard.press("Escape")
    expect(keys).to_be_hidden()
    button.click()
    expect(keys).to_be_visible()
    page.keyboard.press("Escape")
    menu = page.locator(".st-key-run")
    menu.hover()
    expect(menu).to_have_attribute("title", "grpo_arithmetic")  # the whole name as its tooltip


def test_neither_a_key_nor_a_notice_changes_how_the_page_looks(page, serve):
    tops: list[float] = []
    for query in ("", "&findings_severity=fatal"):
        page.goto(f"{board_on(serve, SAMPLES)}/findings?run=grpo_arithmetic&step=97{query}")
        expect(page.locator(".st-key-title h3")).to_be_visible()
        settled(page)
        box = page.locator(".st-key-title").bounding_box()
        tops.append(box["y"])
    notice = page.get_by_text("is not available")
    expect(notice).to_be_visible()
    assert notice.bounding_box()["y"] > 600  # over no button at the head of the page
    assert tops[0] == tops[1] < 60
    main = page.get_by_test_id("stMain")
    main.focus()
    page.keyboard.press("x")
    assert main.evaluate("main => main.matches(':focus-visible')")
    look = """main => [null, "::before", "::after"].map(part => getComputedStyle(main, part))
        .map(look => [look.outlineStyle, look.boxShadow, look.borderStyle])"""
    assert main.evaluate(look) == [["none"] * 3] * 3


def test_enter_opens_what_j_has_chosen(page, serve):
    address = board_on(serve, SAMPLES)
    page.goto(f"{address}/findings?run=grpo_reward_hack&step=97")
    place = page.get_by_text(re.compile(r"\b[12] of \d+$"))
    expect(place).to_contain_text("1 of")
    # Keys work once their help is there, and the page runs again after the rules that read tokens.
    expect(page.get_by_role("button", name="Keyboard shortcuts")).to_be_visible()
    expect(page.get_by_text("problems in others are not found")).to_be_visible()
    settled(page)

    def chose_the_second() -> bool:
        # A key pressed while the page runs again is lost, and then nothing has moved.
        if "1 of" in place.inner_text():
            page.keyboard.press("j")
            settled(page)
        return "2 of" in place.inner_text()

    until(page, "J chooses the next finding", chose_the_second)
    settled(page)
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/step\?.*step=\d+"))
    page.goto(f"{address}/rollouts?run=grpo_arithmetic&step=97")
    expect(page.locator(".list .row").first).to_be_visible()
    for row in range(2):
        page.keyboard.press("j")
        expect(page.locator(".list .row").nth(row)).to_have_class(re.compile("cursor"))
    expect(page.get_by_role("button", name="Keyboard shortcuts")).to_be_visible()
    settled(page)

    def opened_the_second() -> bool:
        if "index=" not in page.url:
            page.keyboard.press("Enter")
            settled(page)
        return re.search(r"/rollouts\?.*index=1\b", page.url) is not None

    until(page, "Enter opens the second rollout", opened_the_second)
