"""No page breaks a rule of axe, with any of three kinds of log, in the light and in the dark."""

from collections.abc import Iterator
from pathlib import Path

import axe_playwright_python
import pytest
from board_steps import board_on, settled
from playwright.sync_api import Page, expect
from three_logs import OPENED, RUNS, pages_and_parts, three_logs

pytestmark = pytest.mark.browser

AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text("utf-8")
BROKEN = """(rules) => axe.run(document, {resultTypes: ["violations"], ...rules}).then((found) =>
  found.violations.flatMap(({id, nodes}) => nodes.map((node) => [id, node.target.flat().at(-1),
    node.html.slice(0, 160), node.any[0]?.data?.contrastRatio ?? ""].join(" | "))))"""
DARK = {"runOnly": ["color-contrast"]}
"""All other rules are the same in both."""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return three_logs(tmp_path_factory.mktemp("accessible"))


@pytest.fixture
def reduced(page: Page) -> Iterator[Page]:
    """A page without movement, whose colours are the final ones at once."""
    page.emulate_media(reduced_motion="reduce")
    yield page
    page.emulate_media(reduced_motion="no-preference", color_scheme="light")


@pytest.mark.parametrize("run", RUNS)
def test_no_page_breaks_a_rule_of_axe(reduced, serve, root, run):
    page, broken = reduced, []
    for address in (*pages_and_parts(), *OPENED):
        page.emulate_media(color_scheme="light")
        page.goto(f"{board_on(serve, root)}/{address}&run={run}")
        expect(page.get_by_test_id("stMain").locator("h3").first).to_be_visible()
        settled(page)
        page.evaluate(AXE)
        for scheme, rules in (("light", {}), ("dark", DARK)):
            if scheme == "dark" and run != "tokens":
                continue  # no colour is of these logs alone
            page.emulate_media(color_scheme=scheme)
            settled(page)
            # What a script run has yet to draw again is pale until then.
            expect(page.locator("[data-stale=true]")).to_have_count(0)
            lines = page.evaluate(BROKEN, rules)
            broken += [f"{address} in the {scheme}: {line}" for line in lines]
    assert [line for line in broken if not _is_of_streamlit(line)] == []


@pytest.mark.parametrize("address", ["rollouts?index=0", "compare?", "step?"])
def test_nothing_that_a_button_opens_breaks_a_rule_of_axe(reduced, serve, root, address):
    page, broken = reduced, []
    page.goto(f"{board_on(serve, root)}/{address}&run=tokens")
    settled(page)
    page.evaluate(AXE)
    openers = page.get_by_test_id("stPopover").get_by_role("button").all()
    # Beside the list of rollouts the sidebar is folded.
    shown = [opener for opener in openers if (opener.bounding_box() or {"x": -1})["x"] >= 0]
    assert len(shown) > 1
    for opener in shown:
        opener.click()
        expect(page.get_by_test_id("stPopoverBody")).to_be_visible()
        settled(page)
        broken += [f"{opener.inner_text()}: {line}" for line in page.evaluate(BROKEN, {})]
        page.keyboard.press("Escape")
        expect(page.get_by_test_id("stPopoverBody")).to_have_count(0)
    assert [line for line in broken if not _is_of_streamlit(line)] == []


def _is_of_streamlit(line: str) -> bool:
    """The box of st.code with a height has no tabindex; browsers give it the focus still. The area of
    st.file_uploader has a role of its own and a label.
    """
    is_code = "scrollable-region-focusable" in line and '[height="190px"]' in line
    return is_code or ("presentation-role-conflict" in line and "stFileUploaderDropzone" in line)
