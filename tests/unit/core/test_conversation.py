"""Rollouts as turns: of messages, and of prompts and responses as chat templates leave them."""

from typing import Any

import pytest

from board.core.texts.conversation import (
    THINK_TAGS,
    ConversationTurn,
    blocks_of,
    conversation_of,
    think_tags,
)
from board.core.texts.messages import error_in, error_within


def reported(role: str, content: Any = "", **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def call(name: str, arguments: str, identity: str = "") -> dict[str, Any]:
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


def outline(turns: list[ConversationTurn]) -> list[str]:
    """Number and role of each turn, and its blocks, those that are calls with their results."""
    lines: list[str] = []
    for turn in turns:
        blocks = [f"{block.kind} {block.text or block.name}" for block in turn.blocks]
        for rank, result in turn.results.items():
            blocks[rank] += f" -> {result.text}"
        lines.append(f"{turn.number} {turn.role}: {', '.join(blocks)}")
    return lines


TWO_CALLS = [call("a", "{}"), call("b", "{}")]
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 4000}}
THINKING = {"type": "thinking", "thinking": "hm"}
ANTHROPIC_CALL = {"type": "tool_use", "id": "t1", "name": "run", "input": {"x": 1}}
ANTHROPIC_RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "no", "is_error": True}
MESSAGES: dict[str, tuple[list[dict[str, Any]], list[str]]] = {
    "a result is at the call of its id": (
        [
            reported("assistant", tool_calls=[call("a", "{}", "1"), call("b", "{}", "2")]),
            reported("tool", "of b", tool_call_id="2"),
            reported("tool", "of a", tool_call_id="1"),
        ],
        ["1 assistant: call a -> of a, call b -> of b"],
    ),
    "results without ids go to the calls in order": (
        [
            reported("assistant", tool_calls=TWO_CALLS),
            *(reported("tool", "first"), reported("tool", "second"), reported("assistant", "done")),
        ],
        ["1 assistant: call a -> first, call b -> second", "4 assistant: text done"],
    ),
    "a result of no call is a turn of its own": (
        [reported("assistant", "hm"), reported("tool", "5", tool_call_id="9")],
        ["1 assistant: text hm", "2 tool: result 5"],
    ),
    "parts of Anthropic's form are calls and results": (
        [
            reported("user", [{"type": "text", "text": "go"}]),
            reported("assistant", [THINKING, ANTHROPIC_CALL]),
            reported("user", [ANTHROPIC_RESULT]),
        ],
        ["1 user: text go", "2 assistant: reasoning hm, call run -> no"],
    ),
    "reasoning beside the content comes first": (
        [reported("assistant", "5", reasoning_content="2+3")],
        ["1 assistant: reasoning 2+3, text 5"],
    ),
    "images are named with their size": (
        [reported("user", [{"type": "text", "text": "see"}, IMAGE])],
        ["1 user: text see, image image png 3 kB"],
    ),
    "tags of a user are text": (
        [reported("user", "write <think>x</think>")],
        ["1 user: text write <think>x</think>"],
    ),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_messages_are_turns_with_the_results_at_their_calls(name):
    messages, expected = MESSAGES[name]
    assert outline(conversation_of(messages, {})) == expected


TEXTS: dict[str, tuple[dict[str, str], list[str]]] = {
    "markers of a chat template": (
        {
            "prompt": "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
            "<|im_start|>assistant\n",
            "response": "<think>hm</think>Hello<|im_end|>",  # the model wrote the end itself
        },
        [
            *("1 system: text Be kind.", "2 user: text Hi"),
            "3 response: reasoning hm, text Hello<|im_end|>",
        ],
    ),
    "lines of roles, where special tokens were not decoded": (
        {
            "prompt": "system\nBe exact.\nuser\n3+13?\nassistant\n",
            "response": '<tool_call>\n{"name": "check"}\n</tool_call>\n'
            "user\n<tool_response>\nreward=0.0\n</tool_response>\nassistant\n#### 16",
        },
        [
            *("1 system: text Be exact.", "2 user: text 3+13?"),
            *("3 assistant: call check -> reward=0.0", "5 assistant: text #### 16"),
        ],
    ),
    "plain prose, whatever its lines say": (
        {"prompt": "Write.", "response": "user\nis a word"},
        ["1 prompt: text Write.", "2 response: text user\nis a word"],
    ),
    "headings of roles": (
        {"prompt": "[system]\nAdd.\n\n[user]\n2+3?", "response": "[assistant]\n5\n\n[tool]\nok"},
        ["1 system: text Add.", "2 user: text 2+3?", "3 assistant: text 5", "4 tool: result ok"],
    ),
    "an empty response": (
        {"prompt": "p", "response": ""},
        ["1 prompt: text p", "2 response: "],
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_prompts_and_responses_are_turns_by_what_templates_leave_in_them(name):
    texts, expected = TEXTS[name]
    assert outline(conversation_of([], texts)) == expected


def test_an_error_of_a_result_is_at_its_call():
    messages = [reported("assistant", [ANTHROPIC_CALL]), reported("user", [ANTHROPIC_RESULT])]
    assert conversation_of(messages, {})[0].results[0].error == "error"


def test_what_comes_before_the_first_answer_was_given():
    messages = [reported(role, "text") for role in ("system", "user", "assistant", "user")]
    assert [turn.given for turn in conversation_of(messages, {})] == [True, True, False, False]
    turns = conversation_of([reported("user", "2+3?")], {"response": "5"})
    assert outline(turns) == ["1 user: text 2+3?", "2 response: text 5"]
    assert [turn.given for turn in turns] == [True, False]


def test_seconds_are_recorded_or_between_two_timestamps():
    messages = [
        reported("user", "u", timestamp=100.0),
        reported("assistant", "a", timestamp=104.5, tool_calls=[call("f", "{}", "1")]),
        reported("tool", "r", tool_call_id="1", duration_ms=250),
        reported("assistant", "b"),
    ]
    turns = conversation_of(messages, {})
    assert [turn.seconds for turn in turns] == [None, 4.5, None]
    assert turns[1].results[1].seconds == 0.25


@pytest.mark.parametrize(
    ("message", "text", "why"),
    [
        ({"is_error": True}, "no", "error"),
        ({"status": "timeout"}, "", "timeout"),
        ({"exit_code": 2}, "", "exit code 2"),
        ({"exit_code": 0}, "error: 0 found", "error"),
        ({}, 'Traceback (most recent call last):\n  File "x"', "traceback"),
        ({}, "log\nTraceback (most recent call last):\nValueError: x", "traceback"),
        ({}, "Error: no such file", "error"),
        ({}, "requests.exceptions.HTTPError: 404", "error"),
        ({}, "3 failed\nexit code: 1", "exit code 1"),
        ({}, '{"error": "no such tool"}', "error"),
        ({}, '{"returncode": 0, "stdout": ""}', ""),
        ({}, "no errors: all fine", ""),
        ({}, "exit code: 0", ""),
        ({"status": "success", "error": None}, "ok", ""),
        ({}, "{'error': \"no item 'pens'\"}", "error"),  # as TRL writes it
    ],
)
def test_an_error_is_what_the_message_or_the_text_says(message, text, why):
    assert error_in(message, text) == why


def test_a_stretch_of_tool_tokens_has_the_errors_of_the_results_found_in_it():
    fine = {"role": "tool", "content": "7"}
    failed = {"role": "tool", "content": "no item", "is_error": True}
    reported = {"role": "assistant", "content": "Error: mine"}
    assert error_within("<tool>7<tool>no item", [fine, reported, failed]) == "error"
    assert error_within("<tool>7", [fine, reported, failed]) == ""
    assert error_within("Error: no such file", []) == "error"


def parts(text: str, tags: tuple[str, ...] = THINK_TAGS) -> list[tuple[str, str]]:
    return [(block.kind, block.text) for block in blocks_of(text, tags)]


@pytest.mark.parametrize(
    "text",
    [
        "<think>a</think>b",
        "<thinking>\na\n</thinking>\n\nb",
        "[reasoning]\na\n[/reasoning]\nb",
        "◁think▷a◁/think▷b",
        "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b",
        "a</think>b",
    ],
)
def test_reasoning_stands_apart_from_the_answer(text):
    assert parts(text) == [("reasoning", "a"), ("text", "b")]


def test_reasoning_without_an_end_is_open():
    (block,) = blocks_of("<think>and so on")
    assert (block.kind, block.text, block.is_open) == ("reasoning", "and so on", True)


def test_other_tags_can_be_named():
    assert parts("<plan>a</plan>b", think_tags("<plan>, scratchpad")) == [
        ("reasoning", "a"),
        ("text", "b"),
    ]
    assert parts("<think>a</think>", ("plan",)) == [("text", "<think>a</think>")]
    assert think_tags(" , ") == THINK_TAGS


def test_a_tool_call_is_its_name_and_its_parsed_arguments():
    text = 'I add.\n<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>\ndone'
    reported, call, remainder = blocks_of(text)
    assert (reported.text, remainder.text) == ("I add.", "done")
    assert (call.kind, call.name, call.arguments, call.error) == ("call", "add", {"a": 1}, "")


def test_a_tool_call_that_is_no_json_is_shown_as_written_and_marked():
    (call,) = blocks_of("<tool_call>{'name': add}</tool_call>")
    assert (call.arguments, call.error) == ("{'name': add}", "not valid JSON")


def test_a_tool_call_ends_reasoning_that_was_left_open():
    text = '<think>hm <tool_call>{"name": "f", "arguments": {}}</tool_call>'
    assert [block.kind for block in blocks_of(text)] == ["reasoning", "call"]


def test_a_tool_call_within_closed_reasoning_is_reasoning():
    assert parts("<think>say <tool_call>x</tool_call> then</think>ok") == [
        ("reasoning", "say <tool_call>x</tool_call> then"),
        ("text", "ok"),
    ]


def test_no_character_of_the_answer_is_lost():
    text = "  a < b, [x] and <b>bold</b>\n\n\tend  "
    assert parts(text) == [("text", text)]
