"""Tools and scorers that fail are told by what is the same and what is not, in meaningless words."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from read_formats import run_of

from board.query.failures import clusters

_SEEDS = range(3)
_CALLS = ("list the folder", "read the page", "count all rows")


def _words(dice: random.Random, count: int = 5) -> str:
    return " ".join("".join(dice.choices("bdfglmnoprstuvwy", k=6)) for _ in range(count))


def _row(
    prompt: str, arguments: dict[str, str], answer: str, reward: float | None
) -> dict[str, Any]:
    function = {"name": "lookup", "arguments": json.dumps(arguments) if arguments else ""}
    call = {"id": "c", "type": "function", "function": function}
    return {
        "step": 1,
        "prompt": [{"role": "user", "content": prompt}],
        "response": [
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": answer},
            {"role": "assistant", "content": "so it is"},
        ],
        "reward": reward,
    }


def _as_text(row: dict[str, Any]) -> dict[str, Any]:
    called, answered, said = row["response"]
    function = called["tool_calls"][0]["function"]
    written = json.dumps({"name": function["name"], "arguments": function["arguments"]})
    text = f"<tool_call>\n{written}\n</tool_call>\n"
    text += f"<tool_response>\n{answered['content']}\n</tool_response>\n"
    return {**row, "prompt": row["prompt"][0]["content"], "response": text + said["content"]}


def _causes(folder: Path, rows: list[dict[str, Any]]) -> list[str | None]:
    run = run_of(folder, rows)
    sql = f"SELECT {run.column('cause')} AS cause FROM {run.view} ORDER BY step, position"
    return [row["cause"] for row in run.table(sql).to_pylist()]


def _rows(dice: random.Random, *, paid: float = 0.7) -> list[dict[str, Any]]:
    """Of six prompts, each of which asks a tool the same few things; it answers by prompt and call."""
    rows: list[dict[str, Any]] = []
    for _ in range(6):
        prompt = _words(dice)
        answers = {call: _words(dice) for call in _CALLS}
        for _ in range(12):
            call = dice.choice(_CALLS)
            reward = float(dice.random() < paid)
            rows.append(_row(prompt, {"what": call}, answers[call], reward))
    return rows


@pytest.mark.parametrize("form", [dict, _as_text])
@pytest.mark.parametrize("seed", _SEEDS)
def test_an_answer_that_the_same_call_gets_at_times_and_nobody_is_paid_for_is_a_broken_tool(
    tmp_path, seed, form
):
    dice = random.Random(seed)
    rows, saying = _rows(dice), _words(dice)
    failed = {at for at in range(len(rows)) if dice.random() < 0.3}
    for at in failed:
        rows[at]["response"][1]["content"] = f"{saying} {dice.randrange(10**6)}"
        rows[at]["reward"] = dice.choice([0.0, None])
    causes = _causes(tmp_path, [form(row) for row in rows])
    assert {causes[at] for at in failed} == {"tool_error"}
    assert {cause for at, cause in enumerate(causes) if at not in failed} <= {None, "policy"}


@pytest.mark.parametrize("form", [dict, _as_text])
@pytest.mark.parametrize("seed", _SEEDS)
def test_a_mistake_that_is_answered_alike_whenever_it_is_made_is_the_policy_s(tmp_path, seed, form):
    dice = random.Random(seed)
    rows, saying = _rows(dice), f"error: {_words(dice)}"
    for row in rows:
        if dice.random() < 0.3:
            mistake = {"waht": dice.choice(_CALLS)}
            row |= _row(row["prompt"][0]["content"], mistake, saying, 0.0)
    assert {*_causes(tmp_path, [form(row) for row in rows])} == {None, "policy"}


@pytest.mark.parametrize("seed", _SEEDS)
def test_what_a_tool_finds_may_vary_from_call_to_call(tmp_path, seed):
    dice = random.Random(seed)
    rows, found = _rows(dice), [_words(dice) for _ in range(20)]
    for row in rows:
        row["response"][1]["content"] = dice.choice(found)
    assert "tool_error" not in _causes(tmp_path, rows)


@pytest.mark.parametrize("seed", _SEEDS)
def test_an_answer_that_somebody_is_paid_for_is_one(tmp_path, seed):
    dice = random.Random(seed)
    rows, saying = _rows(dice), _words(dice)
    for at, row in enumerate(rows):
        if at % 3 == 0:
            row["response"][1]["content"] = saying
            row["reward"] = float(at == 0)
    assert {*_causes(tmp_path, rows)} == {None, "policy"}


def test_calls_without_their_arguments_are_not_known_to_be_the_same(tmp_path):
    dice = random.Random(0)
    rows, saying = _rows(dice), f"error: {_words(dice)}"
    for row in rows:
        row["response"][0]["tool_calls"][0]["function"]["arguments"] = ""
        if dice.random() < 0.3:
            row["response"][1]["content"], row["reward"] = saying, 0.0
    assert {*_causes(tmp_path, rows)} == {None, "policy"}


def _noted(dice: random.Random, note: str, missing: float) -> list[dict[str, Any]]:
    """Rollouts with verdicts, every fourth with another note, some of them without a reward."""
    rows: list[dict[str, Any]] = []
    for at in range(80):
        reward = float(dice.random() < 0.5)
        row = {"step": 1, "prompt": f"prompt {at % 8}", "response": f"answer {at}"}
        row |= {"reward": reward, "grader_output": f"match {reward}"}
        if at % 4 == 0:
            row |= {"grader_output": note, "reward": None if dice.random() < missing else 0.0}
        rows.append(row)
    return rows


@pytest.mark.parametrize("seed", _SEEDS)
def test_a_note_that_goes_with_missing_rewards_is_of_a_scorer_that_failed(tmp_path, seed):
    dice = random.Random(seed)
    causes = _causes(tmp_path, _noted(dice, _words(dice), 0.4))
    assert {*causes[::4]} == {"judge"}
    assert {cause for at, cause in enumerate(causes) if at % 4} == {None, "policy"}


@pytest.mark.parametrize("seed", _SEEDS)
def test_a_note_of_zeros_is_a_verdict(tmp_path, seed):
    dice = random.Random(seed)
    assert {*_causes(tmp_path, _noted(dice, _words(dice), 0.0))} == {None, "policy"}


def test_rewards_that_are_missing_whatever_the_note_say_nothing_of_it(tmp_path):
    rows = _noted(random.Random(1), "no match", 0.3)
    for at, row in enumerate(rows):
        row["reward"] = None if at % 3 == 0 else row["reward"] or 0.0
    assert "judge" not in _causes(tmp_path, rows)


@pytest.mark.parametrize(
    ("more", "cause"),
    [
        ({"status": "aborted", "exception": "no route to host 10.0.0.1"}, "server"),
        ({"status": "aborted", "exception": None}, "aborted"),
        ({"status": "aborted", "response": ""}, "server"),
        ({"status": "aborted", "response": "", "reward": None}, "aborted"),
        ({"status": "preempted"}, "server"),
        ({"tool_server_error": True}, "tool_error"),
        ({"tool_error": True}, "policy"),
    ],
)
def test_a_word_that_it_ended_gives_way_to_what_says_why(tmp_path, more, cause):
    usual = {"step": 1, "prompt": "p", "response": "r", "status": "finished"}
    rows = [{**usual, "reward": 1.0}, {**usual, "reward": 0.0}, {**usual, "reward": 0.0} | more]
    assert _causes(tmp_path, rows)[2] == cause


def test_the_evidence_counts_what_was_seen(tmp_path):
    dice = random.Random(4)
    rows = _rows(dice)
    for row in rows[::3]:
        row["response"][1]["content"], row["reward"] = "qwop zlurk vramm", 0.0
    table = clusters(run_of(tmp_path, rows)).table
    (found,) = table.to_dict("records")
    assert (found["cause"], found["basis"], found["rollouts"]) == ("tool_error", "structural", 24)
    assert "24 of 6 prompts" in found["evidence"]
    assert found["evidence"].endswith("qwop zlurk vramm")


@pytest.mark.parametrize("seed", _SEEDS)
def test_what_misleads_the_rollouts_of_one_prompt_is_no_broken_tool(tmp_path, seed):
    dice = random.Random(seed)
    rows = _rows(dice)
    prompts = {row["prompt"][0]["content"]: f"it failed: {_words(dice)}" for row in rows}
    for at, row in enumerate(rows):
        if at % 3 == 0:
            found = prompts[row["prompt"][0]["content"]]
            row["response"][1]["content"], row["reward"] = found, 0.0
    assert "tool_error" not in _causes(tmp_path, rows)
