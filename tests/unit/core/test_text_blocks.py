"""Texts of models cut into reasoning, tool calls, results and the rest."""

from __future__ import annotations

import pytest

from board.core.tokens.text_blocks import THINK_TAGS, blocks_of, think_tags


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
