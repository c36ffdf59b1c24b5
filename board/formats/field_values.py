"""What a value of one key says: a number, a score, an id, a text, a step, a split."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Final, cast

from board.core import schema
from board.core.records import ReadOptions
from board.errors import RecordError
from board.formats.messages import conversation_text, is_messages
from board.formats.number_arrays import RawNumbers
from board.formats.parse import kind_of, loads_tolerantly

TEXT_KEYS: Final = ("prompt", "response", "ref_response", "ground_truth", "finish_reason")
FAILURE: Final = "reader:failure"
"""The name of the field that becomes `Record.texts["failure"]`, which no log has."""
TAKERS: Final[Mapping[str, str]] = {
    **dict.fromkeys(schema.TOKEN_ARRAY_FIELDS, "_take_array"),
    **dict.fromkeys((*schema.SCORE_FIELDS, "is_truncated"), "_take_score"),
    **dict.fromkeys(schema.ID_FIELDS, "_take_id"),
    **dict.fromkeys(TEXT_KEYS, "_take_text"),
    **dict.fromkeys(schema.TOPK_FIELDS, "_take_topk"),
    **dict.fromkeys(("messages", "segments"), "_take_objects"),
    **dict.fromkeys(("prompt_ids", "response_ids"), "_take_token_ids"),
    **dict.fromkeys(("step", "type", "remarks"), "_leave"),
    "index": "_take_index",
    "response_tokens": "_take_pieces",
    FAILURE: "_take_failure",
    "reward": "_take_reward",
    "rewards": "_take_parts",
}
"""By keys of the record RecordBuilder's method for such values; for others it is `_take_unknown`."""
_TOTALS: Final = ("total", "total_reward", "score", "reward")
CONTENT: Final = frozenset(TAKERS) - {
    *schema.TOKEN_ARRAY_FIELDS,
    *("step", "index", "type", "remarks", "timestamp", "rank", "micro_step", "split"),
    *("policy_version", "is_truncated"),
}
"""Keys of which one makes a line a rollout; numbers under the others may be means of a step."""
LOGGED_INDEX: Final = "logged.index"
"""The column of a log's own `index`: that of a rollout in its step is counted when it is read."""
EXTRA: Final = "extra:"
"""Begins the name of a field that is kept under the rest of its name, whatever the record calls so."""
NUMBER_IDS: Final = frozenset({"micro_step", "rank", "policy_version", "timestamp"})
_TRUNCATED_REASONS: Final = frozenset(
    {
        *("length", "max_tokens", "max_length", "max_output_tokens", "truncated"),
        # turns and steps
        *("max_turns", "max_steps", "max_turns_reached", "max_turns_exceeded", "max_iteration"),
        *("max_iterations_reached", "max_tool_calls", "limitsexceeded"),
        # tokens of all turns
        *("max_sampled_tokens", "max_input_tokens", "max_total_tokens"),
        *("max_total_completion_tokens_reached", "max_response_length_exceeded"),
        # context
        *("model_length", "context_length", "context_window", "context_overflow", "exit_context"),
        *("context_window_exceeded", "contextwindowexceedederror", "compaction_failed"),
        *("model_context_window_exceeded", "max_prompt_length_exceeded", "prompt_too_long"),
        "exit_cost",
    }
)
"""Why a rollout ended whose budget ran out, in small letters, by the words of all frameworks."""
LARGEST_WHOLE: Final = 2**63 - 1
_STEP_TEXT: Final = re.compile(r"(-?[0-9]{1,19})(?:\.0*)?|[^0-9]+([0-9]{1,19})")
_TRAINING: Final = re.compile(r"(^|[^a-z])train(ing)?([^a-z]|$)")
_EVALUATION: Final = re.compile(r"(^|[^a-z])(eval|val|valid|validation|test)([^a-z]|$)")


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
    """The number of a score, by read_number. NaN raises RecordError: it has no value in the table."""
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
    """1 where a limit ended the rollout; a finish reason of "length" says so by definition."""
    return float(finish_reason.lower() in _TRUNCATED_REASONS)


def without_system_prompt(prompt: str, options: ReadOptions) -> str:
    """The prompt without what the user's choice says is the system prompt."""
    marker = options.system_prompt_end
    if not marker or marker not in prompt:
        return prompt
    return prompt.split(marker, 1)[1].lstrip("\n")


def _whole(number: float) -> int:
    if not number.is_integer() or abs(number) > LARGEST_WHOLE:
        raise RecordError("is not a whole number", hint="a whole number")
    return int(number)


def read_step(value: object) -> int:
    """The step as an int. Takes 3, 3.0, "3", "3.0", "step_3", and a list of equal ones.

    Raises RecordError on anything else.
    """
    if isinstance(value, RawNumbers):
        value = _parsed(value)
    step = _whole_step(value)
    if step is not None and abs(step) <= LARGEST_WHOLE:
        return step
    if isinstance(value, bool) or value is None:
        kind = "missing" if value is None else "true or false"
    else:
        kind = "no whole number"
    hint = f"a whole number; found {repr(value)[:40]}"
    raise RecordError(f"step is {kind}", field="step", hint=hint)


def _parsed(array: RawNumbers) -> object:
    """What the text of an array says; the text where it is no JSON, which is no step either."""
    text = array.raw.decode(errors="replace")
    try:
        return loads_tolerantly(text)
    except (ValueError, RecursionError):
        return text


def _whole_step(value: object) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str):
        return step_of_text(value)
    if isinstance(value, list) and value:
        entries = cast("list[Any]", value)
        steps = {_whole_step(entry) for entry in entries}
        return steps.pop() if len(steps) == 1 else None
    return None


def step_of_text(text: str) -> int | None:
    """The number that a text is, or ends with: "3", "3.0", "00003", "step_3"; None for other texts."""
    match = _STEP_TEXT.fullmatch(text.strip())
    return int(match.group(1) or match.group(2)) if match else None


def split_named(text: str) -> str:
    """A split that whoever trains gave its name: train where that says so, else the name as it is."""
    is_training = _TRAINING.search(text.lower()) and split_of(text) == "train"
    return "train" if is_training else text


def split_of(text: str) -> str:
    """Of whatever a framework calls its splits train or eval: eval, val, validation, test are eval."""
    return "eval" if _EVALUATION.search(text.lower()) else "train"


def split_reward(reward: Mapping[str, Any]) -> tuple[dict[str, Any], Any, dict[str, Any]]:
    """Its parts that are numbers or null, its total (None: it has none), and what else it holds."""
    total = next((key for key in _TOTALS if is_number(reward.get(key))), None)
    # A total that is null was not given: the one part beside it is not the reward in its place. Beside
    # another total it is none, and no part either.
    empty = {key for key in _TOTALS if total is not None and reward.get(key) is None}
    entries = {k: v for k, v in reward.items() if k != total and k not in empty}
    parts = {key: value for key, value in entries.items() if value is None or is_number(value)}
    others = {key: value for key, value in entries.items() if key not in parts}
    return parts, None if total is None else reward[total], others


def is_number(value: object) -> bool:
    """Whether it is a number, or one written as text."""
    if not isinstance(value, str):
        return isinstance(value, int | float)
    try:
        float(value)
    except ValueError:
        return False
    return True
