"""What stands around every page: navigation, notices and the help of keys."""

import re
from typing import Any

import pytest
from page_elements import PAGES, assert_sound, choice, go_to, notices, query, readers
from streamlit.testing.v1 import AppTest
from written_logs import write_lines

from board.views.shared import shortcuts


def links(app: AppTest) -> dict[str, Any]:
    """The links of the navigation by the first word of their label."""
    result: dict[str, Any] = {}
    for link in (one.proto for one in app.get("page_link")):
        name = re.sub(r"^:gray\[", "", link.label).split()[0].rstrip("]")
        if name.lower() in PAGES:
            result.setdefault(name, link)
    return result


def test_a_page_is_dimmed_where_the_run_holds_nothing_for_it(open_app, logs):
    shown = links(open_app(logs, "prompts", run="texts"))
    assert shown["Mismatch"].label == ":gray[Mismatch :small[not recorded]]"
    assert "sampling\\_logprobs" in shown["Mismatch"].help
    assert "RolloutExporter\\.log" in shown["Mismatch"].help
    assert shown["Rollouts"].label == "Rollouts"
    assert links(open_app(logs, "prompts", run="native"))["Mismatch"].label == "Mismatch"


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
    assert re.fullmatch(r"Findings :small\[:(red|orange|blue)\[\d+\]\]", label)
    go_to(app, "prompts")
    assert links(app)["Findings"].label == label


def test_choices_follow_silently_when_the_user_switches_runs(open_app, logs):
    app = open_app(logs, "step", run="native", step="20", step_metric="entropy_mean")
    assert notices(app) == []
    app.selectbox(key="run").set_value("texts").run()
    assert_sound(app)
    assert notices(app) == []
    assert choice(app, "step_metric") != "entropy_mean"


@pytest.mark.parametrize(
    "title", ["Overview", "Findings", "Step", "Rollouts", "Prompts", "Compare"]
)
def test_the_same_key_has_the_same_kind_of_meaning_on_every_page(title):
    rows = [row for rows in shortcuts.of_page(title).values() for row in rows]
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
