"""A step's tokens, reduced to what rules ask of them, so that a run's tokens need not stay in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import numpy as np

from board.core.arrays import BoolArray, FloatArray, IntArray
from board.core.findings.audit import Audit, audit
from board.core.findings.finding import Evidence
from board.core.texts.traits import StepTraits, step_traits
from board.core.tokens.contributions import TokenShare, contributions
from board.core.tokens.mismatch import ENGINE, WHOLE, Apart, decompose
from board.core.tokens.pieces import KINDS
from board.core.tokens.step_tokens import StepTokens

_TOKENS: Final = 200
_EXAMPLES: Final = 8
_LONGEST_PERIOD: Final = 32


@dataclass(frozen=True, slots=True)
class Loop:
    """A part of a response that repeats one period, `piece`."""

    index: int
    position: int
    tokens: int
    share: float
    piece: str


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs of responses to one prompt. equal: that are the same text. expected: how many the
    probabilities of the responses allow, NaN where not recorded. examples: an index of each pair.
    """

    pairs: int = 0
    equal: int = 0
    expected: float = float("nan")
    examples: tuple[Evidence, ...] = ()


@dataclass(frozen=True)
class Digest:
    """What rules ask of a step's tokens.

    read: rollouts that were read; first_index: of the first of them. k3: the step's mean over them;
    tokens: single ones that contribute to it. engine: sampler against trainer
    with the same weights; engine_pair: the arrays compared.
    missing: by array the share of NaN; missing_rollouts: how many have one. faults: by array the rollouts
    in which it has another length than the response. loops: by rollout the longest. broken: rollouts with
    their share of characters that are not text. common: the largest share of rollouts, of different
    prompts, that are one response; common_prompts: how many prompts. kind_shares: of tokens, or words
    (unit). kind_k3: by kind the mean over its tokens. traits: what the rollouts
    are like.
    """

    step: int
    read: int
    first_index: int = 0
    audits: tuple[Audit, ...] = ()
    k3: float = float("nan")
    tokens: tuple[TokenShare, ...] = ()
    engine: Apart | None = None
    engine_pair: tuple[str, str] = ("", "")
    engine_worst: tuple[Evidence, ...] = ()
    missing: Mapping[str, float] = field(default_factory=dict[str, float])
    missing_rollouts: Mapping[str, int] = field(default_factory=dict[str, int])
    missing_worst: Mapping[str, Evidence] = field(default_factory=dict[str, Evidence])
    faults: Mapping[str, tuple[Evidence, ...]] = field(
        default_factory=dict[str, tuple[Evidence, ...]]
    )
    loops: tuple[Loop, ...] = ()
    broken: tuple[Evidence, ...] = ()
    pairs: Pairs = Pairs()
    common: float = float("nan")
    common_examples: tuple[Evidence, ...] = ()
    common_prompts: int = 0
    kind_shares: Mapping[str, float] = field(default_factory=dict[str, float])
    kind_k3: Mapping[str, float] = field(default_factory=dict[str, float])
    traits: StepTraits | None = None
    unit: str = "tokens"


def digest(tokens: StepTokens, groups: IntArray, broken: FloatArray) -> Digest:
    """Boils a step down. groups: [rollouts] codes, -1 for none. broken: [rollouts] share of the
    response's characters that are not text, NaN where not known.
    """
    share = contributions(tokens, "k3") if "k3" in tokens.metric_names else None
    engine, pair, worst = _engine(tokens)
    missing, rollouts, where = _missing(tokens)
    texts = _text_codes(tokens)
    common, examples, prompts = _common(tokens, groups, texts)
    counts = np.bincount(tokens.token_kinds, minlength=len(KINDS)).tolist()
    return Digest(
        step=tokens.step,
        read=len(tokens.indices),
        first_index=int(tokens.indices[0]) if len(tokens.indices) else 0,
        audits=tuple(audit(tokens)),
        k3=share.mean if share else float("nan"),
        tokens=tuple(share.top_tokens(_TOKENS)) if share else (),
        engine=engine,
        engine_pair=pair,
        engine_worst=worst,
        missing=missing,
        missing_rollouts=rollouts,
        missing_worst=where,
        faults={
            name: tuple(Evidence(tokens.step, index) for index in indices)
            for name, indices in tokens.faults.items()
        },
        loops=tuple(_loops(tokens)),
        broken=_broken(tokens, broken),
        pairs=_pairs(tokens, groups, texts),
        common=common,
        common_examples=examples,
        common_prompts=prompts,
        unit=tokens.unit,
        kind_k3={t.name: t.mean for t in share.by("kind")} if share else {},
        traits=_traits(tokens, groups),
        kind_shares={kind: n / tokens.count for kind, n in zip(KINDS, counts, strict=True) if n},
    )


def _traits(tokens: StepTokens, groups: IntArray) -> StepTraits | None:
    rewards = tokens.numbers.get("reward", np.full(len(tokens.indices), np.nan))
    return step_traits(tokens.traits, rewards, groups) if any(tokens.traits) else None


def _engine(tokens: StepTokens) -> tuple[Apart | None, tuple[str, str], tuple[Evidence, ...]]:
    """Sampler against trainer, before its updates where that is recorded, else as it is; and the tokens
    at which they are furthest apart.
    """
    parts = decompose(tokens)
    if parts is None:
        return None, ("", ""), ()
    pair = WHOLE if parts.engine is None else ENGINE
    d = tokens.log_ratio(*pair)
    assert d is not None, "there are parts"
    size = np.nan_to_num(np.abs(d), nan=-np.inf, posinf=-np.inf)
    worst = np.argsort(-size, kind="stable")[:3]
    places = worst[size[worst] > -np.inf].tolist()
    evidence = tuple(_evidence(tokens, place, float(size[place])) for place in places)
    return parts.engine or parts.total, pair, evidence


def _evidence(tokens: StepTokens, place: int, value: float) -> Evidence:
    index = int(tokens.indices[tokens.rollout_of[place]])
    position = int(tokens.positions[place])
    return Evidence(tokens.step, index, position, tokens.piece(place), value)


def _missing(
    tokens: StepTokens,
) -> tuple[dict[str, float], dict[str, int], dict[str, Evidence]]:
    """Share of NaN in the loss among the rollouts that have the array, how many of them have one, and the
    first such token.

    An array that is there and has no number in any rollout is all NaN: one of nulls is not there.
    """
    shares: dict[str, float] = {}
    rollouts: dict[str, int] = {}
    where: dict[str, Evidence] = {}
    n = len(tokens.indices)
    for name, values in tokens.arrays.items():
        finite = np.isfinite(values)
        has = np.bincount(tokens.rollout_of[finite], minlength=n) > 0
        has |= not has.any()
        among = has[tokens.rollout_of] & tokens.in_loss
        gaps = among & ~finite
        count = int(among.sum())
        shares[name] = float(gaps.sum() / count) if count else float("nan")
        rollouts[name] = len(np.unique(tokens.rollout_of[gaps]))
        if gaps.any():
            where[name] = _evidence(tokens, int(np.flatnonzero(gaps)[0]), float("nan"))
    return shares, rollouts, where


def _text_codes(tokens: StepTokens) -> IntArray:
    """[rollouts] a number for each text, the same for equal responses; 0 for those without text."""
    numbers: dict[bytes, int] = {}
    codes = np.zeros(len(tokens.indices), np.int64)
    for place, (start, end) in enumerate(pairwise(tokens.starts.tolist())):
        own = tokens.codes[start:end]
        if len(own) and own.min() >= 0:
            codes[place] = numbers.setdefault(own.tobytes(), len(numbers) + 1)
    return codes


def _pairs(tokens: StepTokens, groups: IntArray, texts: IntArray) -> Pairs:
    """Equal pairs within groups. Two samples of one policy are equal with probability Σ p(x)², the mean
    of p(x) over samples: what a response's own log-probabilities sum to, exponentiated.
    """
    keep = (groups >= 0) & (texts != 0)
    chance = _response_probability(tokens)
    pairs = equal = 0
    expected = 0.0 if keep.any() else float("nan")
    examples: list[Evidence] = []
    for group in np.unique(groups[keep]).tolist():
        own = np.flatnonzero(keep & (groups == group))
        _, first, counts = np.unique(texts[own], return_index=True, return_counts=True)
        pairs_of_group = len(own) * (len(own) - 1) // 2
        pairs += pairs_of_group
        equal += int((counts * (counts - 1) // 2).sum())
        expected += float(np.mean(chance[own])) * pairs_of_group
        most = int(np.argmax(counts))
        if counts[most] > 1:
            index = int(tokens.indices[own[first[most]]])
            examples.append(Evidence(tokens.step, index, value=float(counts[most])))
    examples.sort(key=lambda e: -(e.value or 0.0))
    return Pairs(pairs, equal, expected, tuple(examples[:_EXAMPLES]))


def _response_probability(tokens: StepTokens) -> FloatArray:
    """[rollouts] probability of each response under the policy that sampled it; NaN where not known.

    Results of tools are tokens outside the loss, which nobody sampled: they count only in a rollout that
    is masked as a whole.
    """
    rollouts = len(tokens.indices)
    is_masked = np.bincount(tokens.rollout_of, tokens.in_loss, rollouts) == 0
    is_sampled = tokens.in_loss | is_masked[tokens.rollout_of]
    for name in ("sampling_logprobs", "old_logprobs", "logprobs"):
        if name in tokens.arrays:
            values = np.where(is_sampled, tokens.arrays[name], 0.0)
            sums = np.bincount(tokens.rollout_of, values, rollouts)
            return np.exp(np.minimum(sums, 0.0))
    return np.full(rollouts, np.nan)


def _common(
    tokens: StepTokens, groups: IntArray, texts: IntArray
) -> tuple[float, tuple[Evidence, ...], int]:
    """The largest share of rollouts that are one response, some of them, and of how many groups.

    0 where they are of one group.
    """
    known = np.flatnonzero((groups >= 0) & (texts != 0))
    if len(known) < 2:
        return float("nan"), (), 0
    _, inverse, counts = np.unique(texts[known], return_inverse=True, return_counts=True)
    most = known[inverse == np.argmax(counts)]
    prompts = len(np.unique(groups[most]))
    if prompts < 2:
        return 0.0, (), prompts
    length = int(np.diff(tokens.starts)[most[0]])
    indices = tokens.indices[most[:3]].tolist()
    matching = tuple(Evidence(tokens.step, index, value=float(length)) for index in indices)
    return len(most) / len(known), matching, prompts


def _broken(tokens: StepTokens, shares: FloatArray) -> tuple[Evidence, ...]:
    """Rollouts with characters that are not text, each at its first token that is none by itself."""
    part = KINDS.index("part of a character")
    evidence: list[Evidence] = []
    for place in np.flatnonzero(shares > 0).tolist():
        start, end = tokens.starts[place : place + 2].tolist()
        hits = np.flatnonzero(tokens.token_kinds[start:end] == part)
        position = int(hits[0]) if len(hits) else None
        piece = "" if position is None else tokens.piece(start + position)
        index, share = int(tokens.indices[place]), float(shares[place])
        evidence.append(Evidence(tokens.step, index, position, piece, share))
    return tuple(sorted(evidence, key=lambda e: -(e.value or 0.0)))


def _loops(tokens: StepTokens) -> list[Loop]:
    """Of each rollout the longest part in which codes repeat with a period of up to 32 tokens.

    It counts from its first period on and must have three of them.
    """
    n = len(tokens.indices)
    best = np.zeros(n, np.int64)
    begin, period_of = np.zeros(n, np.int64), np.zeros(n, np.int64)
    longest_response = int(np.diff(tokens.starts).max(initial=0))
    for period in range(1, min(_LONGEST_PERIOD, longest_response // 3) + 1):
        edges = np.diff(_repeats(tokens, period).astype(np.int8), prepend=0, append=0)
        starts = np.flatnonzero(edges == 1)
        whole = np.flatnonzero(edges == -1) - starts + period
        keep = whole >= 3 * period
        starts, whole = starts[keep] - period, whole[keep]
        of = tokens.rollout_of[starts] if len(starts) else starts
        order = np.argsort(whole, kind="stable")
        longest, at = np.zeros(n, np.int64), np.zeros(n, np.int64)
        longest[of[order]], at[of[order]] = whole[order], starts[order]
        better = longest > best
        best[better], begin[better], period_of[better] = longest[better], at[better], period
    lengths = np.maximum(np.diff(tokens.starts), 1)
    return [
        Loop(
            int(tokens.indices[i]),
            int(begin[i] - tokens.starts[i]),
            int(best[i]),
            float(best[i] / lengths[i]),
            "".join(tokens.piece(int(begin[i]) + k) for k in range(int(period_of[i]))),
        )
        for i in np.flatnonzero(best).tolist()
    ]


def _repeats(tokens: StepTokens, period: int) -> BoolArray:
    """[T] whether a token equals the one `period` places before it in the same response."""
    mask = np.zeros(tokens.count, bool)
    if tokens.count > period:
        same = tokens.codes[period:] == tokens.codes[:-period]
        mask[period:] = same & (tokens.positions[period:] >= period) & (tokens.codes[period:] >= 0)
    return mask
