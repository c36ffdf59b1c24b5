"""What tests do with a board in a browser: start it, wait for it, click in its charts and tables."""

import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from playwright.sync_api import Locator, Page, expect
from waits import until

from board.views.shared import pages

ServeCommand = Callable[[Sequence[str]], str]
Message = dict[str, Any]

ADDRESSES = {name: f"{page.name}?{urlencode(query)}" for name, page, query in pages.addresses()}
"""Every page and part by its name, below the address of a board; a query goes on with &."""
SAMPLES = Path(__file__).parents[2] / "rollout_samples"
# None while the figure is not drawn.
_PLACE = """(plot, [trace, point]) => {
    const at = plot.calcdata?.[trace]?.slice(point).find(p => Number.isFinite(p.y));
    const area = plot.querySelector(".nsewdrag")?.getBoundingClientRect();
    if (!at || !area) return null;
    const { xaxis, yaxis } = plot._fullLayout;
    return [area.x + xaxis.l2p(xaxis.d2l(at.x)), area.y + yaxis.l2p(yaxis.d2l(at.y))];
}"""


def board_on(serve: ServeCommand, root: Path, *options: str) -> str:
    """The address of a board that `rollout-board serve ROOT` started."""
    start = "import sys; from board.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", start, "serve", str(root), *options]
    return serve([*command, "--port", "{port}", "--no-browser"])


def settled(page: Page) -> None:
    """Waits for the end of a script run that began with what was just done."""
    page.wait_for_timeout(300)
    page.wait_for_selector("[data-test-script-state=notRunning]")


def click_step(page: Page, curve: int, step: int) -> None:
    """Clicks a step of a curve of the Overview, at its place on the x axis."""
    plot = page.locator(".curves .u-over").nth(curve)
    message = page.locator(".curves .card").nth(curve).locator(".readout span").first
    plot.scroll_into_view_if_needed()
    # By halves: where a step lies is known to the chart alone, whose title says which one is pointed at.
    left, right = 0.0, 1.0
    for _ in range(20):
        share = (left + right) / 2
        _point_at(page, plot, share)
        at = re.search(r"step (\d+)", message.inner_text())
        if int(at[1]) == step:
            break
        left, right = (share, right) if int(at[1]) < step else (left, share)
    expect(message).to_contain_text(re.compile(rf"step {step}(?!\d)"))
    page.mouse.down()
    page.mouse.up()


def _point_at(page: Page, plot: Locator, share: float) -> None:
    """Moves the pointer to a share of the width of a curve until the curve says what is there."""
    message = plot.locator(".tip")

    def points() -> bool:
        # Measured anew: what is drawn above moves a curve.
        box = plot.bounding_box()
        if box is not None:
            x, y = box["x"] + share * box["width"], box["y"] + box["height"] / 2
            page.mouse.move(x - 3, y)
            page.mouse.move(x, y)
        return message.is_visible()

    until(page, f"a tip at {share:.0%} of the width of a curve", points)


def click_point(page: Page, chart: int, trace: int, point: int) -> None:
    """Clicks a point of a trace of the chart at its very place, or the next one that has a value."""
    plot = page.locator(".js-plotly-plot").nth(chart)
    plot.locator(".nsewdrag").scroll_into_view_if_needed()
    text = page.locator(".hoverlayer .hovertext").first
    at: list[list[float] | None] = [None]

    def points() -> bool:
        # Measured anew until it rests: a page that runs again may draw the chart again, elsewhere.
        at.append(plot.evaluate(_PLACE, [trace, point]))
        before, now = at[-2:]
        if now is not None:
            page.mouse.move(now[0] - 3, now[1])
            page.mouse.move(*now)
        return before == now and text.is_visible()

    until(page, f"point {point} of trace {trace} of chart {chart} under the pointer", points)
    place = at[-1]
    page.mouse.click(*place)


def drag_over(page: Page, plot: Locator, start: float, end: float) -> None:
    """Drags from one share of the width of a curve or strip to another."""
    expect(plot).to_be_visible()
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * start, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * end, middle, steps=5)
    page.mouse.up()


def click_row(page: Page, table: int, row: int) -> None:
    """Clicks a row of a table whose rows are 36 pixels high."""
    frame = page.get_by_test_id("stDataFrame").nth(table)
    expect(frame).to_be_visible()
    frame.scroll_into_view_if_needed()
    settled(page)
    frame.click(position={"x": 120, "y": 36 * (row + 1) + 18})


def agent_turns(thoughts: Sequence[str], commands: Sequence[str], output: str) -> list[Message]:
    """Messages of an agent: in each turn a thought, a call of its shell, and what that printed."""
    message: list[Message] = []
    for turn, (thought, command) in enumerate(zip(thoughts, commands, strict=True)):
        function = {"name": "bash", "arguments": json.dumps({"command": command})}
        call = {"id": str(turn), "type": "function", "function": function}
        words = f"<think>{thought}</think>I run test {turn}."
        message.append({"role": "assistant", "content": words, "tool_calls": [call]})
        message.append({"role": "tool", "tool_call_id": str(turn), "content": output})
    return message
