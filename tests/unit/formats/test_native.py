import pytest

from board.core import schema
from board.core.records import Record
from board.errors import RecordError
from board.formats.base import Event


@pytest.mark.parametrize("kind", ["header", "step_end", "close"])
def test_typed_lines_are_events(read_line, kind):
    event = read_line("native", {"type": kind, "step": 4, "rank": 1})
    assert isinstance(event, Event)
    assert event.kind == kind
    assert event.data["step"] == 4


@pytest.mark.parametrize("fields", [{}, {"type": "sample"}])
def test_a_line_without_a_type_is_a_rollout(read_line, fields):
    record = read_line("native", {"step": 1, "reward": 0.5, **fields})
    assert isinstance(record, Record)
    assert record.scores == {"reward": 0.5}
    assert "type" not in record.extras


@pytest.mark.parametrize("kind", ["sampel", None, 3, ["sample"], {"a": 1}])
def test_a_line_of_an_unknown_type_is_refused_and_told_what_is_known(read_line, kind):
    with pytest.raises(RecordError) as caught:
        read_line("native", {"type": kind, "step": 1})
    assert caught.value.field == "type"
    assert "step_end" in caught.value.hint


def test_every_array_of_the_record_is_a_token_metric(read_line):
    arrays = {name: [0.0, 1.0] for name in schema.TOKEN_ARRAY_FIELDS}
    record = read_line("native", {"step": 1, "response_ids": [5, 6], **arrays})
    assert set(record.tokens) == set(arrays)
    assert record.remarks == []


def test_every_array_may_be_one_number_when_it_is_constant(read_line):
    constants = dict.fromkeys(schema.TOKEN_ARRAY_FIELDS, 1)
    record = read_line("native", {"step": 1, "response_ids": [5, 6, 7], **constants})
    assert {name: array.values().tolist() for name, array in record.tokens.items()} == {
        name: [1, 1, 1] for name in constants
    }


def test_ids_texts_and_structure_have_their_places(read_line):
    messages = [{"role": "user", "content": "q"}]
    segments = [{"start": 0, "end": 1, "role": "assistant"}]
    ids = {"micro_step": 1, "rank": 3, "rollout_id": "r", "env": "math", "split": "train"}
    ids |= {"policy_version": 6, "timestamp": 7.5}
    topk = {"topk_ids": [[4, 5]], "topk_logprobs": [[-0.1, -0.2]]}
    arrays = {"prompt_ids": [1, 2, 3], "response_ids": [4], "messages": messages}
    line = {"step": 2, "index": 4, "group_id": 5, "segments": segments, **ids, **arrays, **topk}
    record = read_line("native", line)
    assert record.ids == {**ids, "group_id": "5"}
    assert record.prompt_ids.values().tolist() == [1, 2, 3]
    assert record.response_ids.values().tolist() == [4]
    assert record.messages == messages
    assert record.segments == segments
    assert set(record.extras) == {"topk_ids", "topk_logprobs"}


@pytest.mark.parametrize("key", ["messages", "segments"])
def test_structure_of_another_form_is_left_out_and_named(read_line, key):
    record = read_line("native", {"step": 1, "reward": 1, key: ["text"]})
    assert [remark.field for remark in record.remarks] == [key]
