"""rLLM's episodes: episodes/{mode}_step_{step}_epoch_{epoch}/episode_hash{h}_id{id}.json, one per file.

Read from rllm-org/rllm@9beb6e0 rllm/utils/episode_logger.py (`log_episode`). A trajectory is a rollout;
those of an episode are told apart by their names (`env`), and the episode's task is the group.

Its telemetry (rllm_telemetry/trajectory_export.py, {date}_{time}_{id}.ndjson) has lines of events, of
which those from a trajectory's start to its end are one rollout.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Final

from board.core.records import Record
from board.errors import RecordError
from board.formats.base import Head, LineContext, Reader
from board.formats.failures import REASONS, Verdict, failure_of, verdict_of
from board.formats.field_values import FAILURE, is_truncated, split_named
from board.formats.fields import RecordBuilder
from board.formats.io.lines import Line, read_lines
from board.formats.io.locations import Location
from board.formats.io.remote import RemoteLocation
from board.formats.messages import is_messages
from board.formats.parse import is_list, is_object, object_at, objects_in, parse_whole
from board.formats.sources import JSON_DOCUMENT, DamagedError, Row, Source

_REASONS: Final[Mapping[str, Verdict]] = {**REASONS, "unknown": "unknown"}


class RllmReader(Reader):
    """Reads the episodes that rLLM logs."""

    name = "rllm"
    title = "rLLM episodes"
    sources = (JSON_DOCUMENT,)
    layout = re.compile(
        r"episodes/(?P<split>[a-z]+)_step_(?P<step>[0-9]+)_epoch_[0-9]+/episode_hash[^/]*\.json"
    )

    def recognises(self, head: Head) -> bool:
        """An episode of trajectories, with the step that it was of."""
        return head.has("training_step", "episode_id", "trajectories")

    def rows(self, line: Mapping[str, Any], at: LineContext) -> Sequence[Mapping[str, Any]]:
        episode = {key: value for key, value in line.items() if key != "trajectories"}
        entries = line.get("trajectories")
        if not is_list(entries):
            reason = "trajectories is missing" if entries is None else "trajectories is not a list"
            raise RecordError(reason, field="trajectories", hint="a list of trajectories")
        return [{**episode, "trajectory": entry} for entry in entries]

    def read(self, line: Mapping[str, Any], at: LineContext) -> Record:
        trajectory = line.get("trajectory")
        if not is_object(trajectory):
            hint = "an object with steps and a reward"
            raise RecordError("a trajectory is not an object", field="trajectories", hint=hint)
        builder = RecordBuilder(at.options, at.split or "train")
        builder.take("group_id", line.get("task_hash"))
        builder.take("rollout_id", trajectory.get("uid") or line.get("episode_id"))
        builder.take("env", trajectory.get("name"))
        builder.take("reward", trajectory.get("reward"))
        builder.take("is_correct", line.get("is_correct"))
        _take_steps(builder, trajectory, line.get("task"))
        for key in ("episode_id", "epoch", "termination_reason", "metadata", "timing"):
            builder.take(key, line.get(key) or None)
        _take_ending(builder, line)
        builder.take_rest(line, _READ)
        builder.take_rest(trajectory, _READ_OF_TRAJECTORY)
        for key, value in object_at(line, "metrics").items():
            builder.take(f"metrics.{key}", value)
        return builder.build(line.get("training_step"))


def _take_ending(builder: RecordBuilder, line: Mapping[str, Any]) -> None:
    """Takes why an episode ended; an error's type and message are in its metadata."""
    reason = line.get("termination_reason")
    if not isinstance(reason, str):
        return
    builder.scores["is_truncated"] = is_truncated(reason)
    error = object_at(object_at(line, "metadata"), "error")
    said = {"error_type": error.get("error_type")}
    said["error"] = error.get("error_message") or error.get("message")
    texts = {key: value for key, value in said.items() if isinstance(value, str)}
    evidence = {"termination_reason": reason, **texts}
    builder.take(FAILURE, failure_of(verdict_of(reason, _REASONS), evidence))


_READ: Final = frozenset(
    (
        *(
            "task_hash",
            "episode_id",
            "is_correct",
            "task",
            "trajectory",
            "training_step",
            "metrics",
        ),
        *("epoch", "termination_reason", "metadata", "timing"),
    )
)
_READ_OF_TRAJECTORY: Final = frozenset(
    ("uid", "name", "reward", "task", "steps", "metadata", "signals", "episode_id")
)
_READ_OF_STEP: Final = frozenset(("chat_completions", "id", "step_idx", "trajectory_uid"))
_TELEMETRY: Final = re.compile(r"[0-9]{8}_[0-9]{6}_[0-9a-f]{8}\.ndjson")


class TrajectoryEvents(Source):
    """A row for each trajectory: `trajectory` with its `steps`, and `episode`."""

    def takes(self, path: PurePath | RemoteLocation) -> bool:
        return _TELEMETRY.fullmatch(path.name) is not None

    def lines(self, path: Location) -> Iterator[Line]:
        """The trajectories that have ended, and lines that are no events as they are."""
        episode: Mapping[str, Any] = {}
        trajectory: dict[str, Any] = {}
        number = 0
        for line in read_lines(path):
            try:
                event, _ = parse_whole(line.text or b"")
            except RecordError:
                yield Line(number, 1, line.text)
                number += 1
                continue
            kind, data = event.get("type"), object_at(event, "data")
            if kind == "episode.start":
                episode = data
            elif kind == "trajectory.start":
                trajectory = {**data, "steps": []}
            elif kind == "trajectory.step" and trajectory:
                trajectory["steps"].append(data)
            elif kind == "trajectory.end" and trajectory:
                record = {"episode": episode, "trajectory": trajectory | data}
                yield Row(number, 1, None, record=record)
                number += 1

    def fetch(self, path: Location, offset: int, size: int) -> Line:
        return next(self.fetch_many(path, [(offset, size)]))

    def fetch_many(self, path: Location, places: Sequence[tuple[int, int]]) -> Iterator[Line]:
        wanted = {offset for offset, _ in places}
        rows = [line for line in self.lines(path) if line.offset in wanted]
        if len(rows) < len(wanted):
            raise DamagedError("it has fewer trajectories than before")
        return iter(rows)


TRAJECTORY_EVENTS: Final = TrajectoryEvents()


class RllmTelemetryReader(Reader):
    """Reads the trajectories that rLLM's telemetry exports."""

    name = "rllm_telemetry"
    title = "rLLM telemetry"
    left_out: Mapping[str, str] = {
        "episode.task": "that of the trajectory, once more",
        "trajectory.steps.id": "an id of the framework that nothing else refers to",
        "trajectory.steps.step_idx": "the place of the step",
    }
    sources = (TRAJECTORY_EVENTS,)

    def recognises(self, head: Head) -> bool:
        """A trajectory with its steps."""
        return head.has("episode", "trajectory")

    def read(self, line: Mapping[str, Any], at: LineContext) -> Record:
        trajectory, episode = object_at(line, "trajectory"), object_at(line, "episode")
        metadata = {**object_at(episode, "metadata"), **object_at(trajectory, "metadata")}
        split = metadata.pop("split", None)
        builder = RecordBuilder(at.options, None if split is None else split_named(str(split)))
        builder.take("rollout_id", trajectory.get("uid"))
        builder.take("env", trajectory.get("name"))
        builder.take("reward", trajectory.get("reward"))
        builder.take("episode_id", episode.get("id"))
        for key, value in {**metadata, **object_at(trajectory, "signals")}.items():
            builder.take(key, value)
        _take_steps(builder, trajectory, trajectory.get("task") or episode.get("task"))
        builder.take_rest(line, ("trajectory", "episode"))
        builder.take_rest(trajectory, _READ_OF_TRAJECTORY)
        return builder.build_undated()


def _take_steps(builder: RecordBuilder, trajectory: Mapping[str, Any], task: Any) -> None:
    """Takes the conversation of the steps, or of those that have none what the model said."""
    steps = objects_in(trajectory.get("steps"))
    builder.take("steps", len(steps))
    messages = _conversation(steps)
    said = [message.get("content") for message in messages]
    if messages:
        builder.take_conversation(messages)
        builder.take_extra("task", task)
    else:
        asked = steps[0].get("input") if steps else None
        builder.take("prompt", _asked(task if asked is None else asked))
        names = ("model_response", "output", "action")
        texts = [next((step[name] for name in names if step.get(name)), None) for step in steps]
        written = [_asked(text) for text in texts if text]
        builder.take("response", "\n\n".join(text for text in written if text))
        said = [builder.texts.get("prompt"), *written]
    builder.take_extra("by_step", _beside_texts(steps, said) or None)
    if is_object(task):
        builder.take("ground_truth", task.get("expected"))


def _beside_texts(steps: Sequence[Mapping[str, Any]], said: Sequence[Any]) -> list[dict[str, Any]]:
    """What each step says beside the texts that are shown: reward, thought, action, return."""
    by_step = [
        {
            key: value
            for key, value in step.items()
            if key not in _READ_OF_STEP and value not in (None, "", [], {}) and value not in said
        }
        for step in steps
    ]
    return by_step if any(by_step) else []


def _conversation(steps: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """All messages in order; a step that begins with all that was said before only adds to it."""
    conversation: list[dict[str, Any]] = []
    for step in steps:
        messages = step.get("chat_completions")
        if is_messages(messages):
            known = len(conversation) if messages[: len(conversation)] == conversation else 0
            conversation += messages[known:]
    return conversation


def _asked(task: Any) -> str | None:
    """The task as text: its question where it has one."""
    if is_object(task):
        asked = (task.get(key) for key in ("question", "problem", "prompt", "instruction"))
        question = next((text for text in asked if isinstance(text, str)), None)
        return question or json.dumps(task, ensure_ascii=False, default=str)
    return None if task is None else str(task)
