"""Tinker cookbook's rollout summaries: iteration_NNNNNN/{train,eval_NAME}_rollout_summaries.jsonl.

Read from thinking-machines-lab/tinker-cookbook@9dfcc3a tinker_cookbook/rl/rollout_logging.py
(`serialize_rollout_summaries`), tinker_cookbook/stores/training_store.py and tinker_cookbook/rl/train.py:
split ("train", "eval/NAME"), iteration (from 0), group_idx, traj_idx, tags, sampling_client_step,
total_reward (that of all steps and the group's), final_reward (the group's), trajectory_metrics,
final_ob_len, steps [{step_idx, ob_len, ac_len, reward, episode_done, metrics, logs}]. No tokens. The
texts of the first groups are in the logtree beside it, and joined where they are told apart
(tinker_texts.py).

Environments may log what they like at a step; these log the model's own words, so that they are known of
every trajectory, without a logtree:

- agents with tools, tool_use/agent_tool_message_env.py: assistant_content (without thoughts),
  tool_call_N "NAME(ARGUMENTS)", tool_result_N;
- recipes/multiplayer_rl/guess_number/env.py: guess, feedback; recipes/audio/asr/env.py: transcript.

A step whose sampling was cut has no logs: its words are not recorded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

from board.core.records import Record, Remark
from board.formats.base import Head, Place, Reader
from board.formats.fields import RecordBuilder
from board.formats.frameworks.tinker_texts import (
    Joined,
    Key,
    Texts,
    joined_texts,
    logtree_of,
    steps_of,
)
from board.formats.io.locations import Location, Objects
from board.formats.messages import Message, response_text
from board.formats.parse import as_object, is_measure, object_at

_CONTENT_KEYS: Final = ("assistant_content", "guess", "transcript")
_CALL: Final = re.compile(r"tool_call_[0-9]+")
_RESULT: Final = re.compile(r"tool_result_[0-9]+")
_SPLIT_CALL: Final = re.compile(r"([^(]*)\((.*)\)", re.DOTALL)


def turns_of_logs(steps: Sequence[Mapping[str, Any]]) -> tuple[list[Message], bool]:
    """The messages that the steps' logs tell of, and whether each step says what the model said."""
    turns_of_steps = [list(_turns(_logs(step))) for step in steps]
    messages = [message for turns in turns_of_steps for message in turns]
    return messages, bool(turns_of_steps) and all(turns_of_steps)


def _logs(step: Mapping[str, Any]) -> Mapping[str, str]:
    entries = object_at(step, "logs")
    return {name: value for name, value in entries.items() if isinstance(value, str)}


def _turns(logs: Mapping[str, str]) -> Iterator[Message]:
    content = next((logs[name] for name in _CONTENT_KEYS if name in logs), None)
    calls = [_call(value) for name, value in logs.items() if _CALL.fullmatch(name)]
    if content is None and not calls:
        return
    message: dict[str, Any] = {"role": "assistant", "content": content or ""}
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


_OURS: Final[Mapping[str, str]] = {
    "total_reward": "reward",
    "sampling_client_step": "policy_version",
}
_READ_APART: Final = frozenset(
    {"schema_version", "split", "iteration", "group_idx", "traj_idx", "tags"}
    | {"trajectory_metrics", "steps"}
)
_STOP: Final = "stop/"
_CUT: Final = frozenset({"max_tokens", "max_sampled_tokens"})


class TinkerReader(Reader):
    """Reads the summaries of rollouts that Tinker cookbook exports."""

    name = "tinker"
    title = "Tinker cookbook"
    layout = re.compile(r"(?:iteration_(?P<step>[0-9]+)/)?[^/]+_rollout_summaries\.jsonl")

    def recognises(self, head: Head) -> bool:
        """A trajectory of a group in an iteration, with its total reward."""
        return head.has("group_idx", "traj_idx", "total_reward", "iteration")

    def sidecar_files(self, log: Location, objects: Objects) -> Sequence[Location]:
        """The logtree of a file of summaries."""
        logtree = logtree_of(log, objects)
        return () if logtree is None else (logtree,)

    def read(self, line: Mapping[str, Any], at: Place) -> Record:
        builder = RecordBuilder(at.options)
        _take_ids(builder, line)
        builder.take_keys(line, _OURS, _READ_APART)
        for name, value in as_object(line.get("trajectory_metrics")).items():
            builder.take(f"metrics.{name}", value)
        _take_steps(builder, line)
        _take_texts(builder, line, at.sidecar(joined_texts))
        iteration = line.get("iteration")
        return builder.build(at.step if iteration is None else iteration)


def _take_ids(builder: RecordBuilder, line: Mapping[str, Any]) -> None:
    """The split is Tinker's own, with an evaluation's name: several of one iteration count their groups
    each from 0.
    """
    split = str(line.get("split") or "train")
    builder.ids["split"] = split
    name = split.partition("/")[2]
    group = "-".join(str(part) for part in (name, line.get("group_idx")) if part not in ("", None))
    builder.take("group_id", group)
    builder.take("rollout_id", f"{group}-{line.get('traj_idx')}")
    tags = line.get("tags")
    if isinstance(tags, list) and tags:
        builder.take("env", ", ".join(str(tag) for tag in cast("list[Any]", tags)))


def _take_texts(builder: RecordBuilder, line: Mapping[str, Any], joined: Joined | None) -> None:
    """Takes what the logtree beside the summaries has of a rollout, or else its own logs, and says what
    is not recorded.
    """
    texts = _in_logtree(line, joined)
    turns, is_whole = ([], False) if texts.response else turns_of_logs(steps_of(line))
    if texts.prompt or texts.response or turns:
        builder.take_turns(texts.prompt, texts.response or turns)
    builder.take("ground_truth", texts.reference)
    builder.take("logtree", list(texts.paragraphs) or None)
    if turns and not is_whole:
        reason = "its logs do not hold the text of each step"
        hint = "a step that was cut off logs nothing; the response holds the logged steps"
        builder.remarks.append(Remark("response", reason, hint, "note"))
    elif joined is not None and not turns and not texts.response:
        _say_why_not(builder, line, joined, texts)


def _in_logtree(line: Mapping[str, Any], joined: Joined | None) -> Texts:
    """What the logtree has of a rollout; nothing where it does not tell which is its own."""
    return Texts() if joined is None else joined.texts.get(_key(line), Texts())


def _key(line: Mapping[str, Any]) -> Key:
    return line.get("group_idx", -1), line.get("traj_idx", -1)


def _say_why_not(
    builder: RecordBuilder, line: Mapping[str, Any], joined: Joined, texts: Texts
) -> None:
    """Says why a rollout has no response."""
    if joined.error:
        hint = "prompts and responses are not recorded"
        builder.remarks.append(Remark("prompt", joined.error, hint))
        return
    if _key(line) not in joined.texts:
        reason = "its group has no section in the logtree"
        hint = "it covers only the first groups; groups with equal numbers can't be distinguished"
        builder.remarks.append(Remark("prompt", reason, hint, "note"))
        return
    reason = "its response can't be matched to one in the logtree"
    hint = "logtree entries have no index; logtree_candidates lists those that match"
    if not texts.candidates:
        reason, hint = "the logtree has no separate response", "its environment told none"
    builder.take("logtree_candidates", [response_text(c) for c in texts.candidates] or None)
    builder.remarks.append(Remark("response", reason, hint, "note"))


def _take_steps(builder: RecordBuilder, line: Mapping[str, Any]) -> None:
    """Takes how many steps there were, their tokens, the means of their metrics, and why they ended."""
    steps = steps_of(line)
    if not steps:
        return
    builder.take("turns", len(steps))
    builder.take("ac_len", _total([step.get("ac_len") for step in steps]))
    builder.take("ob_len", steps[0].get("ob_len"))
    metrics = [as_object(step.get("metrics")) for step in steps]
    for name in dict.fromkeys(name for step_metrics in metrics for name in step_metrics):
        if name.startswith(_STOP):
            _take_reason(builder, name.removeprefix(_STOP))
        else:
            values = [step_metrics[name] for step_metrics in metrics if name in step_metrics]
            total = _total(values)
            builder.take(f"step_metrics.{name}", None if total is None else total / len(values))
    builder.take("steps", steps)


def _take_reason(builder: RecordBuilder, reason: str) -> None:
    builder.take("finish_reason", reason)
    builder.take("is_truncated", reason in _CUT)


def _total(values: Sequence[object]) -> float | None:
    """The sum; None where one of the values is no number."""
    numbers = [value for value in values if is_measure(value)]
    return sum(numbers) if len(numbers) == len(values) else None
