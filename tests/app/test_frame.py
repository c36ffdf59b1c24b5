"""What stands around every page: navigation, notices and the help of keys."""

import re
import time
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
from page_elements import (
    PAGES,
    assert_sound,
    buttons,
    choice,
    go_to,
    notices,
    query,
    readers,
    texts,
)
from streamlit.testing.v1 import AppTest
from written_logs import write_lines

from board.views.shared import pages, state

BUNDLED = Path(__file__).parents[2] / "rollout_samples"


def links(app: AppTest) -> dict[str, Any]:
    """The links of the navigation by the first word of their label."""
    result: dict[str, Any] = {}
    for link in (one.proto for one in app.get("page_link")):
        name = re.sub(r"^:gray\[", "", link.label).split()[0].rstrip("]")
        if name.lower() in PAGES:
            result.setdefault(name, link)
    return result


def parts(app: AppTest) -> list[str]:
    """The parts that a page offers, as their buttons say them."""
    return [option.content for option in buttons(app, "Part of the page").proto.options]


def test_a_page_or_a_part_is_dimmed_where_the_run_holds_nothing_for_it(open_app, logs, open_rows):
    app = open_app(logs, "step", run="texts")
    assert parts(app)[0] == "Contributions"
    assert parts(app)[2] == ":gray[Mismatch :small[no sampling\\_logprobs]]"
    assert links(app)["Rollouts"].label == "Rollouts"
    assert "sampling_logprobs" in texts(open_app(logs, "mismatch", run="texts"))
    assert parts(open_app(logs, "step", run="native")) == ["Contributions", "Groups", "Mismatch"]
    shown = links(open_rows("overview", {"step": 1, "response": "r", "reward": 1.0}))
    assert shown["Prompts"].label == ":gray[Prompts :small[not recorded]]"
    assert "prompt" in shown["Prompts"].help


def test_the_count_of_findings_is_that_of_all_rules_or_no_number(open_app):
    """Before the tokens were read it would be another one, which opening the page corrects."""
    st.cache_resource.clear()
    before = links(open_app(BUNDLED, run="grpo_reward_hack"))["Findings"].label
    assert re.search(r"\[●\]", before)
    app = open_app(BUNDLED, "findings", run="grpo_reward_hack")
    for _ in range(300):
        if re.search(r"\d", label := links(app.run())["Findings"].label):
            break
        time.sleep(0.1)
    assert re.search(r"\[\d+\]", label)
    for page in ("overview", "findings", "rollouts"):
        assert links(open_app(BUNDLED, page, run="grpo_reward_hack"))["Findings"].label == label


def test_a_step_of_texts_alone_opens_on_its_groups(open_app, open_rows):
    """What was chosen, or is linked, is what opens all the same, and the URL has nothing filled in."""
    row = {"step": 1, "response": "r", "group_id": "g"}
    rows = [{**row, "reward": reward} for reward in (0.0, 1.0)]
    app = open_rows("step", *rows)
    assert (choice(app, "step_part"), "step_part" in query(app)) == ("groups", False)
    buttons(app, "Part of the page").set_value("contributions").run()
    assert (choice(app, "step_part"), query(app)["step_part"]) == ("contributions", "contributions")
    with_tokens = open_app(BUNDLED, "step", run="grpo_arithmetic")
    assert choice(with_tokens, "step_part") == "contributions"


@pytest.mark.parametrize("page", [page for page in pages.PAGES if page.parts], ids=lambda p: p.name)
def test_a_link_that_names_no_part_leads_to_the_first_one(page, monkeypatch):
    drawn: list[dict[str, str]] = []
    monkeypatch.setattr(st, "page_link", lambda *_, query_params, **__: drawn.append(query_params))
    monkeypatch.setattr(st, "session_state", {page.choice: page.part_names[-1]})
    state.link(page.name, "Open")
    state.link(page.name, "Open", **{page.choice: page.part_names[-1]})
    assert [page.choice in query for query in drawn] == [False, True]


def test_prompts_without_rewards_are_not_said_to_be_missing(open_rows):
    shown = links(
        open_rows("overview", {"step": 1, "prompt": "p", "response": "r", "group_id": "a"})
    )
    assert shown["Prompts"].label == ":gray[Prompts :small[no reward]]"


def test_compare_is_dimmed_where_there_is_one_run(open_app, logs):
    assert links(open_app(logs / "native", "prompts"))["Compare"].label == ":gray[Compare]"
    assert links(open_app(logs, "prompts"))["Compare"].label == "Compare"


def test_findings_are_counted_in_the_navigation_once_they_are_known(open_app, logs):
    app = open_app(logs, "findings", run="native")
    label = links(app)["Findings"].label
    assert re.fullmatch(r"Findings :small\[:(red|orange|blue)\[(\d+|●)\]\]", label)
    go_to(app, "prompts")
    assert links(app)["Findings"].label == label


def test_choices_follow_silently_when_the_user_switches_runs(open_app, logs):
    app = open_app(logs, "step", run="native", step="20", step_metric="entropy_mean")
    assert notices(app) == []
    app.selectbox(key="run").set_value("texts").run()
    assert_sound(app)
    assert notices(app) == []
    assert choice(app, "step_metric") != "entropy_mean"


@pytest.mark.parametrize("page", pages.PAGES, ids=lambda page: page.name)
def test_the_same_key_has_the_same_kind_of_meaning_on_every_page(page):
    rows = [row for rows in pages.keys_of(page).values() for row in rows]
    words = {keys: words for keys, words in rows if keys in ("j k", "o Enter")}
    assert all(text.startswith("next or previous") for keys, text in words.items() if keys == "j k")
    assert all(text.startswith("open") for keys, text in words.items() if keys == "o Enter")
    assert ("?", "this help") in rows


def test_the_tags_of_reasoning_are_chosen_in_the_settings_of_the_run(open_app, tmp_path):
    row = {"step": 0, "prompt": "Add.", "response": "<plan>Count.</plan>Five."}
    write_lines(tmp_path / "run" / "x.jsonl", [row])
    app = open_app(tmp_path, "rollouts", index="0")

    def kinds() -> list[str]:
        (view,) = readers(app)
        return [block["kind"] for block in view["turns"][-1]["blocks"]]

    assert kinds() == ["text"]
    app.text_input(key="think").set_value("<plan>").run()
    assert kinds() == ["reasoning", "text"]
    assert query(app)["think"] == "<plan>"
