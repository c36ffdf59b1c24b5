"""Every file that a page offers is downloaded and is what it says: a table, JSON, a page."""

import io
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
from board_steps import board_on, settled
from playwright.sync_api import Download, Locator, Page, expect
from three_logs import RUNS, three_logs

from board.views.shared.pages import PAGES

pytestmark = pytest.mark.browser


def page_of(content: bytes) -> int:
    """How many rollouts a page has: sections of a static one, entries of the reader."""
    text = content.decode("utf-8")
    HTMLParser().feed(text)
    assert text.rstrip().endswith("</html>")
    return len({*re.findall(r'id="?r(\d+)-(?:tokens|text)"', text)} or re.findall("<section", text))


def lines_of(content: bytes) -> int:
    return len([json.loads(line) for line in content.split(b"\n") if line])


OPENED: dict[str, Callable[[bytes], int]] = {
    "csv": lambda content: len(pd.read_csv(io.BytesIO(content))),
    "parquet": lambda content: pq.read_table(io.BytesIO(content)).num_rows,
    "html": page_of,
    "json": lambda content: len(json.loads(content)),
    "jsonl": lines_of,
}
"""By the ending of a name what opens the file, and says how many it has."""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return three_logs(tmp_path_factory.mktemp("downloads"))


def open_export(page: Page) -> Locator:
    expect(page.get_by_test_id("stMain").locator("h3").first).to_be_visible()
    settled(page)
    page.get_by_role("button", name="Export", exact=True).click()
    panel = page.get_by_test_id("stPopoverBody")
    expect(panel.get_by_text("Redact")).to_be_visible()
    settled(page)
    return panel


def downloads_of(page: Page, panel: Locator) -> list[tuple[str, int]]:
    """Downloads each file that Export offers; its label, and how many it has."""
    buttons = panel.get_by_test_id("stDownloadButton").get_by_role("button")
    found: list[tuple[str, int]] = []
    for n in range(buttons.count()):
        button = buttons.nth(n)
        if not button.is_enabled():
            continue
        with page.expect_download() as download:
            button.click()
        found.append((button.inner_text(), opened(download.value)))
        settled(page)
        assert panel.get_by_test_id("stAlert").count() == 0
    return found


def opened(download: Download) -> int:
    content = Path(download.path()).read_bytes()
    assert content
    return OPENED[download.suggested_filename.rpartition(".")[2]](content)


@pytest.mark.parametrize("run", RUNS)
def test_every_file_that_the_list_offers_has_the_rollouts_that_it_says(page, serve, root, run):
    page.goto(f"{board_on(serve, root)}/rollouts?run={run}")
    panel = open_export(page)
    count = int(re.search(r"As listed (\d+)", panel.inner_text())[1])
    files = dict(downloads_of(page, panel))
    assert files["CSV"] == files["Parquet"] == files["JSON lines"] == count
    assert files["Interactive reader"] == min(count, 20)
    assert 0 < files["SFT"] <= count
    assert files.get("DPO", 1) > 0


@pytest.mark.parametrize("name", [one.name for one in PAGES if one.name != "rollouts"])
def test_every_file_that_a_page_offers_can_be_downloaded(page, serve, root, name):
    name = "" if name == "overview" else name
    page.goto(f"{board_on(serve, root)}/{name}?run=tokens&step=97")
    files = downloads_of(page, open_export(page))
    assert "HTML page" in dict(files)
