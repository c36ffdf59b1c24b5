"""Trials of Harbor: <job>/<trial>/{agent/trajectory.json, result.json}.

Read from harbor's src/harbor/models/trial/result.py (`TrialResult`: verifier_result {rewards},
exception_info, agent_result, and begin and end of each phase). The rollout is the trajectory; its reward
and its failure stand in the trial's result. A trial that failed before its agent wrote anything has a
result alone.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from board.core.failures.causes import UNDECIDED
from board.core.records import Record, Remark
from board.formats.agents.harbor_files import (
    RESULT,
    TRAJECTORY,
    trajectory_below,
)
from board.formats.base import Event, Head, LineContext, Reader
from board.formats.failures import Verdict, failure_of
from board.formats.field_values import FAILURE
from board.formats.fields import RecordBuilder
from board.formats.io.locations import Location, Objects, existing_file
from board.formats.parse import object_at
from board.formats.sources import JSON_DOCUMENT

FAMILY: Final = "harbor"
_READ_OF_RESULT: Final = frozenset(
    (
        *("id", "task_name", "trial_name", "trial_uri", "task_id", "source", "task_checksum"),
        *("config", "agent_info", "agent_result", "verifier_result", "exception_info"),
        *("started_at", "finished_at", "environment_setup", "agent_setup", "agent_execution"),
        "verifier",
    )
)
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


class HarborTrialReader(Reader):
    """Reads the results of Harbor's trials that have no trajectory in ATIF."""

    name = "harbor"
    title = "Harbor trials"
    family = FAMILY
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
        trajectory = existing_file(log.parent / "agent" / TRAJECTORY, objects)
        return () if trajectory is None else (trajectory,)

    def read(self, line: Mapping[str, Any], at: LineContext) -> Record | Event:
        """A rollout without a text, where no trajectory tells it."""
        is_usable = at.sidecar(trajectory_below)
        if is_usable:
            return Event("header", {"read with": TRAJECTORY})
        builder = RecordBuilder(at.options, "eval")
        take_result(builder, line)
        if is_usable is False:
            hint = "it is cut off, still being written, or no ATIF"
            reason = f"agent/{TRAJECTORY} can't be read, so that no text is shown"
            builder.remarks.append(Remark("messages", reason, hint, "lost"))
        return builder.build_undated()


def take_result(builder: RecordBuilder, result: Mapping[str, Any]) -> None:
    """Takes what a trial says: task, rewards, failure, and how long its phases took. Of an empty one a
    remark says that it could not be read.
    """
    if not result:
        hint = "it is cut off, still being written, or too large"
        reason = f"{RESULT} of the trial can't be read: its task, reward and failure are not known"
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
        builder.remark("reward", "a reward of the verifier is NaN", f"in {RESULT} of the trial")
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
    begin, end = seconds_of(phase.get("started_at")), seconds_of(phase.get("finished_at"))
    return None if begin is None or end is None else end - begin


def seconds_of(time: object) -> float | None:
    """A time of ISO 8601 in seconds; without a zone as if it were of this one."""
    try:
        return datetime.fromisoformat(str(time)).timestamp()
    except (ValueError, OverflowError, OSError):
        return None
