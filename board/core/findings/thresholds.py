"""Thresholds of the rules: a table per rule, numbers by name; a user's file changes what it names."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from typing import Any

from board.errors import ChoiceError

Limits = Mapping[str, float]
Thresholds = Mapping[str, Limits]


def parse(text: str) -> dict[str, dict[str, float]]:
    """Tables of numbers by rule; enabled = false becomes 0. Raises ChoiceError on anything else."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ChoiceError(f"the thresholds are not TOML: {error}") from None
    return {rule: _table(rule, table) for rule, table in document.items()}


def _table(rule: str, table: Any) -> dict[str, float]:
    if not isinstance(table, dict):
        raise ChoiceError(f"{rule} is not a table; expected [{rule}] with numbers under it")
    values: dict[str, float] = {}
    for name, value in table.items():  # pyright: ignore[reportUnknownVariableType] # tomllib says Any
        if not isinstance(value, int | float):
            raise ChoiceError(f"[{rule}] {name} is {value!r}; expected a number, true or false")
        values[str(name)] = float(value)  # pyright: ignore[reportUnknownArgumentType]
    return values


def changed(defaults: Thresholds, own: Thresholds) -> dict[str, dict[str, float]]:
    """The defaults with what `own` changes. Raises ChoiceError on a rule or a name that is not there."""
    result = {rule: dict(table) for rule, table in defaults.items()}
    for rule, table in own.items():
        if rule not in result:
            raise ChoiceError(f"there is no rule {rule!r}; {_hint(rule, result)}")
        for name, value in table.items():
            if name not in result[rule] and name != "enabled":
                raise ChoiceError(f"[{rule}] has no {name!r}; {_hint(name, result[rule])}")
            result[rule][name] = value
    return result


def _hint(name: str, known: Mapping[str, object]) -> str:
    close = difflib.get_close_matches(name, known, n=3)
    return f"did you mean {', '.join(close)}?" if close else f"there are: {', '.join(known)}"
