"""slime's and miles' dumps of rollouts: rollout_data/{rollout_id}.pt, of evaluation eval_{rollout_id}.pt.

Read from THUDM/slime@624b824 slime/observability/rollout_data_utils.py (`save_debug_rollout_data`) and
slime/utils/types.py (`Sample`), radixark/miles@31f1ca9 miles/ray/rollout/debug_data.py, and
redai-infra/Relax, whose files have decoded_tokens too. A file is one mapping {rollout_id, samples};
rollout_id is the step, from 0. tokens are those of prompt and response, of which the last
response_length are the response's; loss_mask, rollout_log_probs (the sampler's) and
teacher_log_probs cover the response.
What would fill memory and says nothing to a reader is left out: routed experts, top-p sets, pixels.
Files are opened as plain data only (weights_only), numpy's arrays, images and tensors in files of their
own (of slime after 624b824, its tensor_store.py) by what stands for them (torch_stand_ins.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from board.core.records import Record
from board.formats.base import Head, Join, Place, Reader
from board.formats.fields import RecordBuilder
from board.formats.frameworks.slime.samples import (
    APART,
    JOINED_BY,
    index_key,
    position_key,
    samples_of,
    take_status,
    take_tokens,
    take_topk,
    take_versions,
)
from board.formats.io.torch_files import TORCH
from board.formats.messages import is_messages

_OURS: Final[Mapping[str, str]] = {
    "index": "rollout_id",
    "group_index": "group_id",
    "label": "ground_truth",
    "rollout_log_probs": "sampling_logprobs",
}
_READ_APART: Final = APART | {
    *("prompt", "response", "reward", "status", "tokens", "response_length", "decoded_tokens"),
    *("metadata", "weight_versions", "spec_info", "prefix_cache_info", "step"),
}


class SlimeReader(Reader):
    """Reads the rollouts that slime, miles and Relax dump."""

    name = "slime"
    title = "slime rollouts"
    sources = (TORCH,)
    layout = re.compile(
        r"(?:rollout_data/|rollout_dumps/)?(?:rollout_|data_)?(?P<split>eval_)?(?P<step>[0-9]+)\.pt"
    )
    join = Join("slime", JOINED_BY, "rollouts")

    def recognises(self, head: Head) -> bool:
        """rollout_id and samples, with the keys group_index and response_length of a sample."""
        return head.has("rollout_id", "samples", "group_index", "response_length")

    def rows(self, line: Mapping[str, Any], at: Place) -> Sequence[Mapping[str, Any]]:
        """The samples, each with the file's rollout_id as its step."""
        return [{"step": line.get("rollout_id"), **sample} for sample in samples_of(line)]

    def join_keys(self, record: Record, part: int) -> Sequence[object]:
        """The sample's index, and its position in the file, which training data names too."""
        return (index_key(record), position_key(record, part))

    def read(self, line: Mapping[str, Any], at: Place) -> Record:
        """The Record of one sample."""
        builder = RecordBuilder(at.options)
        builder.ids["split"] = at.split or "train"
        builder.take_exchange(line.get("prompt"), line.get("response"))
        take_tokens(builder, line.get("tokens"), line.get("response_length"))
        builder.take("reward", line.get("reward"))
        take_status(builder, line.get("status"))
        for key, value in line.items():
            if key == "rollout_id":  # the execution that samples of one rollout share
                builder.take("execution_id", value)
            elif key not in _READ_APART:
                builder.take(_OURS.get(key, key), value)
        take_topk(builder, line, at)
        _take_pieces(builder, line.get("decoded_tokens"))
        _take_metadata(builder, line)
        return builder.build(line.get("step"))


def _take_pieces(builder: RecordBuilder, pieces: Any) -> None:
    """Takes Relax's decoded tokens, of which the last are the response's."""
    ids = builder.response_ids
    if isinstance(pieces, list) and pieces and ids is not None:
        shown = cast("list[str]", pieces)
        builder.take("response_tokens", shown[max(len(shown) - len(ids), 0) :])


def _take_metadata(builder: RecordBuilder, line: Mapping[str, Any]) -> None:
    metadata = line.get("metadata")
    if isinstance(metadata, dict) and metadata:
        said = dict(cast("dict[str, Any]", metadata))
        if is_messages(said.get("messages")):
            builder.take("messages", said.pop("messages"))
        if said:
            builder.take("metadata", said)
    take_versions(builder, line.get("weight_versions"))
    for key in ("spec_info", "prefix_cache_info"):
        counts = line.get(key)
        if isinstance(counts, dict) and any(cast("dict[str, Any]", counts).values()):
            builder.take(key, counts)
