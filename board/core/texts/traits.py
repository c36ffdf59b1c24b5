"""What the rollouts of a step are like: numbers, values and words of each, whatever a log calls them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from board.core.arrays import BoolArray, FloatArray, IntArray

REWARD: Final = "the reward"
LENGTH: Final = "characters of responses"
MOST_VALUES: Final = 24
"""Different values of a step, beyond which they are names of single rollouts and no kinds of them."""
LEAST_SHARE: Final = 0.1
"""Of the rollouts of a step; what fewer have is not counted."""
_MOST_WORDS: Final = 200
_LEAST_CORRELATED: Final = 8
_MOST_CERTAIN: Final = 0.995
_READ: Final = 600
"""Characters that are looked at from either end of a text."""
_REWARD_LIKE: Final = re.compile(r"(?i)correct|acc|reward$|score$")
_CJK: Final = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD: Final = re.compile(rf"</?\w+/?>|<\|[^|<>]+\|>|[{_CJK}]|[^\W\d_{_CJK}]+|[^\w\s]+")
_CLASSES: Final[Mapping[str, tuple[int, int]]] = {
    "digits": (48, 58),
    "capital letters": (65, 91),
    "line breaks": (10, 11),
    "bytes beyond ASCII": (128, 256),
}
"""Of the response's bytes, by the first of them and the one after the last."""


@dataclass(frozen=True, slots=True)
class Traits:
    """What one rollout is like. numbers, values: by name; words: that occur in each of its texts."""

    numbers: Mapping[str, float] = field(default_factory=dict[str, float])
    values: Mapping[str, str] = field(default_factory=dict[str, str])
    words: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])


@dataclass(frozen=True, slots=True)
class StepTraits:
    """The same of the rollouts of a step that were read, `count`.

    means: of numbers. shares: by (name, value) of the rollouts that have it, as are words, by (text,
    word). relations: of numbers the correlation with REWARD and with LENGTH, as Fisher's z, by (name, one
    of these). rewards: by (name, value) the mean of those that have it. of_prompts: the part of the
    rewards' variance that lies between groups, NaN where not known.
    """

    count: int
    means: Mapping[str, float]
    shares: Mapping[tuple[str, str], float]
    words: Mapping[tuple[str, str], float]
    relations: Mapping[tuple[str, str], float]
    rewards: Mapping[tuple[str, str], float]
    of_prompts: float


def ends_of(text: str) -> str:
    """The beginning and the end of a text, all of a short one."""
    return text if len(text) <= 2 * _READ else f"{text[:_READ]}\n{text[-_READ:]}"


def words_of(text: str) -> list[str]:
    """Words, tags and marks of a text in their order; numbers are left out."""
    return _WORD.findall(text)


def last_sign(text: str) -> str:
    """What a text ends with: its last character where that is a mark, else that it is in a word."""
    end = text.rstrip()[-1:]
    return "a word" if end.isalnum() else end or "nothing"


def numbers_of_text(text: str, terms: Sequence[str]) -> dict[str, float]:
    """Shares of kinds of characters of a response, and of words that differ. terms: its words."""
    if not text:
        return {}
    raw = np.frombuffer(text.encode("utf-8", "replace"), np.uint8)
    counts = np.bincount(raw, minlength=256)
    numbers = {
        f"share of {name} in responses": float(counts[first:end].sum()) / len(raw)
        for name, (first, end) in _CLASSES.items()
    }
    if len(terms):
        numbers["share of different words in responses"] = len(set(terms)) / len(terms)
    return numbers


def step_traits(
    of_all: Sequence[Traits | None], of_rewards: FloatArray, groups: IntArray
) -> StepTraits:
    """What the rollouts of a step are like together, [n], those without traits left out; rewards and
    groups are NaN and -1 for none.
    """
    places = [place for place, one in enumerate(of_all) if one is not None]
    traits, rewards = [one for one in of_all if one is not None], of_rewards[places]
    count = len(traits)
    names = [*dict.fromkeys(name for one in traits for name in one.numbers)]
    table = np.array([[one.numbers.get(name, np.nan) for one in traits] for name in names])
    table = table.reshape(len(names), count)
    known = np.isfinite(table)
    totals = known.sum(axis=1)
    means = np.where(known, table, 0.0).sum(axis=1) / np.maximum(totals, 1)
    if not np.isfinite(rewards).any() and (part := _said_of_reward(names)):
        rewards = table[names.index(part)]
    lengths: dict[tuple[str, str], float] = {}
    if LENGTH in names:
        lengths = dict(_relations(names, table, LENGTH, table[names.index(LENGTH)]))
    shares, rewards_by_value = _values(traits, rewards)
    return StepTraits(
        count,
        {name: float(m) for name, m, n in zip(names, means, totals, strict=True) if n},
        shares,
        dict(_words(traits)),
        dict(_relations(names, table, REWARD, rewards)) | lengths,
        rewards_by_value,
        _between(of_rewards, groups),
    )


def _said_of_reward(names: Sequence[str]) -> str | None:
    """The part that says most like a reward which a log does not have."""
    parts = [name for name in names if name.startswith("rewards.")]
    return min(parts, key=lambda name: not _REWARD_LIKE.search(name), default=None)


def _words(traits: Sequence[Traits]) -> Iterator[tuple[tuple[str, str], float]]:
    """Of each text the words that most rollouts have, with the share of these."""
    for text in dict.fromkeys(text for one in traits for text in one.words):
        words: Counter[str] = Counter()
        for one in traits:
            words.update(one.words.get(text, ()))
        for word, count in words.most_common(_MOST_WORDS):
            if count >= LEAST_SHARE * len(traits):
                yield (text, word), count / len(traits)


def _values(
    traits: Sequence[Traits], rewards: FloatArray
) -> tuple[
    dict[tuple[str, str], float],
    dict[tuple[str, str], float],
]:
    """Shares of values, and rewards by value."""
    places: dict[tuple[str, str], list[int]] = {}
    for place, one in enumerate(traits):
        for pair in one.values.items():
            places.setdefault(pair, []).append(place)
    kinds = Counter(name for name, _ in places)
    few = {pair: own for pair, own in places.items() if kinds[pair[0]] <= MOST_VALUES}
    shares = {pair: len(own) / len(traits) for pair, own in few.items()}
    scored = {pair: rewards[own][np.isfinite(rewards[own])] for pair, own in few.items()}
    return shares, {pair: float(own.mean()) for pair, own in scored.items() if len(own) > 1}


def _relations(
    names: Sequence[str], table: FloatArray, of: str, other: FloatArray
) -> Iterator[tuple[tuple[str, str], float]]:
    """Fisher's z of the correlation of each number with another one, where both vary."""
    for name, values in zip(names, table, strict=True):
        known: BoolArray = np.isfinite(values) & np.isfinite(other)
        if name == of or known.sum() < _LEAST_CORRELATED:
            continue
        x, y = _centred(values[known]), _centred(other[known])
        deviations = float(np.sqrt((x @ x) * (y @ y)))
        if deviations > 1e-9 * len(x):
            r = float(np.clip(x @ y / deviations, -_MOST_CERTAIN, _MOST_CERTAIN))
            yield (name, of), float(np.arctanh(r))


def _centred(values: FloatArray) -> FloatArray:
    """Values less their mean, in units of the largest, of which no square is too large."""
    largest = float(np.abs(values).max())
    scaled = values / largest if largest else values
    return scaled - scaled.mean()


def _between(rewards: FloatArray, groups: IntArray) -> float:
    """The part of the variance of rewards that lies between the means of groups."""
    known = np.isfinite(rewards) & (groups >= 0)
    if known.sum() < _LEAST_CORRELATED:
        return float("nan")
    own = _centred(rewards[known])
    if not own.any():
        return float("nan")
    _, of = np.unique(groups[known], return_inverse=True)
    counts = np.bincount(of)
    if len(counts) in (1, len(own)):
        return float("nan")
    within = own - (np.bincount(of, own) / counts)[of]
    return 1 - float(within @ within) / float(((own - own.mean()) ** 2).sum())
