"""The names of labels that a user chooses from, from labels.toml."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from typing import Any, Final, NamedTuple, cast

from board.errors import ChoiceError

FILE: Final = "labels.toml"
_LONGEST_NAME: Final = 40
_MOST: Final = 9


class LabelName(NamedTuple):
    """A label and what it stands for. Its key is its place, from 1."""

    name: str
    meaning: str = ""


@cache
def packaged_names() -> tuple[LabelName, ...]:
    """Those of the package."""
    return parse_names(
        resources.files("board.core.labels").joinpath(FILE).read_text(encoding="utf-8")
    )


def parse_names(text: str) -> tuple[LabelName, ...]:
    """The names of a file, in its order. Raises ChoiceError, which says what is wrong."""
    try:
        document: Any = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ChoiceError(f"{FILE} is not TOML: {error}") from None
    labels = document.get("labels")
    if not isinstance(labels, dict) or len(document) > 1:
        raise ChoiceError(f'{FILE}: write one table [labels] with lines such as cheat = "meaning"')
    names = [*map(_name, cast("dict[str, Any]", labels).items())]
    if not 0 < len(names) <= _MOST:
        raise ChoiceError(f"{FILE} has {len(names)} labels; there are keys for 1 to {_MOST}")
    return tuple(names)


def _name(item: tuple[str, Any]) -> LabelName:
    name, meaning = item[0].strip(), item[1]
    if not name or len(name) > _LONGEST_NAME or not name.isprintable():
        raise ChoiceError(f"{FILE}: {name!r} is no name of 1 to {_LONGEST_NAME} characters")
    if not isinstance(meaning, str):
        raise ChoiceError(f"{FILE}: {name} = {meaning!r}; write its meaning as a text")
    return LabelName(name, meaning)
