"""Two rollouts compared by keyboard alone: chosen, gone through, unfolded, closed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from board_steps import ServeCommand, board_on, settled
from playwright.sync_api import Page, expect
from written_logs import write_lines

pytestmark = pytest.mark.browser

SAME = "\n".join(f"line {n} of what both say" for n in range(200))


def verl_rows() -> list[dict[str, Any]]:
    return [
        {"input": "user\nAdd 2 and 3.", "output": f"{SAME}\nSo {n}.", "score": float(n), "step": 1}
        for n in (5, 6)
    ]


def agent_rows() -> list[dict[str, Any]]:
    def turns(word: str) -> list[dict[str, str]]:
        said = [("user", "Fix it."), ("assistant", f"I {word}."), ("tool", SAME)]
        said += [("assistant", f"<b>{word}</b> is done.")]
        return [{"role": role, "content": content} for role, content in said]

    return [
        {"step": 1, "group_id": "g", "reward": float(n), "messages": turns(word)}
        for n, word in enumerate(("look", "search"))
    ]


@pytest.mark.parametrize(
    ("rows", "file", "differences"),
    [(verl_rows(), "1.jsonl", 1), (agent_rows(), "a.jsonl", 2)],
    ids=["verl", "agent"],
)
def test_two_rollouts_are_compared_by_keyboard(
    page: Page,
    serve: ServeCommand,
    tmp_path: Path,
    rows: list[dict[str, Any]],
    file: str,
    differences: int,
) -> None:
    write_lines(tmp_path / "run" / file, rows)
    page.goto(f"{board_on(serve, tmp_path)}/rollouts?step=1&index=0")
    expect(page.locator(".reader .fact-line")).to_contain_text("Rollout 0")
    settled(page)
    page.keyboard.press("c")
    entries = page.locator(".compare-menu .entry")
    expect(entries).to_have_count(1)
    page.keyboard.press("Enter")
    view = page.locator(".comparison")
    expect(view.locator(".count")).to_have_text(re.compile(f"^{differences} difference"))
    expect(page).to_have_url(re.compile(r"[?&]vs=1(&|$)"))
    settled(page)
    page.keyboard.press("d")
    expect(view.locator(".count")).to_have_text(f"difference 1 of {differences}")
    expect(view.locator("del.current")).to_be_in_viewport()
    expect(view.locator("ins.current")).to_be_in_viewport()
    page.keyboard.press("Shift+D")
    expect(view.locator(".count")).to_have_text(f"difference {differences} of {differences}")
    fold = view.locator(".fold")
    expect(fold).to_have_text(re.compile(r"^… \d{3} equal lines$"))
    page.keyboard.press("e")
    expect(fold).to_have_attribute("aria-expanded", "true")
    expect(view.locator(".equal .row .cell").last).to_contain_text("of what both say")
    expect(view.locator("ins.current")).to_be_in_viewport()
    assert view.locator("b b, script, img").count() == 0
    page.keyboard.press("Escape")
    expect(page.locator(".reader .fact-line")).to_contain_text("Rollout 0")
    expect(view).to_have_count(0)
