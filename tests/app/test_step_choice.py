"""The step, typed between the buttons to its neighbours."""

from pathlib import Path

import pytest
import streamlit as st
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some
from page_elements import assert_sound, choice, notices, query
from streamlit.testing.v1 import AppTest
from written_logs import write_lines

from board.views.shared import state, step_choice
from board.views.shared.step_choice import nearest, settle

FIELD = "_step_typed"
STEPS = 401  # more than a menu lists


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of many steps, each the tenth."""
    root = tmp_path_factory.mktemp("many")
    rows = [
        {"step": 10 * place, "prompt": "p", "response": "r", "reward": 0.5}
        for place in range(STEPS)
    ]
    write_lines(root / "run" / "a.jsonl", rows)
    return root


def shown(app: AppTest) -> int:
    """The step in the field, without the fraction that is not shown."""
    return round(app.number_input(key=FIELD).value)


def test_a_step_is_typed_and_the_nearest_recorded_is_shown(open_app, many):
    app = open_app(many, "rollout", run="run", step="120", token="3")
    assert shown(app) == 120
    app.number_input(key=FIELD).set_value(218).run()
    assert_sound(app)
    assert (choice(app, "step"), shown(app)) == (220, 220)
    assert (choice(app, "token"), query(app)["step"]) == (None, "220")
    assert notices(app) == ["Step 218 is not recorded; showing 220, the nearest that is."]


def test_the_buttons_of_the_field_and_those_below_go_to_recorded_steps(open_app, many):
    app = open_app(many, "rollout", run="run", step="120")
    app.number_input(key=FIELD).set_value(121).run()
    assert (choice(app, "step"), notices(app)) == (130, [])
    app.button(key="step_chevron_left").click().run()
    assert shown(app) == 120
    app.number_input(key=FIELD).set_value(10**9).run()
    assert choice(app, "step") == 10 * (STEPS - 1)
    assert app.button(key="step_chevron_right").disabled


def test_of_many_steps_of_a_prompt_the_nearest_to_the_typed_one_is_answered(open_app, many):
    app = open_app(many, "prompts", run="run")
    typed = "_pstep_typed"
    assert [box.key for box in app.selectbox if box.key == "prompts_step"] == []
    assert app.number_input(key=typed).value is None
    app.number_input(key=typed).set_value(218).run()
    assert_sound(app)
    assert (choice(app, "prompts_step"), query(app)["prompts_step"]) == (220, "220")
    app.number_input(key=typed).set_value(221).run()
    assert choice(app, "prompts_step") == 230
    app.number_input(key=typed).set_value(None).run()
    assert "prompts_step" not in query(app)


@given(
    steps=some.lists(some.integers(0, STEPS - 1), min_size=2, max_size=6, unique=True),
    data=some.data(),
)
@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_browser_that_has_not_drawn_the_last_step_chooses_none(open_app, many, steps, data):
    """It sends the field as it was, which nobody has typed; the same step, typed, is chosen."""
    app = open_app(many, "step", run="run", step=str(10 * steps[0]))
    sent = [app.number_input(key=FIELD).value]
    for step in steps[1:]:
        app.session_state["step"] = 10 * step
        app.run()
        sent.append(app.number_input(key=FIELD).value)
    late = data.draw(some.sampled_from(sent[:-1]))
    app.number_input(key=FIELD).set_value(late).run()
    assert (choice(app, "step"), shown(app)) == (10 * steps[-1],) * 2
    app.number_input(key=FIELD).set_value(float(round(late))).run()
    assert choice(app, "step") == round(late)


@pytest.mark.parametrize(
    ("wanted", "before", "meant"),
    [
        (20, 0, 20),
        (14, 0, 10),
        (16, 0, 20),
        (-7, 20, 0),
        (99, 0, 40),
        (21, 20, 40),  # the field's own buttons: one more, one less
        (19, 20, 10),
        (41, 40, 40),
        (-1, 0, 0),
    ],
)
def test_a_typed_step_means_the_nearest_and_one_more_the_next(wanted, before, meant):
    assert nearest([0, 10, 20, 40], wanted, before) == meant


@given(
    last=some.integers(1, 40), more=some.integers(0, 40), before=some.sampled_from(["", "a", "b"])
)
def test_a_run_opened_at_its_newest_step_is_shown_at_what_is_the_newest_by_then(last, more, before):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(st, "session_state", {})
        if before:
            state.put(run=before, step=1)
            settle(before, [1])
        step_choice.lead_to_newest("a", last)
        state.put(run="a", step=last)
        assert settle("a", range(1, last + more + 1)) == last + more
        assert step_choice.was_newest()
        state.put(step=1)
        assert settle("a", range(1, last + more + 2)) == 1, "chosen since"
