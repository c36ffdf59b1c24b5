"""RLLoggingBoard's format: one rollout per line, no header, any number of files in one folder.

Read from HarderThenHarder/RLLoggingBoard@cf56d5d (rl_logging_board.py, README.md) and its writers:
keys prompt, response, response_tokens, logprobs, ref_logprobs, values, token_rewards, reward, step, and
optionally ref_response, ref_reward, valid_reward, ref_valid_reward, ground_truth; further keys are kept.
OpenRLHF forks write rl_logging_board_data.jsonl, with values null where there is no critic. Those of
verl (DeepEyes, dapo forks) write rollout_data_rank{n}.jsonl, with "" for what does not serialise; n may
count starts of the process; rollout_data_rank_val{n}.jsonl (its rows have validation true) is evaluation.
ROLL (alibaba/ROLL@8eb27cc roll/pipeline/rlvr/rlvr_pipeline.py, `save_metrics`) pads its arrays to the
longest sequence of the batch, each in its own way; see `_take_from_roll`. It writes token_rewards as
values too, which are no critic's then.

Its own `kl` is exp(d) - 1 - d with d = logprobs - ref_logprobs, which is k3 with the sign of d reversed.
The board computes k3 as Schulman defines it, so its figures differ from RLLoggingBoard's on purpose.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from board.core.records import Parsed, Record, Remark
from board.formats.base import Event, Head, Place, Reader
from board.formats.columns import Block
from board.formats.fields import RecordBuilder
from board.formats.token_columns import TokenColumnBuilder, TokenColumns

_ROLLOUT_KEYS: Final = frozenset({"prompt", "response", "response_tokens"})
_VALIDATION: Final = re.compile(r"rank_val[0-9]*\.")
_ROLLS: Final[Mapping[str, str]] = {
    "new_response_mask": "loss_mask",
    "old_log_probs2_entropy": "entropy",
    "log_probs2": "logprobs_again",
}
"""ROLL computes the log-probabilities twice, to compare them."""
_OTHERWISE: Final = frozenset({"new_response_mask", "response_ids", "validation"})
"""Keys of lines that are read one by one."""
_REASON: Final = "response_tokens has one entry {} than the token arrays"
_SURPLUS: Final = {
    -1: Remark("response_tokens", _REASON.format("more"), "the last piece has no values", "note"),
    1: Remark("response_tokens", _REASON.format("less"), "the last value has no piece", "note"),
}
"""By how many entries the token arrays are longer than the pieces."""


class RLLoggingBoardReader(Reader):
    """Reads RLLoggingBoard's files."""

    name = "rllb"
    title = "RLLoggingBoard"
    family = "jsonl"
    repeats = "copied_steps"

    def recognises(self, head: Head) -> bool:
        """A record with a step and a text or pieces; a number under such a key is a metric."""
        return any(
            "step" in record
            and any(isinstance(record.get(key), str | list) for key in _ROLLOUT_KEYS)
            for record in head.records
        )

    def read(self, line: Mapping[str, Any], at: Place) -> Record | Event:
        builder = RecordBuilder(at.options)
        by_roll = "new_response_mask" in line
        for key, value in line.items():
            if value != "" or key in _ROLLOUT_KEYS:
                builder.take(_ROLLS.get(key, key) if by_roll else key, value)
        if line.get("type") is not None:
            builder.extras["type"] = line["type"]
        if line.get("validation") is True or _VALIDATION.search(at.path.name):
            builder.ids.setdefault("split", "eval")
        if by_roll:
            _take_from_roll(builder)
        elif builder.response_tokens is not None:
            _note_surplus_piece(builder)
        return builder.build(line.get("step"))

    def token_columns(self, block: Block, at: Place) -> TokenColumns | None:
        """None for ROLL's lines, and for lines with token ids as well."""
        if not _OTHERWISE.isdisjoint(block.columns):
            return None
        builder = TokenColumnBuilder(block.rows, at.options, _SURPLUS)
        for key, values in block.columns.items():
            if key not in _ROLLOUT_KEYS and "" in values:
                values = [None if value == "" else value for value in values]
            builder.take(key, values)
        if "type" in block.columns:
            builder.take_extra("type", block.values("type"))
        if _VALIDATION.search(at.path.name):
            builder.default_ids("split", ["eval"] * block.rows)
        return builder.build_tokens(block.values("step"))


def _note_surplus_piece(builder: RecordBuilder) -> None:
    """Writers differ by one: with or without the end-of-text piece. Values stay where they are."""
    pieces = len(builder.response_tokens or ())
    differences = {len(array) - pieces for array in builder.tokens.values()}
    if differences in ({-1}, {1}):
        builder.remarks.append(_SURPLUS[differences.pop()])
        builder.lengths_explained = True


def _take_from_roll(builder: RecordBuilder) -> None:
    """Cuts ROLL's arrays to the response, where it is certain which entries are its.

    log-probabilities and mask begin at the response's first token, token_rewards at the prompt's second;
    all end with the padded sequence. response_tokens are those of the response and its own padding.
    """
    builder.tokens.pop("values", None)
    reason = "values are not a critic's: ROLL writes token rewards there too"
    builder.note("values", reason, "they are shown as token_rewards alone")
    mask, pieces = builder.tokens.get("loss_mask"), builder.response_tokens
    in_loss = np.flatnonzero(mask.values() > 0) if mask is not None else np.array([])
    if mask is None or pieces is None or len(in_loss) == 0 or in_loss[0] != 0:
        return
    padded, end = len(mask), int(in_loss[-1]) + 1
    if end > len(pieces) or len(set(pieces[end:])) > 1:
        return
    for arrays in (builder.tokens, builder.unknown_arrays):
        for key, array in arrays.items():
            if len(array) == padded or (key == "token_rewards" and len(array) > padded):
                arrays[key] = Parsed(array.values()[len(array) - padded :][:end])
    builder.response_tokens = pieces[:end]
    hint = "text before and after the response is not shown"
    builder.note("response_tokens", "ROLL's arrays are padded", hint)
