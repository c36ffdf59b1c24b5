"""verifiers' evaluations before v1: results.jsonl, one rollout per line, beside metadata.json.

Read from PrimeIntellect-ai/verifiers@a60a606 verifiers/legacy/utils/save_utils.py (`state_to_output`,
gone since v0.3.1) and, for the older keys (`id` before October 2025), v0.1.4 verifiers/scripts/eval.py.
Reward functions and metrics stand side by side as keys of the line: a line does not say which of them are
parts of the reward, so that they become columns. prime-rl wrote the same rows to
step_N/{train,eval}_rollouts.jsonl (b194a6e to 1caebf8), which have a step, as has a line with a `step`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from board.core.failures.causes import UNDECIDED
from board.formats.base import Head, LineContext, Reader, run_name
from board.formats.failures import Verdict, failure_of, verdict_of
from board.formats.field_values import FAILURE
from board.formats.fields import Fields, as_extras, at_step
from board.formats.io.lines import read_object
from board.formats.io.locations import Location, Objects, existing_file
from board.formats.messages import parsed_text
from board.formats.parse import as_object, is_object, object_at

_SIGNS: Final = frozenset(
    {"timing", "generation_ms", "metrics", "stop_condition", "task", "is_completed"}
)
_METADATA: Final = "metadata.json"
_STOPS: Final[Mapping[str, Verdict]] = {
    "timeout_reached": "timeout",
    "has_error": UNDECIDED,
    # a line's own is_truncated is of its tokens alone
    **dict.fromkeys(("prompt_too_long", "max_turns_reached"), "truncated"),
    "max_total_completion_tokens_reached": "truncated",
}
"""By names of verifiers' own stop conditions; a user's environment gives others."""
_JUDGE_FAILED: Final = re.compile(
    r"Judge model (?:rate limit|timeout|API error)|calling judge model"
)
_ERROR_CLASS: Final = re.compile(r"\w+")
_AFTER_ANSWER: Final = ("EmptyModelResponseError", "InvalidModelResponseError")
"""Errors that are the server's, unless there is a response: a model can end one with nothing."""


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
        r"(?:(?:rollouts/)?(?:(?:global|train|training|eval)[_-])?(?:step|iter|iteration|checkpoint|ckpt)"
        r"[_-]?(?P<step>[0-9]{1,18})/)?"
        r"(?:results|(?P<split>train|eval)_rollouts(?:_(?P<env>[^/]+))?)\.jsonl"
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
        if (failure := _failure(line, fields)) is not None:
            fields[FAILURE] = failure
        step = at.step if at.step is not None else _step(line)
        fields["split"] = at.split or ("eval" if step is None else "train")
        task = line.get("task")
        if "env" not in fields:
            is_name = isinstance(task, str) and task != "default"
            fields["env"] = task if is_name else _environment(metadata) or at.named("env")
        return at_step(fields, step)


def _step(line: Mapping[str, Any]) -> int | None:
    """The step that a trainer writes into a line of its own; an evaluation has none."""
    step = line.get("step")
    return step if isinstance(step, int) and not isinstance(step, bool) else None


def _error(error: object) -> str | None:
    """What is said of an error: as text, or in the keys of the later versions."""
    if is_object(error):
        return str(error.get("error_chain_repr") or error.get("error") or error)
    return None if error is None else str(error)


def _failure(line: Mapping[str, Any], fields: Fields) -> str | None:
    """An error by its class, else the stop condition, else that the rollout is not complete."""
    error, stop = fields["error"], line.get("stop_condition")
    if error:
        return failure_of(_verdict(error, fields), {"stop_condition": stop, "error": error})
    if (verdict := verdict_of(stop, _STOPS)) is not None:
        return failure_of(verdict, {"stop_condition": stop})
    if line.get("is_completed") is False and not line.get("is_truncated"):
        return failure_of("aborted", {"is_completed": "false"})
    return None


def _verdict(error: str, fields: Fields) -> Verdict:
    """Of an error; the classes that mean the same everywhere are decided by their names."""
    if _JUDGE_FAILED.search(error):
        return "judge"
    match = _ERROR_CLASS.match(error)
    name = match.group() if match else ""
    if name == "ToolParseError" or (name in _AFTER_ANSWER and fields.get("response")):
        return "policy"
    return "server" if name == "InfraError" and " -> " not in error else UNDECIDED


def _environment(metadata: Mapping[str, Any]) -> str | None:
    names = (metadata.get(key) for key in ("env_id", "env"))
    return next((name for name in names if isinstance(name, str)), None)


def _metadata(results: Location) -> Mapping[str, Any]:
    return read_object(results.parent / _METADATA, most_bytes=1 << 20)
