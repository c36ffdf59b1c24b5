"""NeMo-RL's train_data_step{N}.jsonl, val_data_step{N}.jsonl: a rollout per line, each value in a list.

Read from NVIDIA-NeMo/RL@7ea279a nemo_rl/utils/logger.py (`log_batched_dict_as_jsonl`) and
nemo_rl/algorithms/grpo.py: each line is a batch of one, so that every value is a list of length 1, but
for idx. Token arrays cover the sequence padded to the batch's longest; input_lengths says where it ends,
and the response begins at the first token in the loss. generation_logprobs are the sampler's,
prev_logprobs the policy's before the update, taken as `logprobs` since there are none at the loss; both
are 0 where nothing was generated, which the loss mask leaves out. content has the messages' texts without
roles: those that the loss mask tells are generated are the assistant's, the others the environment's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np

from board.core.records import NumberArray, Parsed, Record
from board.errors import RecordError
from board.formats.base import Head, LineContext, Reader
from board.formats.failures import failure_of
from board.formats.field_values import FAILURE
from board.formats.fields import RecordBuilder
from board.formats.messages import is_messages, response_text
from board.formats.number_arrays import RawNumbers, as_numbers
from board.formats.parse import is_list, object_at

_ARRAYS: Final[Mapping[str, str]] = {
    "token_loss_mask": "loss_mask",
    "generation_logprobs": "sampling_logprobs",
    "prev_logprobs": "logprobs",
    "advantages": "advantages",
}


class NemoRLReader(Reader):
    """Reads NeMo-RL's logs of training and validation batches."""

    name = "nemo_rl"
    title = "NeMo-RL"
    left_out: Mapping[str, str] = {
        "agent_ref.type": "the same for all agents",
    }
    keys: Mapping[str, str] = {
        **dict.fromkeys((*_ARRAYS, "token_ids", "input_lengths", "content"), ""),
        **dict.fromkeys(("rewards", "filtered_rewards", "idx", "agent_ref"), ""),
    }
    layout = re.compile(r"(?P<split>train|val)_data_step(?P<step>[0-9]+)\.jsonl")

    def recognises(self, head: Head) -> bool:
        """A bare idx beside content or token ids in a list of one."""
        return any(
            isinstance(record.get("idx"), int)
            and any(
                is_list(own := record.get(key)) and len(own) == 1 and is_list(own[0])
                for key in ("content", "token_ids")
            )
            for record in head.records
        )

    def read(self, line: Mapping[str, Any], at: LineContext) -> Record:
        row = {key: _only(value) for key, value in line.items()}
        builder = RecordBuilder(at.options, at.split or "train")
        builder.take("rollout_id", row.get("idx"))
        builder.take("env", object_at(row, "agent_ref").get("name"))
        builder.take("reward", row.get("filtered_rewards", row.get("rewards")))
        if "filtered_rewards" in row:
            reason = "rewards is that of the batch before dynamic sampling"
            hint = "row for row of other rollouts; the reward shown is filtered_rewards"
            builder.note("rewards", reason, hint)
        generated = _take_tokens(builder, row)
        _take_content(builder, row.get("content"), generated)
        builder.take_keys(row, self.keys)
        if not generated and _is_unanswered(builder, row.get("content")):
            builder.take(FAILURE, failure_of("server", {"response": "no token, no text"}))
        return builder.build(at.step)


def _is_unanswered(builder: RecordBuilder, content: object) -> bool:
    """Whether the last message is empty, and no token in the loss: what a call that failed leaves."""
    texts = content if is_list(content) else []
    last = texts[-1] if len(texts) > 1 else None
    return "loss_mask" in builder.tokens and isinstance(last, str) and not last.strip()


def _only(value: Any) -> Any:
    """What stands in a list of one; None of an empty list, anything else as it is."""
    if isinstance(value, RawNumbers):
        value = value.values().tolist()
    if not is_list(value):
        return value
    return value[0] if len(value) == 1 else value or None


def _take_tokens(builder: RecordBuilder, row: Mapping[str, Any]) -> int:
    """Takes ids and arrays cut to prompt and response; the number of parts that were generated."""
    arrays: dict[str, NumberArray] = {}
    for key in ("token_ids", *_ARRAYS):
        try:
            if isinstance(row.get(key), list) and (array := as_numbers(row[key])) is not None:
                arrays[key] = array
            else:
                builder.take("advantage" if key == "advantages" else key, row.get(key))
        except RecordError as error:
            builder.refuse(key, error)
    ids = arrays.pop("token_ids", None)
    if ids is None:
        return 0
    mask = arrays.get("token_loss_mask")
    span = _span(row.get("input_lengths"), len(ids), mask, builder)
    builder.prompt_ids = Parsed(ids.values()[: span.start])
    builder.response_ids = Parsed(ids.values()[span])
    for key, array in arrays.items():  # one of another length stays as it is
        cut = Parsed(array.values()[span]) if len(array) == len(ids) else array
        builder.tokens[_ARRAYS[key]] = cut
    return _take_segments(builder, builder.tokens.get("loss_mask"))


def _span(
    length: object, padded: int, mask: NumberArray | None, builder: RecordBuilder
) -> slice[int, int, None]:
    """From the first token in the loss to the end of the input; all of it where none is in the loss."""
    end = padded
    if isinstance(length, int | float) and 0 <= length <= padded:
        end = int(length)
    else:
        reason = "input_lengths does not say where the padding begins"
        builder.remark("input_lengths", reason, "padding is shown as tokens")
    if mask is not None and len(mask) == padded:
        in_loss = np.flatnonzero(mask.values()[:end] > 0)
        if len(in_loss):
            return slice(int(in_loss[0]), end)
    builder.note("token_loss_mask", "no token is in the loss", "all tokens are shown as response")
    return slice(0, end)


def _take_segments(builder: RecordBuilder, mask: NumberArray | None) -> int:
    """Marks which part of the response is whose, by the loss mask; how many were generated."""
    response = builder.response_ids
    if mask is None or response is None or len(mask) != len(response) or len(mask) == 0:
        return 0
    own = mask.values() > 0
    borders = [0, *(np.flatnonzero(own[1:] != own[:-1]) + 1).tolist(), len(own)]
    parts = list(pairwise(borders))
    if len(parts) > 1:
        builder.segments = [
            {"start": start, "end": end, "role": "assistant" if own[start] else "environment"}
            for start, end in parts
        ]
    return sum(bool(own[start]) for start, _ in parts)


def _take_content(builder: RecordBuilder, content: object, generated: int) -> None:
    """Takes messages as they are; of texts without roles, those after the prompt by the loss mask."""
    if is_messages(content):
        builder.take_conversation(content)
    elif is_list(content) and all(isinstance(entry, str) for entry in content):
        _take_texts(builder, content, generated)
    else:
        builder.take("response", content)


def _take_texts(builder: RecordBuilder, texts: Sequence[str], generated: int) -> None:
    """The environment answers each generated message, perhaps not the last."""
    first = max(len(texts) - 2 * generated, 1) if generated else 1
    if texts[:first]:
        builder.texts["prompt"] = "\n\n".join(texts[:first])
    if not generated:  # nothing tells whose the others are
        builder.texts["response"] = "\n\n".join(texts[first:])
        return
    turns = ("assistant", "environment")
    prompt = [{"role": "prompt", "content": text} for text in texts[:first]]
    response = [{"role": turns[i % 2], "content": text} for i, text in enumerate(texts[first:])]
    builder.messages = [*prompt, *response]
    builder.given, builder.generated = prompt, response
    if response:
        builder.texts["response"] = response_text(response)
