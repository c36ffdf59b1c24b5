"""A real browser and a real server for the tests of this folder.

`serve` starts a server and gives its address, `page` is a page that is as good as new and fails its test
when the page's own script throws.
"""

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

Serve = Callable[[Path | Sequence[str]], str]

_CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome")
_CHROMIUM_ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_START_SECONDS = 60.0
# A busy machine draws its first chart late; what never comes fails all the same.
_PATIENCE_MILLISECONDS = 60_000
expect.set_options(timeout=_PATIENCE_MILLISECONDS)


def find_chromium() -> str | None:
    """ROLLOUT_BOARD_CHROMIUM where set, else the first Chromium on the PATH; None without one."""
    named = os.environ.get("ROLLOUT_BOARD_CHROMIUM")
    candidates = (named,) if named else ("/usr/bin/chromium", *_CHROMIUM_NAMES)
    return next(filter(None, map(shutil.which, candidates)), None)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    executable = find_chromium()
    if executable is None:
        reason = "no Chromium found: install one (package chromium) or set ROLLOUT_BOARD_CHROMIUM"
        # Where the promises must be checked, a skipped browser test is a failure.
        if os.environ.get("ROLLOUT_BOARD_REQUIRE_BROWSER"):
            pytest.fail(reason)
        pytest.skip(reason)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=executable, args=list(_CHROMIUM_ARGUMENTS)
        )
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def tab(chromium: Browser) -> Iterator[tuple[Page, list[str]]]:
    """One for all tests, and what its pages threw: in a new one Streamlit's scripts are compiled again,
    which takes twice the time of a page.
    """
    context = chromium.new_context()
    context.set_default_timeout(_PATIENCE_MILLISECONDS)
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page, errors
    context.close()


@pytest.fixture
def page(tab: tuple[Page, list[str]]) -> Iterator[Page]:
    """A page of 1440 x 900 with a session of its own; an exception on the page fails the test."""
    page, errors = tab
    page.goto("about:blank")
    page.context.new_cdp_session(page).send("Page.resetNavigationHistory")
    page.set_viewport_size({"width": 1440, "height": 900})
    page.emulate_media(color_scheme="light")
    page.mouse.move(0, 0)
    errors.clear()
    yield page
    page.evaluate("() => { try { sessionStorage.clear(); } catch {} }")  # a blank page has none
    assert errors == []


@pytest.fixture(scope="session")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serve]:
    """Start a server on a free port of 127.0.0.1 and return its URL, once it is healthy.

    Give a Streamlit script's path, or a command in which "{port}" stands for the port. The same
    command is started once per session.
    """
    running: dict[tuple[str, ...], tuple[subprocess.Popen[bytes], str]] = {}

    def start(target: Path | Sequence[str]) -> str:
        command = _streamlit_command(target) if isinstance(target, Path) else tuple(target)
        if command not in running:
            port = _free_port()
            log = tmp_path_factory.mktemp("server") / "log.txt"
            filled = [part.replace("{port}", str(port)) for part in command]
            running[command] = (_start(filled, log), f"http://127.0.0.1:{port}")
            _wait_until_healthy(*running[command], log)
        return running[command][1]

    yield start
    for process, _ in running.values():
        process.terminate()
    for process, _ in running.values():
        process.wait(timeout=20)


def _streamlit_command(script: Path) -> tuple[str, ...]:
    options = {
        "server.port": "{port}",
        "server.address": "127.0.0.1",
        "server.headless": "true",
        "server.fileWatcherType": "none",
        "browser.gatherUsageStats": "false",
    }
    flags = [part for name, value in options.items() for part in (f"--{name}", value)]
    return (sys.executable, "-m", "streamlit", "run", str(script), *flags)


def _start(command: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    root = Path(__file__).resolve().parents[2]
    path = os.pathsep.join(filter(None, (str(root), os.environ.get("PYTHONPATH"))))
    with log.open("wb") as out:
        return subprocess.Popen(
            command, cwd=root, env={**os.environ, "PYTHONPATH": path}, stdout=out, stderr=out
        )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_until_healthy(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with opener.open(f"{url}/_stcore/health", timeout=2) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.1)
    process.kill()
    pytest.fail(f"server at {url} did not become healthy:\n{log.read_text(errors='replace')}")
