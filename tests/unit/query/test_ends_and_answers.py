"""Failures are told by what a rollout ends with, what its answer earned others, and what it earned."""

import json
import random
from typing import Any

import pytest
from read_formats import run_of

from board.formats.outputs.call_shapes import call_shape, is_echo

_PROMPTS = 6
_EACH = 8


def _causes(folder, rows: list[dict[str, Any]]) -> list[str | None]:
    run = run_of(folder, rows)
    sql = f"SELECT {run.column('cause')} AS cause FROM {run.view} ORDER BY step, position"
    return [row["cause"] for row in run.table(sql).to_pylist()]


def _row(prompt: int, response: list[dict[str, Any]] | str, reward: float | None) -> dict[str, Any]:
    return {"step": 1, "prompt": f"question {prompt}", "response": response, "reward": reward}


def _call(what: str) -> dict[str, Any]:
    function = {"name": "lookup", "arguments": json.dumps({"what": what})}
    call = {"id": "c", "type": "function", "function": function}
    return {"role": "assistant", "content": "", "tool_calls": [call]}


def _talk(turns: int, *, is_answered: bool = True) -> list[dict[str, Any]]:
    talk: list[dict[str, Any]] = []
    for turn in range(turns):
        talk += [
            _call(f"page {turn}"),
            {"role": "tool", "tool_call_id": "c", "content": f"text {turn}"},
        ]
    return (
        [*talk, {"role": "assistant", "content": "so it is"}]
        if is_answered
        else [*talk, _call("end")]
    )


def _talks(ended: range, turns: int) -> list[dict[str, Any]]:
    """Of rollouts, which end after a few turns with an answer; ended: with a call after so many turns."""
    return [
        _row(at % _PROMPTS, _talk(turns, is_answered=False), 0.0)
        if at in ended
        else _row(at % _PROMPTS, _talk(1 + at % 3), float(at % 2))
        for at in range(_PROMPTS * _EACH)
    ]


@pytest.mark.parametrize(("turns", "cause"), [(1, "sandbox"), (9, "policy")])
def test_a_call_that_nobody_answered_is_the_environment_s_where_no_budget_ended_it(
    tmp_path, turns, cause
):
    causes = _causes(tmp_path, _talks(range(12), turns))
    assert {*causes[:12]} == {cause}
    assert {*causes[12:]} == {None, "policy"}


def test_a_few_calls_that_nobody_answered_are_no_outage(tmp_path):
    assert {*_causes(tmp_path, _talks(range(2), 1))} == {None, "policy"}


def _graded(missing: int) -> list[dict[str, Any]]:
    rows = [_row(at % _PROMPTS, f"it is {at}", float(at % 2)) for at in range(_PROMPTS * _EACH)]
    for row in rows[:missing]:
        row["reward"] = None
    return rows


@pytest.mark.parametrize(("missing", "cause"), [(1, "unscored"), (10, "judge"), (30, "unscored")])
def test_a_reward_that_others_of_the_prompt_have_is_one_that_the_judge_left_out(
    tmp_path, missing, cause
):
    assert {*_causes(tmp_path, _graded(missing))[:missing]} == {cause}


@pytest.mark.parametrize("is_of_answers", [True, False])
def test_a_note_is_no_verdict_where_it_goes_with_answers_that_others_were_paid_for(
    tmp_path, is_of_answers
):
    dice = random.Random(1)
    rows: list[dict[str, Any]] = []
    for at in range(_PROMPTS * _EACH):
        prompt, is_right = at % _PROMPTS, dice.random() < 0.6
        text = f"Let me see. It is {prompt if is_right else prompt + dice.randrange(100, 900)}"
        rows.append(
            _row(prompt, text, float(is_right)) | {"judge_note": "fine" if is_right else "off"}
        )
    noted = [row for row in rows if row["reward"] == float(is_of_answers)][:8]
    for row in noted:
        row |= {"reward": 0.0, "judge_note": "vorübergehend geschlossen"}
    causes = _causes(tmp_path, rows)
    told = {cause for row, cause in zip(rows, causes, strict=True) if row in noted}
    assert told == ({"judge"} if is_of_answers else {"policy"})
    assert {cause for row, cause in zip(rows, causes, strict=True) if row not in noted} <= {
        None,
        "policy",
    }


def test_a_bonus_for_the_format_pays_nobody_and_parts_alone_are_added(tmp_path):
    rows = [
        {
            "step": 1,
            "prompt": f"p{at % 6}",
            "completion": f"r{at} says so",
            "task_reward": task,
            "format_reward": form,
        }
        for at in range(40)
        for task, form in [[(1.0, 0.1), (0.0, 0.1), (0.0, 0.1), (0.0, 0.0)][at % 4]]
    ]
    causes = _causes(tmp_path, rows)
    assert [cause is None for cause in causes] == [at % 4 == 0 for at in range(40)]


def test_a_word_that_it_ended_keeps_the_note_beside_it(tmp_path):
    row = {"step": 1, "prompt": "p", "response": "r", "reward": 0.0, "status": "aborted"}
    row["engine"] = "EngineDeadError: core process died"
    assert (
        _causes(tmp_path, [row, {**row, "reward": 1.0, "status": "done", "engine": ""}])[0]
        == "server"
    )


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("who wrote Germinal", "Germinal wrote", False),
        ("Germinal", "wrote Germinal", True),
        ("order 8841", "order 88", False),
        ("order 8841", "order 8842", False),
    ],
)
def test_a_shape_leaves_out_what_the_prompt_says_and_keeps_what_a_call_adds(one, other, is_same):
    prompt = "Wrote Zola order 8841 for Germinal?"
    assert (call_shape(one, prompt) == call_shape(other, prompt)) == is_same


def test_what_a_program_prints_is_its_own(tmp_path):
    code = json.dumps({"code": "print('503 Service Unavailable')"})
    assert is_echo(code, "503 Service Unavailable")
    assert is_echo("curl localhost:8000", "Failed to connect to localhost port 8000")
    assert not is_echo(code, "502 Bad Gateway")
