"""What a caller of the Python interface gives: refused by name where it can't be meant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from board.errors import ChoiceError


def whole_number(name: str, value: Any, *, least: int | None = None) -> int:
    """A whole number, also one of numpy. Raises ChoiceError."""
    is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not is_whole:
        raise ChoiceError(f"{name}={_written(value)} is {_kind(value)}; give a whole number")
    if least is not None and value < least:
        raise ChoiceError(f"{name}={value} is too small; give {least} or more")
    return int(value)


def text(name: str, value: Any, example: str) -> str:
    """A text. Raises ChoiceError."""
    if not isinstance(value, str):
        raise ChoiceError(
            f"{name}={_written(value)} is {_kind(value)}; give a text such as {example}"
        )
    return value


def names(name: str, value: Any) -> Sequence[str]:
    """A list of names, and not one name, of which each letter would be one. Raises ChoiceError."""
    if isinstance(value, str):
        raise ChoiceError(f"{name}={value!r} is one text; give a list of names: {name}=[{value!r}]")
    try:
        result = [*value]
    except TypeError:
        result = [value]
    wrong = next((one for one in result if not isinstance(one, str)), None)
    if wrong is not None:
        raise ChoiceError(f"{name} has {_written(wrong)}, {_kind(wrong)}; give a list of names")
    return result


def step_range(name: str, value: Any) -> tuple[int, int]:
    """The first step and the last one. Raises ChoiceError."""
    if isinstance(value, int | np.integer):
        raise ChoiceError(
            f"{name}={value} is one step; give the first and the last: {name}=({value}, {value})"
        )
    ends: list[Any] = [] if isinstance(value, str) or not hasattr(value, "__len__") else [*value]
    if len(ends) != 2:
        raise ChoiceError(f"{name}={_written(value)} is no pair; give the first and the last step")
    first, last = (whole_number(name, end) for end in ends)
    if first > last:
        raise ChoiceError(f"{name}=({first}, {last}) goes backwards; give ({last}, {first})")
    return first, last


def _written(value: Any) -> str:
    return repr(value)[:60]


def _kind(value: Any) -> str:
    return f"of the type {type(value).__name__}"
