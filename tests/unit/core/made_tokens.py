"""Tokens of a step, made by hand."""

from collections.abc import Mapping, Sequence

import numpy as np

from board.core.tokens.pieces import kinds_of
from board.core.tokens.step_tokens import StepTokens

PIECES = ("a", "1", "<eos>", " 中", "\n")


def step_tokens(
    lengths: Sequence[int],
    arrays: Mapping[str, Sequence[float]],
    codes: Sequence[int] | None = None,
    in_loss: Sequence[bool] | None = None,
    **numbers: Sequence[float],
) -> StepTokens:
    total = sum(lengths)
    return StepTokens(
        step=5,
        indices=np.arange(len(lengths)),
        starts=np.concatenate(([0], np.cumsum(lengths))).astype(np.int64),
        arrays={name: np.array(values, np.float64) for name, values in arrays.items()},
        in_loss=np.ones(total, bool) if in_loss is None else np.array(in_loss),
        codes=np.array(codes if codes is not None else [0] * total, np.int32),
        pieces=PIECES,
        kinds=kinds_of(PIECES),
        numbers={name: np.array(values, np.float64) for name, values in numbers.items()},
    )
