"""Which words and phrases are said more or less as a training goes on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from board.core.arrays import FloatArray, IntArray, divided

_WORD: Final = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
# Scripts that put no space between words: two signs in a row count as a word.
_UNSPACED: Final = re.compile("[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]{2,}")
_ASCII_WORD: Final = re.compile(r"[a-z0-9]", re.ASCII)
_LONGEST: Final = 3
_LONGEST_WORD: Final = 40
_STAGES: Final = 4
_LEAST_TEXTS: Final = 5
"""Said in fewer texts than that, or in all of them, nothing is beyond chance."""
RATE: Final = 0.05
"""Of trainings in which nothing changes, at most this share has any phrase that is called changed."""
SHUFFLES: Final = 199
SEED: Final = 0
_ROUNDING: Final = 1e-9
MOST_CHARACTERS: Final = 8000
"""Of a text that are looked at."""


@dataclass(frozen=True, slots=True)
class Changed:
    """A phrase whose share of the texts changes. shares: [steps] of the texts of each step that hold it,
    NaN for a step without texts. before, after: the largest and the smallest share of a stage of the
    training, in the order in which they come.
    """

    phrase: str
    shares: tuple[float, ...]
    before: float
    after: float

    @property
    def change(self) -> float:
        """What `after` is more than `before`; below 0 where it is said less."""
        return self.after - self.before

    @property
    def pattern(self) -> str:
        """A regular expression of RE2 that finds it as whole words."""
        # RE2's \b knows the letters of ASCII alone.
        begin, end = (r"\b" if _ASCII_WORD.match(self.phrase[i]) else "" for i in (0, -1))
        return begin + re.escape(self.phrase).replace("\\ ", " ") + end


def phrases_of(text: str) -> set[str]:
    """Words of a text in lower case, and two or three of them with one space between each."""
    lower = text[:MOST_CHARACTERS].lower()
    spans = [match.span() for match in _WORD.finditer(lower)]
    texts: set[str] = set()
    for place, (start, end) in enumerate(spans):
        if _UNSPACED.search(lower, start, end):
            texts.update(lower[i : i + 2] for i in range(start, end - 1))
        elif end - start <= _LONGEST_WORD:
            texts.update(_beginning_at(lower, spans[place : place + _LONGEST]))
    return texts


def _beginning_at(text: str, spans: Sequence[tuple[int, int]]) -> Iterator[str]:
    start, end = spans[0]
    yield text[start:end]
    for first, last in spans[1:]:
        if text[end:first] != " " or last - first > _LONGEST_WORD:
            return
        end = last
        yield text[start:end]


def changed_phrases(
    texts: Sequence[Sequence[str]],
    groups: Sequence[Sequence[object]] | None = None,
    most: int = 10,
) -> list[Changed]:
    """The phrases whose share of texts changes most over a training, beyond chance. texts: by step.
    groups: by step of each text its group, None: a text by itself, as all are without `groups`.

    Compared are up to four stages, each of some steps in a row: the largest share with the smallest.
    Chance is told by shuffling which stage each group is of, SHUFFLES times (seed SEED): texts of a group
    answer one prompt and are alike. A change counts that is larger, for how much the phrase varies
    between groups, than the largest of all phrases in 95 % of shuffles (Westfall and Young 1993,
    Resampling-based multiple testing). Of phrases within each other the one that changes most is listed,
    of equal ones the longest.
    """
    sizes = np.array([len(of_step) for of_step in texts], np.int64)
    parts = np.array_split(np.arange(len(texts)), _STAGES)
    stages = [part for part in parts if sizes[part].sum()]
    said = _said_often([text for step in texts for text in step])
    if len(stages) < 2 or not said:
        return []
    steps = np.arange(len(texts)).repeat(sizes)
    group_of = _numbered(steps, [group for step in groups for group in step] if groups else None)
    _, first = np.unique(group_of, return_index=True)
    stage_of_group = np.searchsorted([part[-1] for part in stages], steps[first])
    has = np.zeros((len(said), len(first)))
    for row, places in enumerate(said.values()):
        np.add.at(has[row], group_of[places], 1)
    ends_of = _beyond_chance(has, np.bincount(group_of), stage_of_group)
    changes: list[Changed] = []
    for (phrase, places), ends in zip(said.items(), ends_of, strict=True):
        if ends is not None:
            shares = divided(np.bincount(steps[places], minlength=len(texts)), sizes)
            changes.append(Changed(phrase, tuple(shares.tolist()), *ends))
    return _distinct(changes, most)


def _numbered(steps: IntArray, groups: Sequence[object] | None) -> IntArray:
    """[texts] the number of each one's group at its step."""
    if groups is None:
        return np.arange(len(steps))
    names = [
        (step, place if group is None else -1, group)
        for place, (step, group) in enumerate(zip(steps.tolist(), groups, strict=True))
    ]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return np.array([numbers[name] for name in names])


def _said_often(texts: Sequence[str]) -> dict[str, IntArray]:
    """By phrase the places of the texts that say it; without those of fewer than _LEAST_TEXTS, or all."""
    places: dict[str, list[int]] = {}
    for place, text in enumerate(texts):
        for phrase in phrases_of(text):
            places.setdefault(phrase, []).append(place)
    return {
        phrase: np.array(own)
        for phrase, own in places.items()
        if _LEAST_TEXTS <= len(own) < len(texts)
    }


def _beyond_chance(
    has: FloatArray, sizes: IntArray, stages: IntArray
) -> list[tuple[float, float] | None]:
    """Of each phrase the largest and the smallest share of a stage, the earlier first; None where chance
    may explain them. has: [phrases, groups] texts with it; sizes, stages: [groups] texts, and the stage.
    """
    count = int(stages.max()) + 1
    rng = np.random.default_rng(SEED)
    deviation = np.sqrt(((has - np.outer(has.sum(axis=1) / sizes.sum(), sizes)) ** 2).sum(axis=1))

    def shares_of(of: IntArray) -> FloatArray:
        member = np.equal.outer(of, np.arange(count)).astype(np.float64)
        return has @ member / (sizes @ member)

    def changes_of(shares: FloatArray) -> FloatArray:
        return np.divide(
            np.ptp(shares, axis=1), deviation, out=np.zeros(len(has)), where=deviation > 0
        )

    largest = [float(changes_of(shares_of(rng.permutation(stages))).max()) for _ in range(SHUFFLES)]
    shares = shares_of(stages)
    bound = np.sort(largest)[-int(RATE * (SHUFFLES + 1))]
    is_more = changes_of(shares) > bound * (1 + _ROUNDING)
    ends = [sorted((int(np.argmin(row)), int(np.argmax(row)))) for row in shares]
    return [
        (float(row[first]), float(row[then])) if more else None
        for row, (first, then), more in zip(shares, ends, is_more.tolist(), strict=True)
    ]


def _distinct(changes: list[Changed], most: int) -> list[Changed]:
    changes.sort(key=lambda one: (-round(abs(one.change), 2), -len(one.phrase), one.phrase))
    distinct: list[Changed] = []
    for one in changes:
        if not any(one.phrase in other.phrase or other.phrase in one.phrase for other in distinct):
            distinct.append(one)
            if len(distinct) == most:
                break
    return distinct
