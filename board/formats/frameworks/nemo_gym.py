"""NeMo-Gym's rollouts: one per line, a request and an OpenAI Responses object beside the verdict.

Read from NVIDIA-NeMo/Gym@07d6b0d nemo_gym/rollout_collection.py and nemo_gym/openai_utils.py. An output
item that a model call ended with may carry prompt_token_ids, generation_token_ids and
generation_log_probs. Failures stand in `<stem>_failures.jsonl` with _ng_failure_class; their reward of 0
is a placeholder (nemo_gym/judge.py) that the framework leaves out of its own means, and so is it here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from board.core.arrays import FloatArray
from board.core.records import Record
from board.errors import RecordError
from board.formats.base import Head, LineContext, Reader
from board.formats.failures.nemo_gym import FAILURE_CLASS, failure_of_line
from board.formats.field_values import FAILURE
from board.formats.fields import RecordBuilder
from board.formats.messages import Message, instructions_of, messages_of, parsed_text
from board.formats.number_arrays import as_numbers
from board.formats.parse import as_object, is_list, object_at, objects_in
from board.formats.sequences import Call, pieces_of_calls, take_pieces

_TASK: Final = "_ng_task_index"
_READ_APART: Final = (
    *("responses_create_params", "response", "reward", "reward_components", "agent_ref"),
    *(_TASK, "_ng_rollout_index", "_ng_attempt_index", "_ng_rollout_id", FAILURE_CLASS),
)
_OF_REQUEST: Final = frozenset(("input", "instructions", "temperature", "tools", "metadata"))
_OF_RESPONSE: Final = frozenset(
    (
        *("id", "created_at", "completed_at", "usage", "output", "tools", "temperature", "model"),
        *("error", "incomplete_details", "status", "trajectory", "metadata", "object"),
    )
)
"""What is read of a request and its response; the rest are settings."""
_ALSO_OF_TASKS: Final = frozenset(
    {"prompt", "messages", "input_tokens", "output_tokens", "model", "temperature", "tools"}
)
"""Names under which a task may have something too: what the model was given and measured goes before."""


class NeMoGymReader(Reader):
    """Reads the rollouts and the failures that NeMo-Gym collects."""

    name = "nemo_gym"
    title = "NeMo-Gym rollouts"
    left_out: Mapping[str, str] = {
        "responses_create_params.input.type": "the kind of an item: it is a call, a result or a text",
        "responses_create_params.input.id": "an id of the framework that nothing else refers to",
        "responses_create_params.input.summary.type": "the kind of a part",
        "response.object": "the kind of the object: a response",
        "response.output.encrypted_content": "reasoning that only its server can read",
        "response.completed_at": "when the answer was made",
        "response.id": "an id of the framework that nothing else refers to",
        "response.created_at": "when the answer was made",
        "response.usage": "input and output tokens are columns",
        "response.output.id": "an id of the framework that nothing else refers to",
        "response.output.type": "the kind of an item: it is a call, a result or a text",
        "response.output.summary.type": "the kind of a part",
        "agent_ref.type": "the same for all agents",
    }
    keys: Mapping[str, str] = {
        "expected_answer": "ground_truth",
        **dict.fromkeys((*_READ_APART, *_ALSO_OF_TASKS), ""),
    }
    repeats = "merged_files"

    def recognises(self, head: Head) -> bool:
        """A Responses request with its response, or with the class of a failure."""
        return head.has("responses_create_params", "response") or head.has(
            "responses_create_params", FAILURE_CLASS
        )

    def read(self, line: Mapping[str, Any], at: LineContext) -> Record:
        builder = RecordBuilder(at.options)
        request, response = object_at(line, "responses_create_params"), object_at(line, "response")
        given = [*instructions_of(request), *messages_of(request.get("input"))]
        output = response.get("output")
        if is_list(output) and output and is_list(output[-1]):
            output = output[-1]
            _take_transitions(builder, given, messages_of(output))
        else:
            builder.take_turns(given, [*_browser_steps(response), *messages_of(output)])
        for key in _ALSO_OF_TASKS & line.keys():
            builder.take_extra(f"task.{key}", line[key])
        builder.take_keys(line, self.keys)
        builder.take("model", response.get("model"))
        for key in ("temperature", "tools"):
            builder.take(key, request.get(key) or response.get(key) or request.get(key))
        for name, said, read in (
            ("request", request, _OF_REQUEST),
            ("response", response, _OF_RESPONSE),
        ):
            settings = {k: v for k, v in said.items() if k not in read and v not in (None, [], {})}
            builder.take_extra(f"{name}_settings", settings or None)
        for holder in (line, response):
            metadata = as_object(parsed_text(holder.get("metadata")))
            builder.take("model_patch", metadata.get("model_patch"))
        builder.take("env", object_at(line, "agent_ref").get("name"))
        _take_ids(builder, line)
        _take_verdict(builder, line, response)
        _take_tokens(builder, output)
        builder.take(FAILURE, failure_of_line(line))
        return builder.build_undated()


def _take_transitions(
    builder: RecordBuilder, given: Sequence[Message], history: Sequence[Message]
) -> None:
    """Takes what an environment says transition by transition. history: of the last one, which is all."""
    if given and list(history[: len(given)]) == list(given):
        builder.take_turns(given, history[len(given) :])
    elif history and history[0].get("role") != "assistant":
        builder.take_conversation(history)
    else:
        builder.take_turns(given, history)


def _browser_steps(response: Mapping[str, Any]) -> Iterator[Message]:
    """What an agent in a browser did and saw, step by step, before the last answer."""
    for step in objects_in(object_at(response, "trajectory").get("steps")):
        action = dict(object_at(step, "action"))
        call = {"name": str(action.pop("type", "action")), "arguments": action}
        said = {"content": step["thought"]} if isinstance(step.get("thought"), str) else {}
        yield {"role": "assistant", **said, "tool_calls": [{"function": call}]}
        if step.get("observation") is not None:
            yield {"role": "tool", "content": step["observation"]}


def _take_ids(builder: RecordBuilder, line: Mapping[str, Any]) -> None:
    task, rollout, attempt = (
        line.get(key) for key in (_TASK, "_ng_rollout_index", "_ng_attempt_index")
    )
    builder.take("group_id", task)
    if task is not None and rollout is not None:
        builder.ids["rollout_id"] = f"{task}-{rollout}" + (f"-a{attempt}" if attempt else "")
    builder.take("rollout_id", line.get("_ng_rollout_id"))


def _take_verdict(
    builder: RecordBuilder, line: Mapping[str, Any], response: Mapping[str, Any]
) -> None:
    if line.get(FAILURE_CLASS) is not None:
        builder.take("error", str(line[FAILURE_CLASS]))
        builder.extras["reward"] = line.get("reward")
    else:
        builder.take_rewards(object_at(line, "reward_components"), line.get("reward"))
        if error := object_at(response, "error"):
            builder.take("error", f"{error.get('code')}: {error.get('message')}")
    reason = object_at(response, "incomplete_details").get("reason")
    status = response.get("status")
    builder.take("finish_reason", reason or (status if isinstance(status, str) else None))
    if reason is not None:
        builder.take("is_truncated", reason == "max_output_tokens")
    for key in ("input_tokens", "output_tokens"):
        builder.take(key, object_at(response, "usage").get(key))


def _take_tokens(builder: RecordBuilder, output: object) -> None:
    """The tokens of all model calls as one sequence, where each call goes on from the one before."""
    items = [item for item in objects_in(output) if "generation_token_ids" in item]
    try:
        take_pieces(builder, pieces_of_calls([*map(_call, items)]))
    except RecordError as error:
        reason = f"tokens are not shown: {error.reason}"
        builder.remark("generation_token_ids", reason, f"expected: {error.hint}")


def _call(item: Mapping[str, Any]) -> Call:
    logprobs = as_numbers(item.get("generation_log_probs"))
    compact = {} if logprobs is None else {"sampling_logprobs": logprobs.values()}
    return Call(_ids(item, "prompt_token_ids"), _ids(item, "generation_token_ids"), compact)


def _ids(item: Mapping[str, Any], key: str) -> FloatArray:
    ids = as_numbers(item.get(key))
    if ids is None:
        raise RecordError(f"{key} is missing", hint="a list of token ids")
    return ids.values()
