"""A value of the wrong type costs that value, is named, and never costs the rollout."""

import math

import numpy as np
import pytest

from board.core import schema
from board.core.records import ReadOptions
from board.errors import RecordError
from board.formats.field_values import read_number, read_step
from board.formats.fields import RecordBuilder
from board.formats.messages import conversation_text, message_text
from board.formats.number_arrays import RawNumbers

WRONG = (
    *(
        {"a": 1},
        {},
        [[1, 2], [3, 4]],
        [{"a": 1}],
        [{}],
        ["a", "b"],
        [1, "a", None],
        "some text",
        "",
    ),
    *(1.5, 10**400, 10**30, True, None, [None, None], math.nan, math.inf, [math.nan, 1.0]),
    *([math.inf, 1.0], []),
)


def attempted(call, *arguments):
    """What a call gave, or the RecordError it raised; any other error is a bug."""
    try:
        return call(*arguments), None
    except RecordError as error:
        return None, error


@pytest.mark.parametrize("reader", ["native", "rllb", "prime_rl_tokens"])
@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_no_value_of_any_type_in_any_field_breaks_a_reader(read_line, reader, wrong):
    good = {"step": 3, "response": "r", "response_tokens": ["a", "b"], "token_ids": [1, 2]}
    for key in (*schema.SAMPLE_FIELDS, "token_ids", "inference_logprobs", "env_name", "mine"):
        record, refusal = attempted(read_line, reader, good | {key: wrong})
        if refusal is not None:
            assert key in ("step", "token_ids"), key
            assert refusal.reason
            assert refusal.hint
            continue
        assert abs(record.step) < 2**63
        assert all(math.isfinite(score) for score in record.scores.values())
        assert all(remark.reason for remark in record.remarks)
        for array in record.tokens.values():
            values, refusal = attempted(array.values)
            assert refusal is not None or len(values) == len(array)


@pytest.mark.parametrize("wrong", [{"a": 1}, [[1], [2]], ["a"], "text"])
def test_a_token_array_of_the_wrong_type_is_left_out_and_named(read_line, wrong):
    for key in schema.TOKEN_ARRAY_FIELDS:
        record = read_line("native", {"step": 1, "response_tokens": ["a"], "reward": 1, key: wrong})
        assert key not in record.tokens
        assert record.scores == {"reward": 1}
        assert [remark.field for remark in record.remarks] == [key]
        assert record.remarks[0].severity == "partial"


WRITTEN = (3, 3.0, "3", " 3 ", "3.0", "003", "step_3", "step-3", "step 3", RawNumbers(b"[3, 3.0]"))
UNWRITTEN = (
    *(0.9, "0.9", "3.5", "", "step", "1e3", "3_4", "epoch1_step3", math.nan, math.inf, True, False),
    *(None, [3, 4], [], {"a": 1}, 2**63, -(2**80), 1e30, "9" * 30, "9" * 9000, "٣"),
)


@pytest.mark.parametrize("value", WRITTEN)
def test_a_step_is_a_whole_number_however_it_is_written(value):
    assert read_step(value) == 3
    assert [read_step(other) for other in (0, -1, "-3")] == [0, -1, -3]


@pytest.mark.parametrize("value", UNWRITTEN)
def test_what_is_no_whole_number_is_no_step(value):
    reason = "missing" if value is None else "true or false" if value in (True, False) else ""
    with pytest.raises(RecordError, match=f"step is {reason}") as caught:
        read_step(value)
    assert caught.value.field == "step"
    assert "whole number" in caught.value.hint


@pytest.mark.parametrize("written", [b"[3, 4]", b"[]", b"[3, x]"])
def test_an_array_that_is_no_step_is_told_as_it_is_written(written):
    with pytest.raises(RecordError) as caught:
        read_step(RawNumbers(written))
    assert written.decode() in caught.value.hint


def test_a_step_in_text_is_read_and_told_without_a_reason_of_its_own(read_line):
    remarks = [read_line("rllb", {"step": f"step_{i}", "response": "x"}).remarks for i in (1, 2)]
    assert remarks[0][0].reason == remarks[1][0].reason
    assert remarks[0][0].severity == "note"


@pytest.mark.parametrize("step", ["3", " 3", "-3"])
def test_a_numeric_step_in_quotes_needs_no_remark(read_line, step):
    assert read_line("rllb", {"step": step, "response": "x"}).remarks == []


NUMBERS = ((1, 1), (0, 0), (0.5, 0.5), ("0.5", 0.5), ("1e5", 1e5), ("True", 1), ("false", 0))


@pytest.mark.parametrize(
    ("value", "number"), [*NUMBERS, (True, 1), *((v, None) for v in (None, "", "None", "null"))]
)
def test_numbers_are_read_as_they_are_meant(value, number):
    assert read_number(value) == number


@pytest.mark.parametrize("value", ["abc", [1], {"a": 1}, math.inf, -math.inf, "inf", 10**400])
def test_what_is_no_finite_number_is_refused(value):
    with pytest.raises(RecordError):
        read_number(value)


@pytest.mark.parametrize("fields", [{}, {"reward": None}, {"reward": ""}])
def test_a_reward_that_is_not_recorded_is_missing_without_a_remark(read_line, fields):
    record = read_line("rllb", {"step": 1, "response": "r", **fields})
    assert record.scores == {}
    assert record.remarks == []


@pytest.mark.parametrize(
    ("reward", "scores"),
    [
        ({"a": 1.0}, {"reward": 1.0, "rewards.a": 1.0}),
        ({"a": 1, "b": None}, {"rewards.a": 1}),
        ({"score": 2, "a": "0.5"}, {"reward": 2, "rewards.a": 0.5}),
        ({"score": None, "a": 0.5}, {"rewards.a": 0.5}),
        ({"why": "boxed"}, {}),
        ({}, {}),
    ],
)
def test_a_reward_that_is_an_object_is_its_parts_and_its_score(read_line, reward, scores):
    record = read_line("rllb", {"step": 1, "prompt": "p", "response": "r", "reward": reward})
    assert record.scores == scores
    assert record.extras.get("reward_payload") == ({"why": "boxed"} if "why" in reward else None)


def test_reward_parts_are_scores_of_their_own(read_line):
    parts = {"format": 1, "right": 0.5, "unscored": None, "bad": "x", "nan": math.nan}
    record = read_line("native", {"step": 1, "rewards": parts})
    assert record.scores == {"rewards.format": 1, "rewards.right": 0.5}
    assert {remark.field for remark in record.remarks} == {"rewards.bad", "rewards.nan"}


@pytest.mark.parametrize(
    ("value", "group"), [(7, "7"), (7.0, "7"), ("7", "7"), ("a-1", "a-1"), (0, "0"), (7.5, "7.5")]
)
def test_one_group_has_one_id_however_it_is_written(read_line, value, group):
    assert read_line("native", {"step": 1, "group_id": value}).ids["group_id"] == group


@pytest.mark.parametrize("rank", [0.5, "0.5", 10**30, "x"])
def test_a_rank_that_is_no_whole_number_is_not_cut_to_one(read_line, rank):
    record = read_line("native", {"step": 1, "rank": rank, "reward": 1})
    assert "rank" not in record.ids
    assert record.remarks[0].field == "rank"
    assert read_line("native", {"step": 1, "rank": "2"}).ids["rank"] == 2


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("plain", "plain"),
        (None, ""),
        ([{"type": "text", "text": "a"}, {"type": "image_url"}, "b"], "a[image]b"),
        ([1], "[int]"),
        ({"a": 1}, "{'a': 1}"),
    ],
)
def test_every_part_of_a_message_leaves_a_trace(content, text):
    assert message_text({"role": "user", "content": content}) == text


def test_a_message_without_a_role_is_shown_as_such():
    assert conversation_text([{"content": "x"}]) == "[?]\nx"


@pytest.mark.parametrize("truth", [42, 0.5, ["a"], {"answer": 1}, True])
def test_a_ground_truth_of_any_type_is_shown(read_line, truth):
    record = read_line("rllb", {"step": 1, "response": "r", "ground_truth": truth})
    assert record.texts["ground_truth"] == str(truth)


def test_a_finish_reason_tells_whether_the_limit_ended_the_response_unless_that_is_recorded(
    read_line,
):
    for reason, truncated in {"length": 1, "LENGTH": 1, "stop": 0, "": 0}.items():
        record = read_line("native", {"step": 1, "finish_reason": reason})
        assert record.scores["is_truncated"] == truncated
    record = read_line("native", {"step": 1, "finish_reason": "length", "is_truncated": False})
    assert record.scores["is_truncated"] == 0
    assert "is_truncated" not in read_line("native", {"step": 1, "reward": 1}).scores


def test_a_number_in_the_place_of_an_array_is_kept_where_there_are_no_tokens(read_line):
    record = read_line("rllb", {"step": 1, "response": "r", "entropy": 0.5})
    assert record.tokens == {}
    assert record.extras == {"entropy": 0.5}


def test_arrays_of_unequal_length_keep_their_own_and_are_named(read_line):
    arrays = {"logprobs": [-1, -2], "values": [1, 2, 3]}
    fields = {"step": 1, "response_tokens": ["a", "b", "c"], **arrays}
    record = read_line("native", fields)
    assert record.tokens["logprobs"].values().tolist() == [-1, -2]
    assert record.tokens["values"].values().tolist() == [1, 2, 3]
    assert [remark.field for remark in record.remarks] == ["logprobs"]


@pytest.mark.parametrize("mine", [[3, 4], [3, 4, 5], [], [1.5]])
def test_an_unknown_array_is_a_token_metric_only_where_it_is_as_long_as_the_response(
    mine, read_line
):
    record = read_line("native", {"step": 1, "response_ids": [1, 2], "mine": mine})
    assert ("mine" in record.tokens) == (len(mine) == 2)
    assert ("mine" in record.extras) == (len(mine) != 2)
    assert record.remarks == []


def test_an_unknown_array_does_not_make_a_shorter_response_seem_longer(read_line):
    fields = {"step": 1, "logprobs": [-1, -2], "ref_logprobs": [-1, -2], "image_size": [1, 2, 3]}
    record = read_line("rllb", {**fields, "response": "r"})
    assert record.response_length == 2
    assert record.remarks == []


def test_an_empty_response_has_length_zero_and_not_a_missing_one(read_line):
    record = read_line("native", {"step": 1, "response": "", "response_ids": [], "logprobs": []})
    assert record.response_length == 0
    assert record.remarks == []


PADDED = {
    "step": 1,
    "response": "ab",
    "response_tokens": ["<pad>", "a", "<pad>", "b", "<pad>", "<pad>"],
    "logprobs": [9, 1, 2, 3, 9, 9],
    "mine": [8, 1, 2, 3, 8, 8],
}


def test_padding_at_both_ends_is_left_out_with_its_values(read_line):
    record = read_line("rllb", PADDED)
    assert record.response_tokens == ["a", "<pad>", "b"]
    assert record.tokens["logprobs"].values().tolist() == [1, 2, 3]
    assert record.tokens["mine"].values().tolist() == [1, 2, 3]
    assert record.pad_tokens == 3
    assert record.response_length == 3


def test_padding_is_cut_off_the_ids_too_and_of_no_array_of_another_length(read_line):
    ids = [0, 5, 0, 6, 0, 0]
    record = read_line("native", {**PADDED, "response_ids": ids, "logprobs": [1, 2, 3]})
    assert record.response_ids.values().tolist() == [5, 0, 6]
    assert record.tokens["logprobs"].values().tolist() == [1, 2, 3]
    assert record.remarks == []


def test_a_response_of_padding_only_is_empty(read_line):
    fields = {"step": 1, "response": "", "response_tokens": ["[PAD]"] * 3, "logprobs": [1, 2, 3]}
    record = read_line("rllb", fields)
    assert record.response_length == 0
    assert record.pad_tokens == 3
    assert len(record.tokens["logprobs"]) == 0


def test_padding_markers_can_be_chosen(read_line):
    fields = {"step": 1, "response_tokens": ["a", "<eos>"], "logprobs": [1, 2]}
    assert read_line("rllb", fields).pad_tokens == 0
    assert read_line("rllb", fields, ReadOptions(pad_markers=("<eos>",))).pad_tokens == 1
    assert read_line("rllb", PADDED, ReadOptions(pad_markers=())).pad_tokens == 0


def test_the_system_prompt_ends_at_its_marker(read_line):
    options = ReadOptions(system_prompt_end="<|end|>")
    fields = {"step": 1, "response": "r", "prompt": "be good<|end|>\n2+2? <|end|>"}
    assert read_line("rllb", fields, options).texts["prompt"] == "2+2? <|end|>"
    assert read_line("rllb", fields).texts["prompt"] == fields["prompt"]
    without = read_line("rllb", {**fields, "prompt": "no marker"}, options)
    assert without.texts["prompt"] == "no marker"


def test_nothing_that_is_missing_becomes_zero(read_line):
    record = read_line("native", {"step": 1})
    assert record.scores == {}
    assert record.tokens == {}
    assert record.response_length is None
    assert np.isnan(record.scores.get("ref_reward", np.nan))


def test_a_conversation_is_given_until_the_assistant_speaks_first():
    message = [{"role": role, "content": role} for role in ("system", "user", "assistant", "tool")]
    builder = RecordBuilder(ReadOptions())
    builder.take_conversation(message)
    record = builder.build(1)
    assert record.texts["prompt"] == "[system]\nsystem\n\n[user]\nuser"
    assert record.texts["response"] == "[assistant]\nassistant\n\n[tool]\ntool"
    assert list(record.messages) == message


def test_a_call_under_its_older_name_is_a_tool_call():
    call = {"role": "assistant", "content": None, "function_call": {"name": "z", "arguments": "1"}}
    assert message_text(call) == "[tool call] z(1)"
