"""Tool calls of TRL's rollouts: how long each took, whether it failed, and where its tokens are."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby, repeat
from typing import Any

from exporters.frameworks.guard import guarded

_DIGITS = 6  # microseconds

Calls = list[tuple[str, float]]
"""The name and the seconds of every call that was made, in order."""
_Trainer: Any = object


class ToolUse(_Trainer):
    """Adds tool use to the rollouts of a GRPOTrainer: a mixin before its exporting class."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._turn_seconds: list[float] = []
        super().__init__(*args, **kwargs)

    def _generate(self, *args: Any, **kwargs: Any) -> Any:
        self._turn_seconds = []
        return super()._generate(*args, **kwargs)

    def _generate_single_turn(self, *args: Any, **kwargs: Any) -> Any:
        started = time.perf_counter()
        turn = super()._generate_single_turn(*args, **kwargs)
        self._turn_seconds.append(time.perf_counter() - started)
        return turn

    def _tool_call_loop(self, *args: Any, **kwargs: Any) -> Any:
        calls: list[Any] = [[] for _ in self._sync_tool_dicts]
        self._sync_tool_dicts = list(map(timed, self._sync_tool_dicts, calls))
        outcome = super()._tool_call_loop(*args, **kwargs)
        self._calls, self._tool_masks = calls, outcome[0]
        return outcome

    def _calculate_rewards(self, inputs: Any, prompts: Any, completions: Any, ids: Any) -> Any:
        rewards = super()._calculate_rewards(inputs, prompts, completions, ids)
        if self._rollouts and self.tools:
            with guarded(self.exporter, "tools"):  # costs what is said of tools, not the rollouts
                outcomes = map(with_outcomes, completions, self._calls, repeat(self._turn_seconds))
                texts = self._tokenizer.batch_decode(ids)
                describe_tool_use(self._rollouts, prompts, outcomes, texts, self._tool_masks)
        return rewards


def timed(tools: Mapping[str, Callable[..., Any]], calls: Calls) -> dict[str, Callable[..., Any]]:
    """`tools`, each of which adds a call and its seconds to `calls`, also when it raises."""
    return {name: _timed(name, tool, calls) for name, tool in tools.items()}


def _timed(name: str, tool: Callable[..., Any], calls: Calls) -> Callable[..., Any]:
    @functools.wraps(tool)
    def call(*args: Any, **kwargs: Any) -> Any:
        started = time.perf_counter()
        try:
            return tool(*args, **kwargs)
        finally:
            calls.append((name, time.perf_counter() - started))

    return call


def describe_tool_use(
    rollouts: Sequence[dict[str, Any]],
    prompts: Iterable[Any],
    completions: Iterable[Sequence[Mapping[str, Any]]],
    texts: Iterable[str],
    tool_masks: Iterable[Sequence[int]],
) -> None:
    """Adds to each rollout its messages, its segments and its response as one text.

    completions: as `with_outcomes` gives them. texts: the decoded responses, because the contents of
    the messages lack the calls. A rollout whose last call was not served, because turns or room ran
    out, ends with "tool_calls".
    """
    for rollout, prompt, completion, text, mask in zip(
        rollouts, prompts, completions, texts, tool_masks, strict=True
    ):
        rollout["messages"] = [*prompt, *completion]
        rollout["segments"] = segments(mask, completion)
        rollout["response"] = text
        if not rollout["is_truncated"] and completion and completion[-1].get("tool_calls"):
            rollout["finish_reason"] = "tool_calls"


def with_outcomes(
    completion: Sequence[Mapping[str, Any]], calls: Calls, turn_seconds: Sequence[float]
) -> list[dict[str, Any]]:
    """The messages with `seconds`, and at every tool's result `is_error`.

    An assistant's message takes as long as the batch it was generated in. A call that never reached a
    tool, because no tool has its name, has no seconds.
    """
    turns, waiting = iter(turn_seconds), list(calls)
    messages = [dict(message) for message in completion]
    for message in messages:
        if message.get("role") == "tool":
            # The trainer turns whatever a call raised into this text.
            message["is_error"] = str(message.get("content")).startswith("{'error': ")
            if waiting and waiting[0][0] == message.get("name"):
                message["seconds"] = round(waiting.pop(0)[1], _DIGITS)
        elif (seconds := next(turns, None)) is not None:
            message["seconds"] = round(seconds, _DIGITS)
    return messages


def segments(
    tool_mask: Sequence[int], completion: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Stretches of response tokens: 1 in the mask is the assistant's, 0 the tools' results.

    The names of a stretch of results are those of the messages between two of the assistant.
    """
    named = [
        ", ".join(dict.fromkeys(str(message.get("name")) for message in group))
        for role, group in groupby(completion, key=lambda message: message.get("role"))
        if role == "tool"
    ]
    parts: list[dict[str, Any]] = []
    start = 0
    for is_model, flags in groupby(tool_mask):
        end = start + len(list(flags))
        parts.append({"start": start, "end": end, "role": "assistant" if is_model else "tool"})
        if not is_model and named:
            parts[-1]["name"] = named.pop(0)
        start = end
    return parts
