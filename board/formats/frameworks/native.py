"""Rollout Board's own format, written by `exporters.RolloutExporter`: docs/record.md.

A folder of `{attempt}-rank{R}-{uid}.jsonl` files whose lines carry a `type`, beside
`run-{attempt}.json` (what the run is) and `vocab.json` (token id -> piece).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from board.core import schema
from board.errors import RecordError
from board.formats.base import Event, Head, LineContext, Reader
from board.formats.failures import usual_failure
from board.formats.field_values import CONTENT, FAILURE
from board.formats.fields import Fields
from board.formats.generic import has_other_names
from board.formats.messages import is_messages
from board.formats.metric_lines import metrics_beside, metrics_in

_ONLY_NATIVE_LISTS: Final = (
    *("response_ids", "old_logprobs", "sampling_logprobs", "loss_mask"),
    *("messages", "segments"),
)
"""Keys of the record that RLLoggingBoard's format does not have."""


class NativeReader(Reader):
    """Reads the files of `exporters.RolloutExporter`."""

    name = "native"
    title = "Rollout Board"
    left_out: Mapping[str, str] = {
        "index": "the place of a rollout in its step is counted when it is read"
    }
    family = "jsonl"
    has_outline = True
    recording: Mapping[str, str] = {
        "reward": "Pass rewards= to RolloutExporter.log.",
        "prompt": "Pass prompt_ids= (or the texts of the prompts) to RolloutExporter.log.",
        "cause": "Pass rewards= and, of rollouts that failed, error= in meta to RolloutExporter.log.",
        "group_id": 'Pass meta={"group_id": ...} to RolloutExporter.log.',
        "env": 'Pass meta={"env": ...} to RolloutExporter.log.',
        "mismatch_kl_mean": "Pass sampling_logprobs=, the log-probabilities of the engine that sampled, "
        "and logprobs= to RolloutExporter.log.",
    }

    def recognises(self, head: Head) -> bool:
        """A typed line, or a rollout with a key that only this format has."""
        return any(
            (record.get("type") == "header" and "schema" in record)
            or (record.get("type") == "sample" and "step" in record)
            or ("step" in record and "token_ids" not in record and _is_rollout(record))
            for record in head.records
        )

    def read(self, line: Mapping[str, Any], at: LineContext) -> Fields | Event:
        """A `sample` line (or one without a type) as a rollout, any other typed line as an Event."""
        kind = line.get("type", "sample")
        if kind not in schema.LINE_TYPES:
            hint = f"one of {', '.join(schema.LINE_TYPES)}; found {str(kind)[:40]!r}"
            raise RecordError("the line's type is not known", field="type", hint=hint)
        if kind != "sample":
            return Event(kind, line)
        # Of most lines all that is looked at.
        has_response = line.get("response") is not None or "type" in line
        if not has_response and (metrics := metrics_in(line, CONTENT)) is not None:
            return metrics
        if not has_response and (metrics := metrics_beside(line, at)) is not None:
            return metrics
        failure = usual_failure(line)
        fields = dict(line) if failure is None else {**line, FAILURE: failure}
        fields.pop("index", None)
        return fields


def _is_rollout(record: Mapping[str, Any]) -> bool:
    if isinstance(record.get("rewards"), dict) and not has_other_names(record):
        return True
    lists = [key for key in _ONLY_NATIVE_LISTS if isinstance(record.get(key), list)]
    # Of a conversation whose messages have no role the keys are somebody else's.
    if lists and (lists != ["messages"] or is_messages(record["messages"])):
        return True
    # Other logs count steps under such names too: an id alone does not make a line a rollout.
    has_id = ("rollout_id" in record or "group_id" in record) and not has_other_names(record)
    content = ("prompt", "response", "response_tokens", "reward")
    return has_id and any(key in record for key in content)
