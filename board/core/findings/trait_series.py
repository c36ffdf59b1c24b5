"""Series of what was read of rollouts: kinds of tokens, what texts are like, what the reward follows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, TypeVar

import numpy as np

from board.core.arrays import FloatArray, IntArray
from board.core.findings.digest import Digest
from board.core.findings.series import Changes, Series, changes_of, is_learnt, least_growth
from board.core.texts.traits import StepTraits

_MOST_SERIES: Final = 60
_MOST_VALUES: Final = 8
_MOST_WORDS: Final = 48
_BLOCKS: Final = 8
_LEAST_SHARE: Final = 0.1
"""Part of the rollouts by which a share has to change: what fewer have, a few of them make."""
_LEAST_OF_PROMPTS: Final = 0.25
"""The rollouts of a group have one prompt: a few groups make a share."""
_LEAST_OF_SIGNS: Final = 0.01
_LEAST_OF_KINDS: Final = 0.5
"""Nats by which k3 of a kind of token has to change: single tokens move the mean of a rare kind."""
_LEAST_CORRELATION: Final = 0.2
_MOST_SHOWN: Final = 40
_INPUTS: Final = ("prompts", "system prompt")
T = TypeVar("T")


def changes_of_digests(
    steps: IntArray, digests: Sequence[Digest], known: Collection[str] = ()
) -> Changes:
    """Changes in what was read. known: numbers of rollouts that the index has for all of them."""
    if not digests:
        return Changes()
    series = [*_of_tokens(steps, digests)]
    traits = {d.step: d.traits for d in digests if d.traits is not None}
    if not traits:
        return changes_of(series)
    at, each = np.searchsorted(steps, [*traits]), [*traits.values()]
    series += _of_traits(len(steps), at, each, frozenset(known))
    words, candidates = _of_words(len(steps), at, each)
    return changes_of(series).with_others(changes_of(words, candidates=candidates))


def _placed(count: int, at: IntArray, numbers: Sequence[float]) -> FloatArray:
    values = np.full(count, np.nan)
    values[at] = numbers
    return values


def _of_tokens(steps: IntArray, digests: Sequence[Digest]) -> Iterator[Series]:
    """Kinds of tokens and their KL, and how far sampler and trainer are apart."""
    count, at = len(steps), np.searchsorted(steps, [digest.step for digest in digests])
    unit = digests[0].unit
    equal = [d.pairs.equal / d.pairs.pairs if d.pairs.pairs else np.nan for d in digests]
    words = "share of pairs of a group that are one text"
    yield Series("equal", words, _placed(count, at, equal), least=_LEAST_SHARE / 2)
    for kind in dict.fromkeys(kind for digest in digests for kind in digest.kind_shares):
        shares = [d.kind_shares.get(kind, 0.0) for d in digests]
        values = _placed(count, at, shares)
        yield Series(f"kind:{kind}", f"share of {kind} {unit}", values, least=_LEAST_OF_SIGNS)
        means = [d.kind_k3.get(kind, np.nan) for d in digests]
        words, values = f"k3 of {kind} {unit}", _placed(count, at, means)
        yield Series(f"k3:{kind}", words, values, "k3_mean", "kind", least=_LEAST_OF_KINDS)
    apart = [d.engine.multiplicative - 1 if d.engine else np.nan for d in digests]
    words = "mean exp|d| - 1 of sampler and trainer"
    values = _placed(count, at, apart)
    yield Series("engine", words, values, "mismatch_kl_mean", better="down")


def _of_traits(
    count: int, at: IntArray, traits: Sequence[StepTraits], known: Collection[str]
) -> Iterator[Series]:
    """Means of numbers, shares of values, and what the reward has to do with both."""
    for name in _names(one.means for one in traits):
        if name not in known:
            values = [one.means.get(name, np.nan) for one in traits]
            yield Series(
                f"mean {name}",
                name,
                _placed(count, at, values),
                is_input=_is_input(name),
                least=_least_of_mean(name),
                is_learnt=is_learnt(name),
            )
    for pair in _names(one.relations for one in traits):
        values = [one.relations.get(pair, np.nan) for one in traits]
        words = f"correlation of {pair[0]} with {pair[1]}"
        yield Series(
            f"relation {pair}", words, _placed(count, at, values), least=_LEAST_CORRELATION
        )
    values = [one.of_prompts for one in traits]
    words = "part of the rewards' variance that is between prompts"
    yield Series("between", words, _placed(count, at, values), least=_LEAST_SHARE)
    for (name, value), totals in _usual(traits).items():
        if totals < _LEAST_SHARE:
            continue
        shares = [one.shares.get((name, value), 0.0) for one in traits]
        yield Series(
            f"{name}={value}",
            f"share of rollouts with {name} {_shown(value)}",
            _placed(count, at, shares),
            is_input=_is_input(name),
            least=_LEAST_OF_PROMPTS if _is_input(name) else _LEAST_SHARE,
        )
        if name.isidentifier() or "." in name:
            means = _placed(count, at, [one.rewards.get((name, value), np.nan) for one in traits])
            words = f"mean reward of rollouts with {name} {_shown(value)}"
            yield Series(f"reward {name}={value}", words, means, "reward", scope="value")


def _least_of_mean(name: str) -> float:
    if not name.startswith("share of"):
        return least_growth(name)
    return _LEAST_SHARE if name.endswith("in them") else _LEAST_OF_SIGNS


def _names(each: Iterator[Mapping[T, float]]) -> list[T]:
    """The names that most steps have."""
    counts = Counter(name for one in each for name in one)
    return [name for name, _ in counts.most_common(_MOST_SERIES)]


def _usual(traits: Sequence[StepTraits]) -> dict[tuple[str, str], float]:
    """The most usual values of each name that has two at least, with the largest share of a block of
    steps that has each.
    """
    largest = _largest([one.shares for one in traits])
    ordered = sorted(largest, key=lambda pair: (-largest[pair][0], pair))
    kinds = Counter(name for name, _ in ordered)
    counts: Counter[str] = Counter()
    usual: dict[tuple[str, str], float] = {}
    for pair in ordered:
        if kinds[pair[0]] > 1 and counts[pair[0]] < _MOST_VALUES:
            counts[pair[0]] += 1
            usual[pair] = largest[pair][0]
    return usual


def _largest(shares: Sequence[Mapping[T, float]]) -> dict[T, tuple[float, float]]:
    """By name the largest share of a block of successive steps, and how far the smallest is below it."""
    blocks = np.array_split(np.arange(len(shares)), min(_BLOCKS, len(shares)))
    means: dict[T, FloatArray] = {}
    for place, block in enumerate(blocks):
        places: list[int] = block.tolist()
        for step in places:
            for name, share in shares[step].items():
                own = means.setdefault(name, np.zeros(len(blocks)))
                own[place] += share / len(block)
    return {name: (float(own.max()), float(np.ptp(own))) for name, own in means.items()}


def _of_words(count: int, at: IntArray, traits: Sequence[StepTraits]) -> tuple[list[Series], int]:
    """Shares of the rollouts in which each word occurs, of those that change most, and of how many
    these were chosen.
    """
    largest = _largest([one.words for one in traits])
    candidates = [word for word, (most, _) in largest.items() if most >= 2 * _LEAST_SHARE]
    candidates.sort(key=lambda word: (-largest[word][1], word))
    return [
        Series(
            f"word {text} {word}",
            f"share of {text} with {_shown(word)}",
            _placed(count, at, [one.words.get((text, word), 0.0) for one in traits]),
            is_input=_is_input(text),
            least=_LEAST_OF_PROMPTS if _is_input(text) else 2 * _LEAST_SHARE,
        )
        for text, word in candidates[:_MOST_WORDS]
    ], len(candidates)


def _shown(value: str) -> str:
    """A text in quotes, the end of a long one, where texts that begin alike differ."""
    return repr(value if len(value) <= _MOST_SHOWN else f"…{value[-_MOST_SHOWN:]}")


def _is_input(name: str) -> bool:
    return name.endswith(_INPUTS) or "of prompts" in name
