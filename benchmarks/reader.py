"""Measures the reader in Chromium without a GPU, beside what RLLoggingBoard does.

    python benchmarks/reader.py [--rounds 5] [--chromium /usr/bin/chromium]

Promises: 32,000 tokens x 10 metrics from rerun to settled in 500 ms, metric switch in 100 ms, a
threshold in 50 ms, scrolling at 33 ms a frame (95th percentile); 128,000 tokens open in 2 s; 1 MB of
text or 300 turns within 500 ms of what a short one takes. The same response as a plotly heat map with
text and as a table with a column per token stands beside them.
"""

from __future__ import annotations

import argparse
import os
import platform
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Error, Page, sync_playwright

PAGE = Path(__file__).with_name("reader_page.py")
ROOT = PAGE.parents[1]
READY = "[data-test-script-state=notRunning]"
ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")
LONGEST_MS = 100_000
SIZES = (200, 2_000, 8_000, 32_000)

# From the click on the button until the script has ended, the new response is there, and three frames
# in a row took less than 50 ms: then the page answers again.
ANOTHER = """async () => {
  const number = Number(document.querySelector('[data-testid=stText]').innerText.split(' ')[1]) + 1;
  const button = [...document.querySelectorAll('button')].find(b => b.innerText === 'another');
  const begin = performance.now();
  button.click();
  let [quiet, since, before] = [0, 0, begin];
  for (;;) {
    const now = await new Promise(requestAnimationFrame);
    const ended = document.querySelector('[data-test-script-state=notRunning]');
    const text = document.querySelector('[data-testid=stText]');
    const there = ended && text && text.innerText === `round ${number}`;
    if (!there || now - before > 50) { quiet = 0; since = now; }
    else quiet += 1;
    before = now;
    if (quiet >= 3) return since - begin;
    if (now - begin > 100000) return null;
  }
}"""
PAINTED = "await new Promise(done => requestAnimationFrame(() => setTimeout(done, 0)));"
IN_VIEW = """const view = [...document.querySelectorAll('*')].map(e => e.shadowRoot)
  .find(r => r?.querySelector('.reader'));"""
SWITCH = f"""async () => {{ {IN_VIEW}
  const select = view.querySelector('select.metric');
  const begin = performance.now();
  select.value = (Number(select.value) + 1) % 10;
  select.dispatchEvent(new Event('change'));
  {PAINTED}
  return performance.now() - begin;
}}"""
FIND = f"""async () => {{ {IN_VIEW}
  const field = view.querySelector('input.find');
  const begin = performance.now();
  field.value = field.value === 'carry' ? 'two' : 'carry';
  field.dispatchEvent(new Event('input'));
  {PAINTED}
  return performance.now() - begin;
}}"""
DRAG = f"""async (step) => {{ {IN_VIEW}
  const slide = view.querySelector('.what-if .slide');
  const begin = performance.now();
  slide.value = 0.05 + 0.07 * step;
  slide.dispatchEvent(new Event('input'));
  {PAINTED}
  return performance.now() - begin;
}}"""
SCROLL = f"""async () => {{ {IN_VIEW}
  const flow = view.querySelector('.flow');
  const frames = [];
  let before = await new Promise(requestAnimationFrame);
  for (let i = 0; i < 120; i++) {{
    flow.scrollTop += 300;
    const now = await new Promise(requestAnimationFrame);
    frames.push(now - before);
    before = now;
  }}
  return frames.sort((a, b) => a - b)[Math.floor(0.95 * frames.length)];
}}"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES)
    args = parser.parse_args()
    print(f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}")
    with served() as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=args.chromium, args=list(ARGUMENTS))
        measure_board(browser, url, args.rounds)
        measure_texts(browser, url, args.rounds)
        measure_peers(browser, url, args.rounds, args.sizes)
        browser.close()


def measure_board(browser: Browser, url: str, rounds: int) -> None:
    print(
        "\n| tokens x 10 metrics | settled ms | metric switch ms | threshold ms | scroll p95 ms |"
    )
    print("|---|---|---|---|---|")
    for tokens in (32_000, 128_000):
        page = opened(browser, url, "board", tokens)
        settled = [page.evaluate(ANOTHER) for _ in range(rounds)]
        switch = [after_pause(page, SWITCH) for _ in range(rounds)]
        page.get_by_role("button", name="Masks").click()
        drag = [after_pause(page, DRAG, step) for step in range(rounds)]
        scroll = [after_pause(page, SCROLL) for _ in range(rounds)]
        cells = " | ".join(middle(values) for values in (settled, switch, drag, scroll))
        print(f"| {tokens:,} | {cells} |", flush=True)
        page.context.close()


def measure_texts(browser: Browser, url: str, rounds: int) -> None:
    """Opening a long text, and a conversation of many turns, against short ones."""
    print(
        "\n| rollout without tokens | settled ms | scroll p95 ms | find ms | scroll with matches, ms |"
    )
    print("|---|---|---|---|---|")
    cases = (("text", 1_000), ("text", 1_000_000), ("turns", 3), ("turns", 300))
    for variant, size in cases:
        page = opened(browser, url, variant, size)
        settled = [page.evaluate(ANOTHER) for _ in range(rounds)]
        scroll = [after_pause(page, SCROLL) for _ in range(rounds)]
        result = [after_pause(page, FIND) for _ in range(rounds)]
        marked = [after_pause(page, SCROLL) for _ in range(rounds)]
        cells = " | ".join(middle(values) for values in (settled, scroll, result, marked))
        unit = "characters" if variant == "text" else "turns"
        print(f"| {size:,} {unit} | {cells} |", flush=True)
        page.context.close()


def measure_peers(browser: Browser, url: str, rounds: int, sizes: tuple[int, ...]) -> None:
    print("\nSettled ms\n\n| tokens | board | heat map with text | column per token |")
    print("|---|---|---|---|")
    given_up: set[str] = set()
    for tokens in sizes:
        cells = [settled_words(browser, url, name, tokens, rounds, given_up) for name in VARIANTS]
        print(f"| {tokens:,} | {' | '.join(cells)} |", flush=True)


VARIANTS = ("board", "heatmap", "styler")


def settled_words(
    browser: Browser, url: str, variant: str, tokens: int, rounds: int, given_up: set[str]
) -> str:
    """Median (smallest to largest), or why there is none; a way that failed is not tried at more."""
    if variant in given_up:
        return "not tried"
    try:
        page = opened(browser, url, variant, tokens)
        times = [page.evaluate(ANOTHER) for _ in range(rounds)]
        page.context.close()
    except Error as error:
        given_up.add(variant)
        return "tab crashed" if "crash" in str(error).lower() else f"not in {LONGEST_MS // 1000} s"
    return middle(times)


def opened(browser: Browser, url: str, variant: str, tokens: int) -> Page:
    page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    page.set_default_timeout(LONGEST_MS)
    page.goto(f"{url}/?variant={variant}&tokens={tokens}")
    page.wait_for_selector("text=round 0")
    page.wait_for_selector(READY)
    page.evaluate(ANOTHER)  # warm
    return page


def after_pause(page: Page, script: str, argument: object = None) -> float:
    """Runs a script once what the one before set off has ended."""
    page.wait_for_timeout(600)
    page.wait_for_selector(READY)
    return page.evaluate(script, argument)


def middle(times: list[float]) -> str:
    return f"{statistics.median(times):.0f} ({min(times):.0f} to {max(times):.0f})"


@contextmanager
def served() -> Iterator[str]:
    """The page on a free port of 127.0.0.1."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    flags = {"port": port, "address": "127.0.0.1", "headless": "true", "fileWatcherType": "none"}
    options = [part for name, value in flags.items() for part in (f"--server.{name}", str(value))]
    command = [sys.executable, "-m", "streamlit", "run", str(PAGE), *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        wait_until_healthy(url)
        yield url
    finally:
        process.terminate()
        process.wait(timeout=20)


def wait_until_healthy(url: str) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for _ in range(300):
        try:
            with opener.open(f"{url}/_stcore/health", timeout=2) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.2)
    raise SystemExit(f"the server at {url} did not start within 60 s")


if __name__ == "__main__":
    main()
