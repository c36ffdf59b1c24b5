"""Runs with next to nothing in them: what a page says of what can't be told is never good news."""

from __future__ import annotations

from pathlib import Path

import pytest
from shown import OpenApp, assert_sound, cards, readers, texts
from written_logs import write_lines


@pytest.fixture
def lone(tmp_path: Path) -> Path:
    """A root with one run of one rollout, of the first step: policy and reference are still equal."""
    row = {"step": 1, "rank": 0, "group_id": "a", "reward": 0.2, "advantage": -0.2, "prompt": "p"}
    tokens = {"response_tokens": ["a", "b"], "logprobs": [-0.5, -1.5], "ref_logprobs": [-0.5, -1.5]}
    write_lines(tmp_path / "lone" / "a.jsonl", [row | tokens])
    return tmp_path


def test_an_advantage_that_nothing_can_be_compared_with_is_not_called_right(
    open_app: OpenApp, lone: Path
) -> None:
    app = open_app(lone, "step", part="groups")
    assert_sound(app)
    assert not app.success
    assert not app.warning
    assert "No group has two scored rollouts" in texts(app)


def test_what_no_group_of_one_rollout_can_have_is_no_empty_chart(
    open_app: OpenApp, lone: Path
) -> None:
    app = open_app(lone)
    assert_sound(app)
    assert "Zero-std groups" not in [card["title"] for card in cards(app)]
    assert "needs group_id and reward of two rollouts a group" in texts(app).replace("\\", "")


def test_tokens_whose_values_are_all_zero_are_not_said_to_have_none(
    open_app: OpenApp, lone: Path
) -> None:
    app = open_app(lone, "step", of="k3_mean")
    assert_sound(app)
    (told,) = [str(info.value).replace("\\", "") for info in app.info]
    assert told.startswith("KL(policy‖ref), k3 is 0 at every token of step 1")


def test_advantages_that_cancel_but_for_rounding_have_a_mean_of_zero(
    open_app: OpenApp, tmp_path: Path
) -> None:
    rows = [
        {"step": 1, "reward": 1.0, "advantage": value, "response": "a"}
        for value in (0.9352, -0.9352 + 2e-8)
    ]
    write_lines(tmp_path / "cancel" / "a.jsonl", rows)
    app = open_app(tmp_path, "step", of="advantage")
    assert_sound(app)
    assert "at step 1: **0**" in texts(app)


def test_one_problem_of_many_files_is_one_row(open_app: OpenApp, tmp_path: Path) -> None:
    for step in range(1, 4):
        row = {"step": step, "reward": "high", "response": "a"}
        write_lines(tmp_path / "many" / f"{step}.jsonl", [row, row])
    app = open_app(tmp_path, "findings", health="1")
    assert_sound(app)
    found = next(frame.value for frame in app.dataframe if "where (first)" in frame.value)
    of_reward = found[found["field"] == "reward"]
    assert of_reward["where (first)"].tolist() == ["1.jsonl:1 and 2 more files"]
    assert of_reward["lines"].tolist() == [6]


def test_prompts_that_share_a_long_beginning_are_told_apart(
    open_app: OpenApp, tmp_path: Path
) -> None:
    rows = [
        {"step": step, "reward": step, "prompt": "x" * 300 + str(step), "response": "a"}
        for step in range(2)
    ]
    write_lines(tmp_path / "alike" / "a.jsonl", rows)
    app = open_app(tmp_path, "prompts")
    assert_sound(app)
    (count,) = (card.value for card in app.metric if card.label == "Prompts")
    assert count == "2"


def test_the_length_of_several_turns_is_said_to_be_of_the_model_alone(
    open_app: OpenApp, tmp_path: Path
) -> None:
    said = [("user", "q"), ("assistant", "four"), ("user", "more?"), ("assistant", "seven..")]
    messages = [{"role": role, "content": text} for role, text in said]
    write_lines(tmp_path / "turns" / "a.jsonl", [{"step": 0, "messages": messages}])
    app = open_app(tmp_path, "rollouts", index="0")
    assert_sound(app)
    facts = [(fact["value"], fact["after"]) for fact in readers(app)[0]["facts"]]
    assert ("11", "chars by the model") in facts


@pytest.mark.parametrize(
    ("page", "query", "told"),
    [
        ("prompts", {}, "Pass prompt_ids="),
        ("step", {"part": "groups"}, 'meta={"group_id": ...}'),
        ("overview", {"by": "env"}, 'meta={"env": ...}'),
    ],
)
def test_an_empty_page_says_how_to_record_what_it_needs(
    open_app: OpenApp, tmp_path: Path, page: str, query: dict[str, str], told: str
) -> None:
    write_lines(tmp_path / "bare" / "a.jsonl", [{"step": 1, "response": "a", "reward": 1}])
    app = open_app(tmp_path, page, **query)
    assert_sound(app)
    assert told in "\n".join(str(info.value) for info in app.info)


def test_groups_without_advantages_are_not_offered_by_advantage(
    open_app: OpenApp, tmp_path: Path
) -> None:
    rows = [{"step": 1, "response": "a", "reward": n, "group_id": "g"} for n in range(2)]
    write_lines(tmp_path / "bare" / "a.jsonl", rows)
    app = open_app(tmp_path, "step", part="groups", fill="advantage")
    assert_sound(app)
    (coloured,) = [group for group in app.button_group if group.label == "Coloured by"]
    assert coloured.options == ["reward"]
