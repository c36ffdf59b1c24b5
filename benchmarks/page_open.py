"""How long an indexed run takes to open in a real browser, the server being warm.

    python benchmarks/page_open.py RUN [--repeats 5]

Makes hard links to RUN, index included, under as many names as there are repeats, in a folder beside
it, and starts the board on them. One of them is opened and left out of the figures; each other is then
opened for the first time. The time is from the request to the last change of the Overview, the script
at rest. Needs the extra `test` and a Chromium.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Page, sync_playwright
from step_change import QUIET_MS, served, settle

from board.store.discovery import discover
from board.store.run import Follower


def linked(run: Path, folder: Path) -> None:
    """The files of a run under another name, without a copy of their bytes."""
    shutil.copytree(run, folder, copy_function=os.link)


def opened(page: Page, address: str, name: str) -> float:
    """Seconds until the Overview of a run has come to rest."""
    began = time.perf_counter()
    page.goto(f"{address}/?run={name}")
    page.wait_for_selector("[data-testid=stAppViewContainer] h3", timeout=300_000)
    settle(page)
    return time.perf_counter() - began - QUIET_MS / 1000


def measure(root: Path, names: list[str], chromium: str) -> list[float]:
    """Seconds of each run but the first."""
    with served(root) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        times = [opened(page, address, name) for name in names]
        browser.close()
    return times[1:]


def main() -> None:
    parser = argparse.ArgumentParser(description="Time to open an indexed run in a browser.")
    parser.add_argument("run", type=Path, help="the run's folder")
    parser.add_argument("--repeats", type=int, default=5)
    chosen = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        raise SystemExit("no Chromium found")
    run = Follower(persist=True).run(discover(chosen.run).runs[0])
    names = [f"run{number}" for number in range(chosen.repeats + 1)]
    with tempfile.TemporaryDirectory(dir=chosen.run.resolve().parent) as temporary:
        for name in names:
            linked(chosen.run, Path(temporary, name))
        times = measure(Path(temporary), names, chromium)
    print(
        f"{run.info.bytes / 1e9:.2f} GB, {run.rollout_count:,} rollouts, {len(run.steps)} steps: settled "
        f"in {statistics.median(times):.2f} s, slowest {max(times):.2f} s of {len(times)}"
    )


if __name__ == "__main__":
    main()
