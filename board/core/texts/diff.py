"""Differences between two texts, word by word, over their whole length.

The alignment is a longest common subsequence of words (rapidfuzz, bit-parallel), refined inside what
changed to punctuation and single CJK characters. Texts too long for that are first cut into chunks at
places that depend on the words there alone, as rsync does, and equal chunks are aligned.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
from rapidfuzz.distance import LCSseq

_WORDS: Final = re.compile(r"\n|[^\S\n]+|\S+[^\S\n]*")
_CJK: Final = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
_PARTS: Final = re.compile(rf"[{_CJK}]|[^\W{_CJK}]+|\n|[^\S\n]+|[^\w\s]")
_CELLS: Final = 400_000_000
"""Pairs of words compared at once: 0.1 s and 50 MB."""
_ALL_CELLS: Final = 4 * _CELLS
"""Pairs of words compared for two texts; what is left after that is called too different."""
_LINE: Final = re.compile(r"\n[^\n]*[^\s][^\n]*\n")
_SHORT_CHARACTERS: Final = 32
_FAR_SHORTER: Final = 8
_REFINED_WORDS: Final = 200
_CHUNKS: Final = 10_000
"""Chunks that a long text is cut into, about."""

_Ids = npt.NDArray[np.int32]


class Change(NamedTuple):
    """A piece of both texts: equal on both sides, or one in place of the other.

    is_aligned: False where the texts are too long and too different for words to be compared.
    """

    left: str
    right: str
    is_aligned: bool = True

    @property
    def is_equal(self) -> bool:
        """Whether both sides hold the same text here."""
        return self.left == self.right


@dataclass(slots=True)
class _Span:
    """left[i:j] corresponds to right[m:n]; offsets of words, or of characters."""

    i: int
    j: int
    m: int
    n: int
    is_equal: bool
    is_aligned: bool = True


def text_diff(left: str, right: str) -> list[Change]:
    """The changes and equal parts of two texts in reading order; equal and changed ones alternate.

    Joined, the left sides are `left` and the right sides are `right`, exactly. A few equal words
    between two longer changes belong to these: a lone "the" between two rewritten sentences aligns
    nothing. Takes at most about a second, whatever the texts.
    """
    budget = _Budget(_ALL_CELLS)
    spans: list[_Span] = []
    for span in _without_short_matches(_merged(_aligned(left, right, _WORDS, budget)), left):
        own, other = left[span.i : span.j], right[span.m : span.n]
        # More words on both sides, none of them equal, are a rewritten text.
        is_short = any(0 < len(_WORDS.findall(side)) <= _REFINED_WORDS for side in (own, other))
        is_refined = not span.is_equal and span.is_aligned and is_short
        spans.extend(_moved(_aligned(own, other, _PARTS, budget), span) if is_refined else [span])
    return [
        Change(left[s.i : s.j], right[s.m : s.n], s.is_aligned)
        for s in _without_short_matches(_merged(spans), left)
    ]


def similarity(parts: Sequence[Change]) -> float:
    """Share of the characters of both texts that are in equal parts; 1 for two empty texts."""
    total = sum(len(one.left) + len(one.right) for one in parts)
    equal = sum(2 * len(one.left) for one in parts if one.is_equal)
    return equal / total if total else 1.0


class _Budget:
    """How many pairs of words may still be compared."""

    def __init__(self, cells: int) -> None:
        self._cells = cells

    def allows(self, cells: int) -> bool:
        """Whether so many pairs may be compared; takes them off when they may."""
        if cells > min(_CELLS, self._cells):
            return False
        self._cells -= cells
        return True


def _aligned(left: str, right: str, words: re.Pattern[str], budget: _Budget) -> Iterator[_Span]:
    """Spans over characters, each text cut into words by the pattern."""
    sides = words.findall(left), words.findall(right)
    numbers: dict[str, int] = {}
    own, other = (
        np.array([numbers.setdefault(word, len(numbers)) for word in side], np.int32)
        for side in sides
    )
    own_ends, other_ends = ([0, *accumulate(map(len, side))] for side in sides)
    for s in _spans(own, other, budget):
        i, j, m, n = own_ends[s.i], own_ends[s.j], other_ends[s.m], other_ends[s.n]
        yield _Span(i, j, m, n, s.is_equal, s.is_aligned)


def _spans(left: _Ids, right: _Ids, budget: _Budget) -> Iterator[_Span]:
    """Spans over words: the common beginning and end, and what is aligned between them."""
    head = _agreeing(left, right)
    tail = _agreeing(left[head:][::-1], right[head:][::-1])
    if head:
        yield _Span(0, head, 0, head, is_equal=True)
    inner = left[head : len(left) - tail], right[head : len(right) - tail]
    yield from _moved(_middle(*inner, budget), _Span(head, 0, head, 0, is_equal=False))
    if tail:
        yield _Span(len(left) - tail, len(left), len(right) - tail, len(right), is_equal=True)


def _agreeing(left: _Ids, right: _Ids) -> int:
    """How many words are equal from the beginning on."""
    shorter = min(len(left), len(right))
    differs = left[:shorter] != right[:shorter]
    return int(differs.argmax()) if differs.any() else shorter


def _middle(left: _Ids, right: _Ids, budget: _Budget) -> Iterator[_Span]:
    whole = _Span(0, len(left), 0, len(right), is_equal=False)
    if not len(left) or not len(right):
        yield from [whole] if len(left) or len(right) else []
    elif budget.allows(len(left) * len(right)):
        yield from _matched(left.tolist(), right.tolist())
    else:
        yield from _by_chunks(left, right, whole, budget)


def _matched(left: Sequence[int], right: Sequence[int]) -> Iterator[_Span]:
    """Spans by a longest common subsequence."""
    for op in LCSseq.opcodes(left, right):
        yield _Span(op.src_start, op.src_end, op.dest_start, op.dest_end, op.tag == "equal")


def _by_chunks(left: _Ids, right: _Ids, whole: _Span, budget: _Budget) -> Iterator[_Span]:
    """Spans of long texts: of equal chunks, then of what is between them."""
    whole.is_aligned = False
    every = max(2, max(len(left), len(right)) // _CHUNKS)
    borders = _borders(left, every), _borders(right, every)
    numbers: dict[bytes, int] = {}
    chunks = [
        [
            numbers.setdefault(words[start:end].tobytes(), len(numbers))
            for start, end in pairwise(ends)
        ]
        for words, ends in zip((left, right), borders, strict=True)
    ]
    has_common = not set(chunks[0]).isdisjoint(chunks[1])
    if not has_common or not budget.allows(len(chunks[0]) * len(chunks[1])):
        yield whole
        return
    for s in _merged(_matched(chunks[0], chunks[1])):
        i, j, m, n = borders[0][s.i], borders[0][s.j], borders[1][s.m], borders[1][s.n]
        span = _Span(i, j, m, n, s.is_equal)
        yield from [span] if s.is_equal else _moved(_spans(left[i:j], right[m:n], budget), span)


def _borders(words: _Ids, every: int) -> list[int]:
    """Ends of chunks of `every` words on average, 0 and the length among them.

    Whether one ends at a word follows from this word and the one before, so that an insertion moves
    no border but its own.
    """
    mixed = words.astype(np.uint32) * np.uint32(2654435761)
    mixed[1:] ^= words[:-1].astype(np.uint32) * np.uint32(40503)
    mixed ^= mixed >> np.uint32(15)
    ends = np.flatnonzero(mixed * np.uint32(2246822519) < np.uint32(2**32 // every)) + 1
    return [0, *(int(end) for end in ends if end < len(words)), len(words)]


def _moved(spans: Iterator[_Span], by: _Span) -> Iterator[_Span]:
    for s in spans:
        yield _Span(s.i + by.i, s.j + by.i, s.m + by.m, s.n + by.m, s.is_equal, s.is_aligned)


def _merged(spans: Iterator[_Span] | Sequence[_Span]) -> list[_Span]:
    """Spans in which equal and changed ones alternate."""
    merged: list[_Span] = []
    for span in spans:
        last = merged[-1] if merged else None
        if last and last.is_equal == span.is_equal:
            last.j, last.n = span.j, span.n
            last.is_aligned = last.is_aligned and span.is_aligned
        else:
            merged.append(span)
    return merged


def _without_short_matches(spans: Sequence[_Span], left: str) -> list[_Span]:
    """Spans without equal ones that align nothing: of a few words, none of them a whole line, and no
    longer than the change before and the change after (as in diff-match-patch's semantic cleanup), or
    far shorter than one of them.
    """
    stack: list[_Span] = []
    for span in spans:
        stack.append(span)
        while len(stack) >= 3 and not stack[-1].is_equal and _is_short(stack[-3:], left):
            after, _, before = stack.pop(), stack.pop(), stack[-1]
            before.j, before.n = after.j, after.n
    return stack


def _is_short(spans: Sequence[_Span], left: str) -> bool:
    before, equal, after = spans
    if not equal.is_equal or before.is_equal or not (before.is_aligned and after.is_aligned):
        return False
    length = equal.j - equal.i
    sizes = [max(change.j - change.i, change.n - change.m) for change in (before, after)]
    if length > _SHORT_CHARACTERS or _LINE.search(left, equal.i, equal.j):
        return False
    return length <= min(sizes) or length * _FAR_SHORTER <= max(sizes)
