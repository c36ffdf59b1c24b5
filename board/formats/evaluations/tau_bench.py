"""Results of tau-bench and tau2-bench: an agent, a simulated user and tools, a JSON file per experiment.

Read from sierra-research/tau-bench@59a200c tau_bench/run.py and types.py (`EnvRunResult`): an array of
task_id, trial, reward, info, traj, where the name of the file alone says which model it was; and
sierra-research/tau2-bench@a2c0247 src/tau2/data_model/simulation.py (`Results`): info, tasks,
simulations, of newer versions in files of their own below results.json.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from board.core.failures.causes import UNDECIDED
from board.formats.base import Head, LineContext, Reader
from board.formats.failures import Verdict, error_text, failure_of, verdict_of
from board.formats.field_values import FAILURE
from board.formats.fields import Fields, at_step, named_rewards
from board.formats.io.lines import read_object
from board.formats.io.locations import Location, Objects, existing_file
from board.formats.messages import split_conversation
from board.formats.parse import object_at, objects_at, objects_in
from board.formats.sources import JSON_DOCUMENT

_RESULTS: Final = "results.json"
_REASONS: Final[Mapping[str, Verdict]] = {
    "timeout": "timeout",
    # the framework leaves these out of its own means; the simulated user is a model's server
    **dict.fromkeys(("infrastructure_error", "user_error"), "server"),
    "unexpected_error": UNDECIDED,
}
"""tau2's reasons of termination; those of the agent's own errors are none of these."""


class TauBenchReader(Reader):
    """Reads the results of tau-bench."""

    name = "tau_bench"
    title = "tau-bench results"
    sources = (JSON_DOCUMENT,)
    run_per_file = True
    layout = re.compile(
        r"(?:tool-calling|act|react|few-shot)-(?P<model>.+)-(?P<temperature>[0-9.]+)_range_[^/]+\.json"
        r"|historical_trajectories/[^/]+\.json"
    )

    def recognises(self, head: Head) -> bool:
        """A trial of a task with its reward, info and traj."""
        return head.has("task_id", "reward", "info", "traj", "trial")

    def read(self, line: Mapping[str, Any], at: LineContext) -> Fields:
        info = object_at(line, "info")
        verdict = info.get("reward_info")
        fields: Fields = {
            **{key: value for key, value in line.items() if key not in ("info", "traj", "task_id")},
            "group_id": line.get("task_id"),
            "split": "eval",
            "messages": line.get("traj"),
            "error": info.get("error"),
            "finish_reason": None if verdict is None else "done",
            "user_cost": info.get("user_cost"),
            "task.instruction": object_at(info, "task").get("instruction"),
            "task.actions": object_at(info, "task").get("actions") or None,
            "task.user_id": object_at(info, "task").get("user_id"),
            "reward_info": verdict,
            "model": at.named("model"),
            "temperature": at.named("temperature"),
        }
        if (error := error_text(info.get("error"))) is not None:
            said = {"error": error, "traceback": error_text(info.get("traceback"))}
            fields[FAILURE] = failure_of(UNDECIDED, said)
        split_conversation(fields)
        return at_step(fields, None)


class Tau2Reader(Reader):
    """Reads the simulations of tau2-bench."""

    name = "tau2"
    title = "tau2-bench simulations"
    left_out: Mapping[str, str] = {"timestamp": "when the simulation was written"}
    sources = (JSON_DOCUMENT,)
    layout = re.compile(r"(?:simulations|results|results/final)/[^/]+\.json")

    def recognises(self, head: Head) -> bool:
        """Simulations of tasks with info of the agent, or one simulation of a task."""
        return head.has("info", "tasks", "simulations") or head.has(
            "task_id", "trial", "termination_reason", "start_time"
        )

    def rows(self, line: Mapping[str, Any], at: LineContext) -> Sequence[Mapping[str, Any]]:
        """Each simulation, with what is said of all."""
        if "simulations" not in line:
            return [{**line, "info": at.sidecar(_info_of_run) or {}}]
        info = object_at(line, "info")
        return [
            {**one, "info": info, "task_id": f"{at.path.stem} {one.get('task_id')}"}
            for one in objects_at(line, "simulations")
        ]

    def sidecar_files(self, log: Location, objects: Objects) -> Sequence[Location]:
        above = existing_file(log.parent.parent / _RESULTS, objects)
        return () if above is None or log.parent.name != "simulations" else (above,)

    def read(self, line: Mapping[str, Any], at: LineContext) -> Fields:
        """One simulation; what the agent was given is the policy, up to what the user says first."""
        info, verdict = object_at(line, "info"), object_at(line, "reward_info")
        agent, environment = object_at(info, "agent_info"), object_at(info, "environment_info")
        # raw_data: the answer of the server, in which the texts stand again
        messages = [
            {key: value for key, value in message.items() if key not in ("raw_data", "usage")}
            for message in objects_in(line.get("messages"))
        ]
        roles = [message.get("role") for message in messages]
        first = roles.index("user") + 1 if "user" in roles else 0
        policy = environment.get("policy")
        given = [{"role": "system", "content": policy}] if isinstance(policy, str) else []
        left_out = ("info", "messages", "reward_info", "task_id", "id", "timestamp")
        fields: Fields = {key: value for key, value in line.items() if key not in left_out}
        fields |= named_rewards(object_at(verdict, "reward_breakdown"), verdict.get("reward"))
        fields |= {
            "group_id": line.get("task_id"),
            "rollout_id": line.get("id"),
            "split": "eval",
            "env": environment.get("domain_name"),
            "finish_reason": fields.pop("termination_reason", None),
            "prompt": [*given, *messages[:first]],
            "response": messages[first:] or None,
            "model": agent.get("llm"),
            "temperature": object_at(agent, "llm_args").get("temperature"),
        }
        reason = line.get("termination_reason")
        if (verdict := verdict_of(reason, _REASONS)) is not None:
            fields[FAILURE] = failure_of(verdict, {"termination_reason": reason})
        return at_step(fields, None)


def _info_of_run(simulation: Location) -> Mapping[str, Any]:
    """What results.json above the folder of simulations says of all; empty where it can't be used."""
    results = read_object(simulation.parent.parent / _RESULTS, most_bytes=64 << 20)
    return object_at(results, "info")
