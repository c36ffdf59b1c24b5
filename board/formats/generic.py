"""Logs that no framework wrote: which key is which field of a rollout, by names and values of keys.

A log whose lines look like rollouts (a response with a prompt or a reward, at a step or with a reward) is
read by a mapping that is made here, format *generic*. For other files the mapping is only suggested.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import PurePath
from typing import Any, Final

from board.core.records import Record
from board.errors import BoardError, RecordError
from board.formats.base import Head, LineContext
from board.formats.key_names import (
    field_of,
    fields_by_words,
    holds_texts,
    is_reference,
    without_shared_ids,
    words_of,
)
from board.formats.mapping import (
    GENERIC,
    WHOLE_LINE,
    MappingReader,
    row_as_dict,
    value_at,
)
from board.formats.mapping_files import mapping_reader
from board.formats.messages import is_messages, with_usual_names
from board.formats.parse import is_list, is_object, is_texts
from board.formats.path_steps import digits_as_pattern, files_pattern
from board.formats.sources import JSON_DOCUMENT

_NAMES: Final[Mapping[str, str]] = {
    "messages": "messages conversation conversations chat dialogue",
    "prompt": "prompt input inputs question query queries instruction problem prompt_text input_text "
    "prompts ask user request",
    "response": "response completion generation output model_output generated_text output_text "
    "model_response responses completions generations outputs prediction predictions out text",
    "reward": "reward score total_reward reward_total final_reward total rewards scores "
    "correct is_correct",
    "rewards": "reward_parts reward_components reward_breakdown reward_dict sub_rewards",
    "advantage": "advantage advantages",
    "step": "step global_step iteration iter train_step training_step trainer_step update gen_step",
    "group_id": "group_id prompt_id problem_id task_id group uid group_index",
    "rollout_id": "rollout_id sample_id request_id trajectory_id id",
    "ground_truth": "ground_truth gts gt label reference ref target expected solution answer gold",
    "finish_reason": "finish_reason stop_reason",
    "response_ids": "response_ids completion_ids output_ids",
    "logprobs": "logprobs log_probs",
    "ref_logprobs": "ref_logprobs ref_log_probs",
}
"""Names of keys that are likely a field's, the likeliest first."""
_GIVEN: Final = frozenset(_NAMES["prompt"].split())
"""Whatever is below a key of such a name was given to the model."""
_GENERATED: Final = frozenset({"response", "messages", "response_ids"})
_SHARED: Final = frozenset({"prompt", "step", "group_id", "ground_truth"})
"""Fields beside the rows of a line that apply to each of them."""
_WEAK: Final = frozenset({"text", "out"})
"""Names under which a program's own messages are logged too."""
_REFERENCE: Final = re.compile(r"doc|target|reference|expected|answer|gold\w*|gt")
"""What is below a key of such a name belongs to the task, whatever its own name says."""
_SEEN: Final = ("state", "observation", "obs")
"""What an agent saw before an action, in lines that say what it did and what it got for that."""
_TURNS: Final = frozenset(
    (
        *("messages", "conversation", "conversations", "chat", "dialogue", "dialog", "history"),
        *("turns", "steps", "trajectory", "transcript", "exchanges"),
    )
)
"""Words of a key whose list is one rollout."""
_AMBIGUOUS: Final = "answer"
"""A reference, unless it differs between rollouts of one prompt."""
_MOST_KEYS: Final = 500
_MAX_PREVIEW: Final = 3
_MOST_ROWS: Final = 20
OTHER_RESPONSES: Final = (
    *("completion", "generation", "output", "model_output", "generated_text", "output_text"),
    *("model_response", "responses", "completions", "generations", "outputs"),
)
"""Keys that hold what the model generated, in logs that do not call it the response."""
OTHER_REWARDS: Final = ("score", "total_reward", "reward_total", "final_reward", "correct")
"""Keys that hold the reward, in logs that do not call it so."""


def has_other_names(record: Mapping[str, Any]) -> bool:
    """Whether a record's response or reward is under another name than the record's own, or it has
    several responses.
    """
    if is_texts(record.get("response")) and record["response"]:
        return True
    known = {key for key, value in record.items() if value is not None}
    if known.isdisjoint({"response", "response_tokens", "response_ids", "messages"}):
        for value in (record[key] for key in OTHER_RESPONSES if key in record):
            texts = value.values() if is_object(value) else (value,)
            if is_list(value) or any(isinstance(text, str) for text in texts):
                return True
        if any(field_of(key, value) == "response" for key, value in record.items()):
            return True
    has_reward = not known.isdisjoint({"reward", "rewards"})
    return not has_reward and any(isinstance(record.get(k), int | float) for k in OTHER_REWARDS)


def generic_mapping(head: Head, *, is_named: bool = False) -> str | None:
    """The text of the mapping by which a file is read as *generic*; None where its lines are no rollouts
    as far as their keys say. is_named: the user named the file, so that texts alone are enough.
    """
    text = suggested_mapping(head)
    if text is None:
        return None
    reader = mapping_reader(text := f"title = {quoted(GENERIC)}\n{text}")
    fields = reader.keys.keys()
    response = reader.keys.get("response", "").rpartition(".")[2]
    has_exchange = "response" in fields and bool({"prompt", "reward"} & fields)
    if response in _WEAK and not {"prompt", "reward"} <= fields:
        has_exchange = False
    is_rollout = ("messages" in fields or has_exchange) and bool({"reward", "step"} & fields)
    if not is_rollout and not is_named:
        return None
    records = [*_read(reader, head)]
    has_texts = any("response" in record.texts or record.messages for record in records)
    has_rewards = any("reward" in record.scores for record in records)
    return text if has_texts and (has_rewards or "reward" not in fields) else None


def _read(reader: MappingReader, head: Head) -> Iterator[Record]:
    place = LineContext(head.path, layout=reader.layout)
    for line in head.records:
        with suppress(RecordError):
            for row in reader.rows(line, place):
                record = reader.record(row, place)
                if isinstance(record, Record):
                    yield record


def preview(mapping: str, head: Head) -> tuple[dict[str, Any], ...]:
    """Of the first rollouts that a mapping file gives of a file the step, the texts and the reward."""
    return tuple(
        {
            "step": record.step,
            "prompt": record.texts.get("prompt"),
            "response": record.texts.get("response"),
            "reward": record.scores.get("reward"),
        }
        for record in islice(_read(mapping_reader(mapping), head), _MAX_PREVIEW)
    )


def key_paths(head: Head, reader: MappingReader) -> tuple[str, ...]:
    """The keys of a file's first rollouts, with dots for inner ones."""
    place = LineContext(head.path, layout=reader.layout)
    paths: dict[str, None] = {}
    for line in head.records:
        with suppress(RecordError):
            for row in reader.rows(line, place)[:_MAX_PREVIEW]:
                paths |= dict.fromkeys(path for path, value in _values(row) if not is_object(value))
    return tuple(paths)


def suggested_mapping(head: Head) -> str | None:
    """The text of a mapping file that reads these records, by the names of their keys: a guess.

    None where no key is named as what a model generates is, nor holds a conversation.
    """
    head = Head(head.path, rows_with_texts(head.records))
    merged: dict[str, Any] = {}  # every key with its first value that is not null
    for record in head.records:
        merged |= {key: value for key, value in record.items() if merged.get(key) is None}
    for record in (merged, *head.records):
        guesses = [own for own in _guesses(record, head.records) if own.keys.keys() & _GENERATED]
        for guess in sorted(guesses, key=lambda own: "reward" not in own.keys):
            text = guess.text(head.path)
            with suppress(BoardError, UnicodeEncodeError):  # names that no mapping can hold
                reader = mapping_reader(text)
                if not reader.why_not(head) and (not _has_values(head) or _has_text(reader, head)):
                    return text
    return None


def rows_with_texts(records: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """The records that have a text or a list under a name of one; all where none has: between rollouts
    there may be lines of metrics.
    """
    rows = [
        record
        for record in records
        if any(isinstance(v, str | list) and holds_texts(k) for k, v in record.items())
    ]
    return rows or records


def _has_values(head: Head) -> bool:
    """Whether the head has values; that of a table has its columns' names alone."""
    return any(value is not None for record in head.records for value in record.values())


def _has_text(reader: MappingReader, head: Head) -> bool:
    """Whether a mapping gives any rollout the text of a response, or its tokens."""
    return any(
        record.texts.get("response") or record.response_ids is not None or record.response_tokens
        for record in _read(reader, head)
    )


def what_is_missing(head: Head) -> str:
    """What of a rollout no key of the records is named as, in words."""
    named = {field for record in head.records for field in keys_by_name(record, head.records)}
    wanted = {
        "response": "a response",
        "prompt": "a prompt",
        "reward": "a reward",
        "step": "a step",
    }
    if "messages" in named:
        wanted = {"response": "a turn of the model", "reward": "a reward", "step": "a step"}
    lacking = [what for field, what in wanted.items() if field not in named]
    return f"no key is named as {', '.join(lacking)}" if lacking else ""


@dataclass(frozen=True, slots=True)
class _Guess:
    """What a mapping file may say: see MappingReader. is_group: of a line whose rollouts have no group
    id, and share their prompt.
    """

    keys: Mapping[str, str]
    rows: str = ""
    columns: str = ""
    is_group: bool = False

    def text(self, path: PurePath) -> str:
        """The mapping file. path: of the log; a .json is looked into where `files` says so."""
        if path.suffix in (".gz", ".zst"):  # a layout is matched without it
            path = path.with_suffix("")
        files = "" if "step" in self.keys else files_pattern(path)
        if not files and JSON_DOCUMENT.takes(path):
            files = digits_as_pattern(path.name)
        lines = [f"files = '{files}'"] if files else []
        named = {"rows": self.rows, "columns": self.columns}
        lines += [f"{name} = {quoted(value)}" for name, value in named.items() if value]
        lines += ['group = "line"'] if self.is_group else []
        fields = (f"{key} = {quoted(path)}" for key, path in self.keys.items())
        return "\n".join([*lines, "[keys]", *fields]) + "\n"


def quoted(text: str) -> str:
    """A text as TOML has it in quotes."""
    return json.dumps(text, ensure_ascii=False)


def _guesses(record: Mapping[str, Any], records: Sequence[Mapping[str, Any]]) -> Iterator[_Guess]:
    """What a line may be: a rollout, a table of them, or something that has a list of them."""
    keys = keys_by_name(record, records)
    response = value_at(record, keys.get("response", ""))
    is_table = is_list(response) and not is_messages(response)
    is_group = (
        is_table and "group_id" not in keys and not is_list(record.get(keys.get("prompt", "")))
    )
    yield _Guess(keys, WHOLE_LINE if is_table else "", is_group=is_group)
    tables = {path: rows for path, value in _values(record) if (rows := _rows(record, value))}
    lists = {
        path: (own, columns)
        for path, (rows, columns) in tables.items()
        if not is_messages(rows[:1]) and path.partition(".")[0].lower() not in _GIVEN
        if not _holds_turns(path, rows)
        if (own := keys_by_name(rows[0], rows)).keys() & _GENERATED
    }
    scored = {path: own for path, own in lists.items() if "reward" in own[0]}
    lists = scored if len(scored) == 1 else lists
    if len(lists) == 1:  # nothing tells which of several is the one
        ((path, (own, columns)),) = lists.items()
        root = path if path in record else path.partition(".")[0]
        shared = keys_by_name(
            {key: v for key, v in record.items() if key not in (root, columns)}, ()
        )
        both = {key: v for key, v in shared.items() if key in _SHARED} | own
        is_group = "group_id" not in both and "prompt" in shared and "prompt" not in own
        yield _Guess(both, path, columns, is_group)


def _holds_turns(path: str, rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a list is by its name one of turns, each of which was asked and answered."""
    return not _TURNS.isdisjoint(words_of(path)) and is_messages(with_usual_names([*rows]))


def _rows(
    record: Mapping[str, Any], value: object
) -> tuple[Sequence[Mapping[str, Any]], str] | None:
    """The first rollouts of a list of objects, or of arrays whose columns a key names, and that key."""
    if not is_list(value) or not value:
        return None
    if is_object(value[0]):
        return list(filter(is_object, value[:_MOST_ROWS])), ""
    for key, names in record.items():
        if is_texts(names) and names is not value:
            rows = [row_as_dict(names, row) for row in value[:_MOST_ROWS]]
            if is_object(rows[0]):
                return list(filter(is_object, rows)), key
    return None


def _differs(records: Sequence[Mapping[str, Any]], prompt: str | None, path: str) -> bool:
    """Whether a key has several texts for one prompt."""
    texts: defaultdict[str, set[str]] = defaultdict(set)
    for record in records:
        if prompt is not None and isinstance(text := value_at(record, path), str):
            texts[str(value_at(record, prompt))].add(text)
    return any(len(own) > 1 for own in texts.values())


def keys_by_name(row: Mapping[str, Any], records: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """From fields to paths, by the names of keys; a key of null only where all are.

    records: rows like it; what a model generates differs between those of one prompt.
    """
    paths: dict[str, str] = {}
    names_only = all(value is None for value in row.values())
    parts = () if names_only else _NAMES["rewards"].split()
    for path, value in _values(row):
        root, _, last = path.lower().partition(".")
        name = last or root
        if root in _GIVEN:
            name = root
        elif last and _REFERENCE.fullmatch(root):
            name = "reference"
        if is_object(value) != (name in parts) or (value is None and not names_only):
            continue
        paths.setdefault(name, path)
    named = {
        field: [paths[name] for name in names.split() if name in paths]
        for field, names in _NAMES.items()
    }
    keys = {field: own[0] for field, own in named.items() if own}
    if not names_only:
        keys |= fields_by_words(_values(row), keys)
    seen = next((name for name in _SEEN if name in paths), None)
    if "response" not in keys and seen is not None and paths.keys() >= {"action", "reward"}:
        keys |= {"response": paths["action"], "prompt": paths[seen]}
    if "response" not in keys and "messages" not in keys and {"prompt", "step"} <= keys.keys():
        keys |= _other_text(row, records, keys)
    if "response" not in keys and "messages" not in keys:
        talk = next((path for path, value in _values(row) if _is_conversation(path, value)), None)
        keys |= {} if talk is None else {"messages": talk}
    prompt = keys.get("prompt")
    likely = [path for path in named["response"] if _differs(records, prompt, path)]
    if not likely and not keys.keys() & _GENERATED and _differs(records, prompt, _AMBIGUOUS):
        likely = [_AMBIGUOUS]
        keys.pop("ground_truth", None)
    if likely:
        keys["response"] = likely[0]
    if "response" in keys:
        keys.pop("messages", None)
    if not is_list(value_at(row, keys.get("response", ""))):  # else a value of each rollout
        of_tokens = [n for n in ("reward", "advantage") if is_list(value_at(row, keys.get(n, "")))]
        keys = {name: path for name, path in keys.items() if name not in of_tokens}
    return without_shared_ids(keys, [value_at(row, keys.get("rollout_id", "")) for row in records])


def _other_text(
    row: Mapping[str, Any], records: Sequence[Mapping[str, Any]], keys: Mapping[str, str]
) -> dict[str, str]:
    """The text beside a prompt at a step, where it is the only one and no reference: the response."""
    texts = [
        key
        for key, value in row.items()
        if isinstance(value, str) and " " in value.strip() and key not in keys.values()
    ]
    is_generated = len(texts) == 1 and not is_reference(texts[0])
    several = {record.get(texts[0]) for record in records} if is_generated else set[object]()
    return {"response": texts[0]} if is_generated and len(several) == len(records) else {}


def _is_conversation(path: str, value: object) -> bool:
    """Whether it is a list of chat messages in which the model speaks, and not what it was given."""
    if path.lower().partition(".")[0] in _GIVEN:
        return False
    messages = with_usual_names(value)
    return is_messages(messages) and any(message["role"] == "assistant" for message in messages)


def _values(row: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Dotted paths and their values, the outer ones first, up to a bound."""
    outer = list(row.items())[:_MOST_KEYS]
    yield from outer
    for path, value in outer:
        if is_object(value) and "." not in path:
            inner = [(key, entry) for key, entry in value.items() if "." not in key]
            yield from ((f"{path}.{key}", entry) for key, entry in inner[:_MOST_KEYS])
