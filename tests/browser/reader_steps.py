"""Steps that the reader's browser tests share."""

import re
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Locator, Page, expect

Serve = Callable[[Path], str]
READY = "[data-test-script-state=notRunning]"
SCRIPT = Path(__file__).with_name("reader_page.py")


def open_case(page: Page, serve: Serve, case: str, **choices: object) -> Locator:
    """The reader of the test page with that case."""
    query = "&".join(f"{name}={value}" for name, value in {"case": case, **choices}.items())
    page.goto(f"{serve(SCRIPT)}/?{query}")
    page.wait_for_selector(READY)
    view = page.locator(".reader").first
    expect_loaded(view)
    return view


def expect_loaded(view: Locator) -> None:
    """Its script has run: the frame stands before it, without a token, and answers no key."""
    expect(view).to_have_attribute("data-theme", re.compile("dark|light"))


def expect_chosen(view: Locator, select: str, label: str) -> None:
    """What a menu of the view shows as chosen."""
    expect(view.locator(f"select.{select} option:checked")).to_have_text(label)


def expect_report(page: Page, words: str) -> None:
    """What Python was told last."""
    expect(page.get_by_test_id("stText")).to_contain_text(words)
