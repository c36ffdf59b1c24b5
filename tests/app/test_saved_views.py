"""Saved views and notes on the pages."""

import pytest
import streamlit as st
from page_elements import assert_sound, choice, filter_field, notices, query, rollout_list, texts
from read_formats import info_at
from written_logs import native_run, write_lines

from board.index.run_notes import read_note, write_note
from board.index.saved_views import read_views, write_views
from board.views.shared import run_options, saved_views, state


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("ROLLOUT_BOARD_CACHE", str(tmp_path / "cache"))
    native_run(tmp_path / "logs" / "a")
    rows = [{"step": 10, "prompt": "p", "response": "r", "score_of_b": 1.0}]
    write_lines(tmp_path / "logs" / "b" / "log.jsonl", rows)
    return tmp_path / "logs"


class Opened:
    """A popover that is open, which AppTest can't press."""

    open = True

    def __init__(self, label, **look):
        self.place = st.container()

    def __enter__(self):
        self.place.__enter__()
        return self

    def __exit__(self, *reason):
        return self.place.__exit__(*reason)


def press(app, label="", key=""):
    (button,) = [
        one for one in app.button if (one.label == label and label) or (one.key == key and key)
    ]
    return assert_sound(button.click().run())


def test_a_link_to_a_view_makes_its_choices_and_forgets_the_others(open_app, root):
    link = {"where": "reward < 1", "sort": "reward", "rollouts_columns": "reward,k3_mean"}
    app = open_app(root, "rollouts", run="a", step="10", **link, split="all")
    chosen = {name: text for name, text in query(app).items() if name not in ("run", "step")}
    changes, unread = saved_views.changes_of(
        "rollouts", "&".join(f"{k}={v}" for k, v in chosen.items())
    )
    assert unread == []
    for name, text in chosen.items():
        assert state.CHOICES[name].format(changes[name]) == text
    others = {*saved_views.CHOICES["rollouts"]} - {*chosen}
    assert all(changes[name] == state.CHOICES[name].default for name in others)


@pytest.mark.parametrize("page", [*saved_views.CHOICES])
def test_a_view_of_a_later_version_is_used_as_far_as_it_is_known(page):
    name = saved_views.CHOICES[page][-1]
    changes, unread = saved_views.changes_of(
        page, f"{name}=1&speed=9&desc=maybe&runs_desc=maybe&=x"
    )
    assert {"speed", "desc", "runs_desc"} - {name} <= {*unread}
    assert changes[name] not in (None, state.CHOICES[name].default) or name in unread


def test_the_columns_that_another_run_lacks_are_named_and_the_rest_is_shown(open_app, root):
    where = {"where": "reward < 1", "rollouts_columns": "reward,response", "sort": "reward"}
    app = open_app(root, "rollouts", run="b", step="10", **where)
    assert any("rollouts_columns = reward is not available" in text for text in notices(app))
    assert [one["name"] for one in rollout_list(app)["page"]["columns"]] == ["index", "response"]
    assert "no column 'reward'" in filter_field(app)["refused"]["reason"]


def test_the_note_on_a_run_stands_in_its_header_and_in_the_table_of_runs(open_app, root):
    info = info_at(root / "a")
    write_note(info, "*old* <b>reward</b>", "ann", over="")
    assert r"\*old\* \<b\>reward\</b\>" in texts(open_app(root, "overview", run="a"))
    assert read_note(info).text == "*old* <b>reward</b>"
    found = open_app(root, "runs", runs_search="note contains reward")
    assert choice(found, "runs_search") == "note contains reward"


def test_views_are_of_a_folder_and_a_page(root):
    write_views(root, "rollouts", {"wrong ones": "where=reward+%3C+1"})
    assert read_views(root, "rollouts") == {"wrong ones": "where=reward+%3C+1"}
    assert read_views(root, "runs") == {}


def test_what_the_list_of_views_does_can_be_undone(open_app, root, monkeypatch):
    monkeypatch.setattr(saved_views.st, "popover", Opened)
    app = open_app(root, "rollouts", run="a", step="10", where="reward < 1")
    app.text_input(key="_view_name").set_value("  wrong\tones ")
    press(app, "Save view")
    assert read_views(root, "rollouts") == {"wrong ones": "where=reward+%3C+1"}
    press(app, key="_view_delete_0")
    assert read_views(root, "rollouts") == {}
    press(app, "Undo")
    assert read_views(root, "rollouts") == {"wrong ones": "where=reward+%3C+1"}
    press(app, key="_view_rename_0")
    app.text_input(key="_view_new_name").set_value("new *name*").run()
    assert read_views(root, "rollouts") == {"new *name*": "where=reward+%3C+1"}
    press(app, "Save view")  # without a name
    assert "a view needs a name" in texts(app)


def test_a_note_that_somebody_changed_meanwhile_is_not_lost(open_app, root, monkeypatch):
    monkeypatch.setattr(run_options.st, "popover", Opened)
    info = info_at(root / "a")
    app = open_app(root, "overview", run="a")
    write_note(info, "theirs", "bob", over="")
    (field,) = [one for one in app.text_input if one.label == "Note on this run"]
    field.set_value("mine").run()
    assert read_note(info).text == "theirs"
    assert "bob has changed this note meanwhile" in texts(app)
    press(app, "Save it")
    assert read_note(info).text == "mine"
    assert "meanwhile" not in texts(app)
