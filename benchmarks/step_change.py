"""How fast the pages react to another step, in a real browser.

    python benchmarks/step_change.py ROOT RUN --repeats 7

Starts the board on ROOT, opens each page on RUN in a headless Chromium of 1440 x 900 and presses the
key of the previous step. The time is from the key to the last change of the page's elements, the
script at rest: what a user waits for. Needs the extra `test` and a Chromium.
"""

from __future__ import annotations

import argparse
import shutil
import socket
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

PROJECT = Path(__file__).parents[1]
QUIET_MS = 200  # nothing changed for so long: settled; left out of the times
SETTLED = """quiet => new Promise(resolve => {
  let last = performance.now();
  const seen = new MutationObserver(() => { last = performance.now(); });
  const what = {subtree: true, childList: true, attributes: true, characterData: true};
  seen.observe(document.body, what);
  const timer = setInterval(() => {
    const app = document.querySelector('[data-test-script-state]');
    const idle = app && app.dataset.testScriptState === 'notRunning';
    if (idle && performance.now() - last > quiet) {
      clearInterval(timer); seen.disconnect(); resolve(true);
    }
  }, 10);
})"""


@contextmanager
def served(root: Path) -> Iterator[str]:
    """The address of a board on `root`."""
    with server_on(root) as (address, _):
        yield address


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as result:
        result.bind(("127.0.0.1", 0))
        return result.getsockname()[1]


@contextmanager
def server_on(root: Path, port: int | None = None) -> Iterator[tuple[str, int]]:
    """The address of a board on `root` that has said that it is ready, and the number of its process."""
    command = [sys.executable, "-c", "from board.cli import main; main()", "serve", str(root)]
    with started([*command, "--no-browser", "--port"], port) as (server, address):
        assert server.stdout is not None, "it is a pipe"
        if not server.stdout.readline():
            raise SystemExit("the server ended before it was ready")
        yield address, server.pid


@contextmanager
def started(command: list[str], port: int | None) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A server that answers, and its address; the port is the command's last argument."""
    port = port or free_port()
    server = subprocess.Popen(
        [*command, str(port)], cwd=PROJECT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    address = f"http://127.0.0.1:{port}"
    try:
        _wait(f"{address}/_stcore/health")
        yield server, address
    finally:
        server.terminate()
        server.wait()


def _wait(health: str) -> None:
    for _ in range(300):
        try:
            urllib.request.urlopen(health, timeout=1).close()
            return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise SystemExit("the server did not start within 30 s")


def settle(page: Page) -> float:
    """Seconds until the page has come to rest."""
    began = time.perf_counter()
    page.evaluate(SETTLED, QUIET_MS)
    return time.perf_counter() - began - QUIET_MS / 1000


def step_changes(page: Page, repeats: int) -> list[float]:
    """Seconds of each step back; the first one, which fills caches of the page, is left out."""
    times: list[float] = []
    for _ in range(repeats + 1):
        began = time.perf_counter()
        page.keyboard.press("ArrowLeft")
        settle(page)
        times.append(time.perf_counter() - began - QUIET_MS / 1000)
    return times[1:]


def main() -> None:
    parser = argparse.ArgumentParser(description="Time of a step change, page by page.")
    parser.add_argument("root", type=Path)
    parser.add_argument("run", help="the run's name below ROOT")
    parser.add_argument("--repeats", type=int, default=7)
    chosen = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        raise SystemExit("no Chromium found")
    with served(chosen.root.resolve()) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        for name in ("", "rollouts", "rollout"):
            began = time.perf_counter()
            page.goto(f"{address}/{name}?run={chosen.run}")
            page.wait_for_selector("[data-testid=stAppViewContainer] h3", timeout=300_000)
            settle(page)
            opened = time.perf_counter() - began - QUIET_MS / 1000
            times = step_changes(page, chosen.repeats)
            print(
                f"{name or 'overview':10}opened in {opened:.2f} s   step change: median "
                f"{statistics.median(times):.2f} s, slowest {max(times):.2f} s of {len(times)}"
            )
        browser.close()


if __name__ == "__main__":
    main()
