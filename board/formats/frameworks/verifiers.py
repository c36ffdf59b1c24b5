"""verifiers' evaluations before v1: results.jsonl, one rollout per line, beside metadata.json.

Read from PrimeIntellect-ai/verifiers@a60a606 verifiers/legacy/utils/save_utils.py (`state_to_output`,
gone since v0.3.1) and, for the older keys, v0.1.4 verifiers/scripts/eval.py: example_id (`id` before
October 2025), prompt and completion (texts or chat messages, tool calls as JSON in texts), reward,
answer, info, timing (before: generation_ms, scoring_ms, total_ms), is_completed, is_truncated,
stop_condition, error, token_usage. Reward functions and metrics stand side by side as keys of the line:
a line does not say which of them are parts of the reward, so that they become columns. prime-rl wrote the
same rows to step_N/{train,eval}_rollouts.jsonl (b194a6e to 1caebf8); only these have a step.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from board.core.records import Record
from board.formats.base import Head, Place, Reader
from board.formats.columns import Block, ColumnBuilder, Columns
from board.formats.fields import RecordBuilder
from board.formats.io.lines import read_bytes
from board.formats.io.locations import Location, Objects, existing_file, state_of
from board.formats.parse import as_object, is_object

_IDS: Final = ("example_id", "id")
_SIGNS: Final = frozenset(
    {"timing", "generation_ms", "metrics", "stop_condition", "task", "is_completed"}
)
_OURS: Final[Mapping[str, str]] = {
    "answer": "ground_truth",
    "example_id": "group_id",
    "id": "group_id",
    "stop_condition": "finish_reason",
    "env_name": "env",
    "trajectory_id": "rollout_id",
}
_READ_APART: Final = frozenset({"prompt", "completion", "error", "metrics", "token_usage", "task"})
_METADATA: Final = "metadata.json"
_MOST_BYTES: Final = 1 << 20


class VerifiersReader(Reader):
    """Reads results.jsonl of verifiers, both generations of keys, and prime-rl's rows of that kind."""

    name = "verifiers"
    title = "verifiers results"
    layout = re.compile(
        r"results\.jsonl"
        r"|(?:rollouts/)?step_(?P<step>[0-9]+)/(?P<split>train|eval)_rollouts(?:_(?P<env>[^/]+))?\.jsonl"
    )

    def recognises(self, head: Head) -> bool:
        """An example's id, prompt, completion and reward, with a key that verifiers alone writes."""
        return any(
            {"prompt", "completion", "reward"} <= record.keys()
            and not _SIGNS.isdisjoint(record)
            and any(key in record for key in _IDS)
            for record in head.records
        )

    def sidecar_files(self, log: Location, objects: Objects) -> Sequence[Location]:
        metadata = existing_file(log.parent / _METADATA, objects)
        return () if metadata is None else (metadata,)

    def columns(self, block: Block, at: Place) -> Columns | None:
        builder = ColumnBuilder(block.rows, at.options)
        responses = list(map(_response, block.values("completion")))
        builder.take_exchange(block.values("prompt"), responses)
        for key, values in block.columns.items():
            if key not in _READ_APART:
                builder.take(_OURS.get(key, key), values)
        metrics = builder.take_defaults(block.values("metrics"))
        if not metrics.isdisjoint(builder.take_defaults(block.values("token_usage"))):
            return None
        builder.take("error", list(map(_error, block.values("error"))))
        builder.ids["split"] = [at.split or "eval"] * block.rows
        known = _known_environment(at)
        builder.default_ids("env", [_environment(task, known) for task in block.values("task")])
        return builder.build_undated() if at.step is None else builder.build([at.step] * block.rows)

    def read(self, line: Mapping[str, Any], at: Place) -> Record:
        builder = RecordBuilder(at.options)
        builder.take_exchange(line.get("prompt"), _response(line.get("completion")))
        builder.take_keys(line, _OURS, _READ_APART)
        _take_numbers(builder, line.get("metrics"))
        _take_numbers(builder, line.get("token_usage"))
        builder.take("error", _error(line.get("error")))
        builder.take("split", at.split or "eval")
        if "env" not in builder.ids:
            builder.take("env", _environment(line.get("task"), _known_environment(at)))
        return builder.build_undated() if at.step is None else builder.build(at.step)


def _response(completion: Any) -> Any:
    """An empty list of messages is a response without a word, not one that was not recorded."""
    return "" if completion == [] else completion


def _take_numbers(builder: RecordBuilder, values: object) -> None:
    for key, value in as_object(values).items():
        builder.extras.setdefault(key, value)


def _error(error: object) -> str | None:
    """What is said of an error: as text, or in the keys of the later versions."""
    if is_object(error):
        return str(error.get("error_chain_repr") or error.get("error") or error)
    return None if error is None else str(error)


def _environment(task: object, known: str | None) -> str | None:
    return task if isinstance(task, str) and task != "default" else known


def _known_environment(at: Place) -> str | None:
    """The environment of rows that name none: of the metadata, or of the file's name."""
    metadata = at.sidecar(_metadata) or {}
    names = (metadata.get(key) for key in ("env_id", "env"))
    return next((name for name in names if isinstance(name, str)), at.named("env"))


def _metadata(results: Location) -> Mapping[str, Any]:
    """The metadata beside a file of results; empty where it can't be used, for nothing depends on it."""
    try:
        path, size, *_ = state_of(results.parent / _METADATA)
        parsed: object = orjson.loads(read_bytes(path, 0, size)) if size <= _MOST_BYTES else None
    except (OSError, orjson.JSONDecodeError):
        return {}
    return as_object(parsed)
