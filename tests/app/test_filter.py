"""The filter of Rollouts: what it leaves, what it refuses, and links that hold older filters."""

import pytest
from page_elements import (
    assert_sound,
    choice,
    filter_field,
    notices,
    query,
    rollout_list,
    table,
    texts,
)
from streamlit.testing.v1 import AppTest


def enter(app: AppTest, text: str) -> AppTest:
    """As Enter in the field."""
    app.session_state["_filter_entered"] = text
    assert_sound(app.run())
    return app


@pytest.mark.parametrize(
    ("link", "text", "indices"),
    [
        ({}, "", [*range(8)]),
        ({"env": "code"}, "", [1, 3, 5, 7]),
        ({"finish": "length"}, 'finish_reason == "length"', [3, 7]),
        ({"group": "group 1,group 0"}, 'group_id in ("group 1", "group 0")', [*range(8)]),
        ({"group": "group 1", "env": "math"}, 'group_id == "group 1"', [2, 6]),
        ({"q": "x<y"}, 'any_text contains "x<y"', [1, 3, 5, 7]),
        ({"q": "(10/1/"}, 'any_text contains "(10/1/"', [4, 5, 6, 7]),
        ({"range": "reward:1.05..1.25"}, "reward >= 1.05 and reward <= 1.25", [4, 5]),
        ({"range": "reward:..0.15"}, "reward <= 0.15", [0]),
        (
            {"range": "reward:1.0..", "env": "code", "q": "__init__"},
            'any_text contains "__init__" and reward >= 1',
            [],
        ),
        (
            {"where": "reward > 1 or env = math", "q": "__init__"},
            '(reward > 1 or env = math) and any_text contains "__init__"',
            [0, 2, 4, 6],
        ),
        ({"where": "reward < 0.25 and response contains '(10/0/'"}, None, [0, 1]),
    ],
)
def test_a_link_of_any_age_is_a_filter_in_the_field(open_app, logs, link, text, indices):
    app = open_app(logs, "rollouts", run="native", step="10", **link)
    assert notices(app) == []
    field, count = filter_field(app), len(indices)
    assert field["text"] == (link["where"] if text is None else text)
    assert field["count"] == ("8 rollouts" if count == 8 else f"{count} of 8 rollouts")
    assert {name: query(app)[name] for name in link} == link
    if indices:
        assert table(app)["index"].tolist() == indices
    else:
        assert "No rollout passes the filter." in texts(app)
        next(b for b in app.button if b.label.startswith("Clear")).click().run()
        assert len(table(app)) == 8
        assert set(query(app)) == {"run", "step"}


def test_a_filter_that_is_entered_takes_the_place_of_those_of_an_old_link(open_app, logs):
    app = open_app(logs, "rollouts", run="native", step="10", q="x<y", finish="stop")
    enter(app, "reward < 0.15")
    assert filter_field(app)["count"] == "1 of 8 rollouts"
    assert query(app) == {"run": "native", "step": "10", "where": "reward < 0.15"}
    enter(app, "")
    assert filter_field(app)["count"] == "8 rollouts"
    assert set(query(app)) == {"run", "step"}


def test_a_filter_that_can_t_be_read_is_explained_and_the_one_before_stays(open_app, logs):
    app = open_app(logs, "rollouts", run="native", step="10", where="reward < 0.15")
    enter(app, "rewrad < 0.3")
    field = filter_field(app)
    assert (field["text"], field["count"]) == ("rewrad < 0.3", "1 of 8 rollouts")
    refused = field["refused"]
    assert (refused["start"], refused["end"], refused["instead"]) == (0, 6, "reward")
    assert "did you mean reward" in refused["reason"]
    assert choice(app, "where") == "reward < 0.15"
    enter(app, "reward < 0.25")
    field = filter_field(app)
    assert (field["refused"], field["count"]) == (None, "2 of 8 rollouts")
    app = open_app(logs, "rollouts", run="native", step="10", where="env > 3")
    assert filter_field(app)["count"] == "8 rollouts"
    assert "env is text" in filter_field(app)["refused"]["reason"]


def test_columns_and_values_are_completed(open_rows):
    rows = [{"step": 0, "response": "r", "env": env, "odd name": 1.0} for env in ("swe", "math")]
    offered = {one["name"]: one for one in filter_field(open_rows("rollouts", *rows))["columns"]}
    assert offered["env"]["values"] == ["math", "swe"]
    assert offered["odd name"]["insert"] == 'col("odd name")'
    assert not offered["odd name"]["is_text"]
    assert offered["any_text"]["is_text"]
    assert offered["response"]["values"] == []


def test_words_alone_search_the_texts_and_the_field_says_so(open_app, logs):
    app = open_app(logs, "rollouts", run="native", step="10")
    before = filter_field(app)
    assert before["sought"] == ""
    enter(app, before["placeholder"])
    assert filter_field(app)["refused"] is None
    enter(app, "__init__")
    field = filter_field(app)
    assert (field["sought"], field["refused"], field["text"]) == ("__init__", None, "__init__")
    assert query(app)["where"] == "__init__"
    words = open_app(logs, "rollouts", run="native", step="10", where="__init__", q="x<y")
    assert filter_field(words)["text"] == 'any_text contains "__init__" and any_text contains "x<y"'


def test_headings_of_the_list_are_names_in_its_filter_and_are_completed(open_app, logs):
    app = open_app(logs, "rollouts", run="native", step="10")
    columns = rollout_list(app)["page"]["columns"]
    offered = {one["name"]: one for one in filter_field(app)["columns"]}
    for column in columns:
        assert column["label"] in (column["name"], *offered[column["name"]]["others"])
        enter(app, f'missing(col("{column["label"]}"))')
        assert filter_field(app)["refused"] is None
    enter(app, "tokens > 0 and #  < 3 and k3 >= 0")
    assert filter_field(app)["count"] == "3 of 8 rollouts"
