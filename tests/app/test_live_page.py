"""With Live on the newest step is shown, until another is chosen; an empty folder is waited for."""

from pathlib import Path

import pytest
from page_elements import PAGES, assert_sound, choice, elements, notices, query, texts
from streamlit.testing.v1 import AppTest
from written_logs import write_lines

from board.views.frame import live
from board.views.frame.sidebar import silent_ranks
from board.views.shared import browser_url, known_findings, opened_runs, step_choice
from exporters import RolloutExporter

SWITCH = "_following"


def write(folder: Path, steps: range, name: str = "run") -> None:
    rows = [
        {"step": step, "prompt": "p", "response": f"r{place}", "reward": 0.1 * step}
        for step in steps
        for place in range(2)
    ]
    write_lines(folder / name / "a.jsonl", rows)
    opened_runs.discovered.clear()


def rank_writer(folder: Path, rank: int) -> RolloutExporter:
    return RolloutExporter(
        folder / "run", rank=rank, world_size=2, attempt="a", start_step=1, mode="sync"
    )


def log_steps(writer: RolloutExporter, steps: range) -> None:
    for step in steps:
        writer.log(step, response_ids=[[1]] * 4, rewards=[0.0, 1.0, 0.0, 1.0])
        writer.end_step(step)
    opened_runs.discovered.clear()


def severe(app: AppTest) -> list[str]:
    """What is announced until the rules are through with the run, which they check behind the page."""
    before = notices(app.run())
    run = app.session_state["_run"]
    known_findings.task(run, tokens=False).finish()
    return [*before, *notices(app.run())]


@pytest.fixture
def growing(tmp_path: Path) -> Path:
    write(tmp_path, range(1, 8))
    return tmp_path


def grown(app: AppTest, root: Path, last: int) -> AppTest:
    write(root, range(1, last + 1))
    return app.run()


def state(app: AppTest) -> tuple[int, bool, str]:
    switch = app.toggle(key=SWITCH)
    return choice(app, "step"), switch.value, switch.label


FOLLOWING = (True, "Following the newest step")
NOT_FOLLOWING = (False, "Follow the newest step")


@pytest.mark.parametrize(
    ("link", "before", "after", "switch"),
    [
        ({"live": "1"}, 7, 9, FOLLOWING),
        ({"live": "1", "follow": "1", "step": "5"}, 7, 9, FOLLOWING),  # opened anew
        ({"live": "1", "step": "3"}, 3, 3, NOT_FOLLOWING),
        ({}, 7, 7, NOT_FOLLOWING),
    ],
)
def test_the_newest_step_is_shown_as_the_log_grows_where_the_page_follows(
    open_app, growing, link, before, after, switch
):
    app = open_app(growing, **link)
    assert state(app) == (before, *switch)
    grown(app, growing, 9)
    assert_sound(app)
    assert state(app) == (after, *switch)
    assert notices(app) == []


@pytest.mark.parametrize("chosen", [{"step": 3}, {"index": 1}, {"token": 0}])
def test_choosing_a_step_a_rollout_or_a_token_ends_following(open_app, growing, chosen):
    app = open_app(growing, live="1")
    for name, value in chosen.items():
        app.session_state[name] = value
    app.run()
    grown(app, growing, 9)
    assert state(app) == (chosen.get("step", 7), *NOT_FOLLOWING)
    assert query(app)["live"] == "1"
    assert "follow" not in query(app)


def test_the_url_of_a_page_that_follows_is_the_same_at_every_step(open_app, growing):
    app = open_app(growing, live="1")
    before = query(app)
    assert "step" not in before
    grown(app, growing, 9)
    assert query(app) == before
    app.button(key="step_chevron_left").click().run()
    assert query(app)["step"] == "8"


def test_live_begins_by_itself_when_a_run_grows_and_once(open_app, growing, monkeypatch):
    app = open_app(growing)
    app.session_state["_has_grown"] = "run"  # as the look at the files has it, a second later
    grown(app, growing, 9)
    assert (choice(app, "live"), *state(app)) == (True, 9, *FOLLOWING)
    monkeypatch.setattr(step_choice, "_LATE_SECONDS", 0.0)
    app.toggle(key="live").set_value(False).run()
    assert choice(app, "live") is False
    assert "changed" in texts(app)
    app = open_app(growing, step="3")
    app.session_state["_has_grown"] = "run"
    grown(app, growing, 10)
    assert (choice(app, "live"), *state(app)) == (True, 3, *NOT_FOLLOWING)


def test_a_switch_that_the_browser_sends_as_it_was_is_not_taken_for_a_press(
    open_app, growing, monkeypatch
):
    app = open_app(growing)
    app.session_state["_has_grown"] = "run"
    app.run()
    for key in ("live", SWITCH):
        app.toggle(key=key).set_value(False).run()
        assert (choice(app, "live"), *state(app)[1:]) == (True, *FOLLOWING)
    monkeypatch.setattr(step_choice, "_LATE_SECONDS", 0.0)
    app.toggle(key=SWITCH).set_value(False).run()
    assert state(app)[1:] == NOT_FOLLOWING


def test_a_rollout_that_is_opened_stays_open_though_the_browser_sends_following_as_it_was(
    open_app, growing, monkeypatch
):
    app = open_app(growing, "rollouts", live="1")
    assert state(app)[1:] == FOLLOWING
    app.query_params["step"], app.query_params["index"] = "3", "0"
    app.run()
    assert (choice(app, "index"), *state(app)[1:]) == (0, *NOT_FOLLOWING)
    app.toggle(key=SWITCH).set_value(True).run()
    assert (choice(app, "index"), *state(app)[1:]) == (0, *NOT_FOLLOWING)
    monkeypatch.setattr(step_choice, "_LATE_SECONDS", 0.0)
    app.toggle(key=SWITCH).set_value(True).run()
    assert (choice(app, "index"), *state(app)[1:]) == (None, *FOLLOWING)


def test_what_is_chosen_before_the_browser_has_the_last_url_stays(open_app, growing, monkeypatch):
    app = open_app(growing, step="3")
    before = query(app)
    app.toggle(key="live").set_value(True).run()
    monkeypatch.setattr(step_choice, "_LATE_SECONDS", 0.0)
    for name in query(app).keys() - before.keys():
        del app.query_params[name]
    for name, value in before.items():
        app.query_params[name] = value
    app.toggle(key=SWITCH).set_value(False).run()
    assert (choice(app, "live"), choice(app, "follow")) == (True, False)


def test_back_after_a_choice_takes_it_back(open_app, growing, monkeypatch):
    monkeypatch.setattr(browser_url, "is_move_in_history", lambda: True)
    app = open_app(growing, step="3")
    before = query(app)
    app.toggle(key="live").set_value(True).run()
    for name in query(app).keys() - before.keys():
        del app.query_params[name]
    for name, value in before.items():
        app.query_params[name] = value
    app.run()
    assert (choice(app, "live"), choice(app, "step")) == (False, 3)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_that_runs_again_sets_no_field(open_app, logs, page):
    """What is typed or switched meanwhile would be overwritten."""
    app = open_app(logs, page, run="native", live="1")
    app.run()
    protos = [element.proto for element in elements(app) if hasattr(element, "proto")]
    assert [proto for proto in protos if getattr(proto, "set_value", False)] == []


def test_the_buttons_of_the_step_end_following_and_the_switch_begins_it(
    open_app, growing, monkeypatch
):
    app = open_app(growing, live="1")
    app.button(key="step_chevron_left").click().run()
    grown(app, growing, 9)
    assert state(app) == (6, *NOT_FOLLOWING)
    monkeypatch.setattr(step_choice, "_LATE_SECONDS", 0.0)
    app.toggle(key=SWITCH).set_value(True).run()
    assert state(app) == (9, *FOLLOWING)
    assert query(app)["follow"] == "1"


def test_following_switches_live_on_and_live_follows(open_app, growing):
    app = open_app(growing, step="3")
    app.toggle(key=SWITCH).set_value(True).run()
    assert (choice(app, "live"), choice(app, "step")) == (True, 7)
    app = open_app(growing, step="3")
    app.toggle(key="live").set_value(True).run()
    assert state(app) == (7, *FOLLOWING)


@pytest.mark.parametrize("folder", [".", "later"], ids=["empty", "still to be made"])
def test_an_empty_folder_is_waited_for_and_then_followed(open_app, tmp_path, folder):
    root = tmp_path / folder
    app = open_app(root)
    assert "Waiting for the first rollout" in app.subheader[0].value
    assert str(root / "my_run") in app.code[0].value
    assert ("does not exist yet" in texts(app)) == (folder == "later")
    write(root, range(1, 3))
    assert app.run().subheader[0].value == "run"
    assert_sound(app)


def test_a_run_without_a_rollout_is_waited_for(open_app, tmp_path):
    write_lines(tmp_path / "run" / "a.jsonl", [{"type": "header", "schema": 1, "rank": 0}])
    app = open_app(tmp_path)
    assert "Waiting for the first rollout" in app.subheader[0].value


def test_the_loop_that_is_shown_writes_a_log_that_opens(open_app, tmp_path):
    code = live.LOOP.format(folder=repr(str(tmp_path / "my_run")))
    tokens = {"response_ids": [[1, 2]], "response_mask": [[1, 1]], "logprobs": [[-1.0, -2.0]]}
    of_step = {"rewards": [1.0], "prompts": ["p"], "loss": 0.5}
    exec(code, {"tokenizer": None, "steps": 2, **tokens, **of_step})
    app = open_app(tmp_path)
    assert choice(app, "step") == 2


@pytest.mark.parametrize("page", ["overview", "step", "rollouts"])
def test_a_severe_finding_is_announced_when_it_is_new_and_once_on_every_page(
    open_app, tmp_path, page
):
    first, second = (rank_writer(tmp_path, rank) for rank in range(2))
    log_steps(first, range(1, 11))
    log_steps(second, range(1, 11))
    app = open_app(tmp_path, page, live="1")
    assert severe(app) == []
    log_steps(first, range(11, 21))  # the second rank has stopped
    assert [words.startswith("Severe: ") for words in severe(app)] == [True]
    assert severe(app) == []


@pytest.mark.parametrize(
    ("missing", "steps", "silent"),
    [
        ({}, range(5), {}),
        ({4: (0, 1)}, range(5), {}),  # being written
        ({3: (1,), 4: (0, 1)}, range(5), {1: 2}),
        ({30: (1,), 40: (1, 2), 50: (1, 2), 60: (0, 1, 2)}, range(0, 70, 10), {1: 20, 2: 30}),
        ({0: (1,), 1: (1,)}, range(2), {1: 0}),
        ({3: (1,), 8: (1,), 9: (0, 1)}, range(10), {1: 7}),
        ({3: (1,), 8: (1,), 9: (0,)}, range(10), {}),  # it went on
    ],
)
def test_a_rank_is_silent_since_the_last_step_it_ended(missing, steps, silent):
    assert silent_ranks(missing, steps) == silent


def test_a_silent_rank_is_named_once_however_many_steps_follow(open_app, tmp_path):
    for rank, last in ((0, 9), (1, 4)):
        log_steps(rank_writer(tmp_path, rank), range(1, last + 1))
    message = [c.value for c in open_app(tmp_path).caption if "ank" in c.value]
    assert message == [":material/warning: Rank 1 silent since step 4"]
    health = open_app(tmp_path, "findings", findings_part="health")
    assert [t.value for t in health.text if "Rank 1:" in t.value] == ["Rank 1: steps 5–9"]


def test_a_run_whose_files_are_gone_is_named_and_not_only_waited_for(open_app, tmp_path):
    app = open_app(tmp_path, "rollouts", run="moved")
    assert app.warning[0].value.startswith("moved is not in this folder")


def test_files_that_are_no_logs_are_listed_with_why_and_not_as_shown(open_app, tmp_path):
    (tmp_path / "rollouts.jsonl").touch()
    app = open_app(tmp_path)
    assert "effect" not in app.dataframe[0].value
    assert "empty" in app.dataframe[0].value["what was found"][0]


def test_a_page_that_is_not_live_has_no_url_that_says_it_follows(open_app, growing):
    app = open_app(growing, live="1")
    assert query(app)["follow"] == "1"
    app.toggle(key="live").set_value(False).run()
    assert not {"live", "follow"} & query(app).keys()
