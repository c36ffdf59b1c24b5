"""The list of rollouts beside the reader: J and K, Back, sorting, pages, in a real browser."""

import re
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import written_logs
from board_steps import SAMPLES, ServeCommand, board_on, settled
from playwright.sync_api import Locator, Page, expect
from waits import until

pytestmark = pytest.mark.browser

ROLLOUTS = 450


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One step of 450 texts; the reward falls while the index rises, but for every third it is 0."""
    root = tmp_path_factory.mktemp("rollouts")
    rows = [
        {
            "step": 0,
            "prompt": f"Question {n}",
            "response": f"Answer number {n}.",
            "reward": 0.0 if n % 3 == 0 else float(ROLLOUTS - n),
        }
        for n in range(ROLLOUTS)
    ]
    written_logs.write_lines(root / "run" / "log.jsonl", rows)
    return root


def chosen(page: Page) -> dict[str, str]:
    return {name: value[0] for name, value in parse_qs(urlsplit(page.url).query).items()}


def open_row(page: Page) -> Locator:
    return page.locator(".list .row.open")


def index_of(row: Locator) -> int:
    return int(row.locator(".cell").first.inner_text().replace(",", ""))


def open_list(page: Page, serve: ServeCommand, runs: Path, query: str) -> None:
    page.goto(f"{board_on(serve, runs)}/rollouts?run=run&{query}")
    expect(page.locator(".list .row").first).to_be_visible()
    settled(page)


def test_keys_follow_the_order_and_the_filter_of_the_list_over_the_end_of_its_page(
    page, serve, runs
):
    open_list(page, serve, runs, "step=0&sort=reward&desc=1&where=reward+%3E+0")
    order = [n for n in range(ROLLOUTS) if n % 3]
    rows = page.locator(".list .row")
    rows.nth(197).click()
    for place in (198, 199, 200, 201):
        settled(page)
        page.keyboard.press("j")
        expect(page).to_have_url(re.compile(rf"[?&]index={order[place]}\b"))
    settled(page)
    assert index_of(open_row(page)) == order[201]
    expect(page.locator(".list .range")).to_contain_text("of 300")
    expect(page.get_by_text(f"Answer number {order[201]}.").last).to_be_visible()
    for place in (200, 199):
        page.keyboard.press("k")
        expect(page).to_have_url(re.compile(rf"[?&]index={order[place]}\b"))
        settled(page)
    assert index_of(open_row(page)) == order[199]


def test_back_leads_over_moves_to_the_list_with_its_scroll_sort_and_row(page, serve, runs):
    open_list(page, serve, runs, "step=0")
    page.locator(".list .sort", has_text="reward").click()
    expect(page).to_have_url(re.compile(r"sort=reward&desc=1"))
    settled(page)
    scroller = page.locator(".list .scroller")
    scroller.evaluate("e => { e.scrollTop = 2000; }")
    page.wait_for_timeout(300)
    visible = page.locator(".list .row").nth(48)
    visible.click()
    expect(open_row(page)).to_be_visible()
    settled(page)
    for _ in range(3):
        page.keyboard.press("j")
        settled(page)
    last = index_of(open_row(page))
    page.go_back()
    expect(page.locator(".list .row.cursor")).to_be_visible()
    settled(page)
    assert "index" not in chosen(page)
    assert (chosen(page)["sort"], chosen(page)["desc"]) == ("reward", "1")
    assert index_of(page.locator(".list .row.cursor")) == last
    assert scroller.evaluate("e => e.scrollTop") == pytest.approx(2000, abs=200)


def test_keys_held_down_leave_one_entry_in_the_history(page, serve, runs):
    open_list(page, serve, runs, "step=0&index=4")
    before = page.evaluate("history.length")
    for _ in range(12):
        page.keyboard.press("j")
    expect(page).to_have_url(re.compile(r"[?&]index=16\b"))
    settled(page)
    expect(page.get_by_text("Answer number 16.").last).to_be_visible()
    assert page.evaluate("history.length") == before


def test_long_texts_make_the_list_no_wider_than_its_place(page, serve):
    page.goto(f"{board_on(serve, SAMPLES)}/rollouts?run=grpo_reward_hack&step=20")
    expect(page.locator(".list .row .cell.words").first).to_be_visible()
    scroller = page.locator(".list .scroller")
    assert scroller.evaluate("e => e.scrollWidth - e.clientWidth") == 0


def test_the_list_can_be_hidden_and_stays_so(page, serve, runs):
    open_list(page, serve, runs, "step=0&index=4")
    page.locator(".list .hide").click()
    expect(page.locator(".list .grid")).to_be_hidden()
    page.reload()
    expect(page.locator(".list .show")).to_be_visible()
    expect(page.locator(".list .grid")).to_be_hidden()
    settled(page)
    page.keyboard.press("j")
    expect(page).to_have_url(re.compile(r"[?&]index=5\b"))
    page.locator(".list .show").click()
    until(page, "the list is there", lambda: page.locator(".list .grid").is_visible())


def test_the_next_rollouts_are_in_the_browser_before_their_key_is_pressed(page, serve, runs):
    open_list(page, serve, runs, "step=0&index=4&sort=reward&desc=1")
    size = "window.__rolloutBoardAhead?.size ?? 0"
    until(page, "neighbours are there", lambda: page.evaluate(size) >= 3)
    page.evaluate(
        """addEventListener("rollout-board:open", ({detail}) => {
            window.drawn = window.__rolloutBoardAhead.has(detail.address);
        })"""
    )
    page.keyboard.press("j")
    assert page.evaluate("window.drawn") is True
    expect(page.get_by_text("Answer number 5.").last).to_be_visible()
    settled(page)
    assert index_of(open_row(page)) == 5


def test_what_hides_the_list_is_not_cut_off_however_long_its_count(page, serve):
    page.goto(
        f"{board_on(serve, SAMPLES)}/rollouts?run=grpo_arithmetic&rollouts_scope=run&index=13"
    )
    foot = page.locator(".list .foot, .foot").first
    hide = foot.get_by_role("button", name="Hide the list")
    expect(foot).to_contain_text("of 4,800")
    settled(page)
    edges = [one.bounding_box() for one in (foot, hide)]
    assert edges[1]["x"] + edges[1]["width"] <= edges[0]["x"] + edges[0]["width"]


def test_selected_text_leads_to_all_rollouts_with_it_and_their_share(page, serve, tmp_path):
    texts = {1: ['say "a"\nand \\b', "other"], 2: ['say "a"\nand \\b']}
    rows = [
        {"step": s, "prompt": "p", "response": t, "reward": 1.0} for s in texts for t in texts[s]
    ]
    written_logs.write_lines(tmp_path / "runs" / "run" / "log.jsonl", rows)
    page.goto(f"{board_on(serve, tmp_path / 'runs')}/rollouts?run=run&step=1&index=0")
    said = page.locator(".flow .say").filter(has_text="and").first
    expect(said).to_be_visible()
    settled(page)
    box = said.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 1, box["y"] + 5)
    page.mouse.down()
    page.mouse.move(box["x"] + 200, box["y"] + box["height"] - 5, steps=4)
    page.mouse.up()
    expect(page.get_by_role("button", name="All rollouts with this")).to_be_visible()
    page.keyboard.press("a")
    expect(page.get_by_text("2 of 3 rollouts")).to_be_visible()
    expect(page.get_by_text("Share that passes the filter")).to_be_visible()
    expect(page.get_by_label("Filter", exact=True)).to_have_value(
        'response contains "say ""a""␊and \\b"'
    )
    settled(page)
    page.get_by_label("Filter", exact=True).press("End")
    page.keyboard.type(" and step == 2")
    page.keyboard.press("Enter")
    expect(page.get_by_text("1 of 3 rollouts")).to_be_visible()
