"""ART's trajectories: trajectories/{split}/{step}.jsonl, a group a line, or .parquet, a trajectory a row.

Read from OpenPipe/ART 0.5.18 src/art/utils/trajectory_migration.py (`serialize_trajectory_groups`, lines)
and src/art/utils/trajectory_logging.py (`write_trajectory_groups_parquet`, version 1), and from the later
versioned writer of that name (version 2, which adds format_version, trajectory_index, group_json and
trajectory_json). A trajectory: reward, metrics, metadata, messages_and_choices (a message, or a choice
{finish_reason, message, logprobs} that the model made), tools, additional_histories, logs. The response
begins at the first choice. Only version 2 keeps the log-probabilities of choices, which are the
sampler's; the exchanges that its newest trajectories hold in the place of messages are not read. An empty
group is a row without a reward: nothing to show. The step is in the file's name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from board.core.records import Record, Remark
from board.errors import RecordError
from board.readers.base import Head, Place, Reader
from board.readers.fields import RecordBuilder
from board.readers.messages import is_messages
from board.readers.parquet_files import PARQUET
from board.readers.sources import JSON_LINES

_TRAJECTORY: Final = "trajectory_json"
_OF_TRAJECTORY: Final = ("reward", "messages", _TRAJECTORY)
_EXPECTED: Final = "a list of trajectories, each with a reward and messages_and_choices"
_TOKEN_ID: Final = "token_id:"


class ArtReader(Reader):
    """Reads the trajectories that ART logs."""

    name = "art"
    title = "ART"
    sources = (JSON_LINES, PARQUET)
    layout = re.compile(r"trajectories/(?P<split>[^/]+)/(?P<step>[0-9]+)\.(?:jsonl|parquet)")

    def recognises(self, head: Head) -> bool:
        """Columns of a trajectory with its group, or lines of trajectories with messages and choices."""
        return head.has("group_index", "reward", "messages", "group_metadata") or any(
            "messages_and_choices" in entry
            for record in head.records
            for entry in _mappings(record.get("trajectories"))
        )

    def rows(self, line: Mapping[str, Any], at: Place) -> Sequence[Mapping[str, Any]]:
        """The trajectories of a group, numbered; a row of a table as it is."""
        if "trajectories" not in line:
            return (line,)
        entries = line["trajectories"]
        if not isinstance(entries, list):
            raise RecordError("trajectories is no list", field="trajectories", hint=_EXPECTED)
        return [
            {**_mapping(entry), "trajectory_index": i}
            for i, entry in enumerate(cast("list[Any]", entries))
        ]

    def read(self, line: Mapping[str, Any], at: Place) -> Record | None:
        """The Record of one trajectory; None for an empty group. The step is the file name's."""
        if "group_index" in line and all(line.get(key) is None for key in _OF_TRAJECTORY):
            return None
        if "reward" not in line:
            raise RecordError("it is no trajectory", field="reward", hint=_EXPECTED)
        # The JSON is the whole trajectory, the columns beside it are for queries.
        whole = _parsed(line.get(_TRAJECTORY))
        said = {**line, **cast("dict[str, Any]", whole)} if isinstance(whole, dict) else line
        builder = RecordBuilder(at.options)
        builder.ids["split"] = at.split or "train"
        _take_ids(builder, line, at)
        builder.take("reward", line.get("reward"))
        builder.take("policy_version", said.get("initial_policy_version"))
        builder.take("policy_version_end", said.get("final_policy_version"))
        _take_messages(builder, said)
        for key in ("metrics", "group_metrics"):
            for name, value in _mapping(_parsed(said.get(key))).items():
                builder.take(f"{key}.{name}", value)
        for key in ("metadata", "tools", "logs", "group_metadata", "group_logs"):
            builder.take(key, _parsed(said.get(key)) or None)
        builder.take("additional_histories", len(said.get("additional_histories") or ()) or None)
        return builder.build(at.step)


def _mappings(value: object) -> list[dict[str, Any]]:
    """The mappings in a list; of anything else none."""
    entries = cast("list[Any]", value) if isinstance(value, list) else []
    return [entry for entry in entries if isinstance(entry, dict)]


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _parsed(value: Any) -> Any:
    """What JSON in a text says; anything else as it is."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _take_ids(builder: RecordBuilder, line: Mapping[str, Any], at: Place) -> None:
    """A group is known by its number in the file; lines have none but their own."""
    group = line.get("group_index", at.line - 1)
    builder.take("group_id", group)
    if (index := line.get("trajectory_index")) is not None:
        builder.take("rollout_id", f"{group}-{index}")


def _take_messages(builder: RecordBuilder, said: Mapping[str, Any]) -> None:
    """Takes the conversation, cut where the model's own first message is, and its tokens."""
    entries = _mappings(said.get("messages_and_choices")) or _mappings(said.get("messages"))
    messages = [_message(entry) for entry in entries]
    own = [bool(entry.get("trainable")) or "finish_reason" in entry for entry in entries]
    if not is_messages(messages):
        if said.get("exchanges"):
            reason = "the trajectory has exchanges in the place of messages"
            hint = "they are not read: prompt and response are not recorded"
            builder.remarks.append(Remark("exchanges", reason, hint))
        return
    if True in own:
        first = own.index(True)
        builder.take_turns(messages[:first], messages[first:])
    else:
        builder.take_conversation(messages)
    choices = [entry for entry in entries if "finish_reason" in entry]
    if choices:
        builder.take("finish_reason", choices[-1]["finish_reason"])
        _take_tokens(builder, choices)


def _message(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The chat message of an entry, a choice's being inside it; tool calls may be JSON in a text."""
    inner = _mapping(entry["message"]) if "finish_reason" in entry else entry
    message = {k: v for k, v in inner.items() if v is not None and k != "trainable"}
    if isinstance(message.get("tool_calls"), str):
        message["tool_calls"] = _parsed(message["tool_calls"])
    return message


def _take_tokens(builder: RecordBuilder, choices: Sequence[Mapping[str, Any]]) -> None:
    """Takes the tokens of all choices one after the other, where each choice has them."""
    found = [_mappings(_mapping(choice.get("logprobs")).get("content")) for choice in choices]
    if not all(found):
        return
    tokens = [token for content in found for token in content]
    pieces = [str(token.get("token")) for token in tokens]
    ids = [piece.removeprefix(_TOKEN_ID) for piece in pieces]
    if all(p.startswith(_TOKEN_ID) and i.isdigit() for p, i in zip(pieces, ids, strict=True)):
        builder.take("response_ids", [int(i) for i in ids])
    else:
        builder.take("response_tokens", pieces)
    builder.take("sampling_logprobs", [token.get("logprob") for token in tokens])
