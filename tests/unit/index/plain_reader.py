"""A slow and plain reader of rollouts, which the fuzzer holds the board to. It shares no code with it."""

from __future__ import annotations

import json
import math
from typing import Any


def loads(line: bytes) -> Any:
    """The value of one line. Raises ValueError or RecursionError when it is none.

    Control characters in texts are taken, but for NUL: those are blocks that were never written.
    """
    if b"\0" in line:
        raise ValueError("NUL")
    return json.loads(line.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace"), strict=False)


def step_of(value: Any) -> int | None:
    """The step as a whole number; None when it is none."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, str):
        text = value.strip()
        number, _, rest = text.partition(".")
        digits = number.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and set(rest) <= {"0"}):
            digits = text.lstrip("".join(c for c in set(text) if c not in "0123456789"))
            if not (digits.isascii() and digits.isdigit()) or not text[: -len(digits)]:
                return None
            number = digits
        return int(number) if len(number.removeprefix("-")) <= 19 else None
    if isinstance(value, list):
        steps = {step_of(entry) for entry in value}
        return steps.pop() if len(steps) == 1 else None
    if isinstance(value, float):
        return int(value) if math.isfinite(value) and value == int(value) else None
    return value if isinstance(value, int) else None


def expected(content: bytes) -> tuple[list[tuple[int, int, float | None]], int]:
    """(line, step, reward) of every rollout, and how many lines are none; of lines of samples only."""
    rows: list[tuple[int, int, float | None]] = []
    bad = 0
    for number, line in enumerate(content.split(b"\n")[:-1], start=1):
        if not line.strip(b" \t\r\x0b\x0c"):
            continue
        try:
            value = loads(line)
        except (ValueError, RecursionError):
            bad += 1
            continue
        step = step_of(value.get("step")) if isinstance(value, dict) else None
        if step is None or abs(step) > 2**63 - 1:
            bad += 1
            continue
        rows.append((number, step, reward_of(value.get("reward"))))
    return rows, bad


def reward_of(value: Any) -> float | None:
    """The reward as a finite number; None where there is none.

    Of an object it is its total, else the one part it has.
    """
    if isinstance(value, dict):
        return _reward_of_parts(value)
    if isinstance(value, str):
        words = {"true": 1.0, "false": 0.0}
        try:
            value = words.get(value.strip().lower()) or float(value)
        except ValueError:
            value = words.get(value.strip().lower())
    if not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _reward_of_parts(reward: dict[str, Any]) -> float | None:
    totals = [reward[key] for key in ("score", "reward") if _is_part(reward.get(key))]
    if totals and totals[0] == totals[0]:
        return reward_of(totals[0])
    parts = [
        value
        for key, value in reward.items()
        if key not in ("score", "reward") and (value is None or _is_part(value))
    ]
    return reward_of(parts[0]) if len(parts) == 1 else None


def _is_part(value: Any) -> bool:
    if not isinstance(value, str):
        return isinstance(value, int | float)
    try:
        float(value)
    except ValueError:
        return False
    return True
