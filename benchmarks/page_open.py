"""How long an indexed run takes to open in a real browser, the server being warm.

    python benchmarks/page_open.py RUN [--repeats 5] [--page overview --page rollouts ...]

Makes hard links to RUN, index included, under as many names as there are repeats, in a folder beside
it, and starts the board on them. One of them is opened and left out of the figures; each other is then
opened for the first time. The time is from the request to the last change of the page, the script
at rest and, where it has charts, each of them drawn. Needs the extra `test` and a Chromium.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright
from step_change import QUIET_MS, served, settle

from board.index.discovery.discovered_runs import discover
from board.query.open_run import Follower

PAGES = ("overview", "findings", "spike", "rollouts", "rollout", "health")
WARMING = 2
UNDRAWN = """() => {
  const empty = (place, drawn) =>
    [...document.querySelectorAll(place)].some((element) => !element.querySelector(drawn));
  return document.querySelector('[data-testid=stSkeleton]') !== null
    || empty('[data-testid=stPlotlyChart]', '.main-svg')
    || empty('[data-testid=stVegaLiteChart]', 'canvas, svg')
    || empty('.stBidiComponent', '*')
    || [...document.querySelectorAll('[data-testid=stBidiComponentIsolated]')].some(({ shadowRoot }) => {
      const curves = shadowRoot?.querySelector('.curves');
      return !shadowRoot?.childElementCount || (curves && !curves.querySelector('.u-over'));
    });
}"""


def linked(run: Path, folder: Path) -> None:
    """The files of a run under another name, without a copy of their bytes."""
    shutil.copytree(run, folder, copy_function=os.link)


def opened(page: Page, address: str, visible: str, name: str) -> float:
    """Seconds until a page of a run has come to rest."""
    began = time.perf_counter()
    page.goto(f"{address}/{'' if visible == 'overview' else visible}?run={name}")
    page.wait_for_selector("[data-testid=stAppViewContainer] h3", timeout=300_000)
    settle(page)
    # A library that is still being read changes nothing: what it is to draw has to be waited for.
    while page.evaluate(UNDRAWN):
        settle(page)
    return time.perf_counter() - began - QUIET_MS / 1000


def measure(browser: Browser, root: Path, visible: str, names: list[str]) -> list[float]:
    """Seconds of each run but the first two, which fill the caches of server and browser."""
    with served(root) as address:
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        times = [opened(page, address, visible, name) for name in names]
        page.close()
    return times[WARMING:]


def main() -> None:
    parser = argparse.ArgumentParser(description="Time to open an indexed run in a browser.")
    parser.add_argument("run", type=Path, help="the run's folder")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--page", choices=PAGES, action="append", help="all where none is named")
    chosen = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        raise SystemExit("no Chromium found")
    run = Follower(persist=True).run(discover(chosen.run).runs[0])
    names = [f"run{number}" for number in range(chosen.repeats + WARMING)]
    print(f"{run.info.bytes / 1e9:.2f} GB, {run.rollout_count:,} rollouts, {len(run.steps)} steps")
    with (
        tempfile.TemporaryDirectory(dir=chosen.run.resolve().parent) as temporary,
        sync_playwright() as playwright,
    ):
        for name in names:
            linked(chosen.run, Path(temporary, name))
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        for visible in chosen.page or PAGES:
            times = measure(browser, Path(temporary), visible, names)
            print(
                f"{visible:10}settled in {statistics.median(times):.2f} s, "
                f"slowest {max(times):.2f} s of {len(times)}",
                flush=True,
            )
        browser.close()


if __name__ == "__main__":
    main()
