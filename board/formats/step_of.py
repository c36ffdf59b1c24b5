"""Which step something is of: numbers, texts around numbers, lists of them, names of files and folders.

A step is kept as the framework counts it, from 0 or from 1; nothing is renumbered.
"""

from __future__ import annotations

import re
from typing import Any, Final, cast

from board.errors import RecordError
from board.formats.number_arrays import RawNumbers
from board.formats.parse import loads_tolerantly

_TEXT: Final = re.compile(r"(-?[0-9]{1,19})(?:\.0*)?|[^0-9]+([0-9]{1,19})")
_LARGEST: Final = 2**63 - 1
_TRAINING: Final = re.compile(r"(^|[^a-z])train(ing)?([^a-z]|$)")
_EVALUATION: Final = re.compile(r"(^|[^a-z])(eval|val|valid|validation|test)([^a-z]|$)")


def read_step(value: object) -> int:
    """The step as an int. Takes 3, 3.0, "3", "3.0", "step_3", and a list of equal ones.

    Raises RecordError on anything else.
    """
    if isinstance(value, RawNumbers):
        value = _parsed(value)
    step = _whole(value)
    if step is not None and abs(step) <= _LARGEST:
        return step
    if isinstance(value, bool) or value is None:
        found = "missing" if value is None else "true or false"
    else:
        found = "no whole number"
    hint = f"a whole number; found {repr(value)[:40]}"
    raise RecordError(f"step is {found}", field="step", hint=hint)


def _parsed(array: RawNumbers) -> object:
    """What the text of an array says; the text where it is no JSON, which is no step either."""
    text = array.raw.decode(errors="replace")
    try:
        return loads_tolerantly(text)
    except (ValueError, RecursionError):
        return text


def _whole(value: object) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str):
        return step_of_text(value)
    if isinstance(value, list) and value:
        entries = cast("list[Any]", value)
        steps = {_whole(entry) for entry in entries}
        return steps.pop() if len(steps) == 1 else None
    return None


def step_of_text(text: str) -> int | None:
    """The number that a text is, or ends with: "3", "3.0", "00003", "step_3"; None for other texts."""
    match = _TEXT.fullmatch(text.strip())
    return int(match.group(1) or match.group(2)) if match else None


def split_named(text: str) -> str:
    """A split that whoever trains gave its name: train where that says so, else the name as it is."""
    is_training = _TRAINING.search(text.lower()) and split_of(text) == "train"
    return "train" if is_training else text


def split_of(text: str) -> str:
    """Of whatever a framework calls its splits train or eval: eval, val, validation, test are eval."""
    return "eval" if _EVALUATION.search(text.lower()) else "train"
