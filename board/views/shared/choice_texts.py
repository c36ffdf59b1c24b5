"""How a URL writes choices that are no plain text. Parsers raise ValueError, which says what is wrong."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from board.query.prompts import key_from, written_key

LARGEST_COUNT: Final = 10**9


def within(
    kind: type[int] | type[float], low: float = -math.inf, high: float = math.inf
) -> Callable[[str], Any]:
    """Parses a number between two bounds; NaN is none."""

    def parse(text: str) -> Any:
        try:
            value = kind(text)
        except ValueError:
            value = math.nan
        if value != value:
            raise ValueError("not a whole number" if kind is int else "not a number")
        if not low <= value <= high:
            raise ValueError(f"not between {low} and {high}")
        return value

    return parse


whole: Final = within(int)
number: Final = within(float)
count: Final = within(int, 0, LARGEST_COUNT)


def prompt_key(text: str) -> str:
    """The key of a prompt."""
    try:
        return written_key(key_from(text))
    except ValueError:
        raise ValueError("not the key of a prompt, 16 hexadecimal digits") from None


def listed(text: str) -> list[str]:
    """`a,b%2Cc` -> ["a", "b,c"]."""
    return [part.replace("%2C", ",").replace("%25", "%") for part in text.split(",") if part]


def list_text(values: Collection[str]) -> str:
    """What `listed` reads."""
    return ",".join(str(value).replace("%", "%25").replace(",", "%2C") for value in values)


def pairs(text: str, form: str) -> list[tuple[str, str]]:
    """`a:1,b:2` -> [("a", "1"), ("b", "2")]; names may hold colons."""
    pairs = [part.rpartition(":") for part in listed(text)]
    if not all(name and value for name, _, value in pairs):
        raise ValueError(f"not of the form {form}")
    return [(name, value) for name, _, value in pairs]


def bounds(text: str) -> dict[str, tuple[float, float]]:
    """`reward:0.5..1,k3_mean:..0.1` -> {"reward": (0.5, 1.0), "k3_mean": (-inf, 0.1)}."""
    form = "column:low..high"
    ends = {name: limits.partition("..") for name, limits in pairs(text, form)}
    if not all(separator for _, separator, _ in ends.values()):
        raise ValueError(f"not of the form {form}")
    return {n: (number(low or "-inf"), number(high or "inf")) for n, (low, _, high) in ends.items()}


def bounds_text(limits: Mapping[str, tuple[float, float]]) -> str:
    """What `bounds` reads."""

    def end(value: float) -> str:
        return "" if math.isinf(value) else repr(value)

    return list_text([f"{name}:{end(low)}..{end(high)}" for name, (low, high) in limits.items()])


def shifts(text: str) -> dict[str, int]:
    """`run_b:10` -> {"run_b": 10}."""
    return {name: whole(steps) for name, steps in pairs(text, "run:steps")}


def shifts_text(steps_added: Mapping[str, int]) -> str:
    """What `shifts` reads."""
    return list_text([f"{name}:{steps}" for name, steps in steps_added.items()])


def step_range(text: str) -> tuple[int, int]:
    """`120-180` -> (120, 180)."""
    first, _, last = text.partition("-")
    ends = count(first), count(last)
    if ends[0] >= ends[1]:
        raise ValueError("not of the form first-last")
    return ends
