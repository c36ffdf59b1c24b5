"""What a line holds and its rollouts do not show is found, whatever lost it."""

import json

import hypothesis.strategies as st
import pytest
from hypothesis import given

from board.core.conservation import SHORTEST_TEXT, leaves, not_shown
from board.core.records import Record

LONG = st.text("abcdefghij klmnop", min_size=SHORTEST_TEXT, max_size=40).filter(
    lambda text: len(" ".join(text.split())) >= SHORTEST_TEXT
)
KEYS = st.text("abcdefgh_", min_size=1, max_size=6)
VALUES = st.recursive(
    LONG | st.floats(-1e6, 1e6, width=32) | st.integers(-1000, 1000) | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
LINES = st.dictionaries(KEYS, VALUES, max_size=5)


@given(LINES)
def test_a_line_that_is_kept_whole_loses_nothing(line):
    assert not_shown(line, [Record(1, extras=line)]) == {}


@given(LINES)
def test_of_a_line_of_which_nothing_is_kept_every_text_is_missing(line):
    missing = not_shown(line, [Record(0)])
    assert {path for path, value in leaves(line) if isinstance(value, str)} <= missing.keys()


@given(LINES, st.data())
def test_a_key_that_is_left_out_is_missing_unless_the_rest_says_the_same(line, data):
    if not line:
        return
    key = data.draw(st.sampled_from(sorted(line)))
    rest = {name: value for name, value in line.items() if name != key}
    missing = not_shown(line, [Record(0, extras=rest)])
    known = " \0 ".join(" ".join(text.split()) for _, text in leaves(rest) if isinstance(text, str))
    lost = {
        path
        for path, value in leaves(line[key], key)
        if isinstance(value, str) and " ".join(value.split()) not in known
    }
    assert lost <= missing.keys()
    assert all(path.partition(".")[0].rstrip("[]") == key for path in missing)


@given(LINES)
def test_what_stands_below_a_stated_path_is_not_missed(line):
    assert not_shown({"out": line}, [Record(0)], {"out"}) == {}


@given(LONG, LONG)
def test_texts_within_json_within_a_text_are_looked_for_one_by_one(first, second):
    line = {"payload": json.dumps({"a": first, "b": second})}
    assert not_shown(line, [Record(0, texts={"prompt": first, "response": second})]) == {}
    if " ".join(second.split()) not in " ".join(first.split()):
        missing = not_shown(line, [Record(0, texts={"prompt": first})])
        assert [*missing] == ["payload.b"]


@pytest.mark.parametrize("lost", ["thought", "call", "result"])
def test_what_a_message_says_and_no_turn_shows_is_missing(lost):
    messages = [
        {"role": "user", "content": "What is the weather in Paris?"},
        {
            "role": "assistant",
            "reasoning_content": "I need to look that up first.",
            "tool_calls": [
                {
                    "id": "c1",
                    "function": {"name": "weather", "arguments": '{"city": "Paris, France"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "It is sunny and warm there."},
    ]
    line = {"messages": messages}
    assert not_shown(line, [Record(0, messages=messages)]) == {}
    shown = json.loads(json.dumps(messages))
    path = {
        "thought": "messages[].reasoning_content",
        "call": "messages[].tool_calls[].function.arguments.city",
        "result": "messages[].content",
    }[lost]
    if lost == "thought":
        del shown[1]["reasoning_content"]
    elif lost == "call":
        del shown[1]["tool_calls"]
    else:
        del shown[2]
    assert path in not_shown(line, [Record(0, messages=shown)])
