"""What each rollout, token and type of token contributes to a step's mean.

That is the mean over rollouts of per-rollout means over loss tokens. So a token with value v in a rollout
of T such tokens, one of n rollouts, contributes v / (T n), and contributions add up to the step mean.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from board.core.arrays import BoolArray, FloatArray, IntArray
from board.core.metrics.definitions import REDUCTIONS, Reduction, token_metric
from board.core.tokens.pieces import KINDS
from board.core.tokens.step_tokens import StepTokens

Grouping = Literal["kind", "piece", "role"]


@dataclass(frozen=True, slots=True)
class TokenShare:
    """A token in its place. index: of the rollout in its step; position: of the token in the response."""

    index: int
    position: int
    piece: str
    kind: str
    role: str
    value: float
    contribution: float
    share: float


@dataclass(frozen=True, slots=True)
class TypeShare:
    """A type of token: a kind, a piece or a role. count: tokens of it; mean: over them."""

    name: str
    kind: str
    count: int
    mean: float
    contribution: float
    share: float


@dataclass(frozen=True)
class Contributions:
    """What each token of a step contributes to the mean of a metric.

    mean: the step mean, NaN where no rollout has a value. rollouts: that have one. values: [T] the
    metric; parts: [T] contributions, 0 for tokens that are not counted; counted: [T].
    """

    tokens: StepTokens
    metric: str
    mean: float
    rollouts: int
    values: FloatArray
    parts: FloatArray
    counted: BoolArray

    def top_tokens(self, limit: int = 50) -> list[TokenShare]:
        """Single tokens, the one that contributes most first."""
        t, places = self.tokens, self._order(self.parts, limit)
        shares = self._shares(self.parts[places]).tolist()
        roles = [*t.roles, ""]  # -1 is not known
        return [
            TokenShare(
                int(t.indices[t.rollout_of[place]]),
                int(t.positions[place]),
                t.piece(place),
                KINDS[int(t.token_kinds[place])],
                roles[int(t.role_codes[place])] if len(t.role_codes) else "",
                float(self.values[place]),
                float(self.parts[place]),
                share,
            )
            for place, share in zip(places, shares, strict=True)
            if self.counted[place]
        ]

    def largest_of(self, index: int) -> int | None:
        """Position of the token that contributes most in a rollout; None where none is counted."""
        places = np.flatnonzero(self.tokens.indices == index)
        if not len(places):
            return None
        start, end = self.tokens.starts[places[0] : places[0] + 2].tolist()
        sizes = np.where(self.counted[start:end], np.abs(self.parts[start:end]), -1.0)
        return int(np.argmax(sizes)) if len(sizes) and sizes.max() >= 0 else None

    def by(self, grouping: Grouping, limit: int | None = None) -> list[TypeShare]:
        """Types of tokens, the one that contributes most first; they add up to the mean."""
        codes, names = self._codes(grouping)
        selected = slice(None) if self.counted.all() else self.counted  # a mask copies all of it
        counts = np.bincount(codes[selected], minlength=len(names))
        parts = np.bincount(codes, weights=self.parts, minlength=len(names))
        totals = np.bincount(codes[selected], weights=self.values[selected], minlength=len(names))
        shares = self._shares(parts)
        result = [place for place in self._order(parts) if counts[place]][:limit]
        return [
            TypeShare(
                names[place],
                self._kind(grouping, place),
                int(counts[place]),
                float(totals[place] / counts[place]),
                float(parts[place]),
                float(shares[place]),
            )
            for place in result
        ]

    def only(self, grouping: Grouping, name: str) -> Contributions:
        """The same for the tokens of one type alone; mean, and so every share, stays of all tokens."""
        codes, names = self._codes(grouping)
        mask = np.isin(codes, [place for place, one in enumerate(names) if one == name])
        return replace(self, parts=np.where(mask, self.parts, 0.0), counted=self.counted & mask)

    def _codes(self, grouping: Grouping) -> tuple[IntArray, Sequence[str]]:
        """[T] the type of each token as its place in names; the last one, "", is of those not known."""
        t = self.tokens
        if grouping == "kind":
            return t.token_kinds.astype(np.int64), KINDS
        codes, names = (t.codes, t.pieces) if grouping == "piece" else (t.role_codes, t.roles)
        known = codes.astype(np.int64) if len(codes) else np.full(t.count, -1)
        return np.where(known < 0, len(names), known), [*names, ""]

    def _kind(self, grouping: Grouping, place: int) -> str:
        if grouping == "kind":
            return KINDS[place]
        is_known = grouping == "piece" and place < len(self.tokens.kinds)
        return KINDS[int(self.tokens.kinds[place])] if is_known else ""

    def _order(self, parts: npt.NDArray[Any], limit: int | None = None) -> list[int]:
        """Places of the largest first; metrics around zero are ranked by size, others by value."""
        signed = token_metric(self.metric).kind == "diverging" or self.mean < 0
        keys = -np.abs(parts) if signed else -parts
        if limit is None or limit >= len(keys):
            return np.argsort(keys, kind="stable").tolist()
        best = np.argpartition(keys, limit)[:limit]
        return best[np.argsort(keys[best], kind="stable")].tolist()

    def _shares(self, parts: npt.NDArray[Any]) -> FloatArray:
        return parts / self.mean if self.mean else np.full(len(parts), np.nan)


def contributions(tokens: StepTokens, metric: str, reduction: Reduction = "mean") -> Contributions:
    """What every token contributes to the step mean of a token metric.

    NaN, infinities and tokens outside the loss are left out, as in the index, whose `{metric}_mean` of
    the step `mean` equals. reduction "max": only the largest token of each rollout counts. Raises
    KeyError when the log has no such metric.
    """
    values = tokens.metric(metric)
    counted = np.isfinite(values) & tokens.in_loss
    if reduction == "max":
        largest = np.zeros(len(values), bool)
        largest[_first_largest(np.where(counted, values, -np.inf), tokens)] = True
        counted &= largest
    of, n = tokens.rollout_of, len(tokens.indices)
    lengths = np.bincount(of[counted], minlength=n)
    rollouts = int(np.count_nonzero(lengths))
    weight = np.divide(1.0, lengths * max(rollouts, 1), out=np.zeros(n), where=lengths > 0)
    parts = np.where(counted, values, 0.0) * weight[of]
    mean = float(parts.sum()) if rollouts else float("nan")
    return Contributions(tokens, metric, mean, rollouts, values, parts, counted)


def context(tokens: StepTokens, index: int, position: int, around: int = 8) -> Iterator[str]:
    """The pieces around a token, so that a list can show it in its place; the token itself among them."""
    place = int(np.flatnonzero(tokens.indices == index)[0])
    start, end = int(tokens.starts[place]), int(tokens.starts[place + 1])
    first, last = max(start + position - around, start), min(start + position + around + 1, end)
    yield from (tokens.piece(token) for token in range(first, last))


TOKEN_SOURCES: Final[dict[str, tuple[str, Reduction]]] = {
    column: (metric, reduction) for column, metric, reduction in REDUCTIONS
}
"""Column of the rollouts table -> the token metric it is of, and how a rollout's tokens enter it."""

_ONE_TOKEN: Final = 1 / 3
_ONE_TYPE: Final = 0.5
_MORE_THAN_ITS_TOKENS: Final = 1.5
_ONE_SIGN: Final = 1 - 1e-9


def _first_largest(keys: np.ndarray, tokens: StepTokens) -> np.ndarray:
    """Place of the first largest key of each rollout that has tokens."""
    filled = np.flatnonzero(np.diff(tokens.starts))
    if not len(filled):
        return filled
    largest = np.full(len(tokens.indices), np.inf)
    largest[filled] = np.maximum.reduceat(keys, tokens.starts[filled])
    hits = np.flatnonzero(keys == largest[tokens.rollout_of])
    _, first = np.unique(tokens.rollout_of[hits], return_index=True)
    return hits[first]


def whole(contributions: Contributions) -> float:
    """What shares are of: the mean, or the size of all contributions where their signs differ.

    A mean near zero of large contributions would make shares of thousands of percent.
    """
    size = float(np.abs(contributions.parts).sum())
    return contributions.mean if abs(contributions.mean) >= size * _ONE_SIGN else size


@dataclass(frozen=True, slots=True)
class Headline:
    """What contributes most to a step's mean. token: one alone contributes `share` of it; piece, kind:
    a type of token does, which is `of_tokens` of all tokens; spread: nothing does.
    """

    what: Literal["token", "piece", "kind", "spread"]
    share: float
    of_tokens: float
    token: TokenShare
    type: TypeShare | None = None


def headline(contributions: Contributions) -> Headline | None:
    """The narrowest thing that explains a good part; None where nothing contributes.

    A token counts with a third of the whole, a type with half of it, if it is that much more than its
    share of the tokens: most of everything is in what there is most of. The bounds are the board's.
    """
    total = whole(contributions)
    tokens = contributions.top_tokens(1)
    if not tokens or not total:
        return None
    token, count = tokens[0], int(contributions.counted.sum())
    share = token.contribution / total
    if share >= _ONE_TOKEN:
        return Headline("token", share, 1 / count, token)
    for grouping in ("piece", "kind"):
        top = contributions.by(grouping, 1)[0]
        part, among = top.contribution / total, top.count / count
        if top.name and part >= _ONE_TYPE and part >= _MORE_THAN_ITS_TOKENS * among:
            return Headline(grouping, part, among, token, top)
    return Headline("spread", part, among, token, top)
