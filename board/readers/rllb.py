"""RLLoggingBoard's format: one rollout per line, no header, any number of files in one folder.

Read from HarderThenHarder/RLLoggingBoard@cf56d5d (rl_logging_board.py, README.md) and the files of its
writers in OpenRLHF and verl forks: keys prompt, response, response_tokens, logprobs, ref_logprobs,
values, token_rewards, reward, step, and optionally ref_response, ref_reward, valid_reward,
ref_valid_reward, ground_truth; further keys are kept.

Its own `kl` is exp(d) - 1 - d with d = logprobs - ref_logprobs, which is k3 with the sign of d reversed.
The board computes k3 as Schulman defines it, so its figures differ from RLLoggingBoard's on purpose.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from board.core.records import Record, Remark
from board.readers.base import Event, Head, Place, Reader
from board.readers.fields import RecordBuilder

_ROLLOUT_KEYS: Final = frozenset({"prompt", "response", "response_tokens"})


class RLLoggingBoardReader(Reader):
    """Reads RLLoggingBoard's files."""

    name = "rllb"
    title = "RLLoggingBoard"
    family = "jsonl"

    def recognises(self, head: Head) -> bool:
        """A record with a step and a text or pieces; a number under such a key is a metric."""
        return any(
            "step" in record
            and any(isinstance(record.get(key), str | list) for key in _ROLLOUT_KEYS)
            for record in head.records
        )

    def read(self, line: Mapping[str, Any], at: Place) -> Record | Event:
        """The Record of one line. A `type` key is an ordinary extra here."""
        builder = RecordBuilder(at.options)
        for key, value in line.items():
            builder.take(key, value)
        if line.get("type") is not None:
            builder.extras["type"] = line["type"]
        if builder.response_tokens is not None:
            _note_surplus_piece(builder)
        return builder.build(line.get("step"))


def _note_surplus_piece(builder: RecordBuilder) -> None:
    """Writers differ by one: with or without the end-of-text piece. Values stay where they are."""
    pieces = len(builder.response_tokens or ())
    lengths = {len(array) for array in builder.tokens.values()}
    if lengths == {pieces - 1} or lengths == {pieces + 1}:
        more, hint = (
            ("more", "the last piece has no values")
            if lengths == {pieces - 1}
            else ("less", "the last value has no piece")
        )
        reason = f"response_tokens has one entry {more} than the token arrays"
        builder.remarks.append(Remark("response_tokens", reason, hint, "note"))
        builder.lengths_explained = True
