"""Logs of frameworks, logs that are joined, a vocabulary that can't be used, and one that is large."""

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from page_elements import (
    PAGES,
    assert_sound,
    buttons,
    cards,
    choice,
    go_to,
    readers,
    table,
    texts,
    tiles,
)

from board.index import build
from board.index.discovery.discovered_runs import RunInfo, discover
from board.query import open_run
from board.query.open_run import Follower, OpenOptions
from board.query.outlines import outlined
from board.views.shared import cache, opened_runs

DATA = Path(__file__).parents[1] / "formats" / "data"
# What tells most apart: two logs joined, parts of rewards without a total, groups of one, no tokens.
RUNS = ("prime_rl/joined", "ms_swift/table", "areal/trial0", "tinker/texts")
_NOTHING = re.compile(r"\b(?:nan|NaT|None)\b(?! of the recorded)")


@pytest.mark.parametrize("name", RUNS)
def test_no_page_of_a_format_breaks_or_shows_what_says_nothing(open_app, tmp_path, name):
    shutil.copytree(DATA / name, tmp_path / "run")
    app = open_app(tmp_path / "run")
    for page in PAGES:
        if page != "overview":
            go_to(app, page)
        assert_sound(app)
        assert not app.error, page
        assert not _NOTHING.search(texts(app)), page
        assert all(element.value.strip() for element in app.main.get("caption")), page
        for tile in tiles(app).values():
            assert not _NOTHING.search(f"{tile['value']} {tile['change']}"), (page, tile["label"])
        for metric in app.metric:
            assert not _NOTHING.search(f"{metric.value} {metric.delta}"), (page, metric.label)
        for card in cards(app):
            drawn = any(y is not None for line in card["chart"]["lines"] for y in line["y"])
            assert drawn or card["notes"], (page, card["key"])
            assert "nan%" not in str(card["chart"]["lines"]), (page, card["key"])
        for shown in app.dataframe:
            frame = shown.value
            text = {name for name in frame if {*map(str, frame[name])} - {"", "nan", "None"}}
            assert text == {*frame}, page
            assert shown.proto.placeholder or not frame.isna().any(axis=None), page
        if page == "rollout":
            has_tokens = name == "prime_rl/joined"
            assert ("Tokenizer" in [field.label for field in app.text_input]) == has_tokens
            assert all(view["turns"] or view["canSwitch"] for view in readers(app))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(DATA / "prime_rl/joined", tmp_path / "logs" / "run")
    return tmp_path / "logs"


def test_the_sidebar_offers_the_joined_run_and_each_log_alone(folder, open_app):
    app = open_app(folder, "rollouts", run="run", step="2")
    assert buttons(app, "Source").options == ["joined", "traces", "trainer"]
    assert table(app)["reward"].notna().sum() == 4
    buttons(app, "Split").set_value("all").run()
    assert table(app)["reward"].notna().sum() == 5
    buttons(app, "Source").set_value("prime_rl_tokens").run()
    assert choice(app, "run") == "run (prime_rl_tokens)"
    assert_sound(app)
    assert len(table(app)) == 4


def test_log_health_says_what_was_joined_and_what_was_not(folder, open_app):
    app = open_app(folder, "findings", findings_part="health", run="run", step="2")
    message = texts(app)
    assert (
        "3 of 6 rollouts joined with prime-rl token exports by step and exact token ids" in message
    )
    assert "6 rows without a match in another log" in message
    files = app.dataframe[-1].value.set_index("file")
    assert files.loc["token_exports/step_10/rank_0.jsonl", "joined to others"] == 1


def test_log_health_counts_repeats(tmp_path, open_app):
    shutil.copytree(DATA / "verl/v0", tmp_path / "run")
    shutil.copy(tmp_path / "run/10.jsonl", tmp_path / "run/copy_10.jsonl")
    app = open_app(tmp_path, "findings", findings_part="health", run="run")
    assert "4 rows repeat rollouts that the log holds already; each is shown once." in texts(app)


def test_a_joined_rollout_shows_the_tokens_of_one_log_with_the_texts_of_the_other(folder, open_app):
    app = open_app(folder, "rollout", run="run", step="2", index="1", reader_record="1")
    (view,) = readers(app)
    shown = {detail["title"]: detail for detail in view["details"]}
    calls = [block["name"] for turn in view["turns"] for block in turn["blocks"]]
    assert "add" in calls
    places = [f"{row['label']}, {row['value']}" for row in shown["Place in the log"]["rows"]]
    assert any("token_exports/step_2/rank_1.jsonl, line 2" in place for place in places)
    app = go_to(app, "overview")
    assert_sound(app)


LINE = {"step": 1, "prompt_ids": [0], "response_ids": [1, 0], "reward": 1.0}


def log(folder: Path, vocabulary: object) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "a.jsonl").write_text(json.dumps(LINE) + "\n")
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    return folder


def test_the_page_and_log_health_say_why_it_cannot_be_used(tmp_path, open_app):
    log(tmp_path / "run", {"x": "a"})
    for page, chosen in (("rollout", {}), ("findings", {"findings_part": "health"})):
        words = texts(open_app(tmp_path, page, **chosen))
        assert "vocab.json" in words.replace("\\", "")
        assert "has no vocab.json" not in words.replace("\\", "")
        assert "can't be used" in words
    assert "value left out" not in words


def test_it_is_read_again_when_it_changes(tmp_path):
    log(tmp_path, {"x": "a"})
    (info,) = discover(tmp_path).runs
    broken = opened_runs.opened(info, OpenOptions())
    assert (broken.vocabulary, bool(broken.sidecars.vocabulary_error)) == (None, True)
    (tmp_path / "vocab.json").write_text(json.dumps({"0": "yes", "1": " no"}))
    os.utime(tmp_path / "vocab.json", (1e9, 1e9))
    mended = opened_runs.opened(info, OpenOptions())
    assert mended.vocabulary is not None
    assert (mended.sidecars.vocabulary_error, mended.version == broken.version) == ("", False)
    assert "".join(cache.rollout(mended, 1, 0).tokens) == " noyes"
    assert mended.rollouts["response"].tolist() == [" noyes"]


class Builder:
    """A process that has not begun, until it is told to build and to end."""

    def __init__(self) -> None:
        self.code: int | None = None

    def poll(self) -> int | None:
        return self.code


def test_a_page_reads_nothing_of_a_run_while_a_process_does_and_all_that_it_left(
    tmp_path, monkeypatch
):
    line = {"input": "ask", "output": "say", "score": 1.0, "step": 1}
    (tmp_path / "1.jsonl").write_text(f"{json.dumps(line)}\n" * 3)
    builder, read = Builder(), list[str]()
    real = build.extend

    def extend(*args: Any, **options: Any) -> Any:
        read.append("here")
        return real(*args, **options)

    monkeypatch.setattr(opened_runs, "_OTHER_PROCESS_BYTES", 1)
    monkeypatch.setattr(opened_runs, "start", lambda info, options: builder)
    monkeypatch.setattr(open_run, "extend", extend)
    (info,) = discover(tmp_path).runs
    seen = [opened_runs.opened(info, OpenOptions()).rollout_count for _ in range(2)]
    assert (seen, read, opened_runs.is_building(info, OpenOptions())) == ([0, 0], [], True)
    Follower(persist=True).run(info)
    assert read.pop() == "here"
    assert (opened_runs.opened(info, OpenOptions()).rollout_count, read) == (3, [])
    with (tmp_path / "1.jsonl").open("a") as file:
        file.write(f"{json.dumps(line)}\n" * 2)
    (info,) = discover(tmp_path).runs
    builder.code = 1
    assert opened_runs.opened(info, OpenOptions()).rollout_count == 5
    assert (read, opened_runs.is_building(info, OpenOptions())) == (["here"], False)


def test_scores_of_a_log_stand_while_the_rest_is_read_and_nothing_is_said_to_lack(
    open_app, tmp_path, monkeypatch
):
    def write(name: str, *steps: int) -> RunInfo:
        lines = (
            {"step": step, "response": "say", "logprobs": [-0.5], "ref_logprobs": [-0.7]}
            | {"reward": place / 2, "prompt": "ask"}
            for step in steps
            for place in range(3)
        )
        (tmp_path / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
        opened_runs.discovered.clear()
        return discover(tmp_path).runs[0]

    builder = Builder()
    monkeypatch.setattr(opened_runs, "_OTHER_PROCESS_BYTES", 1)
    monkeypatch.setattr(opened_runs, "start", lambda info, options: builder)
    info = write("a.jsonl", 1, 2, 3)
    Follower(outlined(OpenOptions()), persist=True).run(info)
    app = open_app(tmp_path)
    assert "KL and entropy are being read" in texts(app)
    assert "Not recorded" not in texts(app)
    assert [card["key"] for card in cards(app)] == ["reward"]
    for page in ("findings", "groups", "step", "prompts"):
        go_to(app, page)
        assert "needs what is still being read" in texts(app)
    go_to(app, "rollouts")
    assert_sound(app)
    Follower(persist=True).run(info)  # as far as these steps
    info = write("b.jsonl", 4, 5, 6)
    Follower(outlined(OpenOptions()), persist=True).run(info)
    go_to(app, "overview")
    assert "Read by now: 3 of 6 steps" in texts(app)
    keys = [card["key"] for card in cards(app)]
    assert keys[0] == "reward"
    assert "k3_mean" in keys
    Follower(persist=True).run(info)
    builder.code = 0
    go_to(app, "overview")
    assert "being read" not in texts(app)
    assert "Read by now" not in texts(app)
    assert "k3_mean" in {card["key"] for card in cards(app)}
