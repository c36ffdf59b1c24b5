"""The record: which keys a rollout may have, and what each of them is.

The same names are in `exporters/record.py`; a contract test compares the two. A key that is
not listed here becomes an extra: a number becomes a column and a curve, an array of the length of
the response becomes a token metric.
"""

from __future__ import annotations

from typing import Final

SCHEMA_VERSION: Final = 1

LINE_TYPES: Final = ("header", "sample", "step_end", "close")

ID_FIELDS: Final = (
    "step",
    "micro_step",
    "rank",
    "index",
    "rollout_id",
    "group_id",
    "env",
    "split",
    "policy_version",
    "timestamp",
)
TEXT_FIELDS: Final = (
    "prompt",
    "response",
    "ref_response",
    "ground_truth",
    "messages",
    "finish_reason",
    "is_truncated",
)
SCORE_FIELDS: Final = (
    "reward",
    "ref_reward",
    "valid_reward",
    "ref_valid_reward",
    "rewards",
    "advantage",
)
TOKEN_ID_FIELDS: Final = ("prompt_ids", "response_ids", "response_tokens")
TOKEN_FLOAT_FIELDS: Final = (
    "logprobs",
    "old_logprobs",
    "sampling_logprobs",
    "ref_logprobs",
    "entropy",
    "values",
    "returns",
    "advantages",
    "token_rewards",
)
TOKEN_FLAG_FIELDS: Final = ("loss_mask", "is_masked", "is_masked_high", "is_masked_low", "sft_mask")
TOPK_FIELDS: Final = ("topk_ids", "topk_logprobs")
STRUCTURE_FIELDS: Final = ("segments",)

TOKEN_ARRAY_FIELDS: Final = TOKEN_FLOAT_FIELDS + TOKEN_FLAG_FIELDS
"""Arrays of shape [R], aligned with the response: entry i belongs to response token i."""

GENERATION: Final = "generation"
"""The step that generated a rollout, where a trainer trains on a generation over several steps."""

SAMPLE_FIELDS: Final = (
    ID_FIELDS
    + TEXT_FIELDS
    + SCORE_FIELDS
    + TOKEN_ID_FIELDS
    + TOKEN_ARRAY_FIELDS
    + TOPK_FIELDS
    + STRUCTURE_FIELDS
)
"""Every key of a `sample` line that has a meaning of its own. Only `step` must be there."""
