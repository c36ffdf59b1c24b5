"""A page whose log grows rests: nothing comes and goes, moves, fades, or forgets what was typed."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from board_steps import board_on, settled
from playwright.sync_api import Page, expect
from waits import until

from exporters import RolloutExporter

_SECONDS = 8.0
_NEW_STEPS = 8
"""While which a page is drawn again some times."""
_RECORD = """() => {
  const seen = (window.seen = new Map());
  const note = (name, value) => {
    const text = JSON.stringify(value);
    seen.set(name, (seen.get(name) ?? new Set()).add(text));
  };
  const box = (element) => {
    const { x, y, width, height } = element.getBoundingClientRect();
    return [x, y, width, height].map(Math.round);
  };
  const opacity = (element) =>
    element ? Number(getComputedStyle(element).opacity) * opacity(element.parentElement) : 1;
  const sample = () => {
    const links = [...document.querySelectorAll(".st-key-pages a")];
    note("links", links.map((link) => [link.innerText.split(" ")[0], opacity(link), box(link)[0]]));
    const status = document.querySelector("[data-testid=stStatusWidget]");
    note("status", status !== null && getComputedStyle(status).visibility === "visible");
    const main = document.querySelector("[data-testid=stMain]");
    note("scroll", [main.scrollTop, main.scrollHeight]);
    for (const key of ["title", "step_row", "live", "_following", "key_help"])
      note(key, box(document.querySelector(`.st-key-${key}`)));
    const panel = document.querySelector("[data-testid=stPopoverBody]");
    note("typed", panel && [...panel.querySelectorAll("input[type=text]")].map((field) => field.value));
    const parts = document.querySelectorAll("[data-testid=stMain] .stElementContainer");
    note("faded", [...parts].some((part) => opacity(part) < 1));
  };
  window.sampling = setInterval(sample, 50);
}"""
# Of rows and columns what is below each other: how wide a text is follows its figures.
_RECORD_BLOCKS = """() => {
  const blocks = ".stElementContainer, .stVerticalBlock, .stHorizontalBlock, .stColumn";
  const sample = () => {
    const boxes = [...document.querySelectorAll("[data-testid=stMain] :is(" + blocks + ")")]
      .map((block) => block.getBoundingClientRect())
      .filter(({ width, height }) => width && height)
      .map(({ y, height }) => [y, height].map(Math.round));
    window.seen.set(JSON.stringify(boxes), boxes.length);
  };
  window.seen = new Map();
  window.sampling = setInterval(sample, 50);
}"""
_SEEN = """() => {
  clearInterval(window.sampling);
  return Object.fromEntries([...window.seen].map(([name, values]) => [name, [...values]]));
}"""


def log_step(writer: RolloutExporter, step: int) -> None:
    chance = -0.5 - 0.01 * (step % 5)
    writer.log(
        step,
        response_ids=[[1, 2, 3]] * 4,
        logprobs=[[chance, -0.2, -0.1]] * 4,
        ref_logprobs=[[-0.4, -0.2, -0.1]] * 4,
        rewards=[0.0, 1.0, 0.5, 0.1 * (step % 7)],
        meta={"prompt": ["What is 6 x 7?"] * 4, "response": ["It is 42."] * 4},
    )
    writer.end_step(step)


@contextmanager
def growing(folder: Path, *, every: float = 1.0) -> Iterator[None]:
    """A run of ten steps, and of one more every so many seconds."""
    ended = threading.Event()
    with RolloutExporter(folder, start_step=1, mode="sync") as writer:
        for step in range(1, 11):
            log_step(writer, step)

        def grow() -> None:
            step = 10
            while not ended.wait(every):
                step += 1
                log_step(writer, step)

        thread = threading.Thread(target=grow)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


def newest_of(page: Page) -> int:
    """The newest step that the page knows, of "1–18" above its field; 0 before it is drawn."""
    ends = page.get_by_text(re.compile(r"^1–\d+$"))
    return int(ends.inner_text().partition("–")[2]) if ends.count() else 0


def has_grown(page: Page, first: int) -> bool:
    return newest_of(page) >= first + _NEW_STEPS


def test_a_run_that_grows_is_followed_and_the_page_rests(page, serve, tmp_path):
    with growing(tmp_path / "run"):
        page.goto(f"{board_on(serve, tmp_path)}/?run=run")
        expect(page.get_by_text("Following the newest step")).to_be_visible()
        step = page.get_by_label("Step", exact=True)
        page.get_by_role("button", name="Run settings").click()
        panel = page.get_by_test_id("stPopoverBody")
        field = panel.locator("input[type=text]").first
        field.press_sequentially("not entered")
        page.get_by_test_id("stMain").evaluate("main => { main.scrollTop = 120; }")
        settled(page)
        first = int(step.input_value())
        page.evaluate(_RECORD)
        page.wait_for_timeout(_SECONDS * 1000)
        seen = page.evaluate(_SEEN)
    assert int(step.input_value()) > first + 1
    assert {name: values for name, values in seen.items() if len(values) > 1} == {}
    assert (seen["status"], seen["faded"]) == (["false"], ["false"])
    assert len(seen["links"]) == 1
    assert "not entered" in seen["typed"][0]
    assert "step=" not in page.url


def test_no_block_of_a_page_moves_while_its_run_grows(page, serve, tmp_path):
    with growing(tmp_path / "run", every=0.5):
        root = board_on(serve, tmp_path)
        for name in ("", "step", "rollouts", "findings"):
            page.goto(f"{root}/{name}?run=run&live=1")
            until(page, f"{name} has its last step", partial(newest_of, page))
            settled(page)
            page.wait_for_timeout(2000)
            first = newest_of(page)
            page.evaluate(_RECORD_BLOCKS)
            until(page, f"{name} grows", partial(has_grown, page, first))
            seen = page.evaluate(
                "() => { clearInterval(window.sampling); return [...window.seen]; }"
            )
            # Once what the rules say of the run may change, which is a line more or less.
            assert len(seen) <= 2, f"{name or 'overview'}: {seen}"
            assert min(count for _, count in seen) >= 15


def test_a_switch_stays_where_it_was_put_while_the_page_runs(page, serve, tmp_path):
    switch = {key: page.locator(f".st-key-{key} input") for key in ("live", "_following")}
    record = """() => {
        window.seen = [];
        const input = (key) => document.querySelector(`.st-key-${key} input`);
        const sample = () => window.seen.push(["live", "_following"].map((key) => input(key)?.checked));
        window.sampling = setInterval(sample, 20);
    }"""
    with growing(tmp_path / "run"):
        page.goto(f"{board_on(serve, tmp_path)}/?run=run&live=1")
        expect(page.get_by_text("Following the newest step")).to_be_visible()
        page.wait_for_timeout(1000)
        page.evaluate(record)
        for nth in range(6):
            key = ("_following", "live")[nth % 2]
            before = switch[key].is_checked()
            page.evaluate("() => { window.seen = []; }")
            page.locator(f".st-key-{key} label").first.click()
            page.wait_for_timeout(1300 + 270 * nth)  # at another time of the run of the script each
            values = page.evaluate(f"() => window.seen.map(pair => pair[{nth % 2 == 0:d}])")
            after = values.index(not before)
            assert {*values[after:]} == {not before}, f"press {nth} of {key}: it jumped back"


def test_live_that_was_switched_off_stays_off(page, serve, tmp_path):
    with growing(tmp_path / "run"):
        page.goto(f"{board_on(serve, tmp_path)}/?run=run&step=3")
        live = page.locator(".st-key-live input")
        expect(live).to_be_checked()
        expect(page.get_by_label("Step", exact=True)).to_have_value("3")
        expect(page.get_by_text("Follow the newest step")).to_be_visible()
        page.wait_for_timeout(1000)
        page.locator(".st-key-live label").first.click()
        expect(live).not_to_be_checked()
        page.wait_for_timeout(5000)
        assert not live.is_checked()
        page.go_back()
        until(page, "Back leads to the page with Live on", live.is_checked)
