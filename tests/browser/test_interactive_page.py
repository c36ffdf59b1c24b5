"""A page to take along, opened from the disk with the network off."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from read_formats import run_at, sample_run
from written_logs import HOSTILE, hostile_run, write_lines

from board.export.interactive import interactive_page

pytestmark = pytest.mark.browser

LINE = {
    "step": 3,
    "response": "a cat sat",
    "response_tokens": ["a", " cat", " sat"],
    "messages": [
        {"role": "user", "content": "Who?"},
        {"role": "assistant", "content": "a cat sat"},
    ],
    "logprobs": [-0.25, -2.5, None],
    "entropy": [0.5, 1.5, 0.125],
}


@pytest.fixture
def offline(chromium: Browser, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A page of a browser without network. What it throws, logs or asks for fails the test."""
    context = chromium.new_context(offline=True, color_scheme="dark")
    page = context.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: complaints.append(message.text))
    page.on("request", lambda asked: complaints.append(asked.url))
    yield page
    context.close()
    # A page asks for itself, and a search by pattern is a worker made of its own script.
    assert [
        one for one in complaints if not one.endswith("/page.html") and "blob:null/" not in one
    ] == []


def written(folder: Path, page: bytes) -> str:
    target = folder / "page.html"
    target.write_bytes(page)
    return target.as_uri()


def test_hostile_text_is_text_in_every_rollout_and_way(offline, tmp_path):
    run = run_at(hostile_run(tmp_path))
    addresses = [(1, index) for index in range(len(HOSTILE))]
    offline.goto(written(tmp_path, interactive_page(run, addresses, title=HOSTILE[0])[0]))
    assert offline.title() == HOSTILE[0]
    expect(offline.locator("#rollouts .row")).to_have_count(len(HOSTILE))
    flow = offline.locator(".flow")
    for rank, trap in enumerate(HOSTILE):
        expect(offline.locator("#where")).to_have_text(f"{rank + 1} of {len(HOSTILE)}")
        expect(offline.locator(".fact-line")).to_contain_text(f"Rollout {rank} ")
        expect(flow).to_contain_text(HOSTILE[0])
        expect(flow).to_contain_text(trap)
        offline.keyboard.press("j")
    offline.locator(".read-button").click()
    expect(offline.locator(".reader")).to_have_class(re.compile("is-text"))
    expect(flow).to_contain_text(HOSTILE[-1].replace("{n}", "response"))
    assert offline.locator(".flow :is(script, img, iframe, a)").count() == 0
    assert offline.evaluate("window.hacked") is None


def test_a_page_shows_values_finds_text_and_keeps_its_choices_over_rollouts(offline, tmp_path):
    write_lines(
        tmp_path / "log" / "x.jsonl", [LINE, {**LINE, "response_tokens": ["b", " c", " d"]}]
    )
    page = interactive_page(run_at(tmp_path / "log"), [(3, 0), (3, 1)], metric="entropy")[0]
    offline.goto(written(tmp_path, page))
    metric, panel = offline.locator("select.metric"), offline.locator(".panel")
    expect(metric.locator("option:checked")).to_contain_text("Entropy")
    offline.get_by_text("sat", exact=True).click()
    expect(panel).to_contain_text("Token 2")
    expect(panel).to_contain_text("0.125")
    expect(panel).to_contain_text("not recorded")
    metric.select_option(
        index=1 if metric.locator("option:checked").get_attribute("value") == "0" else 0
    )
    chosen = metric.locator("option:checked").inner_text()
    offline.get_by_role("button", name="Next ›").click()
    expect(offline.locator(".flow")).to_contain_text("b c d")
    assert metric.locator("option:checked").inner_text() == chosen
    expect(offline.get_by_role("button", name="Next ›")).to_be_disabled()
    offline.keyboard.press("/")
    offline.keyboard.type("[bd]")
    offline.locator(".regex").click()
    expect(offline.locator(".find-count")).to_have_text("2")
    offline.keyboard.press("Escape")
    expect(offline.locator(".reader")).to_have_attribute("data-theme", "dark")
    offline.emulate_media(color_scheme="light")
    expect(offline.locator(".reader")).to_have_attribute("data-theme", "light")
    assert offline.locator(".compare-button, .over").locator("visible=true").count() == 0


def test_changed_data_are_seen_and_said_where_they_can_not_be_unpacked(offline, tmp_path):
    page = interactive_page(sample_run("grpo_calculator"), [(1, 0), (1, 1)])[0]
    address = written(tmp_path, page)
    offline.goto(address)
    expect(offline.locator("#state")).to_have_text("data unchanged")
    changed = re.sub(rb'(id="r1-tokens">).{8}', rb"\1AAAAAAAA", page)
    (tmp_path / "page.html").write_bytes(changed)
    offline.goto(address)
    expect(offline.locator("#state")).to_have_text("data changed since the page was written")
    expect(offline.locator("#where")).to_have_text("1 of 2")
    offline.keyboard.press("j")
    expect(offline.locator("#where")).to_contain_text("can't be shown")
    offline.keyboard.press("k")
    expect(offline.locator("#where")).to_have_text("1 of 2")
