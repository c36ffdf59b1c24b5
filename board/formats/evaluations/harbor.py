"""Trajectories in ATIF, and the trials of Harbor: <job>/<trial>/{agent/trajectory.json, result.json}.

Read from the ATIF specification 1.7 (Harbor's RFC 0001: a step has source, message, reasoning_content,
tool_calls, observation, metrics) and harbor's src/harbor/models/trial/result.py (`TrialResult`:
verifier_result {rewards}, exception_info, agent_result, and begin and end of each phase). The rollout is
the trajectory; its reward and its failure stand in the trial's result. A trial that failed before its
agent wrote anything has a result alone. Files that a trajectory refers to (sub-agents, what it was
continued in) are parts of it and no rollouts.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any, Final

from board.core.failures.causes import UNDECIDED
from board.core.records import Record, Remark
from board.errors import RecordError
from board.formats.base import Event, Head, LineContext, Reader
from board.formats.failures import Verdict, failure_of
from board.formats.field_values import FAILURE
from board.formats.fields import RecordBuilder
from board.formats.io.lines import read_bytes, read_object
from board.formats.io.locations import Location, Objects, existing_file, state_of
from board.formats.number_arrays import as_numbers
from board.formats.parse import as_object, object_at, objects_in
from board.formats.sequences import Call, pieces_of_calls, sampled_alone, take_pieces
from board.formats.sources import JSON_DOCUMENT, JSON_LINES

_RESULT: Final = "result.json"
_TRAJECTORY: Final = "trajectory.json"
_FAMILY: Final = "harbor"
_MOST_BYTES: Final = 64 << 20
"""Of a file that belongs to a trajectory."""
_READ_OF_RESULT: Final = frozenset(
    (
        *("id", "task_name", "trial_name", "trial_uri", "task_id", "source", "task_checksum"),
        *("config", "agent_info", "agent_result", "verifier_result", "exception_info"),
        *("started_at", "finished_at", "environment_setup", "agent_setup", "agent_execution"),
        "verifier",
    )
)
_MOST_PARTS: Final = 100
_IS_PART: Final = re.compile(r"trajectory.*\.json")
_MOST_LEVELS: Final = 8
"""Of agents below agents."""
_ROLES: Final = {"agent": "assistant", "system": "system", "user": "user"}
_EXCEPTIONS: Final[Mapping[str, Verdict]] = {
    **dict.fromkeys(("VerifierTimeoutError", "RewardFileNotFoundError"), "judge"),
    **dict.fromkeys(("RewardFileEmptyError", "VerifierOutputParseError"), "judge"),
    **dict.fromkeys(("EnvironmentStartTimeoutError", "AgentSetupTimeoutError"), "sandbox"),
    **dict.fromkeys(("DownloadVerifierDirError", "AddTestsDirError"), "sandbox"),
    **dict.fromkeys(("ContextLengthExceededError", "OutputLengthExceededError"), "truncated"),
    "AgentTimeoutError": "timeout",
    "CancelledError": "aborted",
}
"""By the exception that ended a trial."""
_PHASES: Final = {
    "environment_setup": "env_s",
    "agent_setup": "agent_setup_s",
    "agent_execution": "agent_s",
    "verifier": "reward_s",
}
"""Phases of a trial, and the columns of their seconds."""
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
    family = _FAMILY
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
        return any(_is_atif(record) for record in head.records)

    def sidecar_files(self, log: Location, objects: Objects) -> Sequence[Location]:
        """The result of the trial, and what else the agent wrote."""
        result = existing_file(log.parent.parent / _RESULT, objects)
        of_trial = log.parent.name == "agent" and result is not None
        return [*([result] if of_trial and result is not None else []), *_siblings(log, objects)]

    def read(self, line: Mapping[str, Any], at: LineContext) -> Record | Event:
        is_trials = at.named("trial") is not None
        if at.path.name in (at.sidecar(_names_beside) or ()) or (
            is_trials and at.path.name != _TRAJECTORY and at.sidecar(_is_beside_main)
        ):
            return Event("header", {"part of": "another trajectory"})
        trajectory = _Trajectory(line, at.location)
        builder = RecordBuilder(at.options, "eval")
        builder.take_conversation([*trajectory.messages()])
        _take_document(builder, line)
        _take_totals(builder, [*trajectory.steps()], object_at(line, "final_metrics"))
        _take_tokens(builder, [*trajectory.steps()])
        if is_trials and (result := at.sidecar(_result_above)) is not None:
            _take_result(builder, result)
        if is_trials and at.path.name == _TRAJECTORY:
            for name in at.sidecar(_orphans_beside) or ():
                builder.remark("agent", "a trajectory that nothing refers to is not shown", name)
        builder.remarks += trajectory.remarks(at)
        return builder.build_undated()


class HarborTrialReader(Reader):
    """Reads the results of Harbor's trials that have no trajectory in ATIF."""

    name = "harbor"
    title = "Harbor trials"
    family = _FAMILY
    sources = (JSON_DOCUMENT,)
    layout = re.compile(r"[^/]+/result\.json")
    left_out: Mapping[str, str] = {
        "id": "an id of the framework",
        "trial_uri": "the trial's folder",
        "task_id": "where the task is; its name is the group",
        "task_checksum": "of the task's files",
        "config": "how the trial was set up, the same for all",
        "agent_info.model_info.provider": "who serves the model",
        "exception_info.occurred_at": "when the trial failed",
        **{
            f"{phase}{end}": "the seconds of each phase are columns"
            for phase in ("", *(f"{name}." for name in _PHASES))
            for end in ("started_at", "finished_at")
        },
    }

    def recognises(self, head: Head) -> bool:
        """task_name, trial_name and verifier_result."""
        return head.has("task_name", "trial_name", "verifier_result")

    def sidecar_files(self, log: Location, objects: Objects) -> Sequence[Location]:
        trajectory = existing_file(log.parent / "agent" / _TRAJECTORY, objects)
        return () if trajectory is None else (trajectory,)

    def read(self, line: Mapping[str, Any], at: LineContext) -> Record | Event:
        """A rollout without a text, where no trajectory tells it."""
        told = at.sidecar(_trajectory_below)
        if told:
            return Event("header", {"read with": _TRAJECTORY})
        builder = RecordBuilder(at.options, "eval")
        _take_result(builder, line)
        if told is False:
            hint = "it is cut off, still being written, or no ATIF"
            reason = f"agent/{_TRAJECTORY} can't be read, so that no text is shown"
            builder.remarks.append(Remark("messages", reason, hint, "lost"))
        return builder.build_undated()


def _is_atif(line: Mapping[str, Any]) -> bool:
    return str(line.get("schema_version", "")).startswith("ATIF-v") and "steps" in line


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
        while (name := _file_name(document.get("continued_trajectory_ref"))) and name not in seen:
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
        shown = list[int]()
        for step in objects_in(document.get("steps")):
            if step.get("is_copied_context") and is_continued:
                continue
            yield from _of_step(step, agent)
            for result in objects_in(object_at(step, "observation").get("results")):
                yield from _of_result(result, agent)
                for reference in objects_in(result.get("subagent_trajectory_ref")):
                    inner = _embedded(reference, below) or self._referred(reference)
                    if inner and id(inner) not in shown and level < _MOST_LEVELS:
                        shown.append(id(inner))
                        yield from self._messages_of(inner, _agent_of(inner), level=level + 1)
        for inner in below:
            if id(inner) not in shown and level < _MOST_LEVELS:
                yield from self._messages_of(inner, _agent_of(inner), level=level + 1)

    def _referred(self, reference: Mapping[str, Any]) -> Mapping[str, Any]:
        name = _file_name(reference.get("trajectory_path"))
        return self._beside(name) if name else {}

    def _beside(self, name: str) -> Mapping[str, Any]:
        """The trajectory in a file of the same folder; empty where it can't be used."""
        document: Mapping[str, Any] = {}
        if self._location is not None:
            document = read_object(self._location.parent / name, most_bytes=_MOST_BYTES)
        if not _is_atif(document):
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
    times = [seconds for step in steps if (seconds := _seconds(step.get("timestamp"))) is not None]
    if len(times) > 1:
        builder.take("seconds", max(times) - min(times))


def _further(step: Mapping[str, Any]) -> dict[str, Any]:
    """What a step says beyond its message, by where it says it; empty where it says nothing more."""
    calls = objects_in(step.get("tool_calls"))
    results = objects_in(object_at(step, "observation").get("results"))
    found = {
        "extra": step.get("extra"),
        "reasoning_effort": step.get("reasoning_effort"),
        "metrics": object_at(step, "metrics").get("extra"),
        "tool_calls": [call["extra"] for call in calls if call.get("extra")],
        "results": [result["extra"] for result in results if result.get("extra")],
    }
    said = {name: value for name, value in found.items() if value}
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


def _take_result(builder: RecordBuilder, result: Mapping[str, Any]) -> None:
    """Takes what a trial says: task, rewards, failure, and how long its phases took. Of an empty one a
    remark says that it could not be read.
    """
    if not result:
        hint = "it is cut off, still being written, or too large"
        reason = f"{_RESULT} of the trial can't be read: its task, reward and failure are not known"
        builder.remarks.append(Remark("reward", reason, hint, "lost"))
        return
    verdict, error = object_at(result, "verifier_result"), object_at(result, "exception_info")
    agent = object_at(result, "agent_info")
    builder.take("group_id", result.get("task_name"))
    builder.take("rollout_id", result.get("trial_name"))
    builder.take("env", result.get("source"))
    builder.take("model", object_at(agent, "model_info").get("name"))
    rewards = object_at(verdict, "rewards")
    if any(isinstance(value, float) and math.isnan(value) for value in rewards.values()):
        builder.remark("reward", "a reward of the verifier is NaN", f"in {_RESULT} of the trial")
    builder.take_rewards(rewards if len(rewards) > 1 else {}, _total(rewards))
    if kind := error.get("exception_type"):
        said = f"{kind}: {error.get('exception_message')}"
        builder.take("error", said)
        verdict_of_kind = _EXCEPTIONS.get(str(kind), UNDECIDED)
        builder.take(FAILURE, failure_of(verdict_of_kind, {"exception_info": said}))
        builder.take_extra("exception_traceback", error.get("exception_traceback"))
    seconds = _passed(result)
    builder.take("seconds", seconds)
    for phase, column in _PHASES.items():
        builder.take(column, _passed(object_at(result, phase)))
    spent = object_at(result, "agent_result")
    for key, column in (
        ("n_input_tokens", "input_tokens"),
        ("n_output_tokens", "output_tokens"),
        ("n_cache_tokens", "cached_tokens"),
        ("cost_usd", "cost"),
    ):
        if column not in builder.extras:
            builder.take(column, spent.get(key))
    builder.take_extra("agent_result", {k: v for k, v in spent.items() if v is not None} or None)
    builder.take_rest(result, _READ_OF_RESULT)
    builder.take_extra("agent", agent.get("name"))
    builder.take_extra("agent_version", agent.get("version"))


def _total(rewards: Mapping[str, Any]) -> Any:
    """The reward among what a verifier gave: the one of that name, or the only one."""
    return rewards.get("reward", next(iter(rewards.values())) if len(rewards) == 1 else None)


def _passed(phase: Mapping[str, Any]) -> float | None:
    begin, end = _seconds(phase.get("started_at")), _seconds(phase.get("finished_at"))
    return None if begin is None or end is None else end - begin


def _seconds(time: object) -> float | None:
    """A time of ISO 8601 in seconds; without a zone as if it were of this one."""
    try:
        return datetime.fromisoformat(str(time)).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def _file_name(reference: object) -> str:
    """The name of a file in the same folder; empty where there is none."""
    name = PurePosixPath(reference).name if isinstance(reference, str) else ""
    return name if name.endswith(".json") else ""


def _siblings(log: Location, objects: Objects) -> Sequence[Location]:
    """Other trajectories in the folder of a trial's agent, of which some may be parts of it."""
    if log.parent.name != "agent":
        return ()
    if isinstance(log, Path):
        paths: Sequence[Location] = sorted(log.parent.glob("trajectory*.json"))
    else:
        paths = [found for found in objects.below(log.parent) if _IS_PART.fullmatch(found.name)]
    return [path for path in paths if path.name != log.name][:_MOST_PARTS]


def _names_beside(log: Location) -> set[str]:
    """The names of files that other trajectories of the same agent refer to."""
    if not isinstance(log, Path):
        return set()
    siblings = (read_object(path, most_bytes=_MOST_BYTES) for path in _siblings(log, Objects()))
    return {name for document in siblings if _is_atif(document) for name in _names_in(document)}


def _names_in(document: Mapping[str, Any]) -> Iterator[str]:
    """The names of the files that a trajectory refers to."""
    yield _file_name(document.get("continued_trajectory_ref"))
    for step in objects_in(document.get("steps")):
        for result in objects_in(object_at(step, "observation").get("results")):
            for reference in objects_in(result.get("subagent_trajectory_ref")):
                yield _file_name(reference.get("trajectory_path"))


def _result_above(log: Location) -> Mapping[str, Any] | None:
    """The result of a trial, empty where it can't be used; None where there is none."""
    path = log.parent.parent / _RESULT
    return read_object(path, most_bytes=_MOST_BYTES) if _is_there(path) else None


def _trajectory_below(log: Location) -> bool | None:
    """Whether the trajectory of a trial can be used; None where there is none."""
    path = log.parent / "agent" / _TRAJECTORY
    return _is_usable(path) if _is_there(path) else None


def _is_usable(path: Location) -> bool:
    """Whether a file is a trajectory, or a list of them."""
    with suppress(OSError, ValueError, RecursionError):
        document: Any = json.loads(read_bytes(path, 0, min(state_of(path)[1], _MOST_BYTES)))
        return any(map(_is_atif, objects_in(document) or [as_object(document)]))
    return False


def _is_there(path: Location) -> bool:
    try:
        return state_of(path)[1] > 0
    except OSError:
        return False


def _is_beside_main(log: Location) -> bool:
    return _is_usable(log.parent / _TRAJECTORY)


def _orphans_beside(log: Location) -> Sequence[str]:
    """Other trajectories of the same agent that none refers to."""
    if not isinstance(log, Path):
        return ()
    paths = [log, *_siblings(log, Objects())]
    documents = {path.name: read_object(path, most_bytes=_MOST_BYTES) for path in paths}
    referred = {name for d in documents.values() if _is_atif(d) for name in _names_in(d)}
    others = [name for name, d in documents.items() if name != log.name and _is_atif(d)]
    return [name for name in others if name not in referred]
