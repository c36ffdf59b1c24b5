"""Trajectories of SWE-agent and mini-swe-agent: one JSON document per task, without a reward.

Read from SWE-agent/SWE-agent@3ea751c sweagent/agent/agents.py (`get_trajectory_data`; <id>/<id>.traj:
trajectory, history, info, and replay_config, an object or JSON in a text) and
SWE-agent/mini-swe-agent@a83fcae src/minisweagent/agents/default.py (`serialize`; <id>/<id>.traj.json:
info, messages, trajectory_format, instance_id). What the benchmark says of the patch is in other files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from board.formats.base import Head, LineContext, Reader
from board.formats.fields import Fields, at_step
from board.formats.messages import parsed_text, split_conversation
from board.formats.parse import as_object, is_list, object_at, objects_in
from board.formats.sources import JSON_DOCUMENT

_LAYOUT: Final = re.compile(r"(?:(?P<id>[^/]+)/(?P=id)|(?P<alone>[^/]+?))\.traj(?:\.json)?")


class SweAgentReader(Reader):
    """Reads the .traj files of SWE-agent."""

    name = "swe_agent"
    title = "SWE-agent trajectories"
    sources = (JSON_DOCUMENT,)
    layout = _LAYOUT

    def recognises(self, head: Head) -> bool:
        """A trajectory, the history that the model was given, and info."""
        return head.has("trajectory", "history", "info")

    def read(self, line: Mapping[str, Any], at: LineContext) -> Fields:
        """The history as a conversation; what settings are recorded are those of replay_config."""
        settings = as_object(parsed_text(line.get("replay_config")))
        model = object_at(object_at(settings, "agent"), "model")
        fields = _of_info(object_at(line, "info"), at)
        fields |= {"model": model.get("name"), "temperature": model.get("temperature")}
        fields["messages"] = messages = objects_in(line.get("history"))
        for i, message in enumerate(messages):  # its list has the one id that a chat message has
            if is_list(ids := message.get("tool_call_ids")) and ids:
                messages[i] = {**message, "tool_call_id": ids[0]}
        split_conversation(fields)
        return at_step(fields, None)


class MiniSweAgentReader(Reader):
    """Reads the .traj.json files of mini-swe-agent, whose messages OpenAI's clients write."""

    name = "mini_swe_agent"
    title = "mini-swe-agent trajectories"
    sources = (JSON_DOCUMENT,)
    layout = _LAYOUT

    def recognises(self, head: Head) -> bool:
        """Messages with a trajectory_format of mini-swe-agent."""
        return any(
            str(record.get("trajectory_format", "")).startswith("mini-swe-agent")
            and is_list(record.get("messages"))
            for record in head.records
        )

    def read(self, line: Mapping[str, Any], at: LineContext) -> Fields:
        info = object_at(line, "info")
        model = object_at(object_at(info, "config"), "model")
        fields = _of_info(info, at)
        fields["group_id"] = line.get("instance_id") or fields["group_id"]
        fields["model"] = model.get("model_name")
        fields["temperature"] = object_at(model, "model_kwargs").get("temperature")
        # extra: the answer of the server, in which every text stands again
        fields["messages"] = [
            {key: value for key, value in message.items() if key != "extra"}
            for message in objects_in(line.get("messages"))
            if "role" in message
        ]
        split_conversation(fields)
        return at_step(fields, None)


def _of_info(info: Mapping[str, Any], at: LineContext) -> Fields:
    """What both say of how a task ended and what it cost."""
    return {
        "split": "eval",
        "group_id": at.named("id") or at.named("alone"),
        "finish_reason": info.get("exit_status"),
        "error": info.get("exception_str"),
        "submission": info.get("submission"),
        **object_at(info, "model_stats"),
    }
