"""verifiers' evaluations before v1: results.jsonl, one rollout per line, beside metadata.json.

Read from PrimeIntellect-ai/verifiers@a60a606 verifiers/legacy/utils/save_utils.py (`state_to_output`,
gone since v0.3.1) and, for the older keys (`id` before October 2025), v0.1.4 verifiers/scripts/eval.py.
Reward functions and metrics stand side by side as keys of the line: a line does not say which of them are
parts of the reward, so that they become columns. prime-rl wrote the same rows to
step_N/{train,eval}_rollouts.jsonl (b194a6e to 1caebf8); only these have a step.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from board.formats.base import Head, LineContext, Reader, run_name
from board.formats.fields import Fields, as_extras, at_step
from board.formats.io.lines import read_object
from board.formats.io.locations import Location, Objects, existing_file
from board.formats.messages import parsed_text
from board.formats.parse import as_object, is_object, object_at

_SIGNS: Final = frozenset(
    {"timing", "generation_ms", "metrics", "stop_condition", "task", "is_completed"}
)
_METADATA: Final = "metadata.json"


class VerifiersReader(Reader):
    """Reads results.jsonl of verifiers, both generations of keys, and prime-rl's rows of that kind."""

    name = "verifiers"
    title = "verifiers results"
    keys: Mapping[str, str] = {
        "completion": "response",
        "answer": "ground_truth",
        "example_id": "group_id",
        "id": "group_id",
        "stop_condition": "finish_reason",
        "env_name": "env",
        "trajectory_id": "rollout_id",
        **dict.fromkeys(("metrics", "token_usage", "task"), ""),
    }
    layout = re.compile(
        r"results\.jsonl"
        r"|(?:rollouts/)?step_(?P<step>[0-9]+)/(?P<split>train|eval)_rollouts(?:_(?P<env>[^/]+))?\.jsonl"
    )

    def recognises(self, head: Head) -> bool:
        """An example's id, prompt, completion and reward, with a key that verifiers alone writes."""
        return any(
            {"prompt", "completion", "reward"} <= record.keys()
            and not _SIGNS.isdisjoint(record)
            and ("example_id" in record or "id" in record)
            for record in head.records
        )

    def sidecar_files(self, log: Location, objects: Objects) -> Sequence[Location]:
        metadata = existing_file(log.parent / _METADATA, objects)
        return () if metadata is None else (metadata,)

    def run_title(self, log: Location) -> str:
        metadata = _metadata(log)
        return run_name(_environment(metadata), metadata.get("model"))

    def read(self, line: Mapping[str, Any], at: LineContext) -> Fields:
        """The fields of one line; numbers of metrics and token_usage where it has no such key itself."""
        numbers = {**as_object(line.get("token_usage")), **as_object(line.get("metrics"))}
        fields = {**as_extras(numbers), **self.fields(line)}
        if fields.get("response") == []:  # a response without a word, not one that was not recorded
            fields["response"] = ""
        fields["error"] = _error(line.get("error"))
        metadata = at.sidecar(_metadata) or {}
        known = {
            "model": metadata.get("model"),
            "temperature": object_at(metadata, "sampling_args").get("temperature"),
            "tools": as_object(parsed_text(line.get("info"))).get("oai_tools"),
        }
        fields |= {key: value for key, value in known.items() if fields.get(key) is None}
        fields["split"] = at.split or "eval"
        task = line.get("task")
        if "env" not in fields:
            is_name = isinstance(task, str) and task != "default"
            fields["env"] = task if is_name else _environment(metadata) or at.named("env")
        return at_step(fields, at.step)


def _error(error: object) -> str | None:
    """What is said of an error: as text, or in the keys of the later versions."""
    if is_object(error):
        return str(error.get("error_chain_repr") or error.get("error") or error)
    return None if error is None else str(error)


def _environment(metadata: Mapping[str, Any]) -> str | None:
    names = (metadata.get(key) for key in ("env_id", "env"))
    return next((name for name in names if isinstance(name, str)), None)


def _metadata(results: Location) -> Mapping[str, Any]:
    return read_object(results.parent / _METADATA, most_bytes=1 << 20)
