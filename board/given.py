"""What a caller of the Python interface gives: refused by name where it can't be meant."""

from __future__ import annotations

from collections.abc import Sequence
from threading import TIMEOUT_MAX
from typing import Any, Final

import numpy as np

from board.errors import ChoiceError

_MOST: Final = 2**63 - 1


def whole_number(name: str, value: Any, *, least: int | None = None) -> int:
    """A whole number of 64 bits, also one of numpy. Raises ChoiceError."""
    is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not is_whole:
        raise ChoiceError(f"{name}={_written(value)} is {_kind(value)}; give a whole number")
    if least is not None and value < least:
        raise ChoiceError(f"{name}={value} is too small; give {least} or more")
    if abs(value) > _MOST:
        raise ChoiceError(f"{name}={value} is too large; give {_MOST} or less")
    return int(value)


def flag(name: str, value: Any) -> bool:
    """True or False, also of numpy. Raises ChoiceError."""
    if not isinstance(value, bool | np.bool_):
        raise ChoiceError(f"{name}={_written(value)} is {_kind(value)}; give True or False")
    return bool(value)


def number(name: str, value: Any) -> float:
    """A finite number. Raises ChoiceError."""
    is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not is_number or not abs(value) < float("inf"):
        raise ChoiceError(f"{name}={_written(value)} is {_kind(value)}; give a finite number")
    return float(value)


def seconds(name: str, value: Any) -> float:
    """A time that a clock can wait for. Raises ChoiceError."""
    is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not is_number or not 0 < value <= TIMEOUT_MAX:
        raise ChoiceError(f"{name}={_written(value)} is no time; give seconds, more than 0")
    return float(value)


def text(name: str, value: Any, example: str) -> str:
    """A text. Raises ChoiceError."""
    if not isinstance(value, str):
        raise ChoiceError(
            f"{name}={_written(value)} is {_kind(value)}; give a text such as {example}"
        )
    if not _is_unicode(value):
        raise ChoiceError(f"{name}={_written(value)} has half a character; give whole ones")
    return value


def _is_unicode(value: str) -> bool:
    return not any("\ud800" <= sign <= "\udfff" for sign in value)


def names(name: str, value: Any) -> Sequence[str]:
    """A list of names, and not one name, of which each letter would be one. Raises ChoiceError."""
    if isinstance(value, str):
        raise ChoiceError(f"{name}={value!r} is one text; give a list of names: {name}=[{value!r}]")
    try:
        result = [*value]
    except TypeError:
        result = [value]
    for wrong in (one for one in result if not isinstance(one, str)):
        raise ChoiceError(f"{name} has {_written(wrong)}, {_kind(wrong)}; give a list of names")
    return [text(name, one, "'reward'") for one in result]


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
