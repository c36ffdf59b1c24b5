"""The promises of the pages, in a real browser: from a curve to a token, and nothing a log says runs."""

import re
from pathlib import Path
from urllib.parse import quote

import pytest
import written_logs
from board_steps import ADDRESSES, SAMPLES, board_on, click_step, drag_over, settled
from playwright.sync_api import Locator, expect
from waits import until

pytestmark = pytest.mark.browser

RAN = 'window.hacked !== undefined || document.querySelector("iframe[srcdoc]") !== null'


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all: a server takes longer to start than most tests take."""
    root = tmp_path_factory.mktemp("pages")
    written_logs.native_run(root / "run")
    written_logs.native_run(root / "growing", per_rank=20)
    written_logs.hostile_run(root)
    return root


def left_of(line: Locator) -> float:
    box = line.bounding_box()
    return box["x"]


def test_three_clicks_lead_from_a_spike_to_the_guilty_token_and_three_times_back(page, serve):
    page.goto(f"{board_on(serve, SAMPLES)}/?run=grpo_arithmetic")
    expect(page.locator(".curves .u-over").first).to_be_visible()
    settled(page)
    click_step(page, 1, 97)
    expect(page).to_have_url(re.compile(r"/step\?.*step=97.*&step_metric=k3_mean"))
    expect(page.get_by_text("One token contributes 77 %")).to_be_visible()
    table = page.get_by_test_id("stDataFrame").first
    expect(table).to_be_visible()
    settled(page)
    table.click(position={"x": 300, "y": 35 + 18})
    expect(page).to_have_url(re.compile(r"/rollouts\?.*step=97&index=13.*metric=k3&token=6"))
    expect(page.locator(".reader .panel")).to_contain_text("Token 6")
    settled(page)
    page.go_back()
    expect(page.get_by_text("One token contributes 77 %")).to_be_visible()
    settled(page)
    page.go_back()  # the step was one entry, whatever the page wrote into the URL
    expect(page.locator(".curves .u-over").first).to_be_visible()
    expect(page).to_have_url(re.compile(r"/\?run=grpo_arithmetic&step=150$"))
    settled(page)
    page.go_back()  # as was the link, whose step the page filled in
    expect(page).to_have_url("about:blank")


def test_the_browser_goes_back_over_the_links_to_pages_one_by_one(page, serve, runs):
    page.set_viewport_size({"width": 420, "height": 800})  # where they are in a menu
    page.goto(f"{board_on(serve, runs)}/rollouts?run=run&step=20")
    expect(page.get_by_text("8 rollouts", exact=True)).to_be_visible()
    settled(page)
    for name in ("Step", "Prompts"):  # Step fills in its metric
        page.get_by_role("button", name="Pages, now").click()
        expect(page.get_by_role("link", name="Compare", exact=True)).to_be_in_viewport(ratio=0.99)
        page.get_by_role("link", name=name, exact=True).click()
        expect(page.get_by_test_id("stMain").locator("h3").first).to_be_visible()
        settled(page)
    for where in ("step", "rollouts"):
        page.go_back()
        expect(page).to_have_url(re.compile(rf"/{where}\?.*step=20\b"))
        settled(page)


def test_the_chosen_step_is_marked_on_the_curves_and_a_step_change_keeps_them(page, serve, runs):
    page.goto(f"{board_on(serve, runs)}/?run=run&step=20")
    line = page.locator(".curves .step-line")
    expect(line.first).to_be_visible()
    settled(page)
    plot = page.locator(".curves canvas").first
    plot.evaluate("plot => { plot.dataset.seen = 'yes'; }")
    before = left_of(line.first)
    page.keyboard.press("ArrowRight")
    expect(page).to_have_url(re.compile(r"step=35\b"))
    until(page, "the line moves right", lambda: left_of(line.first) > before + 20)
    settled(page)
    assert plot.get_attribute("data-seen") == "yes"


def test_nothing_that_stands_in_a_log_runs_or_is_fetched(page, serve, runs):
    hostile = quote(next(path.name for path in runs.iterdir() if path.name.startswith("!")))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("dialog", lambda dialog: pytest.fail(f"a dialog opened: {dialog.message}"))
    choices = "reader_as=text&reader_record=1&rollouts_scope=run&overview_more=1"
    for address in (*ADDRESSES.values(), f"{ADDRESSES['rollouts']}&index=0"):
        page.goto(f"{board_on(serve, runs)}/{address}&run={hostile}&{choices}")
        expect(page.get_by_test_id("stMain").locator("h3").first).to_be_visible()
        settled(page)
        assert page.evaluate(RAN) is False
        assert page.get_by_test_id("stException").count() == 0
        assert page.locator('a[href^="javascript:"], [data-testid=stMain] img').count() == 0
    # The place that nothing listens at, named in every trap.
    assert [url for url in asked if "127.0.0.1:9/" in url] == []
    expect(page.locator(".reader").first).to_contain_text("<script>window.hacked=")


def test_a_live_page_shows_what_is_logged_meanwhile_and_keeps_what_is_looked_at(page, serve, runs):
    file = next((runs / "growing").glob("a2-rank00000-*.jsonl"))
    address = board_on(serve, runs)
    added = 0

    def grow(steps: int = 1) -> None:
        nonlocal added
        rows = [written_logs.native_sample(40 + added + s, 0, 0) for s in range(steps)]
        rows.append(written_logs.native_sample(35, 0, 20 + added))
        added += steps
        with file.open("a", encoding="utf-8") as log:
            log.write("".join(f"{written_logs.json.dumps(row)}\n" for row in rows))

    def wait_for(count: int) -> None:
        messages = page.get_by_text(re.compile(rf"\b{count} rollouts( ·|$)")).locator(
            "visible=true"
        )
        expect(messages.first).to_be_visible()
        settled(page)

    page.goto(f"{address}/rollouts?run=growing&rollouts_scope=run&sort=reward&desc=1&live=1")
    table = page.locator(".list .scroller")
    wait_for(160)
    # As high as its rows only once they are laid out.
    scrolled = "e => { e.scrollTop = 700; return e.scrollTop; }"
    until(page, "the list scrolls", lambda: table.evaluate(scrolled) == 700)
    grow()
    wait_for(162)
    assert table.evaluate("e => e.scrollTop") == 700
    page.goto(f"{address}/rollouts?run=growing&rollouts_scope=run&step=20&index=7&token=3&live=1")
    title = page.locator(".reader .fact-line")
    expect(title).to_contain_text("Rollout 7")
    grow(steps=200)
    wait_for(363)
    expect(title).to_contain_text("Rollout 7")
    expect(page).to_have_url(re.compile(r"step=20&index=7.*token=3"))
    page.goto(f"{address}/?run=growing&live=1")
    card = page.locator(".curves .card").first
    plot = card.locator(".u-over")
    expect(plot).to_be_visible()
    settled(page)
    drag_over(page, plot, 0.3, 0.6)
    settled(page)
    expect(card).to_have_attribute("data-zoom", re.compile(r"\d"))
    zoomed_to = card.get_attribute("data-zoom")
    assert float(zoomed_to.split(",")[0]) > 40
    grow()
    wait_for(365)
    assert card.get_attribute("data-zoom") == zoomed_to
    page.get_by_role("button", name="whole run").click()
    expect(card).to_have_attribute("data-zoom", "")
