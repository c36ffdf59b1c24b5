"""The filter field in a browser: completion, errors in their place, filters that the browser keeps."""

import re
import shutil

import pytest
from board_steps import SAMPLES, ServeCommand, board_on, settled
from playwright.sync_api import Locator, Page, expect

pytestmark = pytest.mark.browser


def field(page: Page) -> Locator:
    return page.get_by_role("combobox", name="Filter", exact=True)


def opened(page: Page, serve: ServeCommand) -> None:
    page.goto(f"{board_on(serve, SAMPLES)}/rollouts?run=grpo_arithmetic&step=97")
    expect(page.locator(".filter .count")).to_have_text("32 rollouts")
    settled(page)


def test_a_filter_is_written_by_keyboard_with_columns_and_values_completed(page, serve):
    opened(page, serve)
    page.keyboard.press("/")
    expect(field(page)).to_be_focused()
    page.keyboard.type("rewa")
    expect(page.locator(".filter .option").first).to_contain_text("reward")
    page.keyboard.press("Tab")
    page.keyboard.type("< 0.5 and en")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator(".filter .option")).to_have_text(["add", "subtract"])
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(field(page)).to_have_value('reward < 0.5 and env == "add" ')
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"where=reward\+%3C\+0.5\+and\+env"))
    expect(page.locator(".filter .count")).to_contain_text("of 32 rollouts")
    page.keyboard.press("Escape")
    expect(field(page)).not_to_be_focused()


def test_what_can_t_be_read_is_marked_in_its_place_and_mended_by_a_click(page, serve):
    opened(page, serve)
    field(page).fill('reward < 0.5 and repsonse contains "Check"')
    page.keyboard.press("Enter")
    expect(page.locator(".filter .is-wrong")).to_have_text("repsonse")
    expect(page.locator(".filter .refused")).to_contain_text("did you mean response")
    expect(page.locator(".filter .count")).to_have_text("32 rollouts")
    page.get_by_role("button", name="Use response").click()
    expect(page.locator(".filter .refused")).to_be_hidden()
    expect(page.locator(".filter .count")).to_contain_text("of 32 rollouts")


def test_filters_are_kept_by_the_browser_and_chosen_again(page, serve):
    opened(page, serve)
    field(page).fill("reward > 1")
    page.keyboard.press("Enter")
    expect(page.locator(".filter .count")).to_contain_text("of 32 rollouts")
    page.get_by_role("button", name="Save this filter").click()
    page.keyboard.type("right <b>ones</b>")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Clear the filter").click()
    expect(page).not_to_have_url(re.compile("where="))
    page.reload()
    expect(page.locator(".filter .count")).to_have_text("32 rollouts")
    page.get_by_role("button", name="Recent and saved filters").click()
    saved = page.locator(".filter .pick").first
    expect(saved.locator("b")).to_have_text("right <b>ones</b>")
    saved.click()
    expect(field(page)).to_have_value("reward > 1")
    expect(page).to_have_url(re.compile(r"where=reward\+%3E\+1"))


def test_what_stands_above_the_list_is_completed_and_words_search_the_texts(page, serve):
    opened(page, serve)
    for typed, column in (
        ("tok", "response_tokens"),
        ("fini", "finish_reason"),
        ("gro", "group_id"),
    ):
        field(page).fill(typed)
        expect(page.locator(".filter .option").first).to_contain_text(column)
    field(page).fill("prompt length ")
    expect(page.locator(".filter .option").first).to_have_text("<")
    field(page).fill("Check")
    page.keyboard.press("Enter")
    expect(page.locator(".filter .note")).to_have_text("texts containing “Check”")
    expect(page.locator(".filter .count")).to_have_text("1 of 32 rollouts")


def test_a_view_is_saved_and_opened_by_its_name(page, tmp_path, serve):
    shutil.copytree(SAMPLES / "resumed", tmp_path / "resumed")
    address = f"{board_on(serve, tmp_path)}/rollouts?run=resumed&step=3"
    page.goto(f"{address}&where=reward+%3C+1&sort=reward")
    expect(page.locator(".filter .count")).to_contain_text("rollouts")
    page.get_by_role("button", name="Views").click()
    page.get_by_role("textbox", name="Save what is shown now as").fill("weak ones")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="weak ones")).to_be_visible()
    page.goto(address)
    expect(field(page)).to_have_value("")
    settled(page)
    page.get_by_role("button", name="Views").click()
    page.get_by_role("button", name="weak ones").click()
    expect(field(page)).to_have_value("reward < 1")
    expect(page).to_have_url(re.compile("where=reward.*sort=reward"))
