"""Groups of Atropos: one group per line, as parallel lists or as conversations with scores.

Read from NousResearch/atropos@296a0bc atroposlib/envs/base.py (`handle_send_to_api`) and
_save_rollouts_to_jsonl of its environments. A mask is -100 where a token was given and its id where it
was generated. Where an environment keeps no messages, the whole text is one message of the user.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from board.errors import RecordError
from board.formats.base import Head, LineContext, Reader
from board.formats.fields import Fields, at_step
from board.formats.messages import is_messages, split_chatml, split_conversation
from board.formats.parse import is_list, is_texts, objects_at, objects_in
from board.formats.sources import rows_of_table

_PER_ROLLOUT: Final = ("tokens", "masks", "scores")
_ARRAYS: Final[Mapping[str, str]] = {
    "inference_logprobs": "sampling_logprobs",
    "ref_logprobs": "ref_logprobs",
    "advantages": "advantages",
}
_READ_APART: Final = frozenset({*_PER_ROLLOUT, *_ARRAYS, "messages", "overrides", "conversation"})


class AtroposReader(Reader):
    """Reads groups that Atropos dumps."""

    name = "atropos"
    title = "Atropos groups"
    left_out: Mapping[str, str] = {
        "masks": "read as loss_mask: -100 is 0, an id is 1",
    }

    def recognises(self, head: Head) -> bool:
        """Lists of tokens, masks and scores, or an item with rollouts of a conversation and a score."""
        return head.has(*_PER_ROLLOUT) or any(
            "item_id" in record
            and any("conversation" in one for one in objects_in(record.get("rollouts")))
            for record in head.records
        )

    def rows(self, line: Mapping[str, Any], at: LineContext) -> Sequence[Mapping[str, Any]]:
        """Each rollout of the group."""
        if "rollouts" in line:
            shared = {key: value for key, value in line.items() if key != "rollouts"}
            return [{**shared, **one} for one in objects_at(line, "rollouts")]
        names = [name for name in (*_PER_ROLLOUT, *_ARRAYS, "messages") if is_list(line.get(name))]
        return rows_of_table(line, names)

    def read(self, line: Mapping[str, Any], at: LineContext) -> Fields:
        fields: Fields = {key: value for key, value in line.items() if key not in _READ_APART}
        fields |= {
            "group_id": f"{at.path.stem} {at.line}",
            "reward": line.get("scores", fields.pop("score", None)),
            "env": fields.pop("env", None),
            "task": fields.pop("item_id", None),
        }
        messages = line.get("messages", line.get("conversation"))
        if is_messages(messages):
            fields |= _of_messages([dict(message) for message in messages])
        elif isinstance(messages, str) or is_texts(
            messages
        ):  # decoded, or of environments without roles
            text = messages if isinstance(messages, str) else "\n".join(messages)
            prompt, response = split_chatml(text)
            fields |= {"response": response} | ({"prompt": prompt} if prompt else {})
        if is_list(masks := line.get("masks")) and is_list(tokens := line.get("tokens")):
            fields |= _of_tokens(line, tokens, masks)
        return at_step(fields, None)


def _of_messages(messages: list[dict[str, Any]]) -> Fields:
    """The prompt and the response; a text of the user alone is both, cut where ChatML says so."""
    if len(messages) == 1 and messages[0]["role"] == "user":
        prompt, response = split_chatml(str(messages[0].get("content")))
        return {"prompt": prompt, "response": response} if prompt else {"response": response}
    for message in messages:
        message["role"] = "assistant" if message["role"] == "agent" else message["role"]
    fields: Fields = {"messages": messages}
    split_conversation(fields)
    return fields


def _of_tokens(line: Mapping[str, Any], tokens: list[Any], masks: list[Any]) -> Fields:
    """The tokens from the first generated one on, with what each has; the mask as 0 and 1."""
    if len(masks) != len(tokens):
        raise RecordError(
            "masks are not as long as tokens", field="masks", hint="one for each token"
        )
    is_generated = [mask != -100 for mask in masks]
    first = is_generated.index(True) if any(is_generated) else len(tokens)
    fields: Fields = {
        "prompt_ids": tokens[:first],
        "response_ids": tokens[first:],
        "loss_mask": [int(own) for own in is_generated[first:]],
    }
    for key, name in _ARRAYS.items():
        values = line.get(key)
        if is_list(values) and len(values) == len(tokens):
            fields[name] = values[first:]
    return {key: value for key, value in fields.items() if value}
