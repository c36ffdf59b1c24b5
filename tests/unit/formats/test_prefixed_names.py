"""Lines of PPO and GRPO are read whatever stands before and behind the names of their keys."""

import json
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from read_formats import records, run_of

from board.analysis.audit import audit_all
from board.cli import main

NAMES = {
    "prompt": ("decoded_prompt", "prompt_text", "task_prompt", "model_prompt", "promptText"),
    "response": ("decoded_completion", "model_output_text", "sampled_response", "completionText"),
    "reward": ("scalar_reward", "reward_value", "total_score", "rewardTotal"),
    "step": ("checkpoint_step", "global_step_num", "train_iteration", "globalStep"),
    "response_ids": ("completion_token_ids", "response_ids_list", "responseTokens"),
    "loss_mask": ("response_mask", "action_mask", "completion_loss_mask"),
}
CHOSEN = st.fixed_dictionaries({field: st.sampled_from(names) for field, names in NAMES.items()})


def line(names: dict[str, str], step: int, number: int) -> dict[str, Any]:
    values = {
        "prompt": f"What is {number} plus two?",
        "response": f"I think it is {number + 2}.",
        "reward": number / 2,
        "step": step,
        "response_ids": [7, 8, number],
        "loss_mask": [1, 1, 0],
    }
    return {names[field]: value for field, value in values.items()}


@settings(max_examples=40, deadline=None)
@given(CHOSEN)
def test_fields_are_found_by_the_words_of_their_keys(names):
    rows = [line(names, step, number) for step, number in product(range(2), range(3))]
    with TemporaryDirectory() as folder:
        run = run_of(Path(folder), rows)
        assert audit_all(run, lambda done, total: None).problems == ()
        for record, (step, number) in zip(records(run), product(range(2), range(3)), strict=True):
            expected = line(dict(zip(NAMES, NAMES, strict=True)), step, number)
            assert record.step == step
            assert (record.texts["prompt"], record.texts["response"], record.scores["reward"]) == (
                expected["prompt"],
                expected["response"],
                expected["reward"],
            )
            assert record.response_ids is not None
            assert record.response_ids.values().tolist() == expected["response_ids"]
            assert record.tokens["loss_mask"].values().tolist() == expected["loss_mask"]


def test_advantages_of_tokens_are_no_advantage_of_the_rollout(tmp_path):
    row = line({field: names[0] for field, names in NAMES.items()}, 1, 1)
    (record,) = records(run_of(tmp_path, [row | {"advantages": [0.5, 0.25, -0.5]}]))
    assert record.tokens["advantages"].values().tolist() == [0.5, 0.25, -0.5]
    assert "advantage" not in record.scores


def test_lists_under_such_names_are_a_rollout_each(tmp_path):
    row = {
        "global_step_num": 3,
        "task_prompt": "What is two plus two?",
        "sampled_completions": ["It is four.", "No idea at all."],
        "completion_rewards": [1.0, 0.0],
        "task_correct": [True, False],
    }
    first, second = records(run_of(tmp_path, [row]))
    assert (first.step, first.texts["response"], first.scores["reward"]) == (3, "It is four.", 1.0)
    assert (second.texts["response"], second.scores["reward"]) == ("No idea at all.", 0.0)
    assert first.ids["group_id"] == second.ids["group_id"]


@pytest.mark.parametrize("before", ["state", "observation", "obs"])
def test_transitions_are_what_was_seen_done_and_got(tmp_path, before):
    row = {before: "You stand at a door.", "action": "open the door", "reward": 0.5, "done": True}
    (record,) = records(run_of(tmp_path, [row | {f"next_{before}": "It is open."}]))
    assert (record.texts["prompt"], record.texts["response"]) == (row[before], row["action"])
    assert record.scores["reward"] == 0.5
    assert record.extras[f"next_{before}"] == "It is open."


def test_a_mapping_is_suggested_only_for_files_that_one_can_read(tmp_path, capsys):
    for name in ("a.yaml", "a.txt"):
        (tmp_path / name).write_text("- prompt: a question\n  response: an answer\n  step: 1\n")
        main(["sniff", str(tmp_path / name), "--json"])
        (file,) = json.loads(capsys.readouterr().out)["rows"]
        assert (file["suggested"], file["preview"]) == (None, [])
