"""Trajectories in ATIF, of Harbor's trials and of others.

Read from the ATIF specification 1.7 (Harbor's RFC 0001: a step has source, message, reasoning_content,
tool_calls, observation, metrics). Files that a trajectory refers to (sub-agents, what it was continued
in) are parts of it and no rollouts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

from board.core.records import Record
from board.errors import RecordError
from board.formats.agents.harbor import FAMILY, seconds_of, take_result
from board.formats.agents.harbor_files import (
    MOST_BYTES,
    RESULT,
    TRAJECTORY,
    file_name,
    is_atif,
    is_beside_main,
    references_in_folder,
    result_above,
    siblings,
)
from board.formats.base import Event, Head, LineContext, Reader
from board.formats.fields import RecordBuilder
from board.formats.io.lines import read_object
from board.formats.io.locations import Location, Objects, existing_file
from board.formats.number_arrays import as_numbers
from board.formats.parse import object_at, objects_in
from board.formats.sequences import Call, pieces_of_calls, sampled_alone, take_pieces
from board.formats.sources import JSON_DOCUMENT, JSON_LINES

_MOST_LEVELS: Final = 8
"""Of agents below agents."""
_ROLES: Final = {"agent": "assistant", "system": "system", "user": "user"}
_TOTALS: Final = {
    "prompt_tokens": "input_tokens",
    "completion_tokens": "output_tokens",
    "cached_tokens": "cached_tokens",
    "cost_usd": "cost",
}
"""Metrics of a step, and the columns of their sums."""
_COUNTED: Final = "of each call; their sum is a column"
_OF_STEPS: Final = {
    "step_id": "steps are numbered in their order",
    "source": "the role of a message",
    "timestamp": "when a step was; the reader shows the seconds between steps",
    "model_name": "the model, which is a column",
    "llm_call_count": "how many calls of the model a step is",
    "observation.results.subagent_trajectory_ref": "the messages of the agent stand there",
    **{f"metrics.{name}": _COUNTED for name in _TOTALS},
    "metrics.prompt_token_ids": "what the model was given, which goes on from call to call",
}


class AtifReader(Reader):
    """Reads agents' trajectories in ATIF, with the results of Harbor's trials."""

    name = "atif"
    title = "ATIF trajectories"
    family = FAMILY
    sources = (JSON_DOCUMENT, JSON_LINES)
    layout = re.compile(
        r"(?:(?P<trial>[^/]+)/agent/)?[^/]*(?:trajectory|atif)[^/]*\.json", re.IGNORECASE
    )
    left_out: Mapping[str, str] = {
        "schema_version": "the version of the file's layout",
        "final_metrics.total_steps": "how many steps there are",
        **{f"steps.{path}": reason for path, reason in _OF_STEPS.items()},
        **{f"subagent_trajectories.steps.{path}": reason for path, reason in _OF_STEPS.items()},
        **{
            f"subagent_trajectories.steps.metrics.{name}": _COUNTED
            for name in ("extra", "logprobs")
        },
        "subagent_trajectories.steps.metrics.completion_token_ids": "tokens of agents below are no "
        "tokens of the rollout",
        "subagent_trajectories.schema_version": "the version of the file's layout",
        "subagent_trajectories.session_id": "an id of the framework",
        "subagent_trajectories.trajectory_id": "an id of the framework",
        "subagent_trajectories.agent": "how the agent was set up",
        "subagent_trajectories.final_metrics": "its steps have them",
    }

    def recognises(self, head: Head) -> bool:
        """Steps, and a schema_version of ATIF."""
        return any(is_atif(record) for record in head.records)

    def sidecar_files(self, log: Location, objects: Objects) -> Sequence[Location]:
        """The result of the trial, and what else the agent wrote."""
        result = existing_file(log.parent.parent / RESULT, objects)
        of_trial = log.parent.name == "agent" and result is not None
        return [*([result] if of_trial and result is not None else []), *siblings(log, objects)]

    def read(self, line: Mapping[str, Any], at: LineContext) -> Record | Event:
        is_trials = at.named("trial") is not None
        name, references = at.path.name, at.sidecar(references_in_folder) or {}
        if any(name in names for other, names in references.items() if other != name) or (
            is_trials and name != TRAJECTORY and at.sidecar(is_beside_main)
        ):
            return Event("header", {"part of": "another trajectory"})
        trajectory = _Trajectory(line, at.location)
        builder = RecordBuilder(at.options, "eval")
        builder.take_conversation([*trajectory.messages()])
        _take_document(builder, line)
        _take_totals(builder, [*trajectory.steps()], object_at(line, "final_metrics"))
        _take_tokens(builder, [*trajectory.steps()])
        if is_trials and (result := at.sidecar(result_above)) is not None:
            take_result(builder, result)
        if is_trials and name == TRAJECTORY:
            known = {name, *chain.from_iterable(references.values())}
            for orphan in sorted(references.keys() - known):
                builder.remark("agent", "a trajectory that nothing refers to is not shown", orphan)
        builder.remarks += trajectory.remarks(at)
        return builder.build_undated()


class _Trajectory:
    """A trajectory with the files that it refers to, which lie beside it."""

    def __init__(self, document: Mapping[str, Any], location: Location | None) -> None:
        self._document = document
        self._location = location
        self._unread = list[str]()

    def documents(self) -> Iterator[Mapping[str, Any]]:
        """It, and what it was continued in."""
        document, seen = self._document, {"" if self._location is None else self._location.name}
        yield document
        while (name := file_name(document.get("continued_trajectory_ref"))) and name not in seen:
            seen.add(name)
            if not (document := self._beside(name)):
                return
            yield document

    def steps(self) -> Iterator[Mapping[str, Any]]:
        """The steps that are its own; those copied into a continuation were there before."""
        for number, document in enumerate(self.documents()):
            for step in objects_in(document.get("steps")):
                if not (step.get("is_copied_context") and number):
                    yield step

    def messages(self) -> Iterator[dict[str, Any]]:
        """Its messages, those of agents below it behind the result that they gave."""
        for number, document in enumerate(self.documents()):
            yield from self._messages_of(document, "", is_continued=number > 0)

    def remarks(self, at: LineContext) -> Sequence[Any]:
        """Which files it refers to that could not be read."""
        builder = RecordBuilder(at.options)
        for name in dict.fromkeys(self._unread):
            builder.remark(
                "trajectory_path", "a file that the trajectory refers to can't be read", name
            )
        return builder.remarks

    def _messages_of(
        self, document: Mapping[str, Any], agent: str, *, is_continued: bool = False, level: int = 0
    ) -> Iterator[dict[str, Any]]:
        below = objects_in(document.get("subagent_trajectories"))
        done = list[int]()
        for step in objects_in(document.get("steps")):
            if step.get("is_copied_context") and is_continued:
                continue
            yield from _of_step(step, agent)
            for result in objects_in(object_at(step, "observation").get("results")):
                yield from _of_result(result, agent)
                for reference in objects_in(result.get("subagent_trajectory_ref")):
                    inner = _embedded(reference, below) or self._referred(reference)
                    if inner and id(inner) not in done and level < _MOST_LEVELS:
                        done.append(id(inner))
                        yield from self._messages_of(inner, _agent_of(inner), level=level + 1)
        for inner in below:
            if id(inner) not in done and level < _MOST_LEVELS:
                yield from self._messages_of(inner, _agent_of(inner), level=level + 1)

    def _referred(self, reference: Mapping[str, Any]) -> Mapping[str, Any]:
        name = file_name(reference.get("trajectory_path"))
        return self._beside(name) if name else {}

    def _beside(self, name: str) -> Mapping[str, Any]:
        """The trajectory in a file of the same folder; empty where it can't be used."""
        document: Mapping[str, Any] = {}
        if self._location is not None:
            document = read_object(self._location.parent / name, most_bytes=MOST_BYTES)
        if not is_atif(document):
            self._unread.append(name)
            return {}
        return document


def _embedded(
    reference: Mapping[str, Any], below: Sequence[Mapping[str, Any]]
) -> Mapping[str, Any] | None:
    """The embedded trajectory that is meant. Before version 1.7 its session told it."""
    identity = reference.get("trajectory_id")
    if identity is not None:
        return next((t for t in below if t.get("trajectory_id") == identity), None)
    session = None if reference.get("trajectory_path") else reference.get("session_id")
    return next((t for t in below if session and t.get("session_id") == session), None)


def _of_step(step: Mapping[str, Any], agent: str) -> Iterator[dict[str, Any]]:
    role = _ROLES.get(str(step.get("source")), str(step.get("source")))
    message: dict[str, Any] = {"role": role, "content": step.get("message")}
    if agent:
        message["name"] = agent
    if step.get("timestamp") is not None:
        message["timestamp"] = step["timestamp"]
    if step.get("reasoning_content"):
        message["reasoning_content"] = step["reasoning_content"]
    if calls := objects_in(step.get("tool_calls")):
        message["tool_calls"] = [
            {
                "id": call.get("tool_call_id"),
                "function": {"name": call.get("function_name"), "arguments": call.get("arguments")},
            }
            for call in calls
        ]
    # What the environment says by itself has an observation and no message.
    if role == "assistant" or message["content"] not in (None, ""):
        yield message


def _of_result(result: Mapping[str, Any], agent: str) -> Iterator[dict[str, Any]]:
    if result.get("content") is None:
        return
    name = {"name": agent} if agent else {}
    identity = str(result.get("source_call_id") or "")
    yield {"role": "tool", "content": result["content"], "tool_call_id": identity, **name}


def _agent_of(document: Mapping[str, Any]) -> str:
    return str(object_at(document, "agent").get("name") or "agent below")


def _take_document(builder: RecordBuilder, line: Mapping[str, Any]) -> None:
    """Takes what a trajectory says beside its steps."""
    agent = object_at(line, "agent")
    builder.take("rollout_id", line.get("trajectory_id") or line.get("session_id"))
    builder.take("model", agent.get("model_name"))
    builder.take("tools", agent.get("tool_definitions"))
    for key, value in (
        ("agent", agent.get("name")),
        ("agent_version", agent.get("version")),
        ("agent_extra", agent.get("extra")),
        ("session_id", line.get("session_id")),
        ("notes", line.get("notes")),
        ("continued_trajectory_ref", line.get("continued_trajectory_ref")),
        ("extra", line.get("extra")),
        ("final_metrics_extra", object_at(line, "final_metrics").get("extra")),
    ):
        builder.take_extra(key, value)
    known = {
        *("schema_version", "session_id", "trajectory_id", "agent", "steps", "notes", "extra"),
        *("final_metrics", "continued_trajectory_ref", "subagent_trajectories"),
    }
    builder.take_keys({key: value for key, value in line.items() if key not in known}, {})


def _take_totals(
    builder: RecordBuilder, steps: Sequence[Mapping[str, Any]], final: Mapping[str, Any]
) -> None:
    """Takes tokens and cost, which are the sums of the steps' where no total is recorded; further
    metrics of the steps; and the seconds from the first to the last step.
    """
    for name, column in _TOTALS.items():
        values = [object_at(step, "metrics").get(name) for step in steps]
        recorded = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
        total = final.get(f"total_{name}")
        builder.take(column, (sum(recorded) if recorded else None) if total is None else total)
    builder.take_extra(
        "step_extras", [further for step in steps if (further := _further(step))] or None
    )
    times = [
        seconds for step in steps if (seconds := seconds_of(step.get("timestamp"))) is not None
    ]
    if len(times) > 1:
        builder.take("seconds", max(times) - min(times))


def _further(step: Mapping[str, Any]) -> dict[str, Any]:
    """What a step says beyond its message, by where it says it; empty where it says nothing more."""
    calls = objects_in(step.get("tool_calls"))
    results = objects_in(object_at(step, "observation").get("results"))
    further = {
        "extra": step.get("extra"),
        "reasoning_effort": step.get("reasoning_effort"),
        "metrics": object_at(step, "metrics").get("extra"),
        "tool_calls": [call["extra"] for call in calls if call.get("extra")],
        "results": [result["extra"] for result in results if result.get("extra")],
    }
    said = {name: value for name, value in further.items() if value}
    return {"step_id": step.get("step_id"), **said} if said else {}


def _take_tokens(builder: RecordBuilder, steps: Sequence[Mapping[str, Any]]) -> None:
    """The tokens of all calls as one sequence, where each goes on from the one before; else those that
    the model made alone.
    """
    calls = list[Call]()
    for step in steps:
        metrics = object_at(step, "metrics")
        ids = as_numbers(metrics.get("completion_token_ids"))
        if ids is None:
            continue
        prompt, logprobs = (
            as_numbers(metrics.get("prompt_token_ids")),
            as_numbers(metrics.get("logprobs")),
        )
        calls.append(
            Call(
                None if prompt is None else prompt.values(),
                ids.values(),
                {} if logprobs is None else {"sampling_logprobs": logprobs.values()},
            )
        )
    asked = sum(step.get("source") == "agent" for step in steps)
    if calls and len(calls) < asked:
        hint = f"they are recorded of {len(calls)} of {asked} steps of the agent"
        builder.note("completion_token_ids", "not all steps have token ids", hint)
    if any(call.prompt is None for call in calls):
        take_pieces(builder, sampled_alone(calls))
        return
    try:
        take_pieces(builder, pieces_of_calls(calls))
    except RecordError as error:
        builder.remark(
            "prompt_token_ids", f"prompts are not shown: {error.reason}", str(error.hint)
        )
        take_pieces(builder, sampled_alone(calls))
