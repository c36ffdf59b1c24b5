"""The table of all runs in a real browser: tick and compare, open, keys, and a URL that says it all."""

import re

import pytest
from board_steps import SAMPLES, board_on, settled
from playwright.sync_api import Locator, Page, expect
from waits import until

pytestmark = pytest.mark.browser


@pytest.fixture
def filled(page, serve) -> Page:
    """The bundled runs, each with its summary."""
    page.goto(board_on(serve, SAMPLES))
    expect(page).to_have_url(re.compile("/runs$"))
    expect(page.locator(".runs .row")).to_have_count(6)
    expect(page.locator(".runs .skeleton")).to_have_count(0)
    settled(page)
    return page


def row(page: Page, name: str) -> Locator:
    link = page.locator(".run-name", has_text=re.compile(f"^{name}$"))
    return page.locator(".runs .row").filter(has=link)


def test_ticked_runs_are_compared_in_their_colours_and_back_leads_to_the_table(filled):
    bar, colours = filled.locator(".runs .bar"), []
    expect(bar).to_be_hidden()
    for name in ("grpo_calculator", "resumed"):
        box = row(filled, name).locator(".tick")
        box.click()
        expect(box).to_have_attribute("aria-checked", "true")
        colours.append(box.evaluate("box => getComputedStyle(box).backgroundColor"))
    assert len({*colours}) == 2
    expect(bar).to_contain_text("differ in")
    bar.get_by_role("button", name="Compare 2 runs").click()
    expect(filled).to_have_url(
        re.compile(r"/compare\?run=grpo_calculator&step=60.*compare_runs=resumed")
    )
    expect(filled.get_by_text("Settings that differ")).to_be_visible()
    settled(filled)
    filled.go_back()
    expect(filled.locator(".runs .row.ticked")).to_have_count(2)


def test_what_is_ticked_sorted_and_searched_survives_a_reload(filled):
    filled.get_by_role("button", name="steps", exact=True).click()
    row(filled, "resumed").locator(".tick").click()
    filled.keyboard.press("/")
    filled.keyboard.type("steps < 70")
    expect(filled).to_have_url(
        re.compile(r"runs_search=steps\+%3C\+70&runs_sort=steps&runs_ticked=resumed")
    )
    names = filled.locator(".runs .run-name")
    expect(names).to_have_text(["grpo_calculator", "grpo_calculator_trl", "ppo_critic", "resumed"])
    filled.reload()
    expect(names).to_have_text(["grpo_calculator", "grpo_calculator_trl", "ppo_critic", "resumed"])
    expect(row(filled, "resumed")).to_have_class(re.compile("ticked"))
    expect(filled.locator(".runs .search")).to_have_value("steps < 70")


def test_a_click_opens_a_run_and_keys_do_the_same(filled):
    row(filled, "ppo_critic").locator(".run-name").click()
    expect(filled).to_have_url(re.compile(r"/\?run=ppo_critic&step=50"))
    expect(filled.locator(".st-key-title h3")).to_have_text("ppo_critic")
    settled(filled)
    filled.get_by_role("link", name="Runs", exact=True).click()
    expect(row(filled, "ppo_critic")).to_have_class(re.compile("cursor"))
    # Keys work once their help is there.
    expect(filled.get_by_role("button", name="Keyboard shortcuts")).to_be_visible()
    settled(filled)
    cursor = filled.locator(".runs .row.cursor .run-name")

    def moves() -> bool:
        filled.keyboard.press("k")
        return cursor.inner_text() != "ppo_critic"

    until(filled, "k moves the cursor", moves)
    filled.keyboard.press("x")
    expect(filled.locator(".runs .row.cursor .tick")).to_have_attribute("aria-checked", "true")
    filled.keyboard.press("Escape")
    expect(filled.locator(".runs .row.ticked")).to_have_count(0)
    name = filled.locator(".runs .row.cursor .run-name").inner_text()
    settled(filled)
    filled.keyboard.press("Enter")
    expect(filled.locator(".st-key-title h3")).to_have_text(name)


def test_a_filter_and_the_picker_lead_to_a_run(filled):
    filled.get_by_role("checkbox", name=re.compile("^severe")).click()
    expect(filled.locator(".runs .run-name")).to_have_text(["grpo_reward_hack"])
    expect(filled).to_have_url(re.compile("runs_finding=severe"))
    settled(filled)
    filled.get_by_role("combobox").first.click()
    filled.keyboard.type("resu")
    filled.keyboard.press("Enter")
    expect(filled.locator(".st-key-title h3")).to_have_text("resumed")
