"""Runs: the table of all runs of a folder, and what opens where."""

import json
import os
import threading
import time
import zlib
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
import written_logs
from page_elements import assert_sound, choice, components, query
from streamlit.testing.v1 import AppTest
from test_frame import links
from written_logs import age, native_run, native_sample, write_lines

from board.analysis.findings import default_thresholds, diagnose
from board.analysis.reviewed_findings import set_muted
from board.errors import UnreadableError
from board.index.discovery.discovered_runs import discover
from board.query.open_run import open_run
from board.views.runs import summaries

CONFIGS = {"low": {"lr": 1e-6, "seed": 0}, "high": {"lr": 3e-6, "seed": 0}}


@pytest.fixture(autouse=True)
def new_process(tmp_path, monkeypatch):
    """No test knows the summaries of another."""
    monkeypatch.setenv("ROLLOUT_BOARD_CACHE", str(tmp_path.parent / f"{tmp_path.name}-cache"))
    st.cache_resource.clear()


def write_two(root: Path, per_rank: int) -> Path:
    """Two runs whose configs differ in one key, the newest first: high, low."""
    for name, config in CONFIGS.items():
        native_run(root / name, per_rank=per_rank)
        (root / name / "run-z.json").write_text(json.dumps({"config": config}))
    age(root / "low", 7200)
    age(root / "high", 3600)
    return root


@pytest.fixture
def two(tmp_path) -> Path:
    """The two runs, which nobody has read yet."""
    return write_two(tmp_path, 1)


@pytest.fixture(scope="module")
def written_once(tmp_path_factory) -> Path:
    return write_two(tmp_path_factory.mktemp("known") / "runs", 4)


@pytest.fixture
def known(written_once, monkeypatch) -> Path:
    """The same for all tests that only read them: they have been read before, and are in the cache."""
    monkeypatch.setenv("ROLLOUT_BOARD_CACHE", str(written_once.parent / "cache"))
    return written_once


def table(app: AppTest) -> dict[str, Any]:
    """What the table was sent."""
    (sent,) = components(app, "run_table")
    return json.loads(zlib.decompress(sent.bytes))


def rows(app: AppTest) -> dict[str, dict[str, Any]]:
    """The rows that are shown, by the name of their run."""
    sent = table(app)
    return {sent["rows"][n]["name"]: sent["rows"][n] for n in sent["visible"]}


def groups(app: AppTest) -> dict[str, dict[str, int]]:
    """The filters by their title: how many runs have each value."""
    (sent,) = components(app, "run_filters")
    shown = json.loads(sent.json)["groups"]
    return {one["title"]: {o["value"]: o["count"] for o in one["options"]} for one in shown}


def filled(app: AppTest) -> AppTest:
    """The page once every run has its summary, or says why it has none."""
    for _ in range(200):
        if not any(row["waits"] for row in table(app)["rows"]):
            return app
        time.sleep(0.05)
        app.run()
    raise AssertionError("never filled")


def test_a_folder_of_several_runs_opens_on_all_of_them(open_app, known):
    app = filled(open_app(known, "runs"))
    assert [*rows(app)] == ["high", "low"]
    assert links(app)["Overview"].query_string.startswith("run=high&step=")
    app = open_app(known)  # the root address, without a run
    assert "run_table" in "".join(one.component_name for one in components(app))
    assert "run" not in query(app)


def test_a_link_with_a_run_opens_that_run_at_the_root_address(open_app, known):
    app = open_app(known, run="low")
    assert app.subheader[0].value == "low"
    assert components(app, "run_table") == []


def test_a_folder_of_one_run_opens_on_its_overview(open_app, known):
    app = open_app(known / "high")
    assert app.subheader[0].value == "high"
    assert "Runs" not in {link.proto.label for link in app.get("page_link")}


def test_a_run_that_is_not_indexed_is_a_skeleton_until_it_is(open_app, two, monkeypatch):
    may_go_on, real = threading.Event(), summaries.summarised

    def summarised(*args):
        assert may_go_on.wait(30)
        return real(*args)

    monkeypatch.setattr(summaries, "summarised", summarised)
    app = open_app(two, "runs")
    assert {name: row["state"] for name, row in rows(app).items()} == {
        "high": "reading",
        "low": "waiting",
    }
    assert {*rows(app)["low"]["cells"]} == {"format", "changed"}
    assert groups(app)["State"] == {"waiting": 2}
    may_go_on.set()
    own = rows(filled(app))["low"]
    assert own["cells"]["steps"]["text"] == "4"
    assert own["state"] == "stale"


def test_a_run_that_cannot_be_opened_says_so_in_its_row(open_app, two, monkeypatch):
    real = summaries.summarised

    def summarised(run, thresholds):
        if run.info.name == "low":
            raise UnreadableError("the disk is gone")
        if run.info.name == "high":
            return real(run, thresholds)
        raise AssertionError

    monkeypatch.setattr(summaries, "summarised", summarised)
    own = rows(filled(open_app(two, "runs")))
    assert (own["low"]["state"], own["low"]["error"]) == ("error", "the disk is gone")
    assert own["high"]["error"] == ""


def test_the_next_process_reads_what_the_last_one_kept(open_app, known, monkeypatch):
    before = rows(filled(open_app(known, "runs")))
    st.cache_resource.clear()
    monkeypatch.setattr(summaries, "summarised", lambda *_: pytest.fail("read again"))
    assert rows(open_app(known, "runs")) == before


def test_what_another_version_kept_is_not_shown(open_app, two, monkeypatch):
    filled(open_app(two, "runs"))
    st.cache_resource.clear()
    monkeypatch.setattr(summaries, "MADE_BY", "another version")
    assert all(row["waits"] for row in rows(open_app(two, "runs")).values())


def test_a_run_that_grew_is_read_again(open_app, two):
    filled(open_app(two, "runs"))
    write_lines(two / "low" / "more.jsonl", [native_sample(99, 0, n) for n in range(4)])
    st.cache_resource.clear()
    app = open_app(two, "runs")
    for _ in range(100):
        if rows(app)["low"]["cells"]["steps"]["text"] == "5":
            break
        time.sleep(0.05)
        app.run()
    assert rows(app)["low"]["cells"]["steps"]["text"] == "5"
    assert not rows(app)["low"]["is_old"]


def test_a_muted_finding_is_not_counted_in_the_table(open_app, two):
    truncated = [
        native_sample(step, 0, n) | {"finish_reason": "length"}
        for step in range(5, 40)
        for n in range(4)
    ]
    write_lines(two / "low" / "more.jsonl", truncated)
    before = rows(filled(open_app(two, "runs")))["low"]["cells"]["finding"]
    (info,) = (run for run in discover(two).runs if run.name == "low")
    diagnosis = diagnose(open_run(info), default_thresholds(), tokens=False)
    for one in (one for one in diagnosis.findings if one.title == before["text"]):
        set_muted(info, one, muted=True)
    after = rows(filled(open_app(two, "runs")))["low"]["cells"]["finding"]
    assert after["text"] != before["text"]
    for one in diagnosis.findings:
        set_muted(info, one, muted=True)
    app = filled(open_app(two, "runs"))
    assert "help" not in rows(app)["low"]["cells"]["finding"]
    assert groups(app)["Worst finding"]["none"] >= 1


def test_settings_that_differ_are_columns(open_app, known):
    sent = table(filled(open_app(known, "runs")))
    own = [one for one in sent["columns"] if one["name"].startswith("settings.")]
    assert [(one["label"], one["group"]) for one in own] == [("lr", "settings that differ")]
    cells = [row["cells"]["settings.config.lr"]["text"] for row in sent["rows"]]
    assert cells == ["3e-6", "1e-6"]


def test_chosen_columns_take_the_place_of_the_usual_ones(open_app, known):
    app = open_app(known, "runs", runs_columns="steps,settings.config.seed", runs_sort="steps")
    names = [column["name"] for column in table(filled(app))["columns"]]
    assert names == ["name", "steps", "settings.config.seed"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("hi", ["high"]),
        ("lr 3e-6", ["high"]),
        ("native", []),
        ("lr = 1e-6", ["low"]),
        ("reward > 0 and config.lr > 2e-6", ["high"]),
        ("state == stale", ["high", "low"]),
    ],
)
def test_a_search_is_of_words_or_of_an_expression(open_app, known, text, found):
    assert [*rows(filled(open_app(known, "runs", runs_search=text)))] == found


@pytest.mark.parametrize(("text", "count"), [("", "2"), ("hi", "1 of 2"), ("nothing", "0 of 2")])
def test_the_heading_counts_what_a_search_leaves(open_app, known, text, count):
    app = filled(open_app(known, "runs", runs_search=text))
    assert [one.value for one in app.subheader] == [f"Runs :gray[{count}]"]


def test_a_name_with_an_equals_sign_is_searched_as_text(open_app, two):
    (two / "low").rename(two / "grpo-lr=0.1")
    (two / "high").rename(two / "grpo-lr=0.1-seed=2")
    for text, found in (
        ("grpo-lr=0.1", {"grpo-lr=0.1", "grpo-lr=0.1-seed=2"}),
        ("lr=0.1-seed=2", {"grpo-lr=0.1-seed=2"}),
        ("grpo-lr=0.7", set()),
        ("lr=1e-6", {"grpo-lr=0.1"}),  # a filter
    ):
        app = filled(open_app(two, "runs", runs_search=text))
        assert ({*rows(app)}, table(app)["refused"]) == (found, "")


def test_an_expression_that_cannot_be_read_hides_nothing_and_says_why(open_app, known):
    app = filled(open_app(known, "runs", runs_search="lrr > 1"))
    assert [*rows(app)] == ["high", "low"]
    assert table(app)["refused"].count("did you mean lr") == 1


def test_filters_narrow_the_rows_and_count_all_runs(open_app, two):
    write_lines(two / "other" / "a.jsonl", [{"step": 1, "prompt": "p", "response": "r"}])
    app = filled(open_app(two, "runs", runs_state="stale"))
    assert [*rows(app)] == ["high", "low"]
    assert groups(app)["State"]["stale"] == 2
    assert sum(groups(app)["Format"].values()) == 3


def test_ticked_runs_say_in_which_settings_they_differ(open_app, known):
    app = filled(open_app(known, "runs", runs_ticked="low,high,gone"))
    sent = table(app)
    assert (sent["ticked"], sent["differ"]) == (["low", "high"], "differ in\nlr")
    assert choice(app, "runs_ticked") == ["low", "high"]


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({f"k{n:03}": 1 for n in range(401)}, "none of the first 400 settings differs"),
        ({"k": 1}, "no recorded setting differs"),
        ({}, "settings of 2 runs not recorded"),
    ],
)
def test_that_nothing_differs_is_said_only_where_all_was_compared(open_app, two, config, words):
    for name in CONFIGS:
        (two / name / "run-z.json").write_text(json.dumps(config))
    app = filled(open_app(two, "runs", runs_ticked="low,high"))
    assert table(app)["differ"].startswith(words)


def test_settings_of_a_run_that_is_not_read_are_not_called_unrecorded(open_app, two, monkeypatch):
    monkeypatch.setattr(summaries, "summarised", lambda *_: 1 / 0)
    app = filled(open_app(two, "runs", runs_ticked="low,high"))
    assert table(app)["differ"] == "settings of 2 runs not read\n"


def test_a_setting_that_is_a_text_in_some_runs_is_sorted_as_a_number_where_it_is_one(open_app, two):
    (two / "low" / "run-z.json").write_text('{"config": {"lr": "1e-6"}}')
    (two / "high" / "run-z.json").write_text('{"config": {"lr": 3e-6}}')
    native_run(two / "auto", per_rank=1)
    (two / "auto" / "run-z.json").write_text('{"config": {"lr": "auto"}}')
    own = rows(filled(open_app(two, "runs")))
    cells = {name: row["cells"]["settings.config.lr"]["sort"] for name, row in own.items()}
    assert cells == {"low": 1e-6, "high": 3e-6, "auto": "auto"}


def test_names_and_settings_of_a_log_travel_as_data(open_app, tmp_path):
    name = "<img src=x onerror=boo>__a"
    for one in (name, "b"):
        native_run(tmp_path / one, per_rank=1)
        config = {"config": {"<b>k</b>": f"<script>{one[:1]}</script>"}}
        (tmp_path / one / "run-z.json").write_text(json.dumps(config))
    app = filled(open_app(tmp_path, "runs"))
    assert name in rows(app)
    assert_sound(app)
    assert "onerror" not in "".join(str(one.value) for one in (*app.markdown, *app.caption))


def test_a_mean_says_over_how_many_rollouts_and_steps_it_is(open_app, known):
    cell = rows(filled(open_app(known, "runs")))["low"]["cells"]["reward"]
    assert "mean of steps 0–35" in cell["help"]
    assert "n = 32 rollouts" in cell["help"]


def test_what_is_not_recorded_is_said_and_sorted_last(open_app, tmp_path):
    native_run(tmp_path / "a", per_rank=1)
    written_logs.texts_only_run(tmp_path / "b")
    cell = rows(filled(open_app(tmp_path, "runs")))["b"]["cells"]["kl"]
    assert (cell["text"], cell["sort"]) == ("not recorded", None)


def test_a_folder_whose_name_is_no_text_costs_the_other_runs_nothing(open_app, two):
    (two / "low").rename(two / os.fsdecode(b"caf\xe9"))
    app = filled(open_app(two, "runs"))
    assert_sound(app)
    assert [row["error"] for row in rows(app).values()] == [""]
    captions = " ".join(caption.value for caption in app.caption).replace("\\", "")
    assert "not UTF-8; what it holds is not read: cafxe9" in captions
    (run,) = rows(app)
    assert_sound(open_app(two, "rollouts", run=run))


def write_seeds(root: Path) -> Path:
    """Two setups of three seeds each, and a run of another setup."""
    for lr in (1e-6, 3e-6):
        for seed in range(3):
            name = f"lr{lr:g}_seed{seed}"
            native_run(root / name, per_rank=1)
            config = {"lr": lr, "seed": seed, "output_dir": f"out/{name}", "model": "m"}
            (root / name / "run-z.json").write_text(json.dumps({"name": name, "config": config}))
    native_run(root / "alone", per_rank=1)
    (root / "alone" / "run-z.json").write_text(json.dumps({"config": {"lr": 1.0, "model": "m"}}))
    return root


@pytest.fixture(scope="module")
def seeds_once(tmp_path_factory) -> Path:
    return write_seeds(tmp_path_factory.mktemp("seeds") / "runs")


@pytest.fixture
def seeds(seeds_once, monkeypatch) -> Path:
    monkeypatch.setenv("ROLLOUT_BOARD_CACHE", str(seeds_once.parent / "cache"))
    return seeds_once


def members(app: AppTest) -> dict[str, set[str]]:
    """The names of the runs of each group, by its label."""
    sent = table(app)
    return {
        group["label"]: {sent["rows"][n]["name"] for n in group["members"]}
        for group in sent["groups"]
    }


def test_runs_that_differ_in_their_seed_alone_are_one_row(open_app, seeds):
    app = filled(open_app(seeds, "runs"))
    assert members(app) == {
        f"lr{lr}_seed*": {f"lr{lr}_seed{seed}" for seed in range(3)} for lr in ("1e-06", "3e-06")
    }
    own = table(app)["groups"][0]
    assert own["about"] == "3 seeds"
    assert "n = 3 runs" in own["cells"]["reward"]["help"]
    assert own["cells"]["settings.config.seed"]["text"] == "0 … 2"


def test_a_link_says_that_seeds_are_not_folded(open_app, seeds):
    app = filled(open_app(seeds, "runs", runs_fold="0"))
    assert table(app)["groups"] == []
    assert len(rows(app)) == 7
    (switch,) = app.toggle
    switch.set_value(True).run()
    assert "runs_fold" not in query(app)
    assert len(members(app)) == 2


def test_a_group_is_of_the_runs_that_pass_the_filter(open_app, seeds):
    app = filled(open_app(seeds, "runs", runs_search="seed < 2 and lr < 2e-6"))
    assert members(app) == {"lr1e-06_seed*": {"lr1e-06_seed0", "lr1e-06_seed1"}}
    assert "say nothing of their spread" in table(app)["groups"][0]["cells"]["reward"]["help"]


def test_nothing_offers_to_fold_where_no_run_repeats_another(open_app, known):
    app = filled(open_app(known, "runs"))
    assert table(app)["groups"] == []
    assert not app.toggle


def test_a_column_of_equal_values_is_said_once(open_app, seeds):
    app = filled(open_app(seeds, "runs"))
    names = {column["name"] for column in table(app)["columns"]}
    assert not names & {"format", "steps", "rollouts"}
    (said,) = (one.value for one in app.caption if one.value.startswith("All runs"))
    assert "format Rollout Board" in said
    assert "model m" in said
    app = filled(open_app(seeds, "runs", runs_columns="steps", runs_sort="rollouts"))
    assert {"steps", "rollouts"} <= {column["name"] for column in table(app)["columns"]}
