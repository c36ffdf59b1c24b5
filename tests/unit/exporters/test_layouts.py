"""Batches of every layout, padded, packed and ragged, come apart into the rollouts that they hold."""

from typing import Any

import numpy as np
import pytest
import torch
from opened_logs import lines_of_batch

from exporters.arrays.batch import Batch, BatchInfo, take_padded
from exporters.arrays.packed import take_packed
from exporters.arrays.ragged import take_ragged
from exporters.arrays.snapshot import Copies

NAN, INF = float("nan"), float("inf")
IDS = [[1, 2, 3, 0], [4, 5, 0, 0]]
MASK = [[1, 1, 1, 0], [1, 1, 0, 0]]
PADDED = {"prompt_ids": [[7, 8], [9, 9]], "prompt_mask": None}
PADDED |= {"response_ids": IDS, "response_mask": MASK}
# Two sequences, [1 2 | 3 4 5] and [6 | 7 8], and one token of padding.
TOKENS, LOSS = [1, 2, 3, 4, 5, 6, 7, 8, 0], [0, 0, 1, 1, 1, 0, 1, 1, 0]
PACKED = {"input_ids": TOKENS, "seq_lens": [5, 3], "loss_mask": LOSS, "prompt_lens": None}
LOGPROBS = [0.0, -2, -3, -4, -5, -55, -7, -8, 0]
ROWS = [[1, 2, 3, 4], [5, 6], [7]]
RAGGED = {"token_ids": ROWS, "response_lengths": [2, 1, 0]}
LAYOUTS = {"padded": (take_padded, PADDED), "packed": (take_packed, PACKED)}
LAYOUTS |= {"ragged": (take_ragged, RAGGED)}
KINDS = [list, np.array, torch.tensor]
ABSENT = ...
"""What stands for a field that a line lacks; None is null."""


def accepted(layout: str, frame: dict[str, Any] | None = None, **arrays: Any) -> Batch:
    """A batch. frame: what differs from the layout's usual one; columns: among the arrays."""
    take, usual = LAYOUTS[layout]
    columns = arrays.pop("columns", {})
    return take(Copies(), BatchInfo(3, 0, 10), usual | (frame or {}), arrays, columns)


def records(
    layout: str, frame: dict[str, Any] | None = None, **arrays: Any
) -> list[dict[str, Any]]:
    return lines_of_batch(accepted(layout, frame, **arrays), rank=1)


def law(
    name: str, layout: str, frame: dict[str, Any], arrays: dict[str, Any], *lines: dict[str, Any]
):
    """What is given in a layout, and fields that the lines of the rollouts then have."""
    return pytest.param(layout, frame, arrays, lines, id=name)


def of_side(side: int) -> Any:
    """Rollouts that are padded right (1) or left (-1)."""

    def on_that_side(*rows: list[float]) -> list[list[float]]:
        return [row[::side] for row in rows]

    frame = {
        "prompt_ids": on_that_side([7, 0], [8, 9]),
        "prompt_mask": on_that_side([1, 0], [1, 1]),
        "response_ids": on_that_side(*IDS),
        "response_mask": on_that_side(*MASK),
    }
    logprobs = on_that_side([-1.0, -2.0, -3.0, 0.0], [-4.0, -5.0, 0.0, 0.0])
    first = {"prompt_ids": [7], "response_ids": [1, 2, 3][::side], "logprobs": [-1, -2, -3][::side]}
    second = {"prompt_ids": [8, 9][::side], "response_ids": [4, 5][::side]}
    second |= {"logprobs": [-4, -5][::side]}
    name = "padding of either side is cut from ids and arrays alike"
    return law(name, "padded", frame, {"logprobs": logprobs}, first, second)


PARTS_BY_NAME = {"correct": [1.0, 0.0], "format": [0.25, 0.5]}
PARTS = [{"correct": 1.0, "format": 0.25}, {"correct": 0.0, "format": 0.5}]
NO_IDS = {"token_ids": None, "response_lengths": None}
LAWS = [
    law(
        "a prompt without ids is left out and its text is kept",
        *("padded", {"prompt_ids": None}, {"columns": {"prompt": ["p", "q"]}}),
        {"prompt_ids": ABSENT, "prompt": "p", "response_ids": [1, 2, 3]},
        {"prompt": "q", "response_ids": [4, 5]},
    ),
    *map(of_side, (1, -1)),
    law(
        "a hole in the response mask stays in place and out of the loss",
        *("padded", {"response_mask": [[1, 0, 1, 0], [1, 1, 0, 0]]}),
        {"loss_mask": np.ones((2, 4), int)},
        {"response_ids": [1, 2, 3], "loss_mask": [1, 0, 1]},
        {"loss_mask": ABSENT},
    ),
    law(
        "a loss mask of ones is left out",
        *("padded", {}, {"loss_mask": MASK}),
        *[{"loss_mask": ABSENT}] * 2,
    ),
    law(
        "no mask means no padding",
        *("padded", {"response_mask": None}, {}),
        *({}, {"response_ids": [4, 5, 0, 0]}),
    ),
    law(
        "an empty response has empty arrays",
        *("padded", {"response_mask": [[0] * 4, [1] * 4]}, {"logprobs": np.zeros((2, 4))}),
        {"response_ids": [], "logprobs": [], "loss_mask": ABSENT},
    ),
    law(
        "one number a rollout is a scalar, and not a number is null",
        *("padded", {}, {"advantage": [0.5, -0.5], "reward": [1.0, NAN]}),
        {"advantage": 0.5, "reward": 1},
        {"advantage": -0.5, "reward": None},
    ),
    law(
        "a constant float array is a scalar but an unmeasured one stays an array",
        *("padded", {}, {"values": [[2.0] * 4, [NAN] * 4]}),
        *({"values": 2}, {"values": [None, None]}),
    ),
    law(
        "flags are zero and one",
        *("padded", {}, {"is_masked": torch.tensor(MASK).bool()}),
        {"is_masked": [1, 1, 1]},
    ),
    law(
        "topk is cut along tokens",
        *("padded", {}, {"topk_ids": np.arange(24).reshape(2, 4, 3)}),
        {"topk_ids": [[0, 1, 2], [3, 4, 5], [6, 7, 8]]},
        {"topk_ids": [[12, 13, 14], [15, 16, 17]]},
    ),
    law(
        "none among numbers was not measured",
        *("padded", {}, {"entropy": [[1.0, None, 3.0, 0.0], [None, 2.0, 0.0, 0.0]]}),
        *({"entropy": [1, None, 3]}, {"entropy": [None, 2]}),
    ),
    law(
        "every record says where it belongs",
        *("padded", {}, {}),
        {"type": "sample", "step": 3, "micro_step": 0, "rank": 1, "index": 10},
        {"index": 11},
    ),
    law(
        "columns ride along and missing values are left out",
        *("padded", {}, {"columns": {"env": ["add", None], "own": [{"a": 1}, 2]}}),
        {"env": "add", "own": {"a": 1}},
        {"env": ABSENT, "own": 2},
    ),
    law(
        "a column may be a tensor or an array",
        "padded",
        {},
        {"columns": {"length": torch.tensor([3, 2]), "own": np.array([0.5, 1])}},
        {"length": 3, "own": 0.5},
        {"length": 2, "own": 1},
    ),
    law(
        "reward parts are rounded, and what is no finite number is null",
        *("padded", {}),
        {"columns": {"rewards": [{"correct": 0.123456789, "format": NAN}, {"length": INF}]}},
        {"rewards": {"correct": 0.12346, "format": None}},
        {"rewards": {"length": None}},
    ),
    *(
        law(
            f"reward parts by name as {kind.__name__} are those of each rollout",
            *(
                "padded",
                {},
                {"columns": {"rewards": {n: kind(v) for n, v in PARTS_BY_NAME.items()}}},
            ),
            *({"rewards": parts} for parts in PARTS),
        )
        for kind in KINDS
    ),
    law(
        "each packed sequence gets its own prompt, response and values",
        *("packed", {}, {"logprobs": LOGPROBS}),
        {"prompt_ids": [1, 2], "response_ids": [3, 4, 5], "logprobs": [-3, -4, -5]},
        {"prompt_ids": [6], "response_ids": [7, 8], "logprobs": [-7, -8], "loss_mask": ABSENT},
    ),
    law(  # -55 was computed from the sequence before, but a value is of the state, not of a prediction
        "the first token of a packed sequence has no logprob whatever stands there",
        *("packed", {"prompt_lens": [0, 0], "loss_mask": [1] * 8 + [0]}),
        {"logprobs": LOGPROBS, "values": LOGPROBS},
        {"logprobs": [None, -2, -3, -4, -5]},
        {"logprobs": [None, -7, -8], "values": [-55, -7, -8]},
    ),
    law(
        "prompt lengths win over the first trained token",
        *("packed", {"prompt_lens": [1, 1]}, {}),
        {"prompt_ids": [1], "response_ids": [2, 3, 4, 5], "loss_mask": [0, 1, 1, 1]},
        {"loss_mask": ABSENT},
    ),
    law(
        "a packed sequence without a trained token is shown whole",
        *("packed", {"loss_mask": [0, 0, 1, 1, 1, 0, 0, 0, 0]}, {}),
        *({}, {"prompt_ids": [], "response_ids": [6, 7, 8], "loss_mask": [0, 0, 0]}),
    ),
    law(
        "a packed batch dimension of one is looked through",
        *("packed", {"input_ids": [TOKENS], "loss_mask": [LOSS]}),
        {"logprobs": np.array([LOGPROBS]), "advantage": [0.5, -0.5]},
        {"logprobs": [-3, -4, -5], "advantage": 0.5},
    ),
    law(
        "packed topk is cut along tokens",
        *("packed", {}, {"topk_ids": np.arange(18).reshape(9, 2)}),
        *({}, {"topk_ids": [[12, 13], [14, 15]]}),
    ),
    law(
        "ragged values of the response or of the whole row stand at their tokens",
        *("ragged", {}),
        {"logprobs": [[-3.0, -4.0], [-6.0], []], "entropy": [[1.0, 2, 3, 4], [5.0, 6], [7.0]]},
        {"prompt_ids": [1, 2], "response_ids": [3, 4], "logprobs": [-3, -4], "entropy": [3, 4]},
        {"logprobs": [-6], "entropy": [6]},
        {"prompt_ids": [7], "response_ids": [], "logprobs": []},
    ),
    *(
        law(
            f"ragged rows may be of {kind.__name__}, and one of None was not recorded",
            *("ragged", {"token_ids": [kind(row) for row in ROWS]}),
            {"logprobs": [None, kind([-1.0]), None]},
            {"response_ids": [3, 4], "logprobs": ABSENT},
            {"logprobs": [-1]},
        )
        for kind in KINDS
    ),
    law(
        "ragged groups of any size and failed rollouts are records too",
        *("ragged", {"token_ids": [*ROWS[:2], None]}),
        {"columns": {"group_id": ["a", "a", "b"], "error": [None, None, "died"]}},
        *({}, {}, {"group_id": "b", "error": "died", "prompt_ids": [], "response_ids": []}),
    ),
    law(
        "texts alone are records",
        *("ragged", NO_IDS),
        {"columns": {"rewards": PARTS_BY_NAME, "response": ["x", "y"]}, "reward": [1.0, None]},
        {"response": "x", "reward": 1, "rewards": PARTS[0], "response_ids": ABSENT},
        {"response": "y", "reward": None, "rewards": PARTS[1]},
    ),
    law(
        "one number a ragged rollout is a scalar",
        *("ragged", {}, {"advantage": [0.5, -0.5, None]}),
        *({"advantage": 0.5}, {"advantage": -0.5}),
    ),
    law(
        "a ragged loss mask is of the response",
        *("ragged", {}, {"loss_mask": [[0, 1], [1], []]}),
        {"loss_mask": [0, 1]},
    ),
]


@pytest.mark.parametrize(("layout", "frame", "arrays", "lines"), LAWS)
def test_lines_hold_what_a_batch_says_of_each_rollout(layout, frame, arrays, lines):
    result = records(layout, frame, **arrays)
    assert len(result) == (3 if layout == "ragged" and frame is not NO_IDS else 2)
    for line, expected in zip(result, lines, strict=False):
        assert {name: line.get(name, ABSENT) for name in expected} == expected


@pytest.mark.parametrize(
    ("layout", "frame", "message"),
    [
        (
            "padded",
            {"prompt_ids": None, "prompt_mask": [[1, 1]] * 2},
            "expected only with prompt_ids",
        ),
        ("padded", {"response_mask": [[1, 1], [1, 1]]}, "response"),
        ("padded", {"prompt_ids": [[1, 2]]}, "prompt"),
        ("padded", {"response_ids": [1, 2], "response_mask": None}, "response"),
        ("padded", {"response_ids": [[0.5], [1.5]], "response_mask": None}, "response"),
        ("packed", {"seq_lens": [5, 5]}, "seq_lens"),
        ("packed", {"seq_lens": [9, -1]}, "seq_lens"),
        ("packed", {"seq_lens": [0.5, 3]}, "seq_lens"),
        ("packed", {"prompt_lens": [9, 1]}, "prompt_lens"),
        ("packed", {"prompt_lens": [1]}, "prompt_lens"),
        ("packed", {"loss_mask": LOSS[:-1]}, "loss_mask"),
        ("packed", {"input_ids": [0.5] * 9}, "input_ids"),
        ("ragged", {"response_lengths": [1, 1]}, "response_lengths"),
        ("ragged", {"response_lengths": [0.5, 1, 1]}, "response_lengths"),
        ("ragged", {"response_lengths": None}, "response_lengths"),
        ("ragged", {"response_lengths": [9, 1, 1]}, "response_lengths|token_ids"),
        ("ragged", {"token_ids": None}, "token_ids|response_lengths"),
        ("ragged", {"token_ids": [["a"], ["b"], ["c"]], "response_lengths": [1, 1, 1]}, "numbers"),
    ],
)
def test_what_makes_it_unclear_whose_tokens_they_are_is_an_error(layout, frame, message):
    with pytest.raises((TypeError, ValueError), match=message):
        records(layout, frame)


@pytest.mark.parametrize(
    ("layout", "mask"),
    [
        *(("padded", mask) for mask in (np.ones((2, 3)), np.ones(2), "text")),
        *(("ragged", mask) for mask in ([[1], [1], []], [1, 1, 1])),
    ],
)
def test_a_loss_mask_that_does_not_fit_is_an_error_and_never_read_as_all_trained(layout, mask):
    with pytest.raises(ValueError, match="loss_mask"):
        records(layout, loss_mask=mask)


@pytest.mark.parametrize(
    ("layout", "name", "value"),
    [
        ("padded", "logprobs", np.zeros((2, 3))),
        ("padded", "logprobs", np.zeros((3, 4))),
        ("padded", "entropy", "text"),
        ("padded", "values", [[1.0], [1.0, 2.0]]),
        ("padded", "rank", [1, 2]),
        ("packed", "entropy", [0.0] * 8),
        ("packed", "rank", [1, 2]),
    ],
)
def test_an_array_that_does_not_fit_is_refused_by_name(layout, name, value):
    batch = accepted(layout, **{name: value})
    assert list(batch.refused) == [name]
    arrays = lines_of_batch(batch)[0] if layout == "packed" else batch.arrays
    assert name not in arrays or name == "rank"


def test_a_column_of_another_length_is_refused_rather_than_shifted():
    columns = {"env": ["x"], "step": [1, 2], "split": "ab", "group_id": ["a", "b"]}
    batch = accepted("padded", columns=columns)
    assert list(batch.refused) == ["env", "step", "split"]
    assert set(batch.columns) == {"group_id"}
    batch = accepted("padded", columns={"rewards": {"correct": [1.0, 0.0], "format": [0.2]}})
    assert batch.refused == {"rewards": "format: expected 2 values, one a rollout, found 1"}


def test_a_ragged_row_of_another_length_is_left_out_and_named():
    batch = accepted("ragged", logprobs=[[-1.0], [-1.0], []])
    assert [batch.cut(row).refused for row in (0, 1)] == [["logprobs"], []]
    with pytest.raises(ValueError, match=r"rollout 0: logprobs: expected 2 .* or 4"):
        batch.check()


def test_a_snapshot_does_not_see_what_happens_later():
    tensor, array = torch.ones(2, requires_grad=True), np.ones(2, dtype=np.float32)
    copies = [Copies().take(tensor), Copies().take(array)]
    messages, row = [{"role": "user", "content": "2+2?"}], [-3.0, -4.0]
    padded = accepted("padded", columns={"messages": [messages, None]})
    ragged = accepted("ragged", logprobs=[row, None, None])
    with torch.no_grad():
        tensor.zero_()
    array[:] = row[0] = 0
    messages[0]["content"] = "changed"
    messages.append({"role": "assistant", "content": "4"})
    assert all(copy.tolist() == [1, 1] for copy in copies)
    assert lines_of_batch(padded)[0]["messages"] == [{"role": "user", "content": "2+2?"}]
    assert ragged.cut(0).tokens["logprobs"].tolist() == [-3, -4]


def test_a_snapshot_takes_any_float_type_as_float32_and_nothing_but_rectangles_of_numbers():
    values = [torch.ones(1, dtype=torch.bfloat16), torch.ones(1).double(), np.ones(1), [1.0]]
    assert all(Copies().take(value).dtype == np.float32 for value in values)
    for value in (["a"], object(), [[1.0], [1.0, 2.0]]):
        with pytest.raises((TypeError, ValueError)):
            Copies().take(value)
