"""RLLoggingBoard's format: one rollout per line, no header, any number of files in one folder.

Read from HarderThenHarder/RLLoggingBoard@cf56d5d (rl_logging_board.py, README.md) and its writers.
OpenRLHF forks write rl_logging_board_data.jsonl, with values null where there is no critic. Those of
verl (DeepEyes, dapo forks) write rollout_data_rank{n}.jsonl, with "" for what does not serialise;
rollout_data_rank_val{n}.jsonl (its rows have validation true) is evaluation. ROLL (alibaba/ROLL@8eb27cc
roll/pipeline/rlvr/rlvr_pipeline.py, `save_metrics`) pads its arrays to the longest sequence of the batch,
each in its own way; see `_cut_as_roll`.

Its own `kl` is exp(d) - 1 - d with d = logprobs - ref_logprobs, which is k3 with the sign of d reversed.
The board computes k3 as Schulman defines it, so its figures differ from RLLoggingBoard's on purpose.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

import numpy as np

from board.core.records import NumberArray, Parsed, Remark
from board.core.schema import TOKEN_ARRAY_FIELDS
from board.errors import RecordError
from board.formats.base import Event, Head, LineContext, Reader
from board.formats.failures import usual_failure
from board.formats.field_values import CONTENT, EXTRA, FAILURE, TAKERS
from board.formats.fields import SURPLUS, Fields, is_flat_numbers, with_remarks
from board.formats.generic import has_other_names
from board.formats.metric_lines import metrics_beside, metrics_in
from board.formats.number_arrays import as_numbers
from board.formats.parse import is_list, is_texts

_ROLLOUT_KEYS: Final = frozenset({"prompt", "response", "response_tokens"})
_GENERATED: Final = ("response", "response_tokens")
_ITS_OWN: Final = frozenset(
    {"response_tokens", "logprobs", "ref_logprobs", "values", "token_rewards", "ref_response"}
)
_VALIDATION: Final = re.compile(r"rank_val[0-9]*\.")
_ROLLS: Final[Mapping[str, str]] = {
    "new_response_mask": "loss_mask",
    "old_log_probs2_entropy": "entropy",
    "log_probs2": "logprobs_again",
}
"""ROLL computes the log-probabilities twice, to compare them."""
_NO_VALUES: Final = Remark(
    "values",
    "values are not a critic's: ROLL writes token rewards there too",
    "they are shown as token_rewards alone",
    "note",
)
_PADDED: Final = Remark(
    "response_tokens",
    "ROLL's arrays are padded",
    "text before and after the response is not shown",
    "note",
)


class RLLoggingBoardReader(Reader):
    """Reads RLLoggingBoard's files."""

    name = "rllb"
    title = "RLLoggingBoard"
    family = "jsonl"
    repeats = "copied_steps"
    has_outline = True
    recording: Mapping[str, str] = {
        **{
            key: f'Write "{key}" into each line.' for key in ("reward", "prompt", "group_id", "env")
        },
        "cause": 'Write "reward", and of rollouts that failed "error", into each line.',
        "mismatch_kl_mean": 'Write "logprobs" and "sampling_logprobs", the engine\'s, into each line.',
    }

    def recognises(self, head: Head) -> bool:
        """A record with a step and the response as text or pieces, its reward not under another name.

        A number under such a key is a metric. A prompt with its reward will do where no other text is
        logged that may be the response.
        """
        return any(
            "step" in record
            and (
                any(isinstance(record.get(key), str | list) for key in _GENERATED)
                or _is_prompt_alone(record)
            )
            and (not _ITS_OWN.isdisjoint(record) or not has_other_names(record))
            for record in head.records
        )

    def read(self, line: Mapping[str, Any], at: LineContext) -> Fields | Event:
        if "response" not in line or line["response"] is None:
            metrics = metrics_in(line, CONTENT) or metrics_beside(line, at)
            if metrics is not None:
                return metrics
        by_roll = "new_response_mask" in line
        names = _ROLLS if by_roll else {}
        fields: Fields = {
            names.get(key, key): value
            for key, value in line.items()
            if value != "" or key in _ROLLOUT_KEYS
        }
        if (kind := line.get("type")) is not None:
            fields[EXTRA + "type"] = kind
        is_eval = line.get("validation") is True or _VALIDATION.search(at.path.name)
        if is_eval and fields.get("split") is None:
            fields["split"] = "eval"
        if (failure := usual_failure(line)) is not None:  # home-made logs are of this format too
            fields[FAILURE] = failure
        if at.options.outline:  # nothing of tokens is looked at
            return fields
        if by_roll:
            return with_remarks(fields, _NO_VALUES, *_cut_as_roll(fields))
        if surplus := _surplus(fields):
            return with_remarks(fields, surplus)
        return fields


def _is_prompt_alone(record: Mapping[str, Any]) -> bool:
    return (
        isinstance(record.get("prompt"), str)
        and isinstance(record.get("reward"), int | float)
        and not any(
            isinstance(value, str | list | dict) and key not in TAKERS
            for key, value in record.items()
        )
    )


def _arrays(fields: Fields) -> Iterator[tuple[str, NumberArray]]:
    """The arrays of numbers that are not token ids."""
    for key, value in fields.items():
        is_array = key in TOKEN_ARRAY_FIELDS or is_flat_numbers(value)
        if key in ("prompt_ids", "response_ids") or not is_array:
            continue
        with suppress(RecordError):  # said where the Record is built
            if (array := as_numbers(value)) is not None:
                yield key, array


def _surplus(fields: Fields) -> Remark | None:
    """Writers differ by one: with or without the end-of-text piece. Values stay where they are."""
    pieces = fields.get("response_tokens")
    if not is_list(pieces):
        return None
    difference = 0
    for _, array in _arrays({key: fields[key] for key in fields if key in TOKEN_ARRAY_FIELDS}):
        before, difference = difference, len(array) - len(pieces)
        if difference not in SURPLUS or before not in (0, difference):
            return None
    return SURPLUS[difference] if difference and is_texts(pieces) else None


def _cut_as_roll(fields: Fields) -> tuple[Remark, ...]:
    """Cuts ROLL's arrays to the response, where it is certain which entries are its.

    log-probabilities and mask begin at the response's first token, token_rewards at the prompt's second;
    all end with the padded sequence. response_tokens are those of the response and its own padding.
    """
    fields.pop("values", None)
    arrays = dict(_arrays(fields))
    mask, pieces = arrays.get("loss_mask"), fields.get("response_tokens")
    in_loss = np.flatnonzero(mask.values() > 0) if mask is not None else np.array([])
    if mask is None or not is_texts(pieces) or len(in_loss) == 0 or in_loss[0] != 0:
        return ()
    padded, end = len(mask), int(in_loss[-1]) + 1
    if end > len(pieces) or len(set(pieces[end:])) > 1:
        return ()
    for key, array in arrays.items():
        if len(array) == padded or (key == "token_rewards" and len(array) > padded):
            fields[key] = Parsed(array.values()[len(array) - padded :][:end])
    fields["response_tokens"] = pieces[:end]
    return (_PADDED,)
