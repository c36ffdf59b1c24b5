"""A mapping file for a format that no reader knows, suggested from the names and types of its keys."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Final, cast

from board.errors import BoardError, RecordError
from board.formats.base import Head
from board.formats.field_values import read_number, read_step
from board.formats.mapping import WHOLE_LINE, mapping_reader
from board.formats.messages import is_messages

_MAX_PATHS: Final = 500
_STEP_IN_PATH: Final = re.compile(
    r"(?:step|iter|iteration|update|rollout|version)[_-]?([0-9]{1,19})(?![0-9])"
    r"|(?:^|/)([0-9]{1,19})\.[a-z.]+$",
    re.IGNORECASE,
)


def _is_text(value: object) -> bool:
    return isinstance(value, str) or is_messages(value)


def _is_number(value: object) -> bool:
    try:
        return not isinstance(value, bool) and read_number(value) is not None
    except RecordError:
        return False


def _is_step(value: object) -> bool:
    try:
        read_step(value)
    except RecordError:
        return False
    return True


def _is_id(value: object) -> bool:
    return isinstance(value, str | int)


def _is_list(value: object) -> bool:
    return isinstance(value, list)


_PROMPT_NAMES: Final = "prompt input question query instruction problem prompt_text input_text ask"
_GUESSES: Final[Sequence[tuple[str, Callable[[object], bool], str]]] = (
    ("messages", is_messages, "messages conversation conversations chat dialogue"),
    ("prompt", _is_text, _PROMPT_NAMES),
    (
        *("response", _is_text),
        "response output completion generation generated_text model_output output_text out answer text",
    ),
    ("reward", _is_number, "reward score total_reward reward_total final_reward total"),
    ("advantage", _is_number, "advantage"),
    (
        *("step", _is_step),
        "step global_step iteration iter train_step training_step trainer_step update gen_step",
    ),
    ("group_id", _is_id, "group_id prompt_id problem_id task_id group uid"),
    ("rollout_id", _is_id, "rollout_id sample_id request_id trajectory_id id"),
    ("ground_truth", _is_id, "ground_truth gts gt label reference target expected solution"),
    ("finish_reason", _is_id, "finish_reason stop_reason"),
    ("response_ids", _is_list, "response_ids completion_ids output_ids"),
    ("logprobs", _is_list, "logprobs log_probs"),
    ("ref_logprobs", _is_list, "ref_logprobs ref_log_probs"),
)
"""Our key, the type that its values have, and names of it, the likeliest first."""
_GENERATED: Final = frozenset({"response", "messages", "response_ids"})
_SHARED: Final = frozenset({"prompt", "step", "group_id", "ground_truth"})
"""Keys beside the rows of a line that hold for each of them."""
_GIVEN: Final = re.compile(
    rf"{_PROMPT_NAMES.replace(' ', '|')}|user|task|request|queries", re.IGNORECASE
)
"""Whatever is below a key of such a name was given to the model."""
_Guess = tuple[str, dict[str, str]]
"""`rows` of a mapping, and its keys."""


def suggested_mapping(head: Head) -> str | None:
    """The text of a mapping file that reads these records; None where nothing can be guessed.

    A guess by names that the user is to look at. It does read the file.
    """
    for record in head.records:
        for rows, keys in _guesses(record):
            text = _mapping_text(rows, keys, "" if "step" in keys else _files_pattern(head.path))
            try:
                if not mapping_reader(text).why_not(head):
                    return text
            except (BoardError, UnicodeEncodeError):  # names that no mapping can hold
                continue
    return None


def _guesses(record: Mapping[str, Any]) -> Iterator[_Guess]:
    """What may read a record, the likeliest first: one list of rollouts in it that have rewards, or one
    rollout, or one list, or a table of rollouts. Nothing tells which of several lists is the one.
    """
    line: _Guess = ("", _keys_of(record, frozenset(record)))
    lists = [guess for guess in _lists(record) if guess[1].keys() & _GENERATED]
    scored = [guess for guess in lists if "reward" in guess[1]]
    lists = scored if len(scored) == 1 else lists
    ordered = [line, *lists, _table(record)]
    if scored and "reward" not in line[1]:
        ordered = [*lists, line, _table(record)]
    if len(lists) > 1:
        ordered = [line]
    return (guess for guess in ordered if guess[1].keys() & _GENERATED)


def _lists(record: Mapping[str, Any]) -> Iterator[_Guess]:
    for path, value in _paths(record):
        entries = cast("list[object]", value if isinstance(value, list) else [])
        if not entries or not isinstance(entries[0], dict) or is_messages(entries):
            continue
        if not _is_given(f"{path}."):
            root = path if path in record else path.partition(".")[0]
            shared = {key: value for key, value in record.items() if key != root}
            row = cast("dict[str, Any]", entries[0])
            yield path, _keys_of({**shared, **row}, frozenset(row))


def _table(record: Mapping[str, Any]) -> _Guess:
    lists = {k: cast("list[Any]", v) for k, v in record.items() if isinstance(v, list) and v}
    if len({len(column) for column in lists.values()}) != 1:
        return WHOLE_LINE, {}
    row = {**record, **{key: column[0] for key, column in lists.items()}}
    return WHOLE_LINE, _keys_of(row, frozenset(row))


def _keys_of(row: Mapping[str, Any], own: frozenset[str]) -> dict[str, str]:
    """From our names to paths of the row; each path once. own: keys that are not of the whole line."""
    names_only = all(value is None for value in row.values())
    keys: dict[str, str] = {}
    for ours, fits, names in _GUESSES:
        fitting = {
            path: path.rpartition(".")[2].lower()
            for path, value in _paths(row)
            if (names_only or fits(value))
            and path not in keys.values()
            and (ours in _SHARED or path in own or path.partition(".")[0] in own)
            and not (ours in _GENERATED and _is_given(path))
        }
        ranked = [path for name in names.split() for path, last in fitting.items() if last == name]
        if ours == "prompt" and not ranked:
            ranked = [
                path for path, last in fitting.items() if _is_given(path) and last in _CONTENT
            ]
        if ranked:
            keys[ours] = ranked[0]
    if "response" in keys:
        keys.pop("messages", None)
    return keys


_CONTENT: Final = frozenset({"text", "content", "messages"})


def _is_given(path: str) -> bool:
    """Whether a path is below the prompt."""
    above = path.rpartition(".")[0]
    return _GIVEN.match(above) is not None


def _paths(row: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Dotted paths and their values, the outer ones first, up to a bound."""
    outer = list(row.items())[:_MAX_PATHS]
    yield from outer
    for path, value in outer:
        if isinstance(value, dict) and "." not in path:
            entries = cast("dict[str, Any]", value)
            inner = [(key, entry) for key, entry in entries.items() if "." not in key]
            yield from ((f"{path}.{key}", entry) for key, entry in inner[:_MAX_PATHS])


def _files_pattern(path: PurePath) -> str:
    """A pattern for the end of the path that takes the step from it; empty where it has none."""
    end = "/".join(path.parts[-2:])
    spans = [match.span(match.lastindex or 0) for match in _STEP_IN_PATH.finditer(end)]
    if not spans:
        return ""
    begin, after = spans[-1]
    start = end.rfind("/", 0, begin) + 1
    return rf"{_any_number(end[start:begin])}(?P<step>\d+){_any_number(end[after:])}"


def _any_number(text: str) -> str:
    return re.sub(r"[0-9]+", r"\\d+", re.escape(text))


def _mapping_text(rows: str, keys: Mapping[str, str], files: str) -> str:
    lines = [f"files = '{files}'"] if files else []
    lines += [f"rows = {_quoted(rows)}"] if rows else []
    lines += ["[keys]", *(f"{ours} = {_quoted(path)}" for ours, path in keys.items())]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
