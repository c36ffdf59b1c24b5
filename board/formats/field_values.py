"""What a value of one key says: a number, a score, an id, a text. The checks that every format shares."""

from __future__ import annotations

import math
from typing import Any, Final

from board.core.options import ReadOptions
from board.errors import RecordError
from board.formats.messages import conversation_text, is_messages
from board.formats.number_arrays import RawNumbers
from board.formats.parse import kind_of

NUMBER_IDS: Final = frozenset({"micro_step", "rank", "policy_version", "timestamp"})
_TRUNCATED_REASONS: Final = frozenset(
    {"length", "max_tokens", "max_length", "max_output_tokens", "truncated"}
)
_LARGEST_WHOLE: Final = 2**63 - 1


def read_number(value: object) -> float | None:
    """A finite or NaN number; None for null. Takes numbers written as text ("0.5", "True").

    Raises RecordError on anything else, infinities included.
    """
    if type(value) is float and math.isfinite(value):  # nearly all
        return value
    if value is None or value == "":
        return None
    if isinstance(value, str):
        written = {"true": 1.0, "false": 0.0, "none": None, "null": None}.get(
            value.strip().lower(), value
        )
        if not isinstance(written, str):
            return written
        try:
            value = float(written)
        except ValueError:
            # The text itself stays out of the reason: problems are folded by it.
            hint = f"a number; found e.g. {written[:40]!r}"
            raise RecordError("is text, not a number", hint=hint) from None
    if not isinstance(value, (int, float)):
        raise RecordError(f"is {kind_of(value)}", hint="a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if math.isinf(number):
        raise RecordError("is infinite", hint="it is left out of tables and means")
    return number


def read_score(value: object) -> float | None:
    """As read_number, of a score: NaN is measured, and has no value in the table, hence RecordError."""
    number = read_number(value)
    if number is not None and math.isnan(number):
        raise RecordError("is NaN", hint="a number; it is left out of tables and means")
    return number


def read_id(key: str, value: object) -> Any:
    """What names a rollout: text, but for the keys that are numbers; None where it is not recorded.

    Raises RecordError on anything that is neither text nor a number.
    """
    if isinstance(value, str) and key not in NUMBER_IDS:
        return value
    if key in NUMBER_IDS:
        number = read_number(value)
        if number is None or math.isnan(number):
            return None
        return number if key == "timestamp" else _whole(number)
    if isinstance(value, float) and math.isnan(value):
        return None  # how a table writes that a row has no such id
    if isinstance(value, int | float):
        whole = isinstance(value, float) and value.is_integer()
        return str(int(value) if whole else value)
    raise RecordError(f"is {kind_of(value)}", hint="text or a number")


def read_text(key: str, value: object) -> str:
    """Text, or chat messages as text. Raises RecordError on anything else."""
    if isinstance(value, str):
        return value
    if is_messages(value):
        return conversation_text(value)
    if key == "ground_truth":
        return value.raw.decode("utf-8", "replace") if isinstance(value, RawNumbers) else str(value)
    raise RecordError(f"is {kind_of(value)}", hint="text, or a list of chat messages")


def is_truncated(finish_reason: str) -> float:
    """1 where the limit ended the response; a finish reason of "length" says so by definition."""
    return float(finish_reason.lower() in _TRUNCATED_REASONS)


def without_system_prompt(prompt: str, options: ReadOptions) -> str:
    """The prompt without what the user's choice says is the system prompt."""
    marker = options.system_prompt_end
    if not marker or marker not in prompt:
        return prompt
    return prompt.split(marker, 1)[1].lstrip("\n")


def _whole(number: float) -> int:
    if not number.is_integer() or abs(number) > _LARGEST_WHOLE:
        raise RecordError("is not a whole number", hint="a whole number")
    return int(number)
