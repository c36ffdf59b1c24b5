"""From a curve to what carries it at one step: which tokens a column is of, and one sentence on them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from board.core.metrics.aggregate import REDUCTIONS, Reduction
from board.core.tokens.contributions import (
    Contributions,
    Grouping,
    TokenShare,
    TypeShare,
    contributions,
)
from board.core.tokens.step_tokens import BoolArray, StepTokens
from board.core.tokens.token_kinds import KINDS

TOKEN_SOURCES: Final[dict[str, tuple[str, Reduction]]] = {
    column: (metric, reduction) for column, metric, reduction in REDUCTIONS
}
"""Column of the rollouts table -> the token metric it is of, and how a rollout's tokens enter it."""

_ONE_TOKEN: Final = 1 / 3
_ONE_TYPE: Final = 0.5
_MORE_THAN_ITS_TOKENS: Final = 1.5
_ONE_SIGN: Final = 1 - 1e-9


def contributions_to(tokens: StepTokens, column: str) -> Contributions:
    """What every token contributes to the step mean of a column of TOKEN_SOURCES.

    Of a largest token (k3_max) only that token of each rollout counts. Raises KeyError when the column
    is not of tokens, or the log does not hold what it needs.
    """
    metric, reduction = TOKEN_SOURCES[column]
    return contributions(tokens, metric) if reduction == "mean" else _largest(tokens, metric)


def _largest(tokens: StepTokens, metric: str) -> Contributions:
    values = tokens.metric(metric)
    known = np.isfinite(values) & tokens.in_loss
    counted = np.zeros(len(values), bool)
    counted[_first_largest(np.where(known, values, -np.inf), tokens)] = True
    counted &= known
    rollouts = int(np.count_nonzero(counted))
    parts = np.where(counted, values, 0.0) / max(rollouts, 1)
    mean = float(parts.sum()) if rollouts else float("nan")
    return Contributions(tokens, metric, mean, rollouts, values, parts, counted)


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


def only(contributions: Contributions, grouping: Grouping, name: str) -> Contributions:
    """The same for the tokens of one type alone; mean, and so every share, stays that of all tokens."""
    mask = _of_type(contributions.tokens, grouping, name)
    return replace(
        contributions,
        parts=np.where(mask, contributions.parts, 0.0),
        counted=contributions.counted & mask,
    )


def _of_type(tokens: StepTokens, grouping: Grouping, name: str) -> BoolArray:
    if grouping == "kind":
        return tokens.token_kinds == (KINDS.index(name) if name in KINDS else -1)
    if grouping == "piece":
        codes = [code for code, piece in enumerate(tokens.pieces) if piece == name]
        return np.isin(tokens.codes, codes if name else [-1, *codes])
    if not len(tokens.role_codes):
        return np.full(tokens.count, name == "")
    code = tokens.roles.index(name) if name in tokens.roles else -2
    return tokens.role_codes == (-1 if name == "" else code)


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
    of_tokens: float = float("nan")
    token: TokenShare | None = None
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
    token = tokens[0]
    share = token.contribution / total
    if share >= _ONE_TOKEN:
        return Headline("token", share, 1 / int(contributions.counted.sum()), token)
    count = int(contributions.counted.sum())
    for grouping in ("piece", "kind"):
        top = contributions.by(grouping, 1)[0]
        part, among = top.contribution / total, top.count / count
        if top.name and part >= _ONE_TYPE and part >= _MORE_THAN_ITS_TOKENS * among:
            return Headline(grouping, part, among, token, top)
    top = contributions.by("kind", 1)[0]
    return Headline("spread", top.contribution / total, top.count / count, token, top)
