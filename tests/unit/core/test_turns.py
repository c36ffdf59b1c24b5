from hypothesis import given
from hypothesis import strategies as st

from board.core.texts.turns import Turn, from_markers, from_messages, of_tokens, over_tokens
from board.core.tokens.pieces import PLACEHOLDER


def roles(text):
    return [(turn.role, text[turn.start : turn.end]) for turn in from_markers(text)]


def test_chatml_turns_begin_at_their_marker_and_end_after_their_end_mark():
    text = (
        "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    assert roles(text) == [
        ("system", "<|im_start|>system\nBe kind.<|im_end|>\n"),
        ("user", "<|im_start|>user\nHi<|im_end|>\n"),
        ("assistant", "<|im_start|>assistant\n"),
    ]


def test_the_templates_of_other_families_are_known():
    assert [r for r, _ in roles("<|start_header_id|>ipython<|end_header_id|>\n\n4<|eot_id|>")] == [
        "tool"
    ]
    assert [
        r for r, _ in roles("<start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\n")
    ] == [
        "user",
        "assistant",
    ]
    assert [r for r, _ in roles("<｜User｜>Hi<｜Assistant｜>Yes")] == ["user", "assistant"]
    assert roles("[INST] Hi [/INST] Yes") == [("user", "[INST] Hi [/INST]"), ("assistant", " Yes")]
    assert [r for r, _ in roles("<|user|>\nHi<|assistant|>\nYes")] == ["user", "assistant"]


def test_a_tool_keeps_its_name():
    (turn,) = from_markers("<|im_start|>tool name=search\nfound<|im_end|>")
    assert (turn.role, turn.name) == ("tool", "search")


def test_text_without_markers_has_no_turns():
    assert from_markers("user: hi <|im_start|") == []


def test_a_marker_that_a_model_spelled_in_pieces_is_no_marker():
    spelled = ["a", "<|im_start|", ">user", "\n", "b"]
    real = ["a", "<|im_start|>", "user", "\n", "b"]
    assert of_tokens(["a", "x<|im_start|>", "user", "b"]) == []
    assert [turn.role for turn in of_tokens(real)] == ["assistant", "user"]
    assert of_tokens(spelled) == []


def test_recorded_segments_win_and_broken_ones_are_passed_over():
    segments = [
        {"start": 0, "end": 1, "role": "tool", "name": "<b>"},
        {"start": 0, "end": 2, "role": "user"},
        {"start": 2, "end": 9, "role": "user"},
        {"start": "1", "end": 2, "role": "user"},
    ]
    assert of_tokens(["<|im_start|>", "user", "b"], segments) == [Turn(0, 1, "tool", "<b>")]


def test_messages_are_found_in_the_text_in_order():
    text = "I look. 42 found. It is 42."
    messages = [
        {"role": "user", "content": "not in here"},
        {"role": "assistant", "content": "I look. "},
        {"role": "tool", "name": "find", "content": "42 found."},
        {"role": "assistant", "content": "It is 42."},
        {"role": "assistant", "content": None},
    ]
    spoken = [
        (turn.role, turn.name, text[turn.start : turn.end])
        for turn in from_messages(text, messages)
    ]
    assert spoken == [
        ("assistant", "", "I look."),
        ("tool", "find", "42 found."),
        ("assistant", "", "It is 42."),
    ]


def test_one_assistant_turn_over_everything_says_nothing():
    assert of_tokens(["Hi", " you"], messages=[{"role": "assistant", "content": "Hi you"}]) == []


@given(st.lists(st.sampled_from(["a", "bc", "", "\n", PLACEHOLDER, "你"]), max_size=12), st.data())
def test_turns_over_tokens_are_in_order_inside_and_without_overlap(tokens, data):
    length = len("".join(token for token in tokens if token != PLACEHOLDER))
    places = sorted(data.draw(st.lists(st.integers(0, length), max_size=6)))
    turns = [Turn(a, b, "user") for a, b in zip(places[::2], places[1::2], strict=False)]
    position = 0
    for turn in over_tokens(turns, tokens):
        assert position <= turn.start < turn.end <= len(tokens)
        position = turn.end
