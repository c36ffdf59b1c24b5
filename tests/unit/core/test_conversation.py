"""Rollouts as turns: of messages, and of prompts and responses as chat templates leave them."""

from __future__ import annotations

import json
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


def said(role: str, content: Any = "", **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def call(name: str, arguments: str, identity: str = "") -> dict[str, Any]:
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


def outline(turns: list[ConversationTurn]) -> list[tuple[int, str, list[str]]]:
    return [(turn.number, turn.role, [block.kind for block in turn.blocks]) for turn in turns]


def test_a_result_stands_at_the_call_of_its_id() -> None:
    messages = [
        said("assistant", tool_calls=[call("a", "{}", "1"), call("b", "{}", "2")]),
        said("tool", "of b", tool_call_id="2"),
        said("tool", "of a", tool_call_id="1"),
    ]
    (turn,) = conversation_of(messages, {})
    assert {rank: result.text for rank, result in turn.results.items()} == {0: "of a", 1: "of b"}


def test_results_without_ids_go_to_the_calls_in_order() -> None:
    messages = [
        said("assistant", tool_calls=[call("a", "{}"), call("b", "{}")]),
        said("tool", "first"),
        said("tool", "second"),
        said("assistant", "done"),
    ]
    first, last = conversation_of(messages, {})
    assert [first.results[rank].text for rank in (0, 1)] == ["first", "second"]
    assert (last.number, last.blocks[0].text) == (4, "done")


def test_a_result_of_no_call_is_a_turn_of_its_own() -> None:
    messages = [said("assistant", "hm"), said("tool", "5", tool_call_id="9")]
    assert outline(conversation_of(messages, {})) == [
        (1, "assistant", ["text"]),
        (2, "tool", ["result"]),
    ]


def test_parts_of_anthropic_s_form_are_calls_and_results() -> None:
    messages = [
        said("user", [{"type": "text", "text": "go"}]),
        said(
            "assistant",
            [
                {"type": "thinking", "thinking": "hm"},
                {"type": "tool_use", "id": "t1", "name": "run", "input": {"x": 1}},
            ],
        ),
        said(
            "user",
            [{"type": "tool_result", "tool_use_id": "t1", "content": "no", "is_error": True}],
        ),
    ]
    turns = conversation_of(messages, {})
    assert outline(turns) == [(1, "user", ["text"]), (2, "assistant", ["reasoning", "call"])]
    assert turns[1].results[1].error == "error"


def test_reasoning_beside_the_content_comes_first() -> None:
    (turn,) = conversation_of([said("assistant", "5", reasoning_content="2+3")], {})
    assert [(block.kind, block.text) for block in turn.blocks] == [
        ("reasoning", "2+3"),
        ("text", "5"),
    ]


def test_images_are_named_with_their_size() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 4000}}
    (turn,) = conversation_of([said("user", [{"type": "text", "text": "see"}, image])], {})
    assert [(block.kind, block.text) for block in turn.blocks] == [
        ("text", "see"),
        ("image", "image 3 kB"),
    ]


def test_tags_of_a_user_are_text() -> None:
    (turn,) = conversation_of([said("user", "write <think>x</think>")], {})
    assert [block.kind for block in turn.blocks] == ["text"]


def test_what_stands_before_the_first_answer_was_given() -> None:
    messages = [said("system", "s"), said("user", "u"), said("assistant", "a"), said("user", "b")]
    assert [turn.given for turn in conversation_of(messages, {})] == [True, True, False, False]


def test_seconds_are_recorded_or_between_two_timestamps() -> None:
    messages = [
        said("user", "u", timestamp=100.0),
        said("assistant", "a", timestamp=104.5, tool_calls=[call("f", "{}", "1")]),
        said("tool", "r", tool_call_id="1", duration_ms=250),
        said("assistant", "b"),
    ]
    turns = conversation_of(messages, {})
    assert [turn.seconds for turn in turns] == [None, 4.5, None]
    assert turns[1].results[1].seconds == 0.25


def test_markers_of_a_chat_template_are_turns() -> None:
    texts = {
        "prompt": "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
        "<|im_start|>assistant\n",
        "response": "<think>hm</think>Hello<|im_end|>",
    }
    turns = conversation_of([], texts)
    assert outline(turns) == [
        (1, "system", ["text"]),
        (2, "user", ["text"]),
        (3, "response", ["reasoning", "text"]),
    ]
    assert turns[0].blocks[0].text == "Be kind."
    assert turns[2].blocks[1].text == "Hello<|im_end|>"  # the model wrote the end itself


def test_role_lines_are_turns_where_special_tokens_were_not_decoded() -> None:
    asked = {"name": "check", "arguments": {"answer": "15"}}
    response = (
        f"<tool_call>\n{json.dumps(asked)}\n</tool_call>\n"
        "user\n<tool_response>\nreward=0.0\n</tool_response>\nassistant\n#### 16"
    )
    turns = conversation_of(
        [], {"prompt": "system\nBe exact.\nuser\n3+13?\nassistant\n", "response": response}
    )
    assert outline(turns) == [
        (1, "system", ["text"]),
        (2, "user", ["text"]),
        (3, "assistant", ["call"]),
        (5, "assistant", ["text"]),
    ]
    assert turns[2].results[0].text == "reward=0.0"


def test_messages_of_the_prompt_alone_are_followed_by_the_response() -> None:
    messages = [said("user", "2+3?")]
    turns = conversation_of(messages, {"response": "5"})
    assert [(turn.number, turn.role, turn.given) for turn in turns] == [
        (1, "user", True),
        (2, "response", False),
    ]


def test_a_response_of_plain_prose_is_one_turn_whatever_its_lines_say() -> None:
    turns = conversation_of([], {"prompt": "Write.", "response": "user\nis a word"})
    assert [(turn.role, turn.blocks[0].text) for turn in turns] == [
        ("prompt", "Write."),
        ("response", "user\nis a word"),
    ]


def test_headings_of_roles_are_turns() -> None:
    texts = {"prompt": "[system]\nAdd.\n\n[user]\n2+3?", "response": "[assistant]\n5\n\n[tool]\nok"}
    assert [turn.role for turn in conversation_of([], texts)] == [
        "system", "user", "assistant", "tool",
    ]  # fmt: skip


def test_an_empty_response_is_a_turn_without_words() -> None:
    assert outline(conversation_of([], {"prompt": "p", "response": ""})) == [
        (1, "prompt", ["text"]),
        (2, "response", []),
    ]


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
def test_an_error_is_what_the_message_or_the_text_says(
    message: dict[str, Any], text: str, why: str
) -> None:
    assert error_in(message, text) == why


def test_a_stretch_of_tool_tokens_has_the_errors_of_the_results_found_in_it() -> None:
    fine = {"role": "tool", "content": "7"}
    failed = {"role": "tool", "content": "no item", "is_error": True}
    said = {"role": "assistant", "content": "Error: mine"}
    assert error_within("<tool>7<tool>no item", [fine, said, failed]) == "error"
    assert error_within("<tool>7", [fine, said, failed]) == ""
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
def test_reasoning_stands_apart_from_the_answer(text: str) -> None:
    assert parts(text) == [("reasoning", "a"), ("text", "b")]


def test_reasoning_without_an_end_is_open() -> None:
    (block,) = blocks_of("<think>and so on")
    assert (block.kind, block.text, block.is_open) == ("reasoning", "and so on", True)


def test_other_tags_can_be_named() -> None:
    assert parts("<plan>a</plan>b", think_tags("<plan>, scratchpad")) == [
        ("reasoning", "a"),
        ("text", "b"),
    ]
    assert parts("<think>a</think>", ("plan",)) == [("text", "<think>a</think>")]
    assert think_tags(" , ") == THINK_TAGS


def test_a_tool_call_is_its_name_and_its_parsed_arguments() -> None:
    text = 'I add.\n<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>\ndone'
    said, call, rest = blocks_of(text)
    assert (said.text, rest.text) == ("I add.", "done")
    assert (call.kind, call.name, call.arguments, call.error) == ("call", "add", {"a": 1}, "")


def test_a_tool_call_that_is_no_json_is_shown_as_written_and_marked() -> None:
    (call,) = blocks_of("<tool_call>{'name': add}</tool_call>")
    assert (call.arguments, call.error) == ("{'name': add}", "not valid JSON")


def test_a_tool_call_ends_reasoning_that_was_left_open() -> None:
    text = '<think>hm <tool_call>{"name": "f", "arguments": {}}</tool_call>'
    assert [block.kind for block in blocks_of(text)] == ["reasoning", "call"]


def test_a_tool_call_within_closed_reasoning_is_reasoning() -> None:
    assert parts("<think>say <tool_call>x</tool_call> then</think>ok") == [
        ("reasoning", "say <tool_call>x</tool_call> then"),
        ("text", "ok"),
    ]


def test_no_character_of_the_answer_is_lost() -> None:
    text = "  a < b, [x] and <b>bold</b>\n\n\tend  "
    assert parts(text) == [("text", text)]
