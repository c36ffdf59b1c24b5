"""What a trajectory's own steps say was said: logs of Tinker cookbook's environments in the summaries.

Read from thinking-machines-lab/tinker-cookbook@9dfcc3a. Environments may log what they like at a step;
these log the model's own words, so that they are known of every trajectory, without a logtree:

- agents with tools, tool_use/agent_tool_message_env.py: assistant_content (without thoughts),
  tool_call_N "NAME(ARGUMENTS)", tool_result_N;
- recipes/multiplayer_rl/guess_number/env.py: guess, feedback; recipes/audio/asr/env.py: transcript.

A step whose sampling was cut has no logs: its words are not recorded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

from board.formats.messages import Message

_SAID: Final = ("assistant_content", "guess", "transcript")
_CALL: Final = re.compile(r"tool_call_[0-9]+")
_RESULT: Final = re.compile(r"tool_result_[0-9]+")
_SPLIT_CALL: Final = re.compile(r"([^(]*)\((.*)\)", re.DOTALL)


def turns_of_logs(steps: Sequence[Mapping[str, Any]]) -> tuple[list[Message], bool]:
    """The messages that the steps' logs tell of, and whether each step says what the model said."""
    told = [list(_turns(_logs(step))) for step in steps]
    messages = [message for turns in told for message in turns]
    return messages, bool(told) and all(told)


def _logs(step: Mapping[str, Any]) -> Mapping[str, str]:
    logs = step.get("logs")
    entries = cast("dict[str, Any]", logs) if isinstance(logs, dict) else {}
    return {name: value for name, value in entries.items() if isinstance(value, str)}


def _turns(logs: Mapping[str, str]) -> Iterator[Message]:
    said = next((logs[name] for name in _SAID if name in logs), None)
    calls = [_call(value) for name, value in logs.items() if _CALL.fullmatch(name)]
    if said is None and not calls:
        return
    message: dict[str, Any] = {"role": "assistant", "content": said or ""}
    yield {**message, "tool_calls": calls} if calls else message
    for name, value in logs.items():
        if _RESULT.fullmatch(name):
            yield {"role": "tool", "content": value}
    if "guess" in logs and "feedback" in logs:
        yield {"role": "user", "content": logs["feedback"]}


def _call(text: str) -> Mapping[str, Any]:
    match = _SPLIT_CALL.fullmatch(text)
    name, arguments = match.groups() if match else (text, "")
    return {"function": {"name": name, "arguments": arguments}}
