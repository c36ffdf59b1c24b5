"""A conversation in the reader: what is marked, folded at first, and seen without scrolling."""

import re
from typing import Any

import pytest
from board_steps import Message, ServeCommand, agent_turns, board_on, settled
from playwright.sync_api import Locator, Page, expect
from waits import until
from written_logs import write_lines

pytestmark = pytest.mark.browser

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


def conversation() -> list[Message]:
    message = [
        {"role": "system", "content": "You are an agent."},
        {"role": "user", "content": "Fix it."},
        *agent_turns(*([f"{of} {n}" for n in range(TURNS)] for of in ("idea", "pytest")), LINES),
        {"role": "assistant", "content": "Done."},
    ]
    message[2 + 2 * 5 + 1]["content"] = "Traceback (most recent call last):\nIndexError"
    return message


@pytest.fixture(scope="module")
def board(serve: ServeCommand, tmp_path_factory: pytest.TempPathFactory) -> str:
    root = tmp_path_factory.mktemp("logs")
    row = {"type": "sample", "step": 1, "messages": conversation(), "reward": 0.5}
    write_lines(root / "native" / "rank0.jsonl", [row])
    message = [piece for line in LINES.splitlines() for piece in (*line.split(), "\n")]
    row = {
        "step": 1,
        "prompt": "Count.",
        "response_tokens": message,
        "logprobs": [-0.1] * len(message),
    }
    write_lines(root / "tokens" / "rank0.jsonl", [row])
    return board_on(serve, root)


def opened(page: Page, board: str, run: str = "native") -> Locator:
    page.goto(f"{board}/rollouts?run={run}&index=0")
    reader = page.locator(".reader")
    expect(reader).to_have_attribute("data-theme", re.compile("dark|light"))
    settled(page)
    return reader


def test_an_error_of_a_tool_is_marked_and_full_screen_covers_the_window(page, board):
    reader = opened(page, board)
    expect(reader.locator(".result.failed")).to_have_count(1)
    expect(reader.locator(".outline-row .dot.failed")).to_have_count(1)
    expect(reader.locator(".outline-head")).to_contain_text("1 error")
    page.keyboard.press("f")
    box: Any = reader.bounding_box()
    assert (box["x"], box["y"], box["width"], box["height"]) == (0, 0, 1440, 900)
    page.keyboard.press("Escape")
    expect(reader).not_to_have_class(re.compile("full"))


def test_a_system_prompt_is_folded_after_the_first_look(page, board):
    page.goto(f"{board}/_stcore/health")  # of the same origin, and quickly there
    page.evaluate("localStorage.clear()")
    reader = opened(page, board)
    system = reader.locator(".turn[data-role=system] .turn-body")
    expect(system).to_be_visible()
    reader = opened(page, board)
    expect(reader.locator(".turn[data-role=system] .turn-body")).to_be_hidden()


@pytest.mark.parametrize("run", ["native", "tokens"])
def test_thirty_lines_are_seen_without_scrolling(page, board, run):
    flow = opened(page, board, run).locator(".flow")
    expect(flow.locator(".token")).to_have_count(120 if run == "tokens" else 0)
    until(page, "30 lines are seen", lambda: flow.evaluate(VISIBLE_LINES) >= 30)
