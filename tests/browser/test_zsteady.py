"""A page whose log grows rests: nothing comes and goes, moves, fades, or forgets what was typed."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from board_steps import board_on, settled
from playwright.sync_api import expect
from waits import until

from exporters import RolloutExporter

_SECONDS = 600.0
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
_SEEN = """() => {
  clearInterval(window.sampling);
  return Object.fromEntries([...window.seen].map(([name, values]) => [name, [...values]]));
}"""


def log_step(writer: RolloutExporter, step: int) -> None:
    writer.log(step, response_ids=[[1, 2, 3]] * 4, rewards=[0.0, 1.0, 0.5, 0.1 * (step % 7)])
    writer.end_step(step)


@contextmanager
def growing(folder: Path) -> Iterator[None]:
    """A run of ten steps, and of one more every second."""
    ended = threading.Event()
    with RolloutExporter(folder, start_step=1, mode="sync") as writer:
        for step in range(1, 11):
            log_step(writer, step)

        def grow() -> None:
            step = 10
            while not ended.wait(1.0):
                step += 1
                log_step(writer, step)

        thread = threading.Thread(target=grow)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


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
