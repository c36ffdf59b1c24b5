"""A mapping file for a format that no reader knows, guessed from names and kinds of its keys."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Final, cast

from board.errors import BoardError, RecordError
from board.formats.base import Head
from board.formats.field_values import read_number
from board.formats.mapping import WHOLE_LINE, mapping_reader
from board.formats.messages import is_messages
from board.formats.step_of import read_step

_DEEPEST: Final = 3
_MOST_PATHS: Final = 500
_STEP_IN_PATH: Final = re.compile(
    r"(?:step|iter|iteration|update|rollout|version)[_-]?([0-9]{1,19})(?![0-9])", re.IGNORECASE
)
_NUMBER_NAME: Final = re.compile(r"(?:^|/)([0-9]{1,19})\.[a-z.]+$")


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


def _is_parts(value: object) -> bool:
    if not isinstance(value, dict) or not value:
        return False
    return all(v is None or _is_number(v) for v in cast("dict[str, Any]", value).values())


def _is_id(value: object) -> bool:
    return isinstance(value, str | int)


def _is_list(value: object) -> bool:
    return isinstance(value, list)


_GUESSES: Final[Sequence[tuple[str, Callable[[object], bool], str]]] = (
    ("messages", is_messages, "messages conversation conversations chat dialogue"),
    (
        "prompt",
        _is_text,
        "prompt input question query instruction problem prompt_text input_text ask",
    ),
    (
        *("response", _is_text),
        "response output completion generation generated_text model_output output_text out answer text",
    ),
    ("reward", _is_number, "reward score total_reward reward_total final_reward total"),
    ("rewards", _is_parts, "rewards reward_components scores"),
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
_SAYS_SOMETHING: Final = frozenset({"response", "messages", "response_ids"})
_OF_A_LINE: Final = frozenset({"prompt", "step", "group_id", "ground_truth"})
"""What may stand beside the rows of a line and hold for each of them."""
_PROMPTS: Final = re.compile(
    r"(?:^|[\W_])(?:ask|asked|inputs?|instructions?|problems?|prompts?|quer(?:y|ies)|questions?|request"
    r"|task|user)(?:$|[\W_])",
    re.IGNORECASE,
)
"""Words of a path below which everything was given to the model."""
_NEXT_WORD: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_INNER_PROMPT: Final = frozenset({"text", "content", "messages"})
_Shape = tuple[str, Mapping[str, Any], frozenset[str]]
"""`rows` of a mapping, one row with what stands beside it, and the row's own keys."""


def suggested_mapping(head: Head) -> str | None:
    """The text of a mapping file that reads these records; None where nothing can be guessed.

    A guess by names: it is to be looked at. It is one that reads the file as it stands.
    """
    for record in head.records:
        for rows, keys in _ranked(record):
            text = _written(rows, keys, "" if "step" in keys else _files(head.path))
            try:
                if not mapping_reader(text).why_not(head):
                    return text
            except (BoardError, UnicodeEncodeError):  # names that no mapping can hold
                continue
    return None


def _ranked(record: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, str]]]:
    """`rows` and keys that may read a record, the likeliest first.

    It is one rollout, or has one list of them, which comes first where only that has rewards, or is a
    table of them. Of several such lists none can be told to be it.
    """
    lines, lists, tables = (
        [
            (rows, keys)
            for rows, row, own in shapes
            if _SAYS_SOMETHING & (keys := _guessed(row, own)).keys()
        ]
        for shapes in (_whole(record), _lists(record), _tables(record))
    )
    scored = [(rows, keys) for rows, keys in lists if keys.keys() & {"reward", "rewards"}]
    lists = scored if len(scored) == 1 else lists
    if len(lists) > 1:
        yield from lines
    elif scored and not any(keys.keys() & {"reward", "rewards"} for _, keys in lines):
        yield from (*lists, *lines, *tables)
    else:
        yield from (*lines, *lists, *tables)


def _whole(record: Mapping[str, Any]) -> Iterator[_Shape]:
    yield "", record, frozenset(record)


def _lists(record: Mapping[str, Any]) -> Iterator[_Shape]:
    for path, value in _paths(record):
        entries = cast("list[object]", value if isinstance(value, list) else [])
        if not entries or not isinstance(entries[0], dict) or is_messages(entries):
            continue
        if not _is_prompt(path):
            root = path if path in record else path.partition(".")[0]
            beside = {key: said for key, said in record.items() if key != root}
            row = cast("dict[str, Any]", entries[0])
            yield path, {**beside, **row}, frozenset(row)


def _tables(record: Mapping[str, Any]) -> Iterator[_Shape]:
    lists = {k: cast("list[Any]", v) for k, v in record.items() if isinstance(v, list) and v}
    if len({len(column) for column in lists.values()}) == 1:
        row = {**record, **{key: column[0] for key, column in lists.items()}}
        yield WHOLE_LINE, row, frozenset(row)


def _guessed(row: Mapping[str, Any], own: frozenset[str]) -> dict[str, str]:
    """From names of the record to paths of the row; each path once."""
    names_only = all(value is None for value in row.values())
    paths = dict(_paths(row))
    keys: dict[str, str] = {}
    for ours, fits, names in _GUESSES:
        fitting = [
            path
            for path, value in paths.items()
            if (names_only or fits(value))
            and path not in keys.values()
            and (ours in _OF_A_LINE or path in own or path.partition(".")[0] in own)
            and not (ours in _SAYS_SOMETHING and _is_prompt(path))
        ]
        for name in names.split():
            if path := next((path for path in fitting if _last(path) == name), None):
                keys[ours] = path
                break
        else:
            inner = [path for path in fitting if ours == "prompt" and _is_inner_prompt(path)]
            if len(inner) == 1:
                keys[ours] = inner[0]
    if "messages" in keys and "response" in keys:
        del keys["messages"]
    if "rewards" in keys and keys.get("reward", "").startswith(f"{keys['rewards']}."):
        whole = keys.pop("rewards")
        inner = [path for path in paths if path.startswith(f"{whole}.") and path != keys["reward"]]
        keys |= {f"rewards.{path[len(whole) + 1 :]}": path for path in inner}
    return keys


def _last(path: str) -> str:
    return path.rpartition(".")[2].lower()


def _is_inner_prompt(path: str) -> bool:
    return _last(path) in _INNER_PROMPT and _is_prompt(path.rpartition(".")[0])


def _is_prompt(path: str) -> bool:
    return _PROMPTS.search(_NEXT_WORD.sub("_", path)) is not None


def _paths(row: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Dotted paths and what stands there, the outer ones first, up to a bound."""
    level: list[tuple[str, Any]] = list(row.items())
    seen = 0
    for depth in range(_DEEPEST):
        inner: list[tuple[str, Any]] = []
        for path, value in level:
            if (seen := seen + 1) > _MOST_PATHS:
                return
            if depth and "." in path.rsplit("\0", 1)[-1]:
                continue
            yield path.replace("\0", "."), value
            if isinstance(value, dict) and "." not in path:
                entries = cast("dict[str, Any]", value).items()
                inner += [(f"{path}\0{key}", entry) for key, entry in entries]
        level = inner


def _files(path: PurePath) -> str:
    """A pattern for the end of the path that takes the step from it; empty where it has none."""
    end = "/".join(path.parts[-2:])
    matches = [*_NUMBER_NAME.finditer(end), *_STEP_IN_PATH.finditer(end)]
    if not matches:
        return ""
    match = matches[-1]
    start = end.rfind("/", 0, match.start(1)) + 1
    before, after = end[start : match.start(1)], end[match.end(1) :]
    return rf"{_any_number(before)}(?P<step>\d+){_any_number(after)}"


def _any_number(text: str) -> str:
    return re.sub(r"[0-9]+", r"\\d+", re.escape(text))


def _written(rows: str, keys: Mapping[str, str], files: str) -> str:
    lines = [f"files = '{files}'"] if files else []
    lines += [f"rows = {_quoted(rows)}"] if rows else []
    lines += ["[keys]", *(f"{_key(ours)} = {_quoted(path)}" for ours, path in keys.items())]
    return "\n".join(lines) + "\n"


def _key(name: str) -> str:
    head, dot, part = name.partition(".")
    return f"{head}{dot}{part if not part or _BARE.fullmatch(part) else _quoted(part)}"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
