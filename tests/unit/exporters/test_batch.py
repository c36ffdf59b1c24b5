from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from opened_logs import lines_of_batch

from exporters.batch import PaddedBatch, Place, take_padded
from exporters.snapshot import Copies

IDS = [[1, 2, 3, 0], [4, 5, 0, 0]]
MASK = [[1, 1, 1, 0], [1, 1, 0, 0]]
FRAME = {"prompt_ids": [[7, 8], [9, 9]], "prompt_mask": None}
FRAME |= {"response_ids": IDS, "response_mask": MASK}
TEXTS = {"prompt": ["p", "q"]}


def taken(arrays: dict[str, Any], columns: dict[str, Any] | None = None) -> PaddedBatch:
    return take_padded(Copies(), Place(1), FRAME, arrays, columns or {})


def records(frame: dict[str, Any] | None = None, **arrays: Any) -> list[dict[str, Any]]:
    columns = arrays.pop("columns", {})
    batch = take_padded(Copies(), Place(3, 0, 10), FRAME | (frame or {}), arrays, columns)
    return lines_of_batch(batch, rank=1)


def test_a_prompt_without_ids_is_left_out_and_its_text_is_kept():
    first, second = records({"prompt_ids": None}, columns=TEXTS)
    assert "prompt_ids" not in first
    assert (first["prompt"], first["response_ids"]) == ("p", [1, 2, 3])
    assert (second["prompt"], second["response_ids"]) == ("q", [4, 5])


def test_a_prompt_mask_without_prompt_ids_is_an_error_that_says_so():
    with pytest.raises(ValueError, match="prompt_mask: expected only with prompt_ids"):
        records({"prompt_ids": None, "prompt_mask": [[1, 1], [1, 1]]})


@pytest.mark.parametrize("kind", [list, np.array, torch.tensor])
def test_reward_parts_are_the_same_as_lists_by_name_and_as_a_dict_a_rollout(kind):
    by_name = {"correct": kind([1.0, 0.0]), "format": kind([0.25, 0.5])}
    by_rollout = [{"correct": 1.0, "format": 0.25}, {"correct": 0.0, "format": 0.5}]
    first = records(columns={"rewards": by_name})
    assert [line["rewards"] for line in first] == by_rollout
    assert first == records(columns={"rewards": by_rollout})


def test_a_reward_part_of_another_length_is_refused_by_its_name():
    batch = taken({}, {"rewards": {"correct": [1.0, 0.0], "format": [0.2]}})
    assert batch.refused == {"rewards": "format: expected 2 values, one a rollout, found 1"}


@pytest.mark.parametrize("side", [1, -1], ids=["right", "left"])
def test_padding_of_either_side_is_cut_from_ids_and_arrays_alike(side):
    def on_that_side(rows: list[list[float]]) -> list[list[float]]:
        return [row[::side] for row in rows]

    frame = {
        "prompt_ids": on_that_side([[7, 0], [8, 9]]),
        "prompt_mask": on_that_side([[1, 0], [1, 1]]),
        "response_ids": on_that_side(IDS),
        "response_mask": on_that_side(MASK),
    }
    logprobs = on_that_side([[-1.0, -2.0, -3.0, 0.0], [-4.0, -5.0, 0.0, 0.0]])
    first, second = records(frame, logprobs=logprobs)
    assert (first["prompt_ids"], second["prompt_ids"]) == ([7], [8, 9][::side])
    assert (first["response_ids"], second["response_ids"]) == ([1, 2, 3][::side], [4, 5][::side])
    assert (first["logprobs"], second["logprobs"]) == ([-1, -2, -3][::side], [-4, -5][::side])


def test_a_hole_in_the_response_mask_stays_in_place_and_out_of_the_loss():
    mask = [[1, 0, 1, 0], [1, 1, 0, 0]]
    first, second = records({"response_mask": mask}, loss_mask=np.ones((2, 4), int))
    assert first["response_ids"] == [1, 2, 3]
    assert first["loss_mask"] == [1, 0, 1]
    assert "loss_mask" not in second


def test_a_loss_mask_of_ones_is_left_out():
    assert all("loss_mask" not in record for record in records(loss_mask=MASK))


def test_no_mask_means_no_padding():
    assert records({"response_mask": None})[1]["response_ids"] == [4, 5, 0, 0]


def test_an_empty_response_is_a_record_with_empty_arrays():
    first, _ = records({"response_mask": [[0] * 4, [1] * 4]}, logprobs=np.zeros((2, 4)))
    assert first["response_ids"] == first["logprobs"] == []
    assert "loss_mask" not in first


def test_one_number_a_rollout_is_a_scalar():
    first, second = records(advantage=[0.5, -0.5], reward=[1.0, float("nan")])
    assert (first["advantage"], second["advantage"]) == (0.5, -0.5)
    assert (first["reward"], second["reward"]) == (1, None)


def test_a_constant_float_array_is_a_scalar_but_unmeasured_stays_an_array():
    first, second = records(values=[[2.0] * 4, [float("nan")] * 4])
    assert first["values"] == 2
    assert second["values"] == [None, None]


def test_flags_are_zero_and_one():
    first, _ = records(is_masked=torch.tensor(MASK).bool())
    assert first["is_masked"] == [1, 1, 1]


def test_topk_is_cut_along_tokens():
    first, second = records(topk_ids=np.arange(24).reshape(2, 4, 3))
    assert np.shape(first["topk_ids"]) == (3, 3)
    assert second["topk_ids"] == [[12, 13, 14], [15, 16, 17]]


def test_every_record_says_where_it_belongs():
    first, second = records()
    assert [first[k] for k in ("type", "step", "micro_step", "rank")] == ["sample", 3, 0, 1]
    assert (first["index"], second["index"]) == (10, 11)


def test_columns_ride_along_and_missing_values_are_left_out():
    first, second = records(columns={"env": ["add", None], "own": [{"a": 1}, 2]})
    assert (first["env"], first["own"]) == ("add", {"a": 1})
    assert ("env" in second, second["own"]) == (False, 2)


def test_a_column_may_be_a_tensor_or_an_array():
    first, second = records(columns={"length": torch.tensor([3, 2]), "own": np.array([0.5, 1])})
    assert (first["length"], second["length"]) == (3, 2)
    assert (first["own"], second["own"]) == (0.5, 1)


def test_reward_parts_are_rounded_and_not_a_number_is_null():
    first, _ = records(columns={"rewards": [{"correct": 0.123456789, "format": float("nan")}, {}]})
    assert first["rewards"] == {"correct": 0.12346, "format": None}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("logprobs", np.zeros((2, 3))),
        ("logprobs", np.zeros((3, 4))),
        ("entropy", "text"),
        ("values", [[1.0], [1.0, 2.0]]),
        ("rank", [1, 2]),
    ],
)
def test_an_array_that_does_not_fit_is_refused_by_name(name, value):
    batch = taken({name: value})
    assert list(batch.refused) == [name]
    assert not batch.arrays


def test_a_column_of_another_length_is_refused_rather_than_shifted():
    batch = taken({}, {"env": ["x"], "step": [1, 2], "split": "ab", "group_id": ["a", "b"]})
    assert list(batch.refused) == ["env", "step", "split"]
    assert set(batch.columns) == {"group_id"}


@pytest.mark.parametrize(
    "frame",
    [
        {"response_mask": [[1, 1], [1, 1]]},
        {"prompt_ids": [[1, 2]]},
        {"response_ids": [1, 2], "response_mask": None},
        {"response_ids": [[0.5], [1.5]], "response_mask": None},
    ],
)
def test_a_frame_that_disagrees_with_itself_is_an_error(frame):
    with pytest.raises(ValueError, match=r"prompt|response"):
        records(frame)


def test_a_snapshot_does_not_see_what_happens_to_the_tensor_later():
    tensor = torch.ones(2, requires_grad=True)
    array = np.ones(2, dtype=np.float32)
    copies = [Copies().take(tensor), Copies().take(array)]
    with torch.no_grad():
        tensor.zero_()
    array[:] = 0
    assert all(copy.tolist() == [1, 1] for copy in copies)


def test_a_snapshot_takes_any_float_type_as_float32():
    values = [torch.ones(1, dtype=torch.bfloat16), torch.ones(1).double(), np.ones(1), [1.0]]
    assert all(Copies().take(value).dtype == np.float32 for value in values)


def test_a_snapshot_of_a_conversation_does_not_see_what_is_appended_later():
    messages = [{"role": "user", "content": "2+2?"}]
    batch = taken({}, {"messages": [messages, None]})
    messages[0]["content"] = "changed"
    messages.append({"role": "assistant", "content": "4"})
    assert lines_of_batch(batch)[0]["messages"] == [{"role": "user", "content": "2+2?"}]


@pytest.mark.parametrize("mask", [np.ones((2, 3)), np.ones(2), "text"])
def test_a_loss_mask_that_does_not_fit_is_an_error_and_never_read_as_all_trained(mask):
    with pytest.raises(ValueError, match="loss_mask"):
        records(loss_mask=mask)


def test_numbers_that_are_no_rectangle_or_none_at_all_are_not_taken():
    for value in (["a"], object(), [[1.0], [1.0, 2.0]]):
        with pytest.raises((TypeError, ValueError)):
            Copies().take(value)


def test_none_among_numbers_is_taken_as_not_measured():
    first, second = records(entropy=[[1.0, None, 3.0, 0.0], [None, 2.0, 0.0, 0.0]])
    assert first["entropy"] == [1, None, 3]
    assert second["entropy"] == [None, 2]
