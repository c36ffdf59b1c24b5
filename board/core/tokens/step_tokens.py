"""All tokens of a step in flat arrays, so that what is asked of a step is a few passes of numpy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from board.core.arrays import BoolArray, FloatArray, IntArray
from board.core.metrics.definitions import DERIVED
from board.core.texts.traits import Traits
from board.core.tokens.pieces import KINDS


@dataclass(frozen=True)
class StepTokens:
    """The response tokens of n rollouts of a step, T in all, rollout after rollout.

    step: trainer step. indices: [n] index of each rollout within its step. starts: [n + 1] where each
    one's tokens begin in the flat arrays; the last entry is T. arrays: recorded token arrays by name,
    [T], NaN where a rollout has none. in_loss: [T] loss_mask, True where none is recorded.
    codes: [T] place of each token in `pieces`, -1 where not known. pieces: display text; kinds: their
    codes in pieces.KINDS. role_codes: [T] place in `roles` of who speaks, -1 where not known;
    turns: [T] number of the turn, counted from 0. numbers: per rollout, [n] by column name, NaN where
    missing. left_out: rollouts of the step that are not here, because they could not be read or were not
    asked for. faults: indices of the rollouts of which an array was left out since its length is not
    that of the response, by its name. unit: words where no token is recorded, and words stand in.
    traits: [n] what each rollout is like, None where it was not asked for.
    """

    step: int
    indices: IntArray
    starts: IntArray
    arrays: Mapping[str, FloatArray]
    in_loss: BoolArray
    codes: npt.NDArray[np.int32]
    pieces: Sequence[str]
    kinds: npt.NDArray[np.int8]
    roles: Sequence[str] = ()
    role_codes: npt.NDArray[np.int16] = field(default_factory=lambda: np.zeros(0, np.int16))
    turns: npt.NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    numbers: Mapping[str, FloatArray] = field(default_factory=dict[str, FloatArray])
    left_out: int = 0
    faults: Mapping[str, Sequence[int]] = field(default_factory=dict[str, Sequence[int]])
    unit: str = "tokens"
    traits: Sequence[Traits | None] = ()
    _log_ratios: dict[tuple[str, str], FloatArray] = field(
        default_factory=dict[tuple[str, str], FloatArray], init=False, repr=False, compare=False
    )

    @cached_property
    def rollout_of(self) -> IntArray:
        """[T] the rollout of each token, as its place in `indices`."""
        return np.repeat(np.arange(len(self.indices)), np.diff(self.starts))

    @cached_property
    def positions(self) -> IntArray:
        """[T] the place of each token within its response, from 0."""
        return np.arange(self.count) - self.starts[:-1][self.rollout_of]

    @property
    def count(self) -> int:
        """T, the tokens of all rollouts."""
        return int(self.starts[-1])

    @cached_property
    def token_kinds(self) -> npt.NDArray[np.int8]:
        """[T] the code of each token's kind."""
        return np.append(self.kinds, np.int8(KINDS.index("not known")))[self.codes]

    @cached_property
    def metric_names(self) -> tuple[str, ...]:
        """Token metrics that can be had, derived ones first."""
        derived = (n for n, d in DERIVED.items() if all(need in self.arrays for need in d.needs))
        return (*dict.fromkeys((*derived, *self.arrays)),)

    def metric(self, name: str) -> FloatArray:
        """[T] a token metric, derived where it can be, else as recorded; NaN where not known.

        Raises KeyError for a metric that is neither.
        """
        if name in self.arrays:
            return self.arrays[name]
        derived = DERIVED.get(name)
        if derived is None or any(need not in self.arrays for need in derived.needs):
            raise KeyError(name)
        arrays = [self.arrays[need] for need in derived.needs]
        if name != "td_error":
            return derived.compute(*arrays)
        # Looks at the next token, which must be of the same rollout.
        ranges = pairwise(self.starts.tolist())
        parts = [derived.compute(*(own[start:end] for own in arrays)) for start, end in ranges]
        return np.concatenate(parts) if parts else np.zeros(0)

    def log_ratio(self, second: str, first: str) -> FloatArray | None:
        """[T] array `second` less array `first`, NaN outside the loss; None where one is not recorded.

        Made once: not to be written to.
        """
        pair = (second, first)
        if second not in self.arrays or first not in self.arrays:
            return None
        if pair not in self._log_ratios:
            with np.errstate(invalid="ignore"):
                d = self.arrays[second] - self.arrays[first]
            self._log_ratios[pair] = d if self.in_loss.all() else np.where(self.in_loss, d, np.nan)
        return self._log_ratios[pair]

    def per_token(self, name: str) -> FloatArray:
        """[T] a number of the rollout at each of its tokens; NaN throughout where not recorded."""
        if name not in self.numbers:
            return np.full(self.count, np.nan)
        return self.numbers[name][self.rollout_of]

    def piece(self, token: int) -> str:
        """Display text of the token at a place in the flat arrays; empty where not known."""
        code = int(self.codes[token])
        return self.pieces[code] if code >= 0 else ""
