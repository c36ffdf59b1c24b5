"""A format of the user's own, told by a mapping file: which key of a line is which field of the record.

A mapping file is TOML: `title`, `files` (a pattern for the end of the path), `rows` and `columns` (where
a line holds several rollouts, and how they are called that are arrays), `trajectory` and `turn` (the keys
by which lines are the turns of one rollout), `group` (whether rows are a group), `json` (fields whose
texts are JSON), `[keys]`, from the record's names to dotted paths in a line, and `[values]`, from words
of a field to numbers. docs/own_format.md has an example. Nothing in it is evaluated.
"""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import orjson

from board.core import schema
from board.core.records import Remark
from board.errors import BoardError, RecordError
from board.formats.base import (
    Event,
    Head,
    LineContext,
    Reader,
    layout_match,
)
from board.formats.failures import usual_failure
from board.formats.field_values import CONTENT, EXTRA, FAILURE, LOGGED_INDEX, split_named
from board.formats.fields import Fields, at_step, named_rewards, with_remarks
from board.formats.io.parquet_files import PARQUET
from board.formats.merged_turns import BY_TURN
from board.formats.messages import (
    beside_exchanges,
    is_messages,
    split_conversation,
    with_usual_names,
)
from board.formats.metric_lines import metrics_beside, metrics_in
from board.formats.parse import is_list, is_object, is_texts, kind_of
from board.formats.path_patterns import path_pattern
from board.formats.sources import JSON_DOCUMENT, JSON_LINES, rows_of_table

PREFIX: Final = "mapping:"
GENERIC: Final = "generic"
"""The title of mappings that are made by the names of keys."""
MOST_BYTES: Final = 16_384
WHOLE_LINE: Final = "."
"""A value of `rows`: the line itself is a table, each of its lists a column."""
_MOST_PATH: Final = 200
_ABSENT: Final = object()
_PLACE_IN_LIST: Final = re.compile(r"-?[0-9]{1,6}")
_TITLE: Final = re.compile(r"\w[\w .+-]{0,39}")
_PARTS: Final = "rewards."
_GIVEN: Final = -100
"""What trainers of transformers leave out of the loss."""
_FIELDS: Final = tuple(name for name in schema.SAMPLE_FIELDS if name != "index")
_CONVERSATIONS: Final = ("messages", "prompt", "response")
_TEXT_FIELDS: Final = ("prompt", "response", "messages", "response_ids", "prompt_ids")
_CONTENT_FIELDS: Final = ("prompt", "response", "messages", "reward", "rewards", "response_ids")
"""A rollout without any of these has nothing to show."""
_MAY_BE_MESSAGES: Final = ("prompt", "response", "messages")


class MappingReader(Reader):
    """Reads files as a mapping file says."""

    sources = (JSON_LINES, JSON_DOCUMENT, PARQUET)
    family = "mapping"

    def __init__(self, text: str, table: Mapping[str, Any]) -> None:
        digest = hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
        self.name = PREFIX + digest
        self.text = text
        """The mapping file as it was read: what other processes make this reader of again."""
        self.title = _title(table)
        self.layout = _layout(table)
        self.row_path = key_path("rows", table["rows"]) if "rows" in table else ""
        self.keys = _keys(table)
        """From names of the record to dotted paths; parts of the reward as `rewards.NAME`."""
        self.columns = _columns(table)
        self._numbers = _numbers_of_words(table)
        self._is_json = _json_fields(table)
        self._is_group = _is_group(table)
        self._used = frozenset(self.keys.values())
        named = (_root(path) for key, path in self.keys.items() if key in CONTENT)
        self._content = CONTENT.union(named)
        roots = (_root(self.keys[key]) for key in _TEXT_FIELDS if key in self.keys)
        self._texts_of_lines = frozenset(roots)
        # Of whoever wrote a log that is read by the names of its keys nothing is known.
        self.repeats = "unordered" if self.title == GENERIC else "never"

    def recognises(self, head: Head) -> bool:
        """Files that `files` of the mapping matches, with keys that the mapping names."""
        return not self.why_not(head)

    def why_not(self, head: Head) -> str:
        """Why a file is not read by this mapping; empty when it is."""
        if self.layout is not None and layout_match(self.layout, head.path) is None:
            return "its path does not end as `files` says"
        rows = self._rows_of_head(head)
        if not rows:
            return f"no record has rows at {self.row_path!r}"
        keys = [key for key in self.keys if _root(key) in _CONTENT_FIELDS]
        if not any(self._has(row, key) for row in rows for key in keys):
            paths = ", ".join(repr(self.keys[key]) for key in keys)
            return f"no record has {paths}"
        if "step" in self.keys and not any(self._has(row, "step") for row in rows):
            return f"no record has {self.keys['step']!r}, which is to be the step"
        return ""

    def missing(self, head: Head) -> tuple[str, ...]:
        """Paths of the mapping that no record at the head of the file has."""
        rows = self._rows_of_head(head)
        return tuple(
            path for key, path in self.keys.items() if not any(self._has(row, key) for row in rows)
        )

    def _rows_of_head(self, head: Head) -> list[Mapping[str, Any]]:
        at = LineContext(head.path)
        rows: list[Mapping[str, Any]] = []
        for record in head.records:
            with suppress(RecordError):  # a summary beside the tables
                rows += [record] if _is_only_names(record) else self.rows(record, at)
        return rows

    def _has(self, row: Mapping[str, Any], key: str) -> bool:
        path = self.keys[key]
        if not _is_only_names(row):
            return value_at(row, path) is not None
        if self.row_path not in ("", WHOLE_LINE):
            path = self.row_path
        return path in row or _root(path) in row

    def read(self, line: Mapping[str, Any], at: LineContext) -> Fields | Event:
        """The fields of one line or row; the step is the key's, else the path's, else there is none.

        A line of numbers alone that has no key of a rollout is the trainer's.
        """
        if not self.row_path:
            metrics = metrics_in(line, self._content) or metrics_beside(
                line, at, self._texts_of_lines
            )
            if metrics is not None:
                return metrics
        return self.rollout(line, at)

    def rollout(self, line: Mapping[str, Any], at: LineContext) -> Fields:
        """The fields of a line or row that is a rollout."""
        fields: Fields = {}
        remarks: list[Remark] = []
        for key, path in self.keys.items():
            value = value_at(line, path, _ABSENT)
            if value is _ABSENT:
                reason = f"{path} is not there, which the mapping file gives for {key}"
                hint = "not recorded here; is the key spelled the same way in all lines?"
                remarks.append(Remark(key, reason, hint, "note"))
                value = None
            fields[key] = self._value_of_text(key, value) if isinstance(value, str) else value
            if key in _MAY_BE_MESSAGES:
                fields |= {BY_TURN: others} if (others := beside_exchanges(fields[key])) else {}
                fields[key] = with_usual_names(fields[key])
        for key, value in line.items():
            if key in self._used:
                continue
            if key in _FIELDS and key not in self.keys:
                fields[key] = value
            elif key in ("type", "index"):
                fields[LOGGED_INDEX if key == "index" else f"{EXTRA}{key}"] = value
            else:
                fields[f"{EXTRA}logged.{key}" if key in schema.SAMPLE_FIELDS else key] = value
        _take_rewards(fields, remarks)
        _take_mask(fields, remarks)
        for key in _CONVERSATIONS:
            if is_list(fields.get(key)):
                fields[key] = with_usual_names(fields[key])
        split_conversation(fields)
        split = at.named("split") if fields.get("split") is None else str(fields["split"])
        fields["split"] = None if split is None else split_named(split)
        if self._is_group and fields.get("group_id") is None:
            fields["group_id"] = f"{at.path.name}:{at.line}"
        if (failure := usual_failure(fields)) is not None:
            fields[FAILURE] = failure
        fields = with_remarks(fields, *remarks)
        step = fields.pop("step", None)
        step = at.step if step is None else step
        if step is None and ("step" in self.keys or at.named("step") is not None):
            return fields  # a line without the step that it should have can't be used
        return at_step(fields, step)

    def _value_of_text(self, key: str, text: str) -> Any:
        """What a text stands for: a number, JSON, or itself."""
        if key in self._numbers:
            return self._numbers[key].get(text, text)
        if key in self._is_json:
            with suppress(orjson.JSONDecodeError):
                return orjson.loads(text)
        return text


class MappedRowsReader(MappingReader):
    """Reads files as a mapping file says, where a line holds several rollouts."""

    def rows(self, line: Mapping[str, Any], at: LineContext) -> Sequence[Mapping[str, Any]]:
        """The rollouts at `rows`: a list of objects, or of arrays whose `columns` are named, or an object
        of lists. Other keys are of each.
        """
        if self.row_path == WHOLE_LINE:
            return rows_of_table(line, self._lists_of(line))
        nested = value_at(line, self.row_path)
        root = self.row_path if self.row_path in line else _root(self.row_path)
        names = value_at(line, self.columns) if isinstance(self.columns, str) else self.columns
        roots = {root, _root(self.columns) if isinstance(self.columns, str) else root}
        shared = {key: value for key, value in line.items() if key not in roots}
        entries = rows_of_table(nested) if is_object(nested) else nested
        if names and is_list(entries):
            entries = [row_as_dict(names, entry) for entry in entries]
        if not is_list(entries) or not all(map(is_object, entries)):
            reason = f"{self.row_path} is {kind_of(nested)}, which holds no rows"
            hint = "a list of objects, or an object of lists of equal length"
            raise RecordError(reason, field=self.row_path, hint=hint)
        return [{**shared, **entry} for entry in entries]

    def _lists_of(self, line: Mapping[str, Any]) -> list[str]:
        """The lists of a line that have an entry for each rollout: those that the mapping names, but for
        a conversation that all of them continue.
        """
        given = {self.keys.get(name, "") for name in ("prompt", "messages")}
        return [
            path
            for path in dict.fromkeys(self.keys.values())
            if is_list(value := line.get(path)) and not (path in given and is_messages(value))
        ]


def value_at(value: object, path: str, otherwise: Any = None) -> Any:
    """What is at a dotted path; a key that has the dots in its name comes first. A number is a place in
    a list, -1 the last.
    """
    if is_object(value) and path in value:
        return value[path]
    head, dot, below = path.partition(".")
    inner: object = _ABSENT
    if is_object(value):
        inner = value.get(head, _ABSENT)
    elif is_list(value) and _PLACE_IN_LIST.fullmatch(head):
        place = int(head)
        inner = value[place] if -len(value) <= place < len(value) else _ABSENT
    if inner is _ABSENT:
        return otherwise
    return value_at(inner, below, otherwise) if dot else inner


def row_as_dict(names: object, values: object) -> object:
    """The values of a row by the names of its columns; what is no such row is as it is."""
    if is_list(names) and is_list(values) and len(names) == len(values):
        return dict(zip(map(str, names), values, strict=True))
    return values


def _root(path: str) -> str:
    return path.partition(".")[0]


def _is_only_names(record: Mapping[str, Any]) -> bool:
    """Whether it is the head of a table: names of columns, without values."""
    return all(value is None for value in record.values())


def _take_rewards(fields: Fields, remarks: list[Remark]) -> None:
    """Puts the parts of the reward together, those that are named one by one and those of an object."""
    names = [key for key in fields if key.startswith(_PARTS)]
    parts = {key.removeprefix(_PARTS): fields.pop(key) for key in names}
    whole = fields.pop("rewards", None)
    if is_object(whole):
        parts = {**whole, **parts}
    elif whole is not None:
        reason = f"rewards is {kind_of(whole)}"
        remarks.append(Remark("rewards", reason, "expected: an object {name: number}"))
    if not parts:  # a value that can't be used is named
        return
    total = fields.pop("reward", None)
    rewards = named_rewards(parts, total) | ({} if total is None else {"reward": total})
    remarks += rewards.pop("remarks", ())
    fields |= rewards


def _take_mask(fields: Fields, remarks: list[Remark]) -> None:
    """Makes 0 and 1 of a mask of -100 for what was given, and of token ids for what was generated."""
    mask = fields.get("loss_mask")
    if is_list(mask) and _GIVEN in mask:
        fields["loss_mask"] = [int(value != _GIVEN) for value in mask]
        reason = f"loss_mask holds {_GIVEN} and token ids: it is read as 0 and 1"
        remarks.append(Remark("loss_mask", reason, "0 is given, 1 is generated", "note"))


def _title(table: Mapping[str, Any]) -> str:
    title = table.get("title", "own format")
    if not isinstance(title, str) or not _TITLE.fullmatch(title):
        raise BoardError("title: expected up to 40 letters, digits, spaces and . + -")
    return title


def _layout(table: Mapping[str, Any]) -> re.Pattern[str] | None:
    text = table.get("files")
    if text is None:
        return None
    if not isinstance(text, str) or not text:
        raise BoardError(f"files: is {kind_of(text)}; expected a pattern for the end of the path")
    try:
        return path_pattern(text)
    except BoardError as error:
        raise BoardError(f"files: {error}") from None


def _columns(table: Mapping[str, Any]) -> str | list[str] | None:
    columns = table.get("columns")
    if columns is None:
        return None
    if table.get("rows", WHOLE_LINE) == WHOLE_LINE:
        raise BoardError("columns: say how arrays at `rows` are named, and there is no `rows`")
    if columns and is_texts(columns):
        return columns
    return key_path("columns", columns)


def _is_group(table: Mapping[str, Any]) -> bool:
    if table.get("group") not in (None, "line"):
        raise BoardError("group: expected 'line': the rollouts of a line are a group")
    return "group" in table


def _json_fields(table: Mapping[str, Any]) -> frozenset[str]:
    """The fields whose texts are JSON; messages are nothing else."""
    names = table.get("json", [])
    if not is_texts(names):
        raise BoardError('json: expected a list of fields, such as ["prompt", "response"]')
    return frozenset({"messages", *map(_known, names)})


def _numbers_of_words(table: Mapping[str, Any]) -> dict[str, Mapping[str, float]]:
    """By field the numbers that its words stand for."""
    fields = table.get("values", {})
    if not is_object(fields):
        raise BoardError('[values]: expected such as: reward = { "C" = 1, "I" = 0 }')
    for key, numbers in fields.items():
        _known(key)
        if not is_object(numbers) or not all(isinstance(n, int | float) for n in numbers.values()):
            raise BoardError(f"values.{key}: expected numbers by words, such as {{ C = 1, I = 0 }}")
    return {key: dict(numbers) for key, numbers in fields.items()}


def _keys(table: Mapping[str, Any]) -> dict[str, str]:
    named = table.get("keys")
    if not is_object(named):
        raise BoardError('[keys]: is missing; expected a table such as: response = "output.text"')
    keys: dict[str, str] = {}
    for key, value in named.items():
        if key == "rewards" and is_object(value):
            for part, path in value.items():
                keys[f"{_PARTS}{part}"] = key_path(f"keys.rewards.{part}", path)
        else:
            keys[_known(key)] = key_path(f"keys.{key}", value)
    if not any(_root(key) in _CONTENT_FIELDS for key in keys):
        raise BoardError(
            f"[keys]: names nothing to show; expected one of {', '.join(_CONTENT_FIELDS)}"
        )
    return keys


def _known(key: str) -> str:
    if key in _FIELDS or (key.startswith(_PARTS) and key != _PARTS):
        return key
    close = difflib.get_close_matches(key, _FIELDS, n=3)
    hint = f"did you mean {', '.join(close)}?" if close else f"expected one of {', '.join(_FIELDS)}"
    raise BoardError(f"keys.{key[:40]}: is not a field of a rollout; {hint}")


def key_path(key: str, value: object) -> str:
    """A dotted path; its length is bounded, and with it the depth to which a line is looked into."""
    if not isinstance(value, str) or not value.strip() or len(value) > _MOST_PATH:
        is_text = isinstance(value, str)
        kind = f"a text of {len(value)} characters" if is_text else kind_of(value)
        raise BoardError(
            f"{key[:60]}: is {kind}; expected a key of the log in quotes, such as 'scores.total'"
        )
    return value
