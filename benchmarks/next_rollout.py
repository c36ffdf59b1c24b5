"""How long the next rollout takes: from J to its text in the reader, in a real browser.

    python benchmarks/next_rollout.py ROOT RUN [RUN ...] --repeats 20 --pause 1000

Opens the newest rollout of the whole run in a headless Chromium of 1440 x 900 and presses J every
`pause` milliseconds. The time is from the key to the frame after the one in which the reader names the
next rollout. Needs the extra `test` and a Chromium.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
from pathlib import Path

from playwright.sync_api import Page, sync_playwright
from step_change import served, settle

# The time of each rollout's first frame, counted from the last key.
WATCH = """() => {
  let pressed = 0;
  let before = "";
  window.shown = [];
  const titles = (root) => [...root.querySelectorAll("*")]
    .flatMap(e => e.shadowRoot ? [...e.shadowRoot.querySelectorAll(".reader .fact-line")] : []);
  const [line] = titles(document);
  before = line.textContent;
  addEventListener("keydown", () => { pressed = performance.now(); }, true);
  new MutationObserver(() => {
    if (line.textContent === before) return;
    before = line.textContent;
    requestAnimationFrame(() => requestAnimationFrame(now => window.shown.push(now - pressed)));
  }).observe(line, {subtree: true, childList: true, characterData: true});
}"""


def times_of(page: Page, repeats: int, pause: int) -> list[float]:
    """Milliseconds from each key to the rollout it opened."""
    page.evaluate(WATCH)
    for done in range(repeats):
        page.keyboard.press("j")
        page.wait_for_function(f"window.shown.length > {done}", timeout=20_000)
        page.wait_for_timeout(pause)
    return page.evaluate("window.shown")


def main() -> None:
    parser = argparse.ArgumentParser(description="Time from J to the next rollout's text.")
    parser.add_argument("root", type=Path)
    parser.add_argument("runs", nargs="+", help="names of runs below ROOT")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--pause", type=int, default=1000)
    chosen = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        raise SystemExit("no Chromium found")
    with served(chosen.root.resolve()) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        for run in chosen.runs:
            page.goto(f"{address}/rollouts?run={run}&rollouts_scope=run&index=0")
            page.wait_for_selector(".reader .fact-line", timeout=60_000)
            settle(page)
            times = sorted(times_of(page, chosen.repeats, chosen.pause))
            ninth = times[min(len(times) - 1, int(len(times) * 0.9))]
            print(
                f"{run}: median {statistics.median(times):.0f} ms, "
                f"nine of ten within {ninth:.0f} ms, slowest {times[-1]:.0f} ms of {len(times)}"
            )
        browser.close()


if __name__ == "__main__":
    main()
