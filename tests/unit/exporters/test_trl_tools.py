from __future__ import annotations

from typing import Any

import pytest

from exporters.trl_tools import describe_tool_use, segments, timed, with_outcomes


def call(name: str) -> dict[str, Any]:
    functions = [{"type": "function", "function": {"name": name, "arguments": {}}}]
    return {"role": "assistant", "content": "", "tool_calls": functions}


def result(name: str, content: str) -> dict[str, Any]:
    return {"role": "tool", "name": name, "content": content}


FAILED = "{'error': 'Tool missing not found.'}"
COMPLETION = [
    call("add"),
    result("add", "3"),
    result("missing", FAILED),
    result("add", "7"),
    {"role": "assistant", "content": "10"},
]


def test_a_timed_tool_returns_and_raises_as_before_and_counts_both():
    def halve(number: int) -> int:
        if number % 2:
            raise ValueError("odd")
        return number // 2

    calls: list[tuple[str, float]] = []
    tools = timed({"halve": halve}, calls)
    assert tools["halve"](number=4) == 2
    with pytest.raises(ValueError, match="odd"):
        tools["halve"](3)
    assert tools["halve"].__name__ == "halve"
    assert [name for name, _ in calls] == ["halve", "halve"]
    assert all(seconds >= 0 for _, seconds in calls)


def test_results_say_how_long_their_call_took_and_whether_it_failed():
    told = with_outcomes(COMPLETION, [("add", 0.25), ("add", 0.5)], [1.5, 2.5])
    assert [message.get("seconds") for message in told] == [1.5, 0.25, None, 0.5, 2.5]
    assert [message.get("is_error") for message in told] == [None, False, True, False, None]
    assert "seconds" not in COMPLETION[1]


def test_segments_are_the_stretches_of_the_mask_with_the_names_of_the_tools():
    assert segments([1, 1, 0, 0, 0, 1], COMPLETION) == [
        {"start": 0, "end": 2, "role": "assistant"},
        {"start": 2, "end": 5, "role": "tool", "name": "add, missing"},
        {"start": 5, "end": 6, "role": "assistant"},
    ]


@pytest.mark.parametrize(
    ("truncated", "completion", "reason"),
    [
        (False, COMPLETION, "stop"),
        (False, COMPLETION[:1], "tool_calls"),
        (True, COMPLETION[:1], "length"),
        (True, [], "length"),
    ],
)
def test_a_rollout_whose_last_call_was_not_served_says_so(truncated, completion, reason):
    rollout: dict[str, Any] = {
        "is_truncated": truncated,
        "finish_reason": "length" if truncated else "stop",
    }
    prompt = [{"role": "user", "content": "add"}]
    describe_tool_use([rollout], [prompt], [completion], ["text"], [[1]])
    assert (rollout["finish_reason"], rollout["response"]) == (reason, "text")
    assert rollout["messages"] == [*prompt, *completion]
