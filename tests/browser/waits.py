"""Waiting in a browser for what Playwright's own `expect` cannot say."""

import time
from collections.abc import Callable

from playwright.sync_api import Page

_SECONDS = 60.0
_PAUSE_MILLISECONDS = 50


def until(page: Page, law: str, holds: Callable[[], object]) -> None:
    """Asks the page anew until it holds; fails with the law's words where it never does."""
    deadline = time.monotonic() + _SECONDS
    while not holds():
        assert time.monotonic() < deadline, f"never in {_SECONDS:g} s: {law}"
        page.wait_for_timeout(_PAUSE_MILLISECONDS)


def until_none(page: Page, law: str, exceptions: Callable[[], list[str]]) -> None:
    """Asks the page anew until there are no exceptions to a law; fails with those that stay."""
    deadline = time.monotonic() + _SECONDS
    while left := exceptions():
        assert time.monotonic() < deadline, f"{law}, but in {_SECONDS:g} s: {left}"
        page.wait_for_timeout(_PAUSE_MILLISECONDS)
