"""Takes the pictures of README.md and docs/ from a board on the bundled runs, and the animation.

python benchmarks/pictures.py [--chromium /usr/bin/chromium] [NAME ...]

Without names it takes all of them. Needs the extra `test`.
"""

from __future__ import annotations

import argparse
import io
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from PIL import Image
from playwright.sync_api import Page, sync_playwright

PROJECT: Final = Path(__file__).parents[1]
DOCS: Final = PROJECT / "docs"
PORT: Final = 8599
ADDRESS: Final = f"http://127.0.0.1:{PORT}"
SIZE: Final = (1440, 900)
_FLAGS: Final = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
_SETTLE_MILLISECONDS: Final = 1200
PICTURES: Final = {
    "overview": "?run=grpo_reward_hack&step=95",
    "spike": "step?run=grpo_arithmetic&step=97&step_metric=k3_mean",
    "groups": "step?run=grpo_arithmetic&step=97&step_part=groups",
    "findings": "findings?run=grpo_reward_hack",
    "rollout": "rollouts?run=grpo_arithmetic&step=97&index=13&sort=k3_mean&desc=1&token=6",
    "transcript": "rollouts?run=grpo_calculator&step=20&index=0",
    "masks": "rollouts?run=ppo_critic&step=20&index=4&reader_masks=ratio_clip:0.1:0.1,is_masked",
    "compare": "rollouts?run=grpo_arithmetic&step=97&index=13&reader_vs=15",
}
"""Name of the picture in docs/ -> the page, below the server's address."""
ANIMATION: Final = "curve_to_token"
_FRAME_SIZE: Final = (1080, 675)
_COLOURS: Final = 256
_KL_CURVE: Final = 1


@contextmanager
def server() -> Iterator[None]:
    """A board on the bundled runs at ADDRESS."""
    start = "import sys; from board.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", start, "serve", "--port", str(PORT), "--no-browser"]
    process = subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.DEVNULL)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        for _ in range(300):
            try:
                opener.open(f"{ADDRESS}/_stcore/health", timeout=2).close()
                break
            except OSError:
                time.sleep(0.1)
        yield
    finally:
        process.terminate()
        process.wait(timeout=20)


def settle(page: Page) -> None:
    """Waits for the end of the script's run and for what is drawn after it."""
    page.wait_for_timeout(400)
    page.wait_for_selector("[data-test-script-state=notRunning]")
    page.wait_for_timeout(_SETTLE_MILLISECONDS)


def take(page: Page, name: str) -> None:
    """Saves docs/NAME.png, with at most 256 colours so that it stays small."""
    page.goto(f"{ADDRESS}/{PICTURES[name]}")
    settle(page)
    picture = Image.open(io.BytesIO(page.screenshot()))
    picture.convert("RGB").quantize(256).save(DOCS / f"{name}.png", optimize=True)


def animate(page: Page) -> None:
    """Saves docs/curve_to_token.gif: a click on a curve, a click on a token, the token in its text."""
    frames: list[tuple[Image.Image, int]] = []

    def frame(milliseconds: int) -> None:
        shot = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
        frames.append((shot.resize(_FRAME_SIZE, Image.Resampling.LANCZOS), milliseconds))

    page.goto(f"{ADDRESS}/?run=grpo_arithmetic&step=150")
    settle(page)
    frame(1500)
    _point_at_step(page, 97)
    frame(1200)
    page.mouse.down()
    page.mouse.up()
    settle(page)
    frame(2200)
    token = page.get_by_role("button", name=re.compile("Open token 6"))
    token.hover()
    frame(900)
    token.click()
    page.locator(".reader .fact-line").wait_for()
    settle(page)
    frame(3500)
    pictures = [shot.quantize(_COLOURS) for shot, _ in frames]
    pictures[0].save(
        DOCS / f"{ANIMATION}.gif",
        save_all=True,
        append_images=pictures[1:],
        duration=[milliseconds for _, milliseconds in frames],
        loop=0,
        optimize=True,
    )


def _point_at_step(page: Page, step: int) -> None:
    """Moves the pointer to a step of the curve of KL, whose title names the step under the pointer."""
    plot = page.locator(".curves .u-over").nth(_KL_CURVE)
    readout = page.locator(".curves .card").nth(_KL_CURVE).locator(".readout span").first
    box = plot.bounding_box()
    assert box is not None
    left, right = 0.0, 1.0
    for _ in range(20):
        share = (left + right) / 2
        page.mouse.move(box["x"] + share * box["width"], box["y"] + box["height"] / 2, steps=2)
        page.wait_for_timeout(100)
        result = re.search(r"step (\d+)", readout.inner_text())
        if result is None or int(result[1]) == step:
            return
        left, right = (share, right) if int(result[1]) < step else (left, share)


def main(arguments: Sequence[str] | None = None) -> None:
    """Takes the pictures that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*PICTURES, ANIMATION, []])
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    options = parser.parse_args(arguments)
    names = options.names or [*PICTURES, ANIMATION]
    with server(), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=options.chromium, args=list(_FLAGS))
        context = browser.new_context(
            viewport={"width": SIZE[0], "height": SIZE[1]}, color_scheme="dark"
        )
        for name in names:
            page = context.new_page()
            page.set_default_timeout(60_000)
            animate(page) if name == ANIMATION else take(page, name)
            page.close()
        browser.close()


if __name__ == "__main__":
    main()
