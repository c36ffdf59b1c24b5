"""Rollouts as they were before anybody wrote them down, and the log formats that they are written in."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from board.index.discovery.discovered_runs import discover
from board.query.open_run import Run, open_run


@dataclass
class Rollout:
    """One rollout. turns: of (speaker, text): "model", or the name of a tool, which the model has called
    before it. extras: what harness and judge write besides. tokens: how many the model generated.
    """

    step: int
    prompt: str
    turns: list[tuple[str, str]]
    reward: float | None = 0.0
    extras: dict[str, Any] = field(default_factory=dict)
    finish: str | None = "stop"
    tokens: int = 12

    @property
    def final(self) -> str:
        """What the model said last."""
        return self.turns[-1][1] if self.turns and self.turns[-1][0] == "model" else ""


def messages_of(rollout: Rollout) -> list[dict[str, Any]]:
    """The turns as chat messages with calls of tools."""
    messages: list[dict[str, Any]] = []
    for number, (speaker, text) in enumerate(rollout.turns):
        if speaker == "model":
            messages.append({"role": "assistant", "content": text})
            continue
        function = {"name": speaker, "arguments": json.dumps({"input": "x"})}
        call = {"id": f"c{number}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": text})
    return messages


def text_of(rollout: Rollout) -> str:
    """The turns as one text, outputs of tools in tags."""
    written = [
        text
        if speaker == "model"
        else f"<tool_call>{speaker}</tool_call>\n<tool_response>\n{text}\n</tool_response>\n"
        for speaker, text in rollout.turns
    ]
    return "".join(written)


def _native(one: Rollout, at: int) -> dict[str, Any]:
    user = {"role": "user", "content": one.prompt}
    return {
        "type": "sample",
        "step": one.step,
        "group_id": one.prompt,
        "prompt": one.prompt,
        "messages": [user, *messages_of(one)],
        "response": text_of(one),
        "reward": one.reward,
        "finish_reason": one.finish,
        **one.extras,
    }


def _tokens(one: Rollout, at: int) -> dict[str, Any]:
    ids = [100 + n for n in range(one.tokens)] if one.turns else []
    line = _native(one, at)
    return {**line, "response_ids": ids, "logprobs": [-0.5] * len(ids)}


def _generic(one: Rollout, at: int) -> dict[str, Any]:
    line = {"step": one.step, "question": one.prompt, "completion": text_of(one)}
    return {**line, "score": one.reward, "stop_reason": one.finish, **one.extras}


def _verl(one: Rollout, at: int) -> dict[str, Any]:
    line = {"input": one.prompt, "output": text_of(one), "score": one.reward, "step": one.step}
    return {**line, **one.extras}


def _verifiers(one: Rollout, at: int) -> dict[str, Any]:
    user = {"role": "user", "content": one.prompt}
    return {
        "example_id": at,
        "prompt": [user],
        "completion": messages_of(one),
        "task": "t",
        "reward": one.reward,
        "answer": "4",
        "timing": {},
        "is_completed": True,
        "is_truncated": False,
        "metrics": {},
        "stop_condition": one.finish,
        **one.extras,
    }


def _nested(one: Rollout, at: int) -> dict[str, Any]:
    line = {"step": one.step, "prompt": one.prompt, "response": text_of(one), "reward": one.reward}
    return {**line, "finish_reason": one.finish, "meta": {"rollout": one.extras}}


Write = Callable[[Rollout, int], dict[str, Any]]
FORMATS: dict[str, tuple[str, Write]] = {
    "native": ("log.jsonl", _native),
    "tokens": ("log.jsonl", _tokens),
    "generic": ("log.jsonl", _generic),
    "verl": ("{step}.jsonl", _verl),
    "verifiers": ("results.jsonl", _verifiers),
    "nested": ("log.jsonl", _nested),
}
"""By name the file of a line, and how a rollout is written."""


def write_run(folder: Path, rollouts: Sequence[Rollout], name: str) -> Run:
    """Writes rollouts in a format and opens the run. The order within a step stays."""
    pattern, write = FORMATS[name]
    lines: dict[str, list[str]] = {}
    for at, one in enumerate(rollouts):
        text = json.dumps(write(one, at))
        lines.setdefault(pattern.format(step=one.step), []).append(text)
    folder.mkdir(parents=True)
    for file, texts in lines.items():
        (folder / file).write_text("\n".join(texts) + "\n")
    (info,) = discover(folder).runs
    return open_run(info)
