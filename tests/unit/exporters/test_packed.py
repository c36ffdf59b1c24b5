from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from opened_logs import lines_of_batch

from exporters.batch import Place
from exporters.packed import take_packed
from exporters.snapshot import Copies

# Two sequences, [1 2 | 3 4 5] and [6 | 7 8], and one token of padding.
IDS = [1, 2, 3, 4, 5, 6, 7, 8, 0]
LENGTHS = [5, 3]
LOSS = [0, 0, 1, 1, 1, 0, 1, 1, 0]
LOGPROBS = [0.0, -2, -3, -4, -5, -55, -7, -8, 0]


def records(frame: dict[str, Any] | None = None, **arrays: Any) -> list[dict[str, Any]]:
    given = {"input_ids": IDS, "seq_lens": LENGTHS, "loss_mask": LOSS, "prompt_lens": None}
    columns = arrays.pop("columns", {})
    return lines_of_batch(take_packed(Copies(), Place(1), given | (frame or {}), arrays, columns))


def test_each_sequence_gets_its_own_prompt_response_and_values():
    first, second = records(logprobs=LOGPROBS)
    assert (first["prompt_ids"], first["response_ids"]) == ([1, 2], [3, 4, 5])
    assert (second["prompt_ids"], second["response_ids"]) == ([6], [7, 8])
    assert (first["logprobs"], second["logprobs"]) == ([-3, -4, -5], [-7, -8])
    assert "loss_mask" not in first


def test_the_first_token_of_a_sequence_has_no_logprob_whatever_stands_there():
    lengths = {"prompt_lens": [0, 0], "loss_mask": [1] * 8 + [0]}
    first, second = records(lengths, logprobs=LOGPROBS, values=LOGPROBS)
    assert first["logprobs"] == [None, -2, -3, -4, -5]
    assert second["logprobs"] == [None, -7, -8], "-55 was computed from the sequence before"
    assert second["values"] == [-55, -7, -8], "a value is of the state, not of a prediction"


def test_prompt_lengths_win_over_the_first_trained_token():
    first, second = records({"prompt_lens": [1, 1]}, logprobs=LOGPROBS)
    assert (first["prompt_ids"], first["response_ids"]) == ([1], [2, 3, 4, 5])
    assert first["loss_mask"] == [0, 1, 1, 1]
    assert "loss_mask" not in second


def test_a_sequence_without_a_trained_token_is_shown_whole():
    _, second = records({"loss_mask": [0, 0, 1, 1, 1, 0, 0, 0, 0]})
    assert (second["prompt_ids"], second["response_ids"]) == ([], [6, 7, 8])
    assert second["loss_mask"] == [0, 0, 0]


def test_a_batch_dimension_of_one_is_looked_through():
    frame = {"input_ids": [IDS], "loss_mask": [LOSS]}
    first, _ = records(frame, logprobs=np.array([LOGPROBS]), advantage=[0.5, -0.5])
    assert first["logprobs"] == [-3, -4, -5]
    assert first["advantage"] == 0.5


def test_topk_is_cut_along_tokens():
    _, second = records(topk_ids=np.arange(18).reshape(9, 2))
    assert second["topk_ids"] == [[12, 13], [14, 15]]


@pytest.mark.parametrize(
    "frame",
    [
        {"seq_lens": [5, 5]},
        {"seq_lens": [9, -1]},
        {"seq_lens": [0.5, 3]},
        {"prompt_lens": [9, 1]},
        {"prompt_lens": [1]},
        {"loss_mask": LOSS[:-1]},
        {"input_ids": [0.5] * 9},
    ],
)
def test_lengths_that_do_not_fit_the_tokens_are_an_error(frame):
    with pytest.raises(ValueError, match=r"seq_lens|prompt_lens|loss_mask|input_ids"):
        records(frame)


def test_an_array_of_another_length_is_refused_by_name():
    given = {"input_ids": IDS, "seq_lens": LENGTHS, "loss_mask": LOSS, "prompt_lens": None}
    batch = take_packed(Copies(), Place(1), given, {"entropy": [0.0] * 8, "rank": [1, 2]}, {})
    assert list(batch.refused) == ["entropy", "rank"]
    assert not batch.arrays
