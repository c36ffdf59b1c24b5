"""The words that say of a key of a log, or of a short value, what it is about: key_words.toml."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from typing import Final

from board.core.failures.causes import Cause

_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")

_LONGEST_WORD: Final = 60
_ONE_WORD: Final = re.compile(r"[A-Za-z]+(?:[_-][A-Za-z]+)+|[A-Z][a-z]+(?:[A-Z][a-z]+)+")
_NAMES: Final = frozenset(
    ("name", "dataset", "data", "task", "env", "domain", "topic", "subset", "skill")
)
_TABLE: Final = tomllib.loads(
    resources.files(__name__.rpartition(".")[0])
    .joinpath("key_words.toml")
    .read_text(encoding="utf-8")
)
WHO: Final[Mapping[str, Cause]] = {
    word: cause for cause, text in _TABLE.pop("who").items() for word in text.split()
}
WORDS_OF: Final = {name: frozenset(text.split()) for name, text in _TABLE.items()}


@lru_cache(maxsize=4096)
def words_of(name: str) -> tuple[str, ...]:
    """The words of a key in snake, kebab or camel case, in small letters."""
    return tuple(word.lower() for word in _WORD.findall(name))


def is_word_of_failure(key: str, value: object) -> bool:
    """Whether it is a word such as judge_failure that says who failed; of a task it may be the name."""
    if not isinstance(value, str) or len(value) > _LONGEST_WORD or not _ONE_WORD.fullmatch(value):
        return False
    words = {*words_of(value)}
    return bool(
        words & (WORDS_OF["failure"] | WORDS_OF["failed"])
        and words & WHO.keys()
        and not words & WORDS_OF["no_failure"]
        and not {*words_of(key)} & _NAMES
    )
