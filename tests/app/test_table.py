"""What sorting, filters and reading options do to the table and to the numbers."""

from pathlib import Path
from typing import Any

import pytest
from page_elements import (
    assert_sound,
    choice,
    count,
    go_to,
    readers,
    rollout_list,
    table,
    texts,
    tiles,
)
from streamlit.testing.v1 import AppTest

SAMPLES = Path(__file__).parents[2] / "rollout_samples"


def sent(app: AppTest) -> dict[str, Any]:
    """The page of the list, as it was sent."""
    result = rollout_list(app)
    return result["page"]


def test_sorting_orders_all_rows_in_scope_and_begins_with_the_newest_step(open_app, logs):
    whole = {"run": "native", "rollouts_scope": "run"}
    for descending in (False, True):
        app = open_app(logs, "rollouts", **whole, sort="reward", desc=f"{descending:d}")
        rewards = table(app)["reward"].tolist()
        assert len(rewards) == 32
        assert rewards == sorted(rewards, reverse=descending)
    places = sent(open_app(logs, "rollouts", **whole))["addresses"]
    assert places == sorted(places, key=lambda place: (-place[0], place[1]))
    assert len({step for step, _ in places}) > 1


def test_the_column_picker_decides_what_is_shown_beside_parts_of_the_reward(open_app, logs):
    app = open_app(logs, "rollouts", run="native")
    columns = list(table(app).columns)
    place = columns.index("reward")
    assert columns[place + 1 : place + 3] == ["rewards.correct", "rewards.format"]
    assert "grad_norm" not in columns
    app.multiselect(key="rollouts_columns").set_value(["grad_norm", "reward"]).run()
    assert list(table(app).columns) == ["index", "grad_norm", "reward"]


def test_texts_without_tokens_have_their_first_words_on_a_line_of_their_own(open_rows, open_app):
    rows = [{"step": 0, "prompt": "p", "response": "Let me\nsee.", "reward": 1.0}]
    page = sent(open_rows("rollouts", *rows))
    assert page["words"] == ["Let me see."]
    assert "response" not in [column["name"] for column in page["columns"]]
    assert sent(open_app(SAMPLES, "rollouts", run="ppo_critic"))["words"] is None


def test_a_conversation_is_listed_by_its_last_question_and_its_final_answer(open_rows):
    call = '<tool_call>\n{"name": "add", "arguments": {"a": 2}}\n</tool_call>'
    answer = "<think>So it is 5.</think>The sum is 5."
    row = {
        "input": f"system\n{'You are an agent. ' * 40}\nuser\nAdd 2 and 3.\nassistant\n",
        "output": f"{call}\nuser\n<tool_response>\n5\n</tool_response>\nassistant\n{answer}",
        "score": 1.0,
        "step": 1,
    }
    page = sent(open_rows("rollouts", row, {**row, "output": call}))
    assert page["words"] == ["The sum is 5.", 'add({"a": 2})']
    prompt = [column["name"] for column in page["columns"]].index("prompt")
    assert [values[prompt] for values in page["values"]] == ["Add 2 and 3."] * 2


def test_environments_that_differ_in_their_ends_are_told_apart(open_rows):
    envs = [f"company/environments/arithmetic-{n}" for n in (1, 2)]
    page = sent(open_rows("rollouts", *({"step": 0, "response": "r", "env": e} for e in envs)))
    width = next(c["width"] for c in page["columns"] if c["name"] == "env")
    assert width >= 6 * len(envs[0])


def test_the_cap_is_kept_in_table_and_curves_and_told(open_app, logs):
    app = open_app(logs, run="native", step="10", cap="2")
    assert float(tiles(app)["Reward"]["value"]) == pytest.approx((0.05 + 0.15) / 2)
    assert "24 rollouts beyond the cap" in texts(app)
    go_to(app, "rollouts")
    assert table(app)["index"].tolist() == [0, 1]
    app.number_input(key="cap").set_value(0).run()
    assert len(table(app)) == 8


def test_padding_adds_neither_length_nor_kl_and_is_counted(open_app, logs):
    app = open_app(logs, "rollouts", run="rllb", step="1")
    assert set(table(app)["response_tokens"]) == {3}
    assert "27 padding tokens left out" in texts(app)
    app.text_input(key="pads").set_value("").run()
    assert set(table(app)["response_tokens"]) == {6}
    assert "padding tokens" not in texts(app)


def test_the_system_prompt_ends_at_the_marker(open_app, logs):
    app = open_app(logs, "rollout", run="native", step="10", reader_as="text")
    assert "You are terse. END What is 2+0?" in str(readers(app))
    app.text_input(key="sysend").set_value("END ").run()
    assert "You are terse" not in str(readers(app))
    assert "What is 2+0?" in str(readers(app))


def test_the_last_ten_steps_are_the_newest(open_rows, open_app, tmp_path):
    rows = [{"step": step, "prompt": "p", "reward": 1.0} for step in range(12)]
    app = open_rows("rollouts", *rows, scope="last")
    assert [step for step, _ in sent(app)["addresses"]] == [*range(11, 1, -1)]
    assert count(app) == "10 rollouts"
    app = open_app(tmp_path, "rollouts", rollouts_scope="last", where="step > 5")
    assert count(app) == "6 of 10 rollouts"


def test_a_page_of_the_list_names_what_it_lies_between_and_a_link_shows_the_page_it_is_on(
    open_rows,
):
    rows = [{"step": 0, "prompt": "p", "response": "r", "reward": float(n)} for n in range(450)]
    page = sent(open_rows("rollouts", *rows, sort="reward", page="1"))
    assert (page["first"], page["total"], len(page["addresses"])) == (200, 450, 200)
    between = [page["before"], *page["addresses"], page["after"]]
    assert between == [[0, index] for index in range(199, 401)]
    page = sent(open_rows("rollouts", *rows, sort="reward", index="430"))
    assert page["first"] == 400
    assert [0, 430] in page["addresses"]
    assert sent(open_rows("rollouts", *rows, sort="reward"))["first"] == 0


def test_another_step_opens_the_first_rollout_of_its_list(open_app, logs):
    app = open_app(logs, "rollouts", run="native", step="10", index="3", sort="reward", desc="1")
    next(b for b in app.button if b.key == "step_chevron_right").click().run()
    assert_sound(app)
    step, index = sent(app)["addresses"][0]
    assert (choice(app, "step"), choice(app, "index")) == (step, index) == (20, 7)


def test_the_kl_estimator_chosen_is_the_one_on_the_card(open_app, logs):
    app = open_app(logs, run="rllb")
    assert "KL(policy‖ref), k3" in tiles(app)
    app = open_app(logs, run="rllb", overview_kl="k1")
    assert float(tiles(app)["KL(policy‖ref), k1"]["value"]) == pytest.approx(0.1)
    assert "KL(policy‖ref), k3" not in tiles(app)


def test_a_metric_is_never_called_kl_or_ratio_alone(open_app, logs):
    app = open_app(logs, run="native")
    labels = [label.lower() for label in tiles(app)] + [m.value.lower() for m in app.markdown]
    assert not {"kl", "ratio", "**kl**", "**ratio**"} & set(labels)
