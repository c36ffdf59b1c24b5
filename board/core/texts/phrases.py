"""Which words and phrases are said more or less as a training goes on."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from board.core.arrays import FloatArray, divided

_WORD: Final = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
# Scripts that put no space between words: two signs in a row count as a word.
_UNSPACED: Final = re.compile("[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]{2,}")
_ASCII_WORD: Final = re.compile(r"[a-z0-9]", re.ASCII)
_LONGEST: Final = 3
_LONGEST_WORD: Final = 40
_STAGES: Final = 4
# Thousands of phrases are looked at: at 4 standard errors chance makes fewer than one of them.
_ERRORS: Final = 4.0
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


def changed_phrases(texts: Sequence[Sequence[str]], most: int = 10) -> list[Changed]:
    """The phrases whose share of texts changes most over a training, beyond chance. texts: by step.

    Compared are up to four stages, each of some steps in a row: the largest share with the smallest, as
    two proportions (pooled), 4 standard errors apart at least. Of phrases within each other the one
    that changes most is listed, of equal ones the longest.
    """
    sizes = np.array([len(of_step) for of_step in texts], np.float64)
    counts = [Counter(p for text in step for p in phrases_of(text)) for step in texts]
    total = Counter[str]()
    for of_step in counts:
        total.update(of_step)
    stages = np.array_split(np.arange(len(texts)), min(_STAGES, max(len(texts), 1)))
    changes: list[Changed] = []
    for phrase, times in total.items():
        # Said in fewer texts than that, or in all of them, nothing is beyond chance.
        if _ERRORS < times < sizes.sum():
            said = np.array([of_step[phrase] for of_step in counts], np.float64)
            change = _change(said, sizes, stages)
            if change is not None:
                shares = tuple(divided(said, sizes).tolist())
                changes.append(Changed(phrase, shares, *change))
    changes.sort(key=lambda one: (-round(abs(one.change), 2), -len(one.phrase), one.phrase))
    distinct: list[Changed] = []
    for one in changes:
        if not any(one.phrase in other.phrase or other.phrase in one.phrase for other in distinct):
            distinct.append(one)
            if len(distinct) == most:
                break
    return distinct


def _change(
    counts: FloatArray, sizes: FloatArray, stages: Sequence[npt.NDArray[np.intp]]
) -> tuple[float, float] | None:
    """The largest and the smallest share of a stage, the earlier first; None where chance can explain
    them.
    """
    sums = np.array([(counts[stage].sum(), sizes[stage].sum()) for stage in stages])
    sums = sums[sums[:, 1] > 0]
    if len(sums) < 2:
        return None
    shares = sums[:, 0] / sums[:, 1]
    low, high = int(np.argmin(shares)), int(np.argmax(shares))
    pooled = sums[[low, high], 0].sum() / sums[[low, high], 1].sum()
    error = np.sqrt(pooled * (1 - pooled) * (1 / sums[[low, high], 1]).sum())
    change = float(shares[high] - shares[low])
    if change < _ERRORS * error or not change:
        return None
    first, then = sorted((low, high))
    return float(shares[first]), float(shares[then])
