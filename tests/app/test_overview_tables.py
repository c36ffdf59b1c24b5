"""Overview where curves say nothing: logs of one step, and more environments than colours."""

import pytest
from page_elements import assert_sound, count, query
from read_formats import DATA

from board.core.expression_tree import text_literal
from board.index.discovery.discovered_runs import discover


def rows_of(*rewards, steps=1, envs=1):
    return [
        {
            "step": step,
            "prompt": f"<b>p{n}</b>",
            "group_id": f"task '{n}'",
            "response": "r",
            "reward": reward,
            "env": f"e{env}",
        }
        for step in range(steps)
        for env in range(envs)
        for n, reward in enumerate(rewards)
    ]


def curves(app):
    return [one for one in app.get("bidi_component") if "curve_grid" in one.proto.component_name]


def frames(app):
    return {next(iter(one.value.columns)): one.value for one in app.dataframe}


def test_a_log_of_one_step_has_distributions_and_tasks_and_no_curve(open_rows):
    app = open_rows("overview", *rows_of(1.0, 0.0, 1.0))
    assert_sound(app)
    assert len(app.get("plotly_chart")) == 2  # rewards and lengths
    assert not curves(app)
    assert frames(app)["task"]["mean"].tolist() == [0.0, 1.0, 1.0]  # the lowest first


def test_a_log_of_two_steps_has_curves(open_rows):
    app = open_rows("overview", *rows_of(1.0, 0.0, steps=2))
    assert curves(app)
    assert "task" not in frames(app)


def test_a_part_that_repeats_the_reward_has_no_chart_of_its_own(open_rows):
    rows = [row | {"rewards": {"right": row["reward"]}} for row in rows_of(1.0, 0.0)]
    assert len(open_rows("overview", *rows).get("plotly_chart")) == 2


def test_more_environments_than_colours_are_a_table(open_rows):
    app = open_rows("overview", *rows_of(1.0, 0.0, steps=2, envs=9), overview_by="env")
    assert_sound(app)
    assert not curves(app)
    assert len(frames(app)["env"]) >= 9


def test_eight_environments_are_curves(open_rows):
    assert curves(open_rows("overview", *rows_of(1.0, steps=2, envs=8), overview_by="env"))


def test_environments_that_are_chosen_are_curves_again(open_rows):
    rows = rows_of(1.0, 0.0, steps=2, envs=9)
    assert curves(open_rows("overview", *rows, overview_by="env", env="e1,e2"))


def test_the_rollouts_of_a_step_are_one_click_away(open_rows):
    app = open_rows("overview", *rows_of(1.0, 0.0))
    (button,) = (one for one in app.button if one.label == "Open the rollouts")
    button.click().run()
    assert_sound(app)
    assert app.subheader
    assert query(app)["step"] == "0"


def test_the_filter_of_a_task_finds_its_rollouts(open_rows):
    """Its name may hold what the filter's language has a meaning for."""
    name = "task '1'"
    where = f"group_id == {text_literal(name)}"
    app = open_rows("rollouts", *rows_of(1.0, 0.0, 0.5), where=where)
    assert_sound(app)
    assert count(app).startswith("1 ")


@pytest.mark.parametrize(
    "folder", ["inspect", "lm_eval", "human_eval", "evalplus", "verifiers", "nemo_gym"]
)
def test_every_kind_of_evaluation_has_its_tasks(open_app, folder):
    run = discover(DATA / folder).runs[0].name
    app = open_app(DATA / folder, "overview", run=run)
    assert_sound(app)
    assert not curves(app)
    assert len(frames(app)["task"])
