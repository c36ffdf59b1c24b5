"""ART's trajectories: trajectories/{split}/{step}.{jsonl,yaml}, a group a line or entry, or .parquet.

Read from OpenPipe/ART 0.5.18 src/art/utils/trajectory_migration.py (`serialize_trajectory_groups`, lines;
`migrate_jsonl_to_parquet`), src/art/utils/trajectory_logging.py (`write_trajectory_groups_parquet`,
version 1), the later versioned writer of that name (version 2, which adds format_version,
trajectory_index, group_json and trajectory_json), and OpenPipe/ART@779559f's trajectory_logging.py, which
wrote .yaml until June 2025. A trajectory: reward, metrics, metadata, messages_and_choices (a message, or
a choice {finish_reason, message, logprobs} that the model made), tools, additional_histories, logs; the
newest have exchanges in the place of messages (art_exchanges.py). Of several histories the one with most
choices is shown, the last one of equals, and the others are counted. The response begins at the first
choice. Only version 2 keeps the log-probabilities of choices, which are the sampler's. An empty group is
a row without a reward: nothing to show. The step is in the file's name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from board.core.records import Record, Remark
from board.errors import RecordError
from board.formats.base import Head, Place, Reader
from board.formats.fields import RecordBuilder
from board.formats.frameworks.art_exchanges import histories_of
from board.formats.io.parquet_files import PARQUET
from board.formats.io.yaml_files import YAML
from board.formats.messages import is_messages, parsed_text
from board.formats.sources import JSON_LINES
from board.formats.step_of import split_named

_TRAJECTORY: Final = "trajectory_json"
_OF_TRAJECTORY: Final = ("reward", "messages", _TRAJECTORY)
_EXPECTED: Final = "a list of trajectories, each with a reward and messages_and_choices"
_OF_GROUP: Final = ("metadata", "metrics", "logs")
_CONVERSATIONS: Final = ("messages_and_choices", "exchanges")
_TOKEN_ID: Final = "token_id:"


class ArtReader(Reader):
    """Reads the trajectories that ART logs."""

    name = "art"
    title = "ART"
    sources = (JSON_LINES, PARQUET, YAML)
    layout = re.compile(r"trajectories/(?P<split>[^/]+)/(?P<step>[0-9]+)\.(?:jsonl|parquet|yaml)")

    def recognises(self, head: Head) -> bool:
        """Columns of a trajectory with its group, or lines of trajectories with messages and choices."""
        columns = ("group_index", "reward", "messages", "metadata", "tools", "logs")
        return head.has(*columns) or any(
            key in entry
            for record in head.records
            for entry in _mappings(record.get("trajectories"))
            for key in _CONVERSATIONS
        )

    def rows(self, line: Mapping[str, Any], at: Place) -> Sequence[Mapping[str, Any]]:
        """The trajectories of a group, numbered, each with what is said of all; of a table the row."""
        if "trajectories" not in line:
            return (line,)
        entries = line["trajectories"]
        if not isinstance(entries, list):
            raise RecordError("trajectories is not a list", field="trajectories", hint=_EXPECTED)
        of_group = {f"group_{k}": line[k] for k in _OF_GROUP if line.get(k)}
        return [
            {**of_group, **_mapping(entry), "trajectory_index": i}
            for i, entry in enumerate(cast("list[Any]", entries))
        ]

    def read(self, line: Mapping[str, Any], at: Place) -> Record | None:
        """The Record of one trajectory; None for an empty group. The step is the file name's."""
        if "group_index" in line and all(line.get(key) is None for key in _OF_TRAJECTORY):
            return None
        if "reward" not in line:
            raise RecordError("it is not a trajectory", field="reward", hint=_EXPECTED)
        # The JSON is the whole trajectory, the columns beside it are for queries.
        whole = parsed_text(line.get(_TRAJECTORY))
        said = {**line, **cast("dict[str, Any]", whole)} if isinstance(whole, dict) else line
        builder = RecordBuilder(at.options)
        builder.ids["split"] = split_named(at.named("split") or "train")
        _take_ids(builder, line, at)
        builder.take("reward", line.get("reward"))
        builder.take("policy_version", said.get("initial_policy_version"))
        builder.take("policy_version_end", said.get("final_policy_version"))
        _take_messages(builder, said)
        for key in ("metrics", "group_metrics"):
            for name, value in _mapping(parsed_text(said.get(key))).items():
                builder.take(f"{key}.{name}", value)
        for key in ("metadata", "tools", "logs", "group_metadata", "group_logs"):
            builder.take(key, parsed_text(said.get(key)) or None)
        return builder.build(at.step)


def _mappings(value: object) -> list[dict[str, Any]]:
    """The mappings in a list; of anything else none."""
    entries = cast("list[Any]", value) if isinstance(value, list) else []
    return [entry for entry in entries if isinstance(entry, dict)]


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _take_ids(builder: RecordBuilder, line: Mapping[str, Any], at: Place) -> None:
    """A group is known by its number in the file; lines have none but their own."""
    group = line.get("group_index", at.line - 1)
    builder.take("group_id", group)
    if (index := line.get("trajectory_index")) is not None:
        builder.take("rollout_id", f"{group}-{index}")


def _take_messages(builder: RecordBuilder, said: Mapping[str, Any]) -> None:
    """Takes the conversation, cut where the model's own first message is, and its tokens."""
    entries = _mappings(said.get("messages_and_choices")) or _mappings(said.get("messages"))
    others = len(_mappings(parsed_text(said.get("additional_histories"))))
    if not entries and (histories := histories_of(_mapping(said.get("exchanges")))):
        entries = max(reversed(histories), key=_choices_in)
        others = len(histories) - 1
    builder.take("additional_histories", others or None)
    messages = [_message(entry) for entry in entries]
    own = [bool(entry.get("trainable")) or "finish_reason" in entry for entry in entries]
    if not is_messages(messages):
        if said.get("exchanges"):
            reason = "no conversation can be made of the calls of the model"
            hint = f"{_EXPECTED}, or exchanges of OpenAI's or Anthropic's API"
            builder.remarks.append(Remark("exchanges", reason, f"expected: {hint}"))
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


def _choices_in(history: Sequence[Mapping[str, Any]]) -> int:
    return sum("finish_reason" in entry for entry in history)


def _message(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The chat message of an entry, a choice's being inside it; tool calls may be JSON in a text."""
    inner = _mapping(entry["message"]) if "finish_reason" in entry else entry
    message = {k: v for k, v in inner.items() if v is not None and k != "trainable"}
    if isinstance(message.get("tool_calls"), str):
        message["tool_calls"] = parsed_text(message["tool_calls"])
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
