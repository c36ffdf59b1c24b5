"""What tests do with a board in a browser: start it, wait for it, click in its charts and tables."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from playwright.sync_api import Page, expect

ServeCommand = Callable[[Sequence[str]], str]

SAMPLES = Path(__file__).parents[2] / "rollout_samples"
_PLACE = """(plot, [trace, point]) => {
    const at = plot.calcdata[trace].slice(point).find(p => Number.isFinite(p.y));
    const axes = plot._fullLayout;
    return [axes.xaxis.l2p(axes.xaxis.d2l(at.x)), axes.yaxis.l2p(axes.yaxis.d2l(at.y))];
}"""


def board_on(serve: ServeCommand, root: Path) -> str:
    """The address of a board that `rollout-board serve ROOT` started."""
    start = "import sys; from board.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", start, "serve", str(root)]
    return serve([*command, "--port", "{port}", "--no-browser"])


def settled(page: Page) -> None:
    """Waits for the end of a script run that began with what was just done."""
    page.wait_for_timeout(300)
    page.wait_for_selector("[data-test-script-state=notRunning]")


def click_step(page: Page, curve: int, step: int) -> None:
    """Clicks a step of a curve of the Overview, at its place on the x axis."""
    plot = page.locator(".curves .u-over").nth(curve)
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    assert box is not None
    y = box["y"] + box["height"] / 2
    tip = page.locator(".curves .card").nth(curve).locator(".tip")
    wanted = re.compile(rf"step {step},")
    # By halves: where a step lies is known to the chart alone, and the tip says which one is pointed at.
    left, right = box["x"], box["x"] + box["width"]
    for _ in range(20):
        x = (left + right) / 2
        page.mouse.move(x, y)
        expect(tip).to_be_visible()
        at = re.search(r"step (\d+)", tip.inner_text())
        assert at is not None
        if int(at[1]) == step:
            break
        left, right = (x, right) if int(at[1]) < step else (left, x)
    expect(tip).to_contain_text(wanted)
    page.mouse.click(x, y)


def click_point(page: Page, chart: int, trace: int, point: int) -> None:
    """Clicks a point of a trace of the chart at its very place, or the next one that has a value."""
    plot = page.locator(".js-plotly-plot").nth(chart)
    area = plot.locator(".nsewdrag")
    expect(area).to_be_visible()
    area.scroll_into_view_if_needed()
    box = area.bounding_box()
    assert box is not None
    x, y = plot.evaluate(_PLACE, [trace, point])
    page.mouse.move(box["x"] + x - 3, box["y"] + y)
    page.mouse.move(box["x"] + x, box["y"] + y)
    expect(page.locator(".hoverlayer .hovertext").first).to_be_visible()
    page.mouse.click(box["x"] + x, box["y"] + y)


def click_row(page: Page, table: int, row: int) -> None:
    """Clicks a row of a table whose rows are 36 pixels high."""
    frame = page.get_by_test_id("stDataFrame").nth(table)
    expect(frame).to_be_visible()
    frame.scroll_into_view_if_needed()
    settled(page)
    frame.click(position={"x": 120, "y": 36 * (row + 1) + 18})
