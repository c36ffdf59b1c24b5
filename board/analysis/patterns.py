"""Phrases and regular expressions over many texts, in time that grows with the texts and no faster.

Python's `re` may take for ever on a pattern such as (a+)+$, and holds up every page of the server
meanwhile. RE2 (https://github.com/google/re2), which pyarrow brings along, can't: it has no look-around
and no back-references, and says so. Case is ignored.
"""

# pyright: reportAttributeAccessIssue=false
# pyarrow makes its compute functions when it is imported.

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from board.errors import ChoiceError

MOST_CHARACTERS: Final = 1000
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Pattern:
    """What is looked for. text: as it was given; expression: as RE2 reads it."""

    text: str
    expression: str

    def counts(self, texts: Sequence[str]) -> IntArray:
        """[texts] how often it is said in each."""
        found = pc.count_substring_regex(_array(texts), self.expression)
        return np.asarray(found.to_numpy(zero_copy_only=False), np.int64)

    def counts_in_lists(self, texts: Any) -> IntArray:
        """[n] how often it is said in each list of texts, 0 where there is none. texts: an Arrow array of
        lists of valid UTF-8, [n].
        """
        times = pc.count_substring_regex(pc.list_flatten(texts), self.expression).to_numpy()
        lists = pc.list_parent_indices(texts).to_numpy()
        return np.bincount(lists, times, len(texts)).astype(np.int64)

    def first(self, text: str) -> int:
        """The character at which it is first said; -1 where it is not."""
        whole = _clean(text)
        (at,) = pc.find_substring_regex(_array([whole]), self.expression).to_pylist()
        return len(whole.encode()[:at].decode()) if at >= 0 else -1


def compiled(text: str, *, regex: bool = False) -> Pattern:
    """A phrase, or with regex a regular expression. Raises ChoiceError on none."""
    if len(text) > MOST_CHARACTERS:
        raise ChoiceError(f"the pattern has more than {MOST_CHARACTERS} characters")
    found = Pattern(text, f"(?i){text if regex else re.escape(_clean(text))}")
    try:
        found.counts([""])
    except (pa.ArrowInvalid, UnicodeEncodeError) as error:
        reason = str(error).removeprefix("Invalid regular expression: ")
        raise ChoiceError(
            f"{text[:80]!r} is not a valid RE2 regular expression; RE2 has no look-around, no "
            f"back-references and at most 1000 repetitions: {reason[:200]}"
        ) from None
    return found


def _array(texts: Sequence[str]) -> Any:
    return pa.array([_clean(text) for text in texts], pa.large_string())


def _clean(text: str) -> str:
    """The text with halves of characters, which no encoding has, as question marks."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text
