"""What slime and those that grew out of it (miles, Relax) call a sample: the parts that they share.

reward is a number, or what a reward function returned by name; without the run's `--reward-key` it is not
known which of several is the one that was trained on. status is completed, truncated, aborted or failed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from board.core.records import Parsed, Record, Remark
from board.errors import RecordError
from board.formats.base import Place
from board.formats.fields import RecordBuilder
from board.formats.io.tensor_files import spilled
from board.formats.number_arrays import as_numbers

_LEFT_OUT: Final = frozenset(
    {
        *("rollout_routed_experts", "rollout_indexer_topk", "multimodal_train_inputs"),
        *("rollout_top_p_token_ids", "rollout_top_p_token_offsets"),
    }
)
"""Keys that would fill memory: an entry per layer, per token of the vocabulary, per pixel."""


_TOPK: Final = ("rollout_topk_token_ids", "rollout_topk_log_probs")
APART: Final = _LEFT_OUT | {*_TOPK}
"""Keys that are not taken as they are."""
JOINED_BY: Final = "step, split and sample index (or position)"


def index_key(record: Record) -> object:
    """What a sample is called in every dump of its step; None where it has no index."""
    index = record.ids.get("rollout_id")
    return None if index is None else [record.ids.get("split"), str(index)]


def position_key(record: Record, position: object) -> object:
    """Where a sample stands in the dump of its rollouts; None where that is not known."""
    return [record.ids.get("split"), position] if isinstance(position, int) else None


def samples_of(line: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The samples of a file. Raises RecordError where they are no list of mappings."""
    samples = line.get("samples")
    entries = cast("list[Any]", samples) if isinstance(samples, list) else [None]
    if not all(isinstance(entry, dict) for entry in entries):
        hint = "a list of samples"
        raise RecordError("samples is not a list of mappings", field="samples", hint=hint)
    return cast("list[Mapping[str, Any]]", entries)


def take_tokens(builder: RecordBuilder, tokens: Any, response_length: Any) -> None:
    """Takes the ids of prompt and response, of which the last response_length are the response's."""
    try:
        ids = as_numbers(tokens)
    except RecordError as error:
        hint = f"expected: {error.hint}"
        builder.remarks.append(Remark("tokens", f"tokens {error.reason}", hint))
        return
    if ids is None or len(ids) == 0:
        return
    if not isinstance(response_length, int) or not 0 <= response_length <= len(ids):
        reason = "response_length does not match the tokens"
        hint = "all tokens are shown as response"
        builder.remarks.append(Remark("response_length", reason, hint))
        response_length = len(ids)
    start = len(ids) - response_length
    builder.prompt_ids = Parsed(ids.values()[:start])
    builder.response_ids = Parsed(ids.values()[start:])


def take_topk(builder: RecordBuilder, sample: Mapping[str, Any], at: Place) -> None:
    """Takes the sampler's likeliest tokens [R, k] and their log-probabilities, without the padding (-1)
    that fills a row of fewer; newer versions of slime record them (its train_data_utils.py@d92cb5d),
    and may keep them in files of their own, beside the dump.
    """
    try:
        found = [_rows_in_file(sample.get(key), at) for key in _TOPK]
    except OSError as error:
        reason = f"the file of the sampler's likeliest tokens can't be used: {error.strerror}"
        hint = "slime keeps it beside the dump, in the folder *_r3_spill"
        builder.remarks.append(Remark("topk_logprobs", reason, hint))
        return
    if not all(_is_rows(rows) for rows in found):
        return
    ids, logprobs = cast("list[list[list[Any]]]", found)
    held = [sum(isinstance(token, int) and token >= 0 for token in row) for row in ids]
    builder.take("topk_ids", [row[:k] for row, k in zip(ids, held, strict=True)])
    builder.take("topk_logprobs", [row[:k] for row, k in zip(logprobs, held, strict=False)])


def _rows_in_file(value: Any, at: Place) -> Any:
    """The value, or what the file holds that it names. Raises OSError where that can't be had."""
    if not isinstance(value, dict) or at.location is None:
        return cast("Any", value)
    path = str(cast("dict[str, Any]", value).get("tensor_file"))
    return cast("list[Any]", spilled(at.location, path).tolist())


def _is_rows(value: object) -> bool:
    if not isinstance(value, list):
        return False
    return all(isinstance(row, list) for row in cast("list[object]", value))


def take_versions(builder: RecordBuilder, versions: Any) -> None:
    """Takes the versions of the weights that sampled a response; several are kept as they are."""
    if not isinstance(versions, list) or not versions:
        return
    if len(set(cast("list[Any]", versions))) == 1:
        builder.take("policy_version", versions[0])
    else:
        builder.extras["weight_versions"] = versions


def take_status(builder: RecordBuilder, status: Any) -> None:
    """Takes a status; truncated says that the limit ended the response, completed that it did not."""
    builder.take("status", status)
    if status in ("completed", "truncated"):
        builder.scores["is_truncated"] = float(status == "truncated")
