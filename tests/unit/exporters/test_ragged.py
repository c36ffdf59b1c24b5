from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from opened_logs import lines_of_batch

from exporters.batch import Place
from exporters.ragged import RaggedBatch, take_ragged
from exporters.snapshot import Copies

IDS = [[1, 2, 3, 4], [5, 6], [7]]
LENGTHS = [2, 1, 0]


def taken(frame: dict[str, Any] | None = None, **arrays: Any) -> RaggedBatch:
    given = {"token_ids": IDS, "response_lengths": LENGTHS}
    columns = arrays.pop("columns", {})
    return take_ragged(Copies(), Place(1), given | (frame or {}), arrays, columns)


def records(frame: dict[str, Any] | None = None, **arrays: Any) -> list[dict[str, Any]]:
    return lines_of_batch(taken(frame, **arrays))


def test_values_of_the_response_or_of_the_whole_row_stand_at_their_tokens():
    first, second, third = records(
        logprobs=[[-3.0, -4.0], [-6.0], []], entropy=[[1.0, 2.0, 3.0, 4.0], [5.0, 6.0], [7.0]]
    )
    assert (first["prompt_ids"], first["response_ids"]) == ([1, 2], [3, 4])
    assert (first["logprobs"], first["entropy"]) == ([-3, -4], [3, 4])
    assert (second["logprobs"], second["entropy"]) == ([-6], [6])
    assert (third["prompt_ids"], third["response_ids"], third["logprobs"]) == ([7], [], [])


@pytest.mark.parametrize("kind", [list, np.array, torch.tensor])
def test_rows_may_be_lists_arrays_or_tensors(kind):
    first, *_ = records(
        {"token_ids": [kind(row) for row in IDS]}, logprobs=[kind([-3.0, -4.0]), None, None]
    )
    assert first["response_ids"] == [3, 4]
    assert first["logprobs"] == [-3, -4]


def test_a_row_of_none_was_not_recorded():
    first, second, _ = records(ref_logprobs=[None, [-1.0], None])
    assert "ref_logprobs" not in first
    assert second["ref_logprobs"] == [-1]


def test_groups_of_any_size_and_failed_rollouts_are_records_too():
    columns = {"group_id": ["a", "a", "b"], "error": [None, None, "sandbox died"]}
    *_, failed = records({"token_ids": [*IDS[:2], None]}, columns=columns, rewards=[1, 0, 0])
    assert (failed["group_id"], failed["error"]) == ("b", "sandbox died")
    assert (failed["prompt_ids"], failed["response_ids"]) == ([], [])


def test_texts_alone_are_a_record():
    frame = {"token_ids": None, "response_lengths": None}
    first, second = records(frame, columns={"response": ["x", "y"]}, reward=[1.0, None])
    assert (first["response"], first["reward"]) == ("x", 1)
    assert (second["response"], second["reward"]) == ("y", None)
    assert "response_ids" not in first


def test_of_texts_alone_reward_parts_may_come_first_and_by_name():
    parts = {"correct": [1.0, 0.0], "format": [0.2, 0.2]}
    nothing = {"token_ids": None, "response_lengths": None}
    first, second = records(nothing, columns={"rewards": parts, "response": ["a", "b"]})
    assert (first["rewards"], first["response"]) == ({"correct": 1.0, "format": 0.2}, "a")
    assert (second["rewards"], second["response"]) == ({"correct": 0.0, "format": 0.2}, "b")


def test_one_number_a_rollout_is_a_scalar():
    first, second, _ = records(advantage=[0.5, -0.5, None])
    assert (first["advantage"], second["advantage"]) == (0.5, -0.5)


def test_a_row_of_another_length_is_left_out_and_named():
    batch = taken(logprobs=[[-1.0], [-1.0], []])
    assert batch.cut(0).refused == ["logprobs"]
    assert batch.cut(1).refused == []
    with pytest.raises(ValueError, match=r"rollout 0: logprobs: expected 2 .* or 4"):
        batch.check()


def test_a_loss_mask_that_does_not_fit_is_an_error_and_never_read_as_all_trained():
    with pytest.raises(ValueError, match="loss_mask"):
        records(loss_mask=[[1], [1], []])
    with pytest.raises(ValueError, match="loss_mask"):
        records(loss_mask=[1, 1, 1])
    assert records(loss_mask=[[0, 1], [1], []])[0]["loss_mask"] == [0, 1]


@pytest.mark.parametrize(
    "frame",
    [
        {"response_lengths": [1, 1]},
        {"response_lengths": [0.5, 1, 1]},
        {"response_lengths": None},
        {"response_lengths": [9, 1, 1]},
        {"token_ids": None},
        {"token_ids": [["a"], ["b"], ["c"]], "response_lengths": [1, 1, 1]},
    ],
)
def test_what_makes_it_unclear_whose_tokens_they_are_is_an_error(frame):
    with pytest.raises((TypeError, ValueError), match=r"response_lengths|token_ids|numbers"):
        records(frame)


def test_lists_are_copied_at_the_call():
    row = [-3.0, -4.0]
    batch = taken(logprobs=[row, None, None])
    row[0] = 9.0
    assert batch.cut(0).tokens["logprobs"].tolist() == [-3, -4]
