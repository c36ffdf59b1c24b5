"""The button Export: on every page, and what it downloads is what the page shows."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
from page_elements import PAGES
from test_runs import filled

Downloads = list[tuple[str, Callable[[], bytes]]]


@pytest.fixture
def downloads(monkeypatch: pytest.MonkeyPatch) -> Downloads:
    """The name and the maker of each page that a button was drawn for."""
    drawn: Downloads = []

    def button(label: str, *, data: Any, file_name: str, **options: Any) -> bool:
        if label == "HTML page":
            assert options["on_click"] == "ignore"
            drawn.append((file_name, data))
        return False

    monkeypatch.setattr(st, "download_button", button)
    return drawn


WORDS = {
    "overview": "Overview of native",
    "env": "Overview of native",
    "findings": "Findings of native",
    "failures": "Failures of native",
    "health": "Log health of native",
    "step": "Step 35 of native",
    "groups": "Step 35 of native",
    "rollouts": "Rollouts of native",
    "words": "Words of native",
    "winners": "Winners and losers of native",
    "prompts": "Prompts of native",
    "mismatch": "Mismatch of sampler and trainer in native, step 35",
    "compare": "native against rllb",
    "labels": "Labels of native",
    "rollout": "Step 35, rollout 0 of native",
}


@pytest.mark.parametrize("page", PAGES)
def test_every_page_and_part_offers_what_it_shows(open_app, logs, downloads, page):
    open_app(logs, page, run="native", words_phrases="step")
    name, make = downloads[-1]
    assert name.startswith("native_")
    assert name.endswith(".html")
    file = make().decode()
    assert f"<h1>{WORDS[page]}" in file
    assert file.endswith("</html>\n")


def test_a_comparison_is_exported_as_one(open_app, logs, downloads):
    open_app(logs, "rollout", run="native", reader_vs="1")
    assert "Step 35, rollout 0 of native against step 35, rollout 1" in downloads[-1][1]().decode()


def test_the_table_of_runs_is_exported(open_app, logs, downloads):
    app = open_app(logs, "runs")
    assert {"native", "rllb", "texts"} <= {*re.findall(r"\w+", downloads[-1][1]().decode())}
    filled(app)
    name, make = downloads[-1]
    assert name == "runs.html"
    file = make().decode()
    assert "Not read yet" not in file
    assert "<td>native</td><td>Rollout Board</td><td class=r>4</td><td class=r>32</td>" in file


def test_what_is_to_be_removed_is_not_in_the_file(open_app, logs, downloads):
    app = open_app(logs, "rollout", run="native")
    (field,) = (one for one in app.text_input if one.label == "Remove")
    field.set_value("native").run()
    name, make = downloads[-1]
    assert name == "redacted_step35_rollout0.html"
    file = make().decode()
    assert "native" not in file
    assert "redacted." in file
    field.set_value("(").run()
    assert any("is no regular expression" in error.value for error in app.error)


def test_what_cannot_be_read_any_more_is_said_in_the_file(
    open_app, logs, downloads, tmp_path: Path
):
    shutil.copytree(logs / "texts", tmp_path / "texts")
    open_app(tmp_path, "rollout", run="texts")
    for log in (tmp_path / "texts").glob("*.jsonl"):
        log.unlink()
    assert "can't be exported" in downloads[-1][1]().decode()
