"""Every file that a page offers is downloaded and is what it says: a table, JSON, a page.

Of the log with tokens on every page and part; of the logs of texts and of agents on the list, and on the
pages that have something else to say of them: Overview, Failures and Groups. A file of the same rollouts,
which several pages offer, is downloaded on the first of them.
"""

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
from three_logs import ELSEWHERE, RUNS, pages_and_parts, three_logs
from waits import until

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
NAME = re.compile(
    r"(?:downloads0_runs|(?:tokens|texts|agents)_steps?\d+(?:-\d+)?_[\w-]+)_[0-9a-f]{8}\.\w+"
)
"""What a file is called: the run, the steps, what it is, and a digest of its content."""


Files = dict[tuple[str, str], int]
"""How many a file has, by what it is of ("page" or the rollouts in words) and the label of its button."""


CONTENTS: dict[str, bytes] = {}
"""Of all files that any page gave, by their names."""


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


def download_all(page: Page, panel: Locator, files: Files) -> None:
    """Downloads what the panel offers and is not among the files yet, and adds it to them."""
    chosen = panel.get_by_role("radio", checked=True)
    rollouts = chosen.inner_text() if chosen.count() else ""
    for prefix, subject in (("page", "page"), ("rollouts", rollouts)):
        buttons = panel.locator(f"[class*='st-key-export_{prefix}_']").get_by_role("button")
        for button in buttons.all():
            named = (subject, button.inner_text())
            if button.is_enabled() and named not in files:
                files[named] = downloaded(page, panel, button)


def downloaded(page: Page, panel: Locator, button: Locator) -> int:
    """How many a file has. None where it can't be made, which the panel says in words."""
    label = button.inner_text()
    contents: list[Download] = []
    page.once("download", lambda download: contents.append(download))
    button.click()
    refused = panel.get_by_text(f"No {label}: there is nothing to write")
    until(page, f"{label} on {page.url}", lambda: contents or refused.count())
    if not contents:
        return 0
    expect(panel.get_by_text(re.compile(rf"{label}, [0-9.]+ .?B")).last).to_be_visible()
    content, name = Path(contents[0].path()).read_bytes(), contents[0].suggested_filename
    assert NAME.fullmatch(name)
    assert CONTENTS.setdefault(name, content) == content
    return OPENED[name.rpartition(".")[2]](content)


@pytest.mark.parametrize("run", RUNS)
def test_every_file_that_the_list_offers_has_the_rollouts_that_it_says(page, serve, root, run):
    page.goto(f"{board_on(serve, root)}/rollouts?run={run}")
    panel, files = open_export(page), Files()
    download_all(page, panel, files)
    counted = re.search(r"As listed (\d+)", panel.inner_text())
    assert counted is not None
    count = int(counted[1])
    assert {subject for subject, _ in files} == {f"As listed {count}"}
    has = {label: number for (_, label), number in files.items()}
    assert has["CSV"] == has["Parquet"] == has["JSON lines"] == count
    assert has["Interactive reader"] == has["HTML page"] == min(count, 20)
    # Of the agents' rollouts four hold images, and the others failed outside the policy or at a limit.
    assert has["SFT"] <= count
    assert has["SFT"] > 0 or run == "agents"


@pytest.mark.parametrize("run", RUNS)
def test_every_file_that_a_page_offers_can_be_downloaded(page, serve, root, run):
    files = Files()
    for address in pages_and_parts() if run == "tokens" else ELSEWHERE:
        page.goto(f"{board_on(serve, root)}/{address}&run={run}")
        files.pop(("page", "HTML page"), None)
        download_all(page, open_export(page), files)


def test_a_file_that_was_made_is_there_however_late_it_is_fetched(page, serve, root):
    board = board_on(serve, root)
    page.goto(f"{board}/rollouts?run=tokens")
    panel = open_export(page)
    with page.expect_download() as saved:
        panel.get_by_role("button", name="CSV", exact=True).click()
    content = Path(saved.value.path()).read_bytes()
    other = page.context.new_page()
    for run in RUNS:  # each a run of the script, which cleans up after itself
        other.goto(f"{board}/findings?run={run}")
        settled(other)
    other.close()
    late = page.request.get(saved.value.url)
    assert (late.status, late.body()) == (200, content)


def test_files_that_are_asked_for_one_after_the_other_are_all_saved(page, serve, root):
    page.goto(f"{board_on(serve, root)}/rollouts?run=tokens")
    panel = open_export(page)
    names: list[str] = []
    page.on("download", lambda download: names.append(download.suggested_filename))
    for label in ("CSV", "JSON lines", "Parquet"):
        panel.get_by_role("button", name=label, exact=True).click()
    until(page, "three files", lambda: len(names) == 3)
    assert {name.rpartition(".")[2] for name in names} == {"csv", "jsonl", "parquet"}


@pytest.mark.parametrize("leave", ["close", "page"])
def test_a_file_arrives_though_the_reader_goes_elsewhere_while_it_is_made(page, serve, root, leave):
    page.goto(f"{board_on(serve, root)}/rollouts?run=tokens&rollouts_scope=run")
    panel, names = open_export(page), list[str]()
    page.on("download", lambda download: names.append(download.suggested_filename))
    panel.get_by_role("button", name="Interactive reader", exact=True).click()
    panel.get_by_role("button", name="Parquet", exact=True).click()
    expect(panel.get_by_text(re.compile("Making Parquet|Parquet, "))).to_be_visible()
    if leave == "close":
        page.keyboard.press("Escape")
        expect(panel).to_have_count(0)
    else:
        page.get_by_role("link", name="Prompts").click()
    until(page, "two files", lambda: len(names) == 2)
    assert {name.rpartition(".")[2] for name in names} == {"html", "parquet"}


@pytest.mark.parametrize(("opener", "words"), [("Export", "Redact"), ("Views", "Save what")])
def test_a_tab_opens_its_page_though_a_panel_is_open(page, serve, root, opener, words):
    page.goto(f"{board_on(serve, root)}/rollouts?run=tokens")
    expect(page.get_by_test_id("stMain").locator("h3").first).to_be_visible()
    settled(page)
    page.get_by_role("button", name=opener).click()
    expect(page.get_by_test_id("stPopoverBody").get_by_text(words)).to_be_visible()
    settled(page)
    page.get_by_role("link", name="Prompts").click()
    expect(page.get_by_role("textbox", name="Search prompts")).to_be_visible()
    settled(page)
    expect(page).to_have_url(re.compile("/prompts"))
    expect(page.locator(".st-key-export_place")).to_be_visible()
