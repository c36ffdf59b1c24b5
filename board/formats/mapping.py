"""A format of the user's own, told by a mapping file: which key of a line is which field of the record.

A mapping file is TOML: `title`, `files` (a pattern for the end of the path), `rows`
(where a line holds several rollouts) and `[keys]`, from the record's names to dotted paths in a line.
docs/own_format.md has an example. Nothing in it is evaluated.

Patterns for paths are regular expressions, cut down until none of them can take long: a mapping file may
come with somebody's log, and Python's matcher can be kept busy for years. So a pattern is taken apart
here and put together again: characters, classes, the groups `step` and `split`, alternatives, and
repetition of single characters only, up to a bound on the ways there are to match.
"""

from __future__ import annotations

import difflib
import hashlib
import re
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from board.core import schema
from board.core.records import Remark
from board.errors import BoardError, RecordError
from board.formats.base import Head, LineContext, Reader, layout_match
from board.formats.field_values import EXTRA, split_named
from board.formats.fields import Fields, at_step, named_rewards, with_remarks
from board.formats.io.parquet_files import PARQUET
from board.formats.messages import is_messages, without_nulls
from board.formats.parse import is_list, is_object, kind_of
from board.formats.sources import JSON_DOCUMENT, JSON_LINES, rows_of_table

MOST_CHARACTERS: Final = 200
_MOST_REPEATS: Final = 64
"""What + and * stand for: names of files are shorter than 256 characters, their parts shorter still."""
_MOST_WAYS: Final = 64 * 64 * 16
_TOKEN: Final = re.compile(
    r"(?P<open>\(\?P<(?:step|split)>|\(\?:)|(?P<close>\))|(?P<bar>\|)"
    r"|(?P<atom>\\[dw]|\\[^0-9A-Za-z]"
    r"|\[\^?(?:\\[dw]|[A-Za-z0-9_](?:-[A-Za-z0-9_])?|[/ .,+=@:])+-?\]"
    r"|[^\\()\[\]{}*+?|^$])(?P<times>[*+?]|\{[0-9]{1,2}(?:,[0-9]{1,2})?\})?"
)
_ENDS_DIGITS: Final = re.compile(r"\)?(?:$|\\[^dw]|[^\\\[.(|)0-9*+?{])")
"""What no digit matches, so that there is one way only to match the digits before it."""
_EXPECTED: Final = (
    r"expected characters, \d \w . [classes], (?P<step>...), (?P<split>train|eval), (?:...), and "
    "+ * ? {m,n} after single characters"
)


def path_pattern(text: str) -> re.Pattern[str]:
    """The pattern for the end of a path, as `Reader.layout`. A dot matches no slash.

    Raises BoardError when it is no such pattern, or could be matched in too many ways.
    """
    if len(text) > MOST_CHARACTERS:
        raise BoardError(f"has {len(text)} characters; expected at most {MOST_CHARACTERS}")
    parts: list[str] = []
    ways = 1
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise BoardError(f"can't be read at {text[position:][:20]!r}; {_EXPECTED}")
        part, more = _rewritten(match)
        parts.append(part)
        ways *= more
        position = match.end()
    if ways > _MOST_WAYS:
        raise BoardError(
            "can be matched in too many ways; expected at most two of + and * that could take each "
            "other's characters: end digits with a character that is none, or leave out folders in front"
        )
    try:
        return re.compile("".join(parts), re.ASCII)
    except re.error as error:
        raise BoardError(f"is not a pattern: {error}; {_EXPECTED}") from None


def _rewritten(match: re.Match[str]) -> tuple[str, int]:
    """A token with repetition bounded, and in how many ways it can be matched."""
    if not match["atom"]:
        return match[0], 2 if match["bar"] else 1
    atom = {".": "[^/]"}.get(match["atom"], match["atom"])
    times = match["times"] or "{1}"
    if times in "+*":
        least = int(times == "+")
        if atom in (r"\d", "[0-9]") and _ENDS_DIGITS.match(match.string, match.end()):
            return f"{atom}{{{least},19}}", 1
        return f"{atom}{{{least},{_MOST_REPEATS}}}", _MOST_REPEATS
    low, _, high = "0,1".partition(",") if times == "?" else times[1:-1].partition(",")
    return atom + times, max(int(high or low) - int(low), 0) + 1


PREFIX: Final = "mapping:"
MOST_BYTES: Final = 16_384
WHOLE_LINE: Final = "."
"""A value of `rows`: the line itself is a table, each of its lists a column."""
_MOST_PATH: Final = 200
_ABSENT: Final = object()
_TABLES: Final = ("title", "files", "rows", "keys")
_TITLE: Final = re.compile(r"\w[\w .+-]{0,39}")
_PARTS: Final = "rewards."
_FIELDS: Final = tuple(name for name in schema.SAMPLE_FIELDS if name != "index")
_NO_EXTRAS: Final = frozenset({"type", "index"})
_CONTENT_FIELDS: Final = ("prompt", "response", "messages", "reward", "rewards", "response_ids")
"""A rollout without any of these has nothing to show."""


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
        self.row_path = _path("rows", table["rows"]) if "rows" in table else ""
        self.keys = _keys(table)
        """From names of the record to dotted paths; parts of the reward as `rewards.NAME`."""
        self._used = frozenset(self.keys.values())

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
        rows: list[Mapping[str, Any]] = []
        for record in head.records:
            with suppress(RecordError):  # a summary beside the tables
                is_names = _is_only_names(record)
                rows += (record,) if is_names else self.rows(record, LineContext(head.path))
        return rows

    def _has(self, row: Mapping[str, Any], key: str) -> bool:
        path = self.keys[key]
        if not _is_only_names(row):
            return value_at(row, path) is not None
        if self.row_path not in ("", WHOLE_LINE):
            path = self.row_path
        return path in row or _root(path) in row

    def read(self, line: Mapping[str, Any], at: LineContext) -> Fields:
        """The fields of one line or row; the step is the key's, else the path's, else there is none."""
        fields: Fields = {}
        remarks: list[Remark] = []
        for key, path in self.keys.items():
            fields[key] = value_at(line, path, _ABSENT)
            if fields[key] is _ABSENT:
                fields[key] = None
                reason = f"{path} is not there, which the mapping file gives for {key}"
                hint = "not recorded here; is the key spelled the same way in all lines?"
                remarks.append(Remark(key, reason, hint, "note"))
        for key, value in line.items():
            if key in self._used:
                continue
            if key in _FIELDS and key not in self.keys:
                fields[key] = value
            elif key not in _NO_EXTRAS:
                fields[f"{EXTRA}logged.{key}" if key in schema.SAMPLE_FIELDS else key] = value
        _take_rewards(fields, remarks)
        _take_conversation(fields)
        split = fields.get("split")
        split = at.named("split") if split is None else str(split)
        fields["split"] = None if split is None else split_named(split)
        fields = with_remarks(fields, *remarks)
        step = fields.pop("step", None)
        step = at.step if step is None else step
        if step is None and ("step" in self.keys or at.named("step") is not None):
            return fields  # a line without the step that it should have can't be used
        return at_step(fields, step)


class MappedRowsReader(MappingReader):
    """Reads files as a mapping file says, where a line holds several rollouts."""

    def rows(self, line: Mapping[str, Any], at: LineContext) -> Sequence[Mapping[str, Any]]:
        """The rollouts at `rows`: a list of objects, or an object of lists. Other keys are of each."""
        if self.row_path == WHOLE_LINE:
            return rows_of_table(line)
        nested = value_at(line, self.row_path)
        root = self.row_path if self.row_path in line else _root(self.row_path)
        shared = {key: value for key, value in line.items() if key != root}
        entries = rows_of_table(nested) if is_object(nested) else nested
        if not is_list(entries) or not all(map(is_object, entries)):
            reason = f"{self.row_path} is {kind_of(nested)}, which holds no rows"
            hint = "a list of objects, or an object of lists of equal length"
            raise RecordError(reason, field=self.row_path, hint=hint)
        return [{**shared, **entry} for entry in entries]


def value_at(line: Mapping[str, Any], path: str, otherwise: Any = None) -> Any:
    """What is at a dotted path; a key that has the dots in its name comes first."""
    if path in line:
        return line[path]
    head, dot, below = path.partition(".")
    inner = line.get(head) if dot else None
    return value_at(inner, below, otherwise) if is_object(inner) else otherwise


def _root(path: str) -> str:
    return path.partition(".")[0]


def _is_only_names(record: Mapping[str, Any]) -> bool:
    """Whether it is the head of a table: names of columns, without values."""
    return all(value is None for value in record.values())


def mapping_reader(text: str) -> MappingReader:
    """The reader that the text of a mapping file tells of.

    Raises BoardError naming the key and what was expected.
    """
    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise BoardError(f"is not TOML: {error or 'too deep'}; see docs/own_format.md") from None
    for key in table:
        if key not in _TABLES:
            raise BoardError(
                f"{key[:40]!r}: is not a key of a mapping file; expected {', '.join(_TABLES)}"
            )
    return (MappedRowsReader if "rows" in table else MappingReader)(text, table)


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
    rewards = named_rewards(parts, fields.pop("reward", None))
    remarks += rewards.pop("remarks", ())
    fields |= rewards


def _take_conversation(fields: Fields) -> None:
    """Makes a conversation as a whole the prompt, up to the assistant's first turn, and the response."""
    messages = fields.get("messages")
    if not is_messages(messages) or any(fields.get(k) is not None for k in ("prompt", "response")):
        return
    roles = [message.get("role") for message in messages]
    first = roles.index("assistant") if "assistant" in roles else len(roles)
    fields["messages"] = without_nulls(messages)
    fields["prompt"], fields["response"] = messages[:first] or None, messages[first:] or None


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


def _keys(table: Mapping[str, Any]) -> dict[str, str]:
    named = table.get("keys")
    if not is_object(named):
        raise BoardError('[keys]: is missing; expected a table such as: response = "output.text"')
    keys: dict[str, str] = {}
    for key, value in named.items():
        if key == "rewards" and is_object(value):
            for part, path in value.items():
                keys[f"{_PARTS}{part}"] = _path(f"keys.rewards.{part}", path)
        else:
            keys[_known(key)] = _path(f"keys.{key}", value)
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


def _path(key: str, value: object) -> str:
    """A dotted path; its length is bounded, and with it the depth to which a line is looked into."""
    if not isinstance(value, str) or not value.strip() or len(value) > _MOST_PATH:
        is_text = isinstance(value, str)
        kind = f"a text of {len(value)} characters" if is_text else kind_of(value)
        raise BoardError(
            f"{key[:60]}: is {kind}; expected a key of the log in quotes, such as 'scores.total'"
        )
    return value
