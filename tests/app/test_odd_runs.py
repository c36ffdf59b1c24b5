"""Runs with next to nothing in them: what a page says of what can't be told is never good news."""

from collections.abc import Iterator
from typing import Any

import pytest
from page_elements import buttons, cards, readers, texts
from written_logs import write_lines

from board.analysis import mismatch
from board.analysis.mismatch import StepMismatch
from board.errors import UnreadableError
from board.views.shared import cache

LONE = {
    "step": 1,
    "rank": 0,
    "group_id": "a",
    "reward": 0.2,
    "advantage": -0.2,
    "prompt": "p",
    "response_tokens": ["a", "b"],
    "logprobs": [-0.5, -1.5],
    "ref_logprobs": [-0.5, -1.5],
}
"""A run of one rollout, of the first step: policy and reference are still equal."""


def test_an_advantage_that_nothing_can_be_compared_with_is_not_called_right(open_rows):
    app = open_rows("step", LONE, part="groups")
    assert not app.success
    assert not app.warning
    assert "No group has two scored rollouts" in texts(app)


def test_what_no_group_of_one_rollout_can_have_is_no_empty_chart(open_rows):
    app = open_rows("overview", LONE)
    assert "Zero-std groups" not in [card["title"] for card in cards(app)]
    assert "needs group_id and reward of two rollouts a group" in texts(app).replace("\\", "")


def test_tokens_whose_values_are_all_zero_are_not_said_to_have_none(open_rows):
    (info,) = open_rows("step", LONE, of="k3_mean").info
    words = str(info.value).replace("\\", "")
    assert words.startswith("KL(policy‖ref), k3 is 0 at every token of step 1")


def test_advantages_that_cancel_but_for_rounding_have_a_mean_of_zero(open_rows):
    rows = [
        {"step": 1, "reward": 1.0, "advantage": value, "response": "a"}
        for value in (0.9352, -0.9352 + 2e-8)
    ]
    app = open_rows("step", *rows, of="advantage")
    assert "at step 1: **0**" in texts(app)


def test_one_problem_of_many_files_is_one_row(open_app, tmp_path):
    for step in range(1, 4):
        row = {"step": step, "reward": "high", "response": "a"}
        write_lines(tmp_path / "many" / f"{step}.jsonl", [row, row])
    app = open_app(tmp_path, "findings", findings_part="health")
    result = next(frame.value for frame in app.dataframe if "where (first)" in frame.value)
    of_reward = result[result["field"] == "reward"]
    assert of_reward["where (first)"].tolist() == ["1.jsonl:1 and 2 more files"]
    assert of_reward["lines"].tolist() == [6]


def test_the_length_of_several_turns_is_said_to_be_of_the_model_alone(open_rows):
    message = [("user", "q"), ("assistant", "four"), ("user", "more?"), ("assistant", "seven..")]
    messages = [{"role": role, "content": text} for role, text in message]
    app = open_rows("rollouts", {"step": 0, "messages": messages}, index="0")
    facts = [(fact["value"], fact["after"]) for fact in readers(app)[0]["facts"]]
    assert ("11", "chars by the model") in facts


@pytest.mark.parametrize(
    ("page", "query", "lacking", "how"),
    [
        ("prompts", {}, "in this run: prompt, reward.", 'Write "prompt" into'),
        (
            "step",
            {"step_part": "groups"},
            "in this run: group_id, reward.",
            'Write "group_id" into each line. Write "reward" into each line.',
        ),
        ("overview", {"overview_by": "env"}, "", 'Write "env" into'),
        (
            "mismatch",
            {},
            "at this step: logprobs and sampling_logprobs",
            '"sampling_logprobs", the engine',
        ),
    ],
)
def test_an_empty_page_says_what_the_run_lacks_and_how_to_record_it(
    open_rows, page, query, lacking, how
):
    app = open_rows(page, *({"step": step, "response": "a"} for step in (1, 2)), **query)
    (words,) = (str(info.value) for info in app.info)
    assert how in words
    assert not lacking or f"Not recorded {lacking}" in words
    assert page == "overview" or not app.get("plotly_chart")


def test_groups_without_advantages_are_not_offered_by_advantage(open_rows):
    rows = [{"step": 1, "response": "a", "reward": n, "group_id": "g"} for n in range(2)]
    app = open_rows("step", *rows, part="groups", fill="advantage")
    assert buttons(app, "Coloured by").options == ["reward"]


def test_a_reading_of_all_steps_that_fails_at_once_says_why(open_rows, monkeypatch):
    def broken(*_: Any) -> Iterator[StepMismatch]:
        raise UnreadableError("the file is gone")
        yield

    monkeypatch.setattr(mismatch, "mismatch_by_step", broken)
    app = open_rows("mismatch", LONE | {"sampling_logprobs": [-0.4, -1.4]})
    app.button(key="scan_start").click().run()
    cache.mismatch_scan(app.session_state["_run"]).wait(10)
    assert [error.value for error in app.run().error] == ["the file is gone"]


def test_a_reward_is_chosen_in_run_settings_and_goes_into_the_link(open_rows):
    parts = [{"right": 1.0, "form": 0.5}, {"right": 0.0, "form": 0.5}]
    rows = [{"step": 1, "prompt": "p", "response": "r", "rewards": part} for part in parts]
    app = open_rows("prompts", *rows)
    assert any("choose the reward under Run settings" in str(info.value) for info in app.info)
    next(b for b in app.button if b.label == "Sum of all parts").click().run()
    assert app.session_state["_run"].of_step(1)["reward"].tolist() == [1.5, 0.5]
    weight = next(field for field in app.number_input if field.label == "Weight of form")
    weight.set_value(2.0).run()
    run = app.session_state["_run"]
    assert run.of_step(1)["reward"].tolist() == [2.0, 1.0]
    assert app.query_params["reward_sum"] in ("right:1.0,form:2.0", ["right:1.0,form:2.0"])
    next(b for b in app.button if b.label == "As the log says").click().run()
    assert "reward" not in app.session_state["_run"].columns


def test_failed_tool_calls_are_counted_by_tool(open_rows):
    call = {"id": "c", "function": {"name": "search", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "Error: no such page"},
    ]
    rows = [{"step": step, "messages": messages, "reward": 1.0} for step in (1, 2)]
    app = open_rows("failures", *rows)
    table = next(own.value for own in app.dataframe if "tool" in own.value)
    assert table["tool"].tolist() == ["search"]
    assert table["errors"].tolist() == [2]
