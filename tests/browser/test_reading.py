"""Rollouts of texts and conversations, read by keyboard: folded, searched, gone through."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect
from waits import until

pytestmark = pytest.mark.browser

Serve = Callable[[Path | Sequence[str]], str]
READY = "[data-test-script-state=notRunning]"
COMMAND = "import sys; from board.cli import main; sys.exit(main())"
TRAP = "<script>window.hacked=1</script><img src=x onerror=window.hacked=1> **b** [l](http://x)"
TURNS = 12
LINES = "\n".join(f"line {i}" for i in range(40))
# Lines of text that the reader shows now, by the boxes of its text nodes.
VISIBLE_LINES = """flow => {
  const frame = flow.getBoundingClientRect();
  const tops = new Set();
  const walker = document.createTreeWalker(flow, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const range = new Range();
    range.selectNodeContents(walker.currentNode);
    for (const box of range.getClientRects()) {
      const isSeen = box.top >= frame.top && box.bottom <= frame.bottom && box.height > 8;
      if (isSeen) tops.add(Math.round(box.top / 8));
    }
  }
  return tops.size;
}"""


def conversation() -> list[dict[str, Any]]:
    said: list[dict[str, Any]] = [
        {"role": "system", "content": "You are an agent.\n" + TRAP},
        {"role": "user", "content": "Fix it. " + TRAP},
    ]
    for turn in range(TURNS):
        call = {"name": "bash", "arguments": json.dumps({"command": f"pytest {turn}"})}
        tool = "Traceback (most recent call last):\nIndexError" if turn == 5 else LINES + TRAP
        said += [
            {
                "role": "assistant",
                "content": f"<think>idea {turn} {TRAP}</think>I run test {turn}.",
                "tool_calls": [{"id": str(turn), "type": "function", "function": call}],
            },
            {"role": "tool", "tool_call_id": str(turn), "content": tool},
        ]
    return [*said, {"role": "assistant", "content": "Done."}]


def chat(turn: int) -> str:
    call = json.dumps({"name": "check", "arguments": {"answer": str(turn)}})
    return (
        f"<think>idea {turn} {TRAP}</think>I run test {turn}.\n<tool_call>\n{call}\n</tool_call>\n"
        f"user\n<tool_response>\n{LINES}{TRAP}\n</tool_response>\nassistant\n"
    )


def native(folder: Path) -> None:
    row = {"type": "sample", "step": 1, "messages": conversation(), "reward": 0.5}
    name = "20260101T000000Z-rank00000-00000000.jsonl"
    (folder / name).write_text(json.dumps(row) + "\n", encoding="utf-8")


def verl(folder: Path) -> None:
    asked = "system\nYou are an agent.\nuser\nFix it.\nassistant\n"
    answer = "".join(chat(turn) for turn in range(TURNS)) + "Done."
    row = {"input": asked, "output": answer, "gts": "5", "score": 0.5, "step": 1}
    (folder / "1.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")


def verifiers(folder: Path) -> None:
    said = conversation()
    row = {
        "example_id": 0,
        "prompt": said[:2],
        "completion": said[2:],
        "answer": "5",
        "reward": 0.5,
        "task": "agent",
    }
    (folder / "results.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")


@pytest.fixture(scope="module")
def board(serve: Serve, tmp_path_factory: pytest.TempPathFactory) -> str:
    root = tmp_path_factory.mktemp("logs")
    for write in (native, verl, verifiers):
        folder = root / write.__name__
        folder.mkdir()
        write(folder)
    words = ("serve", str(root), "--port", "{port}", "--no-browser")
    return serve([sys.executable, "-c", COMMAND, *words])


def opened(page: Page, board: str, run: str) -> Locator:
    page.goto(f"{board}/rollout?run={run}&index=0")
    page.wait_for_selector(READY)
    reader = page.locator(".reader")
    expect(reader).to_have_attribute("data-theme", re.compile("dark|light"))
    return reader


@pytest.mark.parametrize("run", ["native", "verl", "verifiers"])
def test_a_conversation_is_folded_searched_and_gone_through_by_keyboard(
    page: Page, board: str, run: str
) -> None:
    reader = opened(page, board, run)
    result, thinking = reader.locator(".result .pre").first, reader.locator(".thinking .say").first
    rows = reader.locator(".outline-row")
    expect(rows).to_have_count(2 + TURNS + 1)
    expect(result).to_be_visible()
    page.keyboard.press("t")
    expect(result).to_be_hidden()
    page.keyboard.press("t")  # the browser remembers it for the next rollout
    expect(thinking).to_be_hidden()
    page.keyboard.press("h")
    expect(thinking).to_be_visible()
    page.keyboard.press("h")
    for _ in range(4):
        page.keyboard.press("]")
    expect(rows.nth(4)).to_have_class(re.compile("current"))
    page.keyboard.press("[")
    expect(rows.nth(3)).to_have_class(re.compile("current"))
    page.keyboard.press("/")
    page.keyboard.type("idea 1")
    page.keyboard.press("Enter")
    expect(reader.locator(".find-count")).to_contain_text("of 3")
    page.keyboard.press("Enter")
    shown = reader.locator(".thinking .say:visible", has_text="idea 10")
    expect(shown.first).to_be_in_viewport()
    page.keyboard.press("Escape")
    expect(reader.locator("input.find")).to_have_value("")
    assert reader.locator("script, img, iframe, a, .flow b").count() == 0
    expect(reader.locator(".flow")).to_contain_text("<script>window.hacked=1</script>")
    assert page.evaluate("window.hacked") is None


def test_an_error_of_a_tool_is_marked_in_text_and_outline(page: Page, board: str) -> None:
    reader = opened(page, board, "native")
    expect(reader.locator(".result.failed")).to_have_count(1)
    expect(reader.locator(".outline-row .dot.failed")).to_have_count(1)
    expect(reader.locator(".outline-head")).to_contain_text("1 error")


def test_a_system_prompt_is_folded_after_the_first_look(page: Page, board: str) -> None:
    reader = opened(page, board, "native")
    page.evaluate("localStorage.clear()")
    reader = opened(page, board, "native")
    system = reader.locator(".turn[data-role=system] .turn-body")
    expect(system).to_be_visible()
    reader = opened(page, board, "native")
    expect(reader.locator(".turn[data-role=system] .turn-body")).to_be_hidden()


def test_thirty_lines_of_a_conversation_are_seen_without_scrolling(page: Page, board: str) -> None:
    reader = opened(page, board, "native")
    flow = reader.locator(".flow")
    until(page, "30 lines are seen", lambda: flow.evaluate(VISIBLE_LINES) >= 30)


def test_full_screen_covers_the_window_and_escape_leaves_it(page: Page, board: str) -> None:
    reader = opened(page, board, "native")
    page.keyboard.press("f")
    box: Any = reader.bounding_box()
    assert (box["x"], box["y"], box["width"], box["height"]) == (0, 0, 1440, 900)
    page.keyboard.press("Escape")
    expect(reader).not_to_have_class(re.compile("full"))
