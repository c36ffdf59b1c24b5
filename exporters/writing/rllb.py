"""A rollout as a line that the original RLLoggingBoard opens.

Read from HarderThenHarder/RLLoggingBoard@cf56d5d and a fork: every line of every .jsonl file must be a
rollout, every rollout of a step must have the same keys, per-token values must be numbers, and folders
are found by a file name that ends with `_rank0.jsonl`. So what was not measured is 0.0 here; Rollout
Board's own format keeps the difference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from exporters.arrays.batch import Batch, Rollout
from exporters.arrays.snapshot import Array
from exporters.record import TEXT_FIELDS
from exporters.writing.lines import rounded_column, rounded_number, rounded_tokens, whose

_SCALARS = ("reward", "ref_reward", "valid_reward", "ref_valid_reward")

Decode = Callable[[Sequence[int]], str]


class RllbLines:
    """Builds the lines. With a tokenizer ids become text; without one they stay numbers in text.

    What one rollout has per token, all later ones have, 0.0 where it was not recorded: the original
    puts each key of a step into a list of its own, and a gap moves all behind it to another rollout.
    """

    def __init__(self, tokenizer: Any = None) -> None:
        self._names: dict[str, None] = {}
        self._pieces: list[str | None] = []
        self._decode: Decode = lambda ids: " ".join(map(str, ids))
        if tokenizer is not None:
            self._pieces = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
            self._decode = tokenizer.decode

    def line(
        self, batch: Batch, rollout: Rollout, row: int, *, rank: int, digits: int
    ) -> dict[str, Any]:
        """The fields of one line."""
        line: dict[str, Any] = whose(batch, row, rank)
        for name, column in batch.columns.items():
            line[name] = _filled(name, rounded_column(name, column[row], digits))
        for name, value in rollout.scalars.items():
            line[name] = _filled(name, rounded_number(value, digits))
        line.setdefault("reward", 0.0)
        prompt, response = _listed(rollout.prompt_ids), _listed(rollout.response_ids)
        if not line.get("prompt"):
            line["prompt"] = self._decode(prompt)
        if "response" not in line or (response and not line["response"]):
            line["response"] = self._decode(response)
        line["response_tokens"] = [self._piece(i) for i in response]
        self._names |= dict.fromkeys(rollout.tokens)
        for name in self._names:
            values = rollout.tokens.get(name)
            if values is not None and values.dtype.kind == "O":
                values = values.astype(np.float32)
            if values is None:
                line[name] = np.zeros(len(response), np.float32)
            else:
                line[name] = np.nan_to_num(
                    rounded_tokens(name, values, digits), nan=0.0, posinf=0.0, neginf=0.0
                )
        trained = rollout.loss_mask
        line["loss_mask"] = np.ones(len(response), np.uint8) if trained is None else trained
        return line

    def _piece(self, token: int) -> str:
        piece = self._pieces[token] if 0 <= token < len(self._pieces) else None
        return str(token) if piece is None else piece


def _filled(name: str, value: Any) -> Any:
    if value is not None:
        return value
    if name in _SCALARS:
        return 0.0
    return "" if name in TEXT_FIELDS else value


def _listed(ids: Array | None) -> list[int]:
    return [] if ids is None else ids.tolist()
