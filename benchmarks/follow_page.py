"""How soon 1 MB that a training writes is on a page that follows it, and what that costs the server.

    python benchmarks/follow_page.py [--megabytes 50 500] [--repeats 7] [--folder FOLDER]

For each size: generates a run (200 string tokens a rollout, two ranks), opens its Overview with Live on
and appends about 1 MB, a new step, at different times of the polling period. The time is from the last
byte to when the page tells of the new rollouts, and to when it has come to rest; with it the CPU time
of the server, less what it takes when nothing is new, which is told beside it. --folder: where runs are
made, kept and used again, with what was appended. Needs the extra `test` and a Chromium.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from generate import rank_lines, write_run
from page_open import opened as open_page
from playwright.sync_api import Page, sync_playwright
from step_change import QUIET_MS, server_on, settle

from board.index.discovery.discovered_runs import discover
from board.query.open_run import Follower

_NEW_BYTES: Final = 1_000_000
_PHASES: Final = 0.37
"""Seconds by which appends are shifted against the polling, so that they fall anywhere in its period."""
_IDLE_SECONDS: Final = 10.0
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_TELLS: Final = (
    """told => document.querySelector("[data-testid=stSidebar]").innerText.includes(told)"""
)


@dataclass(frozen=True, slots=True)
class Look:
    """Seconds after an append: until the page tells of it, until it is at rest; of the server's CPU."""

    text: float
    settled: float
    cpu: float


def new_steps(folder: Path, first: int) -> Iterator[int]:
    """Appends a step of about 1 MB to the files of both ranks each time; yields its rollouts."""
    lines = rank_lines(99, 1 << 30, 200)
    for step in range(first, first + 1000):
        new: list[bytes] = []
        while sum(map(len, new)) < _NEW_BYTES:
            new.append(next(lines).replace(b'"step": 0}', b'"step": %d}' % step))
        for rank in range(2):
            with (folder / f"data_rank{rank}.jsonl").open("ab") as file:
                file.write(b"".join(new[rank::2]))
        yield len(new)


def _cpu(pid: int) -> float:
    """Seconds of CPU that a process took so far."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def follow(page: Page, pid: int, folder: Path, repeats: int) -> tuple[list[Look], float]:
    """What became of each append; the first one, which fills caches, is left out. With it the seconds of
    CPU that the server takes in a second in which nothing is new.
    """
    run = Follower(persist=True).run(discover(folder).runs[0])
    visible, checks = run.rollout_count, list[Look]()
    idle, began = _cpu(pid), time.perf_counter()
    page.wait_for_timeout(_IDLE_SECONDS * 1000)
    rate = (_cpu(pid) - idle) / (time.perf_counter() - began)
    appends = new_steps(folder, int(run.steps["step"].iloc[-1]) + 1)
    for number in range(repeats + 1):
        page.wait_for_timeout(2000 + number * _PHASES * 1000)
        before = _cpu(pid)
        visible += next(appends)
        began = time.perf_counter()
        page.wait_for_function(_TELLS, arg=f"{visible:,} rollouts", timeout=120_000)
        text = time.perf_counter() - began
        settle(page)
        took = time.perf_counter() - began
        checks.append(Look(text, took - QUIET_MS / 1000, _cpu(pid) - before - rate * took))
    return checks[1:], rate


def measure(
    chromium: str, megabytes: int, repeats: int, remaining: Path | None
) -> tuple[list[Look], float]:
    """The looks of a run of that size, and what the server takes when nothing is new."""
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary) if remaining is None else remaining / str(megabytes)
        folder = root / "run"
        if not folder.exists():
            write_run(folder, megabytes)
        Follower(persist=True).run(discover(folder).runs[0])
        with server_on(root) as (address, pid), sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
            )
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            open_page(page, address, "overview", "run&live=1")
            result = follow(page, pid, folder, repeats)
            browser.close()
    return result


def main() -> None:
    """Command line; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, nargs="+", default=[50, 500])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument(
        "--folder", type=Path, help="keeps the runs, and takes those that are there"
    )
    args = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        raise SystemExit("no Chromium found")
    print(f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}")
    print(
        "medians (largest)\n\n| MB | told after, s | at rest after, s | server CPU, s | idle, s/s |"
    )
    print("|---|---|---|---|---|")
    for megabytes in args.megabytes:
        checks, idle = measure(chromium, megabytes, args.repeats, args.folder)
        sides = zip(*((look.text, look.settled, look.cpu) for look in checks), strict=True)
        text = " | ".join(f"{median(values):.2f} ({max(values):.2f})" for values in sides)
        print(f"| {megabytes} | {text} | {idle:.3f} |", flush=True)


if __name__ == "__main__":
    main()
