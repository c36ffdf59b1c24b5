"""The button Export: on every page, and what it downloads is what the page shows."""

import io
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pyarrow.parquet as pq
import pytest
import streamlit as st
import written_logs
from page_elements import PAGES, OpenApp, texts
from streamlit.testing.v1 import AppTest
from test_runs import filled
from test_runs import table as runs_table

from board.core.metrics.definitions import rollout_metric
from board.errors import BoardError
from board.views.runs.summaries import RunSummaries
from board.views.shared import rollout_files
from board.views.shared.file_jobs import FileJob


class Button(NamedTuple):
    """A button for a download."""

    job: FileJob
    disabled: bool

    def made(self) -> tuple[str, bytes]:
        """The name of the file, and what is in it."""
        made = self.job.task.finish()
        return self.job.name(made), made.data

    def data(self) -> bytes:
        """What is in the file."""
        return self.made()[1]


Downloads = dict[str, Button]


@pytest.fixture
def downloads(monkeypatch: pytest.MonkeyPatch) -> Downloads:
    """By its key the button that was drawn last."""
    drawn: Downloads = {}

    draw = st.button

    def button(label: str, *, key: str, **options: Any) -> bool:
        if key.startswith("export_") and "args" in options:
            (job,) = options["args"]
            drawn[key.removeprefix("export_")] = Button(job, options["disabled"])
        return draw(label, key=key, **options)

    monkeypatch.setattr(st, "button", button)
    return drawn


@pytest.fixture
def open_export(open_app: OpenApp, downloads: Downloads) -> OpenApp:
    """`open_app` with what Export opens."""

    def start(logs: Path, page: str, /, **query: str) -> AppTest:
        app = open_app(logs, page, **query)
        app.session_state["export"] = True
        downloads.clear()
        return app.run()

    return start


WORDS = {
    "overview": "Overview of native",
    "env": "Overview of native",
    "findings": "Findings of native",
    "failures": "Failures of native",
    "health": "Log health of native",
    "step": "Step 35 of native",
    "groups": "Step 35 of native",
    "words": "Words of native",
    "winners": "Winners and losers of native",
    "prompts": "Prompts of native",
    "mismatch": "Mismatch of sampler and trainer in native, step 35",
    "compare": "native against ",
    "labels": "Labels of native",
    "rollout": "Step 35, rollout 0 of native",
}


@pytest.mark.parametrize("page", [page for page in PAGES if page != "rollouts"])
def test_every_page_and_part_offers_what_it_shows(open_export, logs, downloads, page):
    open_export(logs, page, run="native", words_phrases="step")
    name, content = downloads["page_html"].made()
    assert re.fullmatch(r"native_steps?\d+(-\d+)?_[\w-]+_[0-9a-f]{8}\.html", name)
    file = content.decode()
    assert f"<h1>{WORDS[page]}" in file
    assert file.endswith("</html>\n")


@pytest.mark.parametrize("page", PAGES)
def test_every_page_offers_rollouts_in_every_form(open_export, logs, downloads, page):
    open_export(logs, page, run="native")
    forms = {f"rollouts_{form.label}" for forms in rollout_files.FORMS.values() for form in forms}
    assert forms <= downloads.keys()


def test_nothing_is_prepared_before_export_is_opened(open_app, logs, downloads):
    open_app(logs, "rollouts", run="native")
    assert downloads == {}


def test_a_comparison_is_exported_as_one(open_export, logs, downloads):
    open_export(logs, "rollout", run="native", reader_vs="1")
    page = downloads["page_html"].data().decode()
    assert "Step 35, rollout 0 of native against step 35, rollout 1" in page


def test_the_table_of_runs_is_exported(open_export, logs, downloads):
    app = open_export(logs, "runs")
    page = downloads["page_html"].data().decode()
    assert {"native", "rllb", "texts"} <= {*re.findall(r"\w+", page)}
    filled(app)
    name, content = downloads["page_html"].made()
    assert re.fullmatch(rf"{logs.name}_runs_[0-9a-f]{{8}}\.html", name)
    file = content.decode()
    assert "Not read yet" not in file
    (row,) = re.findall("<tr><td>native</td>.*?</tr>", file)
    assert {"Rollout Board", "4", "32"} <= {*re.findall("<td[^>]*>([^<]*)</td>", row)}
    assert re.search(r"Numbers as of \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\.", file)


def test_a_step_is_exported_with_what_contributes_to_the_metric_that_its_page_begins_with(
    open_export, logs, downloads
):
    open_export(logs, "step", run="native")
    name, content = downloads["page_html"].made()
    assert "_page_k3_mean_" in name
    assert f"What contributes to {rollout_metric('k3_mean').label}" in content.decode()


def test_an_export_of_runs_says_how_much_older_the_numbers_of_growing_logs_are(
    open_export, logs, downloads, monkeypatch
):
    monkeypatch.setattr(RunSummaries, "behind", lambda self, infos: 90.0 * (len(infos) > 2))
    filled(open_export(logs, "runs"))
    file = downloads["page_html"].data().decode()
    assert " UTC; of logs that have grown since they were read, up to 2 min older." in file


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ({"runs_search": "tex"}, ["texts"]),
        ({"runs_search": "rollouts > 20"}, ["native"]),
        ({"runs_format": "Rollout Board", "runs_sort": "name", "runs_desc": "0"}, None),
        ({"runs_sort": "steps", "runs_desc": "1"}, None),
    ],
)
def test_the_runs_that_are_exported_are_those_of_the_page(
    open_export, logs, downloads, query, names
):
    app = filled(open_export(logs, "runs", **query))
    drawn = runs_table(app)
    file = downloads["page_html"].data().decode()
    listed = re.findall("<tr><td>([^<]*)</td>", file)
    assert sorted(listed) == sorted(drawn["rows"][place]["label"] for place in drawn["visible"])
    assert names in (None, listed)
    heads = re.findall("<th[^>]*>([^<]*)</th>", file)
    assert len(heads) == len(drawn["columns"])
    if len(listed) < len(drawn["rows"]):
        assert f"{len(listed)} of {len(drawn['rows'])} runs" in file
        assert next(iter(query.values())).replace(">", "&gt;") in file
    if query.get("runs_sort") == "steps":
        steps = {row["label"]: row["cells"]["steps"]["sort"] for row in drawn["rows"]}
        assert [steps[name] for name in listed] == sorted(steps.values(), reverse=True)


def rows_of(downloads: Downloads) -> dict[str, int]:
    """How many rollouts each form has that is offered."""
    made = {
        name.removeprefix("rollouts_"): button.data()
        for name, button in downloads.items()
        if name.startswith("rollouts_") and not button.disabled
    }
    counts = {
        "HTML page": lambda data: data.decode().count("<section id=r"),
        "Interactive reader": lambda data: data.decode().count("-text") or -1,
        "CSV": lambda data: len(pd.read_csv(io.BytesIO(data))),
        "Parquet": lambda data: pq.read_table(io.BytesIO(data)).num_rows,
        "JSON lines": lambda data: len([json.loads(line) for line in data.splitlines()]),
        "SFT": lambda data: len([json.loads(line) for line in data.splitlines()]),
    }
    return {name: counts[name](data) for name, data in made.items() if name in counts}


def test_tables_have_all_rollouts_of_the_list_and_no_others(open_export, logs, downloads):
    open_export(logs, "rollouts", run="native", rollouts_scope="run", where="index < 3")
    counts = rows_of(downloads)
    assert counts["CSV"] == counts["Parquet"] == counts["JSON lines"] == 4 * 3


def test_so_many_are_exported_as_are_asked_for_the_first_of_the_list(open_export, logs, downloads):
    app = open_export(logs, "rollouts", run="native", rollouts_scope="run", sort="reward", desc="1")
    (field,) = (one for one in app.number_input if one.label == "At most")
    field.set_value(5).run()
    assert "the first 5 of 32" in texts(app)
    rows = pd.read_csv(io.BytesIO(downloads["rollouts_CSV"].data()))
    best = pq.read_table(io.BytesIO(downloads["rollouts_Parquet"].data())).to_pandas()
    everything = pd.read_json(downloads_of_all(app, downloads), lines=True)
    assert rows["reward"].tolist() == pytest.approx(best["reward"].tolist())
    assert best["reward"].tolist() == pytest.approx(everything["reward"].nlargest(5).tolist())


def downloads_of_all(app: AppTest, downloads: Downloads) -> io.BytesIO:
    (field,) = (one for one in app.number_input if one.label == "At most")
    field.set_value(None).run()
    return io.BytesIO(downloads["rollouts_JSON lines"].data())


def test_a_form_that_cannot_be_made_is_disabled_and_says_why(open_export, tmp_path, downloads):
    rows = [
        {"step": 1, "group_id": "g", "prompt": "Q", "response": f"r{n}", "reward": 1.0}
        for n in range(4)
    ]
    written_logs.write_lines(tmp_path / "equal" / "a.jsonl", rows)
    written_logs.write_lines(tmp_path / "bare" / "a.jsonl", [{"step": 1, "response": "r"}] * 2)
    app = open_export(tmp_path, "rollouts", run="equal")
    assert downloads["rollouts_DPO"].disabled
    assert "No DPO: no group has a pair: all rewards are equal." in texts(app).replace("\\", "")
    app = open_export(tmp_path, "rollouts", run="bare")
    assert downloads["rollouts_SFT"].disabled
    words = texts(app).replace("\\", "")
    assert "No SFT: no prompt is recorded." in words
    assert "No DPO: no rewards and no groups are recorded." in words
    assert not downloads["rollouts_CSV"].disabled


def test_what_is_to_be_removed_is_not_in_the_file_and_others_are_not_offered(
    open_export, logs, downloads
):
    app = open_export(logs, "rollout", run="native")
    (field,) = (one for one in app.text_input if one.label == "Redact")
    field.set_value("native").run()
    name, content = downloads["page_html"].made()
    assert re.fullmatch(r"redacted_step35_rollout0_[0-9a-f]{8}\.html", name)
    file = content.decode()
    assert "native" not in file
    assert "redacted." in file
    assert not downloads["rollouts_HTML page"].disabled
    offered = [name for name, button in downloads.items() if not button.disabled]
    assert {*offered} == {"page_html", "rollouts_HTML page"}
    field.set_value("(").run()
    assert any("is no regular expression" in error.value for error in app.error)


def test_why_a_file_cannot_be_made_is_said_where_it_was_asked_for(
    open_export, logs, downloads, tmp_path: Path
):
    shutil.copytree(logs / "texts", tmp_path / "texts")
    app = open_export(tmp_path, "rollout", run="texts")
    for log in (tmp_path / "texts").glob("*.jsonl"):
        before = log.stat()
        log.write_bytes(b"x" * before.st_size)
        os.utime(log, ns=(before.st_atime_ns, before.st_mtime_ns))  # so that no page sees a change
    button = downloads["page_html"]
    app.button(key="export_page_html").click().run()
    with pytest.raises(BoardError):
        button.data()
    (error,) = [one.value for one in app.error if "HTML page" in one.value]
    assert "No HTML page: texts.jsonl:" in error.replace("\\", "")


def test_a_file_too_large_for_a_browser_says_what_to_do(open_export, logs, downloads, monkeypatch):
    monkeypatch.setattr(rollout_files, "LARGEST_BYTES", 100)
    app = open_export(logs, "rollouts", run="native", rollouts_scope="run", where="index < 3")
    button = downloads["rollouts_JSON lines"]
    app.button(key="export_rollouts_JSON lines").click().run()
    with pytest.raises(BoardError, match="larger than"):
        button.data()
    words = " ".join(error.value for error in app.error).replace("\\", "")
    assert "choose fewer rollouts" in words
    assert re.search(r"rollout-board export \S+native --as jsonl .* --where '\(index < 3\)'", words)


def test_what_became_of_a_file_is_said(open_export, logs, downloads):
    app = open_export(logs, "rollouts", run="native")
    app.button(key="export_rollouts_SFT").click().run()
    words = texts(app).replace("\\", "")
    assert re.search(r"SFT, .*conversations: 6.*; rollouts left out: 2, ended by a limit", words)
