"""Another run, another step: nothing of what was shown before is left under the new name."""

import re

import pytest
from page_elements import (
    assert_sound,
    choice,
    notices,
    read_texts,
    table,
    texts,
    tiles,
)
from written_logs import age, native_run, rllb_run, write_lines

from board.index.discovery.run_info import LogFile
from board.views.frame import live


def sample(step: int, reward: float, response: str) -> dict[str, object]:
    return {"step": step, "prompt": "p", "response": response, "reward": reward}


@pytest.mark.parametrize(
    ("run", "step", "other", "entered"),
    [
        ("long", "2", "short", 2),  # both have it
        ("long", "6", "short", 3),  # its newest, where it lacks the step
        ("short", "3", "long", 7),  # from the newest to the newest
    ],
)
def test_another_run_is_entered_silently_at_the_step_that_is_meant(
    open_app, tmp_path, run, step, other, entered
):
    for name, last in (("long", 7), ("short", 3)):
        rows = [sample(s, 0.0, name) for s in range(1, last + 1)]
        write_lines(tmp_path / name / "x.jsonl", rows)
    app = open_app(tmp_path, "rollout", run=run, step=step)
    app.selectbox(key="run").set_value(other).run()
    assert (choice(app, "step"), notices(app)) == (entered, [])
    assert read_texts(app) == ["p", other]


def test_switching_back_and_forth_mixes_nothing(open_app, logs):
    app = open_app(logs, "rollouts", run="native", rollouts_scope="run")
    sizes = {"native": 8 * 4, "rllb": 9, "texts": 3}
    for name in ("rllb", "native", "texts", "rllb", "native"):
        app.selectbox(key="run").set_value(name).run()
        assert_sound(app)
        assert app.subheader[0].value == f"{name}"
        assert len(table(app)) == sizes[name]


@pytest.mark.parametrize(
    ("field", "value"), [(("number_input", "_step_typed"), 20), (("selectbox", "run"), "rllb")]
)
def test_another_step_or_run_begins_at_its_first_rollout_without_a_pin(
    open_app, logs, field, value
):
    app = open_app(logs, "rollout", run="native", step="10", index="5", token="3")
    kind, key = field
    next(one for one in app.get(kind) if one.key == key).set_value(value).run()
    assert (choice(app, "index"), choice(app, "token")) == (0, None)
    assert notices(app) == []


def test_a_run_of_the_same_name_in_another_folder_is_another_run(open_app, tmp_path):
    for place in ("left", "right"):
        write_lines(tmp_path / place / "run" / "x.jsonl", [sample(0, 0.0, place)])
    app = open_app(tmp_path, "rollout", root="left")
    assert read_texts(app)[1] == "left"
    app.text_input(key="root").set_value("right").run()
    assert_sound(app)
    assert read_texts(app)[1] == "right"


def test_a_run_seen_from_another_folder_carries_the_name_of_the_menu(open_app, tmp_path):
    write_lines(tmp_path / "deep" / "run" / "x.jsonl", [sample(0, 0.0, "r")])
    app = open_app(tmp_path)
    assert app.subheader[0].value == "deep/run"
    app.text_input(key="root").set_value("deep").run()
    assert app.subheader[0].value == "run"


def test_a_log_that_grew_is_read_again(open_app, tmp_path):
    log = write_lines(tmp_path / "run" / "x.jsonl", [sample(0, 0.0, "r")])
    app = open_app(tmp_path, "rollouts", live="1")
    assert len(table(app)) == 1
    write_lines(log, [sample(0, 0.0, "r"), sample(0, 1.0, "s")])
    app.run()
    assert len(table(app)) == 2


def test_a_log_that_grows_all_the_time_is_drawn_anew_no_more_often_than_is_said(
    open_app, tmp_path, monkeypatch
):
    checks: list[LogFile] = []
    monkeypatch.setattr(live, "_has_changed", lambda file: not checks.append(file))
    monkeypatch.setattr(live, "_DRAW_SECONDS", 1e6)
    write_lines(tmp_path / "run" / "x.jsonl", [sample(0, 0.0, "r")])
    app = open_app(tmp_path, "rollouts", live="1")
    app.run()
    assert len(table(app)) == 1
    assert len(checks) == 1


def test_runs_are_offered_newest_first(open_app, tmp_path):
    age(native_run(tmp_path / "old"), 1000)
    rllb_run(tmp_path / "new")
    app = open_app(tmp_path, "findings")
    assert [option.split(" · ")[0] for option in app.selectbox(key="run").options] == ["new", "old"]
    assert choice(app, "run") == "new"


@pytest.mark.parametrize("case", ["others", "file", "broken", "zero bytes"])
def test_a_folder_without_a_readable_run_gets_a_message(open_app, tmp_path, case):
    root = tmp_path / "root"
    root.mkdir()
    if case == "others":
        write_lines(root / "notes.jsonl", [{"text": "no log"}])
        (root / "readme.txt").write_text("hello")
    if case == "file":
        root = write_lines(root / "notes.txt", ["no log at all"])
    if case == "broken":
        write_lines(root / "run" / "x.jsonl", ["{broken", '{"step": 1, "prompt": '])
    if case == "zero bytes":
        write_lines(root / "run" / "x.jsonl", [])
    app = open_app(root)
    message = texts(app).replace("\\", "")
    assert "does not exist yet" not in message
    assert "Waiting for the first rollout" in app.subheader[0].value
    assert str(root) in message
    if case != "file":
        assert len(table(app)) == 1
        assert table(app)["where (first)"].str.contains("x.jsonl|notes.jsonl").all()
        assert all(table(app)["what was found"].str.len() > 0)


def test_a_run_without_a_usable_rollout_says_why(open_app, tmp_path):
    rows = [{"prompt": "p", "response": "r", "reward": 1.0, "step": "soon"}] * 3
    write_lines(tmp_path / "run" / "x.jsonl", rows)
    app = open_app(tmp_path)
    assert "no rollout that can be shown yet" in texts(app)
    assert table(app)["lines"].tolist() == [3]
    assert "step" in table(app)["what was found"].iloc[0]


def test_good_rows_show_beside_broken_ones_which_are_counted(open_app, tmp_path):
    broken = ("{broken", {"prompt": "no step"}, '{"step": 0, "pro')
    rows = [sample(0, 1.0, "r"), *broken[:2], sample(0, 0.0, "s"), broken[2]]
    write_lines(tmp_path / "run" / "x.jsonl", rows)
    app = open_app(tmp_path, "rollouts")
    assert len(table(app)) == 2
    assert "3 lines not used" in texts(app).replace("\\", "")
    app = open_app(tmp_path, "findings", findings_part="health")
    assert table(app)["lines"].sum() == 3
    assert any("x.jsonl:2" in where for where in table(app)["where (first)"])


@pytest.mark.parametrize("wanted", ["../..", "link", "~", "~nobody-at-all", "a\x00b", "x" * 5000])
def test_a_path_outside_the_root_is_refused(open_app, tmp_path, wanted):
    native_run(tmp_path / "secret" / "run")
    root = tmp_path / "root"
    rllb_run(root / "native")
    (root / "link").symlink_to(tmp_path / "secret")
    app = open_app(root, root=wanted)
    assert len(app.error) == 1
    message = app.error[0].value.replace("\\", "")
    assert len(wanted) > 600 or re.search("is outside|does not exist|is not a path", message)
    assert not tiles(app)


@pytest.mark.parametrize("wanted", ["~nobody-at-all", "/no/such/folder"])
def test_any_path_may_be_wrong_where_any_is_allowed(open_app, logs, monkeypatch, wanted):
    monkeypatch.setenv("ROLLOUT_BOARD_ALLOW_ANY_PATH", "1")
    app = open_app(logs, root=wanted)
    assert len(app.error) == 1


def test_a_failed_folder_does_not_break_the_session(open_app, logs):
    app = open_app(logs, run="native", step="10")
    app.text_input(key="root").set_value("nowhere").run()
    assert len(app.error) == 1
    app.text_input(key="root").set_value("").run()
    assert_sound(app)
    assert not app.error
    assert app.subheader[0].value == "native"
    assert choice(app, "step") == 10
