"""Steps that the token view's browser tests share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Locator, Page, expect

Serve = Callable[[Path], str]
READY = "[data-test-script-state=notRunning]"
SCRIPT = Path(__file__).with_name("token_view_page.py")


def open_case(page: Page, serve: Serve, case: str, **choices: object) -> Locator:
    """The token view of the test page with that case."""
    query = "&".join(f"{name}={value}" for name, value in {"case": case, **choices}.items())
    page.goto(f"{serve(SCRIPT)}/?{query}")
    page.wait_for_selector(READY)
    view = page.locator(".token-view").first
    expect(view).to_be_visible()
    return view


def expect_report(page: Page, words: str) -> None:
    """What Python was told last."""
    expect(page.get_by_test_id("stText")).to_contain_text(words)
