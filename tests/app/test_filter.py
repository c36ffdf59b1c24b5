"""The filter of Rollouts: what it leaves, what it refuses, and links that hold older filters."""

from __future__ import annotations

from pathlib import Path

import pytest
from shown import OpenApp, assert_sound, choice, filter_field, notices, query
from streamlit.testing.v1 import AppTest
from written_logs import write_lines

SAMPLES = Path(__file__).parents[2] / "rollout_samples"


def enter(app: AppTest, text: str) -> AppTest:
    """As Enter in the field."""
    app.session_state["_filter_asked"] = text
    return app.run()


@pytest.mark.parametrize(
    ("link", "text", "count"),
    [
        ({}, "", 8),
        ({"env": "code"}, "", 4),
        ({"finish": "length"}, 'finish_reason == "length"', 2),
        ({"group": "group 1"}, 'group_id == "group 1"', 4),
        ({"group": "group 1,group 0"}, 'group_id in ("group 1", "group 0")', 8),
        ({"group": "group 1", "env": "math"}, 'group_id == "group 1"', 2),
        ({"q": "x<y"}, 'any_text contains "x<y"', 4),
        ({"q": "(10/1/"}, 'any_text contains "(10/1/"', 4),
        ({"q": "WHAT IS 2+3"}, 'any_text contains "WHAT IS 2+3"', 2),
        ({"range": "reward:1.05..1.25"}, "reward >= 1.05 and reward <= 1.25", 2),
        ({"range": "reward:..0.15"}, "reward <= 0.15", 1),
        (
            {"where": "reward > 1 or env = math", "q": "__init__"},
            '(reward > 1 or env = math) and any_text contains "__init__"',
            4,
        ),
        ({"where": "reward < 0.25 and response contains '(10/0/'"}, None, 2),
    ],
)
def test_a_link_of_any_age_is_a_filter_in_the_field(
    open_app: OpenApp, logs: Path, link: dict[str, str], text: str | None, count: int
) -> None:
    app = open_app(logs, "rollouts", run="native", step="10", **link)
    assert_sound(app)
    assert notices(app) == []
    shown = filter_field(app)
    assert shown["text"] == (link["where"] if text is None else text)
    assert shown["count"] == ("8 rollouts" if count == 8 else f"{count} of 8 rollouts")
    assert {name: query(app)[name] for name in link} == link


def test_a_filter_that_is_entered_takes_the_place_of_those_of_an_old_link(
    open_app: OpenApp, logs: Path
) -> None:
    app = open_app(logs, "rollouts", run="native", step="10", q="x<y", finish="stop")
    enter(app, "reward < 0.15")
    assert_sound(app)
    assert filter_field(app)["count"] == "1 of 8 rollouts"
    assert query(app) == {"run": "native", "step": "10", "where": "reward < 0.15"}
    enter(app, "")
    assert filter_field(app)["count"] == "8 rollouts"
    assert set(query(app)) == {"run", "step"}


def test_a_filter_that_can_t_be_read_is_explained_and_the_one_before_stays(
    open_app: OpenApp, logs: Path
) -> None:
    app = open_app(logs, "rollouts", run="native", step="10", where="reward < 0.15")
    enter(app, "rewrad < 0.3")
    assert_sound(app)
    shown = filter_field(app)
    assert shown["text"] == "rewrad < 0.3"
    assert shown["count"] == "1 of 8 rollouts"
    assert (shown["refused"]["start"], shown["refused"]["end"]) == (0, 6)
    assert shown["refused"]["instead"] == "reward"
    assert "did you mean reward" in shown["refused"]["reason"]
    assert choice(app, "where") == "reward < 0.15"
    enter(app, "reward < 0.25")
    assert filter_field(app)["refused"] is None
    assert filter_field(app)["count"] == "2 of 8 rollouts"


def test_a_link_with_a_filter_that_can_t_be_read_shows_all_and_says_why(
    open_app: OpenApp, logs: Path
) -> None:
    app = open_app(logs, "rollouts", run="native", step="10", where="env > 3")
    assert_sound(app)
    assert filter_field(app)["count"] == "8 rollouts"
    assert "env is text" in filter_field(app)["refused"]["reason"]


def test_texts_are_searched_whole(open_app: OpenApp, tmp_path: Path) -> None:
    rows = [{"step": 0, "prompt": "p", "response": "a" * 5000 + end} for end in ("left", "right")]
    write_lines(tmp_path / "run" / "x.jsonl", rows)
    for scope in ("step", "run"):
        app = open_app(tmp_path, "rollouts", where="response contains RIGHT", scope=scope)
        assert filter_field(app)["count"] == "1 of 2 rollouts"


def test_columns_and_values_are_completed(open_app: OpenApp, tmp_path: Path) -> None:
    rows = [{"step": 0, "response": "r", "env": env, "odd name": 1.0} for env in ("swe", "math")]
    write_lines(tmp_path / "run" / "x.jsonl", rows)
    offered = {one["name"]: one for one in filter_field(open_app(tmp_path, "rollouts"))["columns"]}
    assert offered["env"]["values"] == ["math", "swe"]
    assert offered["odd name"]["insert"] == 'col("odd name")'
    assert not offered["odd name"]["is_text"]
    assert offered["any_text"]["is_text"]
    assert offered["response"]["values"] == []
