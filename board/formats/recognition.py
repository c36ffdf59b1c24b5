"""Which reader reads a file: its beginning, the reader that recognises it, or why there is none.

Where there is none, a mapping file that could read it is suggested.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import PurePath
from typing import Any, Final

from board.errors import BoardError, RecordError
from board.formats import READERS, source_of
from board.formats.base import Head, Reader
from board.formats.io.lines import Line
from board.formats.io.locations import Location, pure_path
from board.formats.mapping import WHOLE_LINE, MappingReader, mapping_reader
from board.formats.messages import is_messages
from board.formats.parse import CUT_OFF, is_list, is_object, parse_whole
from board.formats.sources import JSON_DOCUMENT, JSON_LINES, LFS_REASON, Row, lfs_pointer

NO_FORMAT: Final = "its records (keys "
"""How the reason begins why a file has no reader whose records nobody knows."""
_HEAD_RECORDS: Final = 20
_HEAD_LINES: Final = 1000
"""Lines that are looked at for so many records: what a shell printed may stand before the first."""
HEAD_BYTES: Final = 1 << 19
_KNOWN: Final = (
    # prime-rl's index of its stream, or of a producer's annotations
    (({"offset", "trace_ids"}, {"offset", "trace_id"}), "index another file and hold no rollouts"),
    (
        ({"trace_id", "info", "branches"},),
        "hold later annotations of traces: they are read together with the traces",
    ),
    (
        ({"num_examples", "rollouts_per_example"},),
        "describe an evaluation: they are read together with the results.jsonl beside them",
    ),
    (({"state_path"}, {"sampler_path"}), "list saved checkpoints and hold no rollouts"),
)
"""Sets of keys of records that are no rollouts, and what such records do."""
_WHO: Final = frozenset({"producer", "split", "mode", "phase", "stage", "tag", "timestamp", "time"})
"""Keys whose texts say of a row of metrics who or when."""
_MEASURED: Final = re.compile(r"[\d.,:/%\s\-+dhms]{1,40}")
"""Numbers with units, as ms-swift logs them: `12/400`, `3.00%`, `1h 20m 3s`."""


def recognise(
    path: Location, lines: Iterable[Line] | None = None, mapping: MappingReader | None = None
) -> tuple[Reader | None, str]:
    """The reader of a file, and why none was found. Raises OSError when the file can't be read.

    lines: its first lines, where they are not in the file as they are. mapping: the user's own, which is
    asked first.
    """
    source = source_of(path).like
    head, first_error = head_of(path, lines)
    if not head.records:
        return None, first_error or "the file is empty"
    for reader in READERS if mapping is None else (mapping, *READERS):
        if source in reader.sources and reader.recognises(head):
            return reader, ""
    if source in (JSON_LINES, JSON_DOCUMENT) and (kind := _known_as(head)):
        return None, f"its records {kind}"
    keys = ", ".join(sorted({key for record in head.records for key in record})[:8])
    own = "" if mapping is None else f"; of the mapping file: {mapping.why_not(head)}"
    return None, f"{NO_FORMAT}{keys}) are of no format read here{own}"


def head_of(path: Location, lines: Iterable[Line] | None = None) -> tuple[Head, str]:
    """The beginning of a file, and what was wrong with its first unusable line; as `recognise`."""
    source = source_of(path)
    lines_of_head = source.head(path) if lines is None else source.together(lines)
    records, first_error = _head(lines_of_head, is_document=source is JSON_DOCUMENT)
    return Head(pure_path(path), records), first_error


def _head(lines: Iterable[Line], *, is_document: bool) -> tuple[list[Mapping[str, Any]], str]:
    """The first usable records of a file, and what was wrong with its first unusable line."""
    records: list[Mapping[str, Any]] = []
    first_error = ""
    used = 0
    seen = 0
    for number, line in enumerate(lines, start=1):
        used += line.size
        if isinstance(line, Row):
            records.append(line.record)
            seen += 1
        elif line.text is None:
            what = "the document" if is_document else f"line {number}: the line"
            first_error = first_error or f"{what} is too long to be read"
        elif line.text.strip():
            seen += 1
            try:
                records.append(parse_whole(line.text)[0])
            except RecordError as error:
                reason = _document_error(error) if is_document else _line_error(number, error)
                first_error = first_error or (LFS_REASON if lfs_pointer(line.text) else reason)
        if len(records) >= _HEAD_RECORDS or seen >= _HEAD_LINES or used >= HEAD_BYTES:
            break
    return records, first_error


def _line_error(number: int, error: RecordError) -> str:
    return f"line {number}: {error.reason} (expected: {error.hint})"


def _document_error(error: RecordError) -> str:
    """The parser speaks of a line, whatever it is given."""
    if CUT_OFF in error.hint:
        return "the document is cut off, or still being written"
    reason = error.reason.replace("the line", "the document", 1)
    reason += ", or half-written" if reason.endswith("not JSON") else ""
    return f"{reason} (expected: {error.hint.replace(' per line', '', 1)})"


def _known_as(head: Head) -> str:
    """What the records of a file are that holds no rollouts; empty where that is not known."""
    for sets_of_keys, kind in _KNOWN:
        if all(any(record.keys() >= keys for keys in sets_of_keys) for record in head.records):
            return kind
    if all(_is_numbers(record) for record in head.records):
        keys = ", ".join(sorted({key for record in head.records for key in record})[:8])
        return f"hold only numbers ({keys}): metrics, not rollouts"
    return ""


def _is_numbers(record: Mapping[str, Any]) -> bool:
    """Whether a record has numbers and nothing else, but for who measured them; verl's are one deeper."""
    recorded = [
        (key, value)
        for outer, inner in record.items()
        for key, value in (inner.items() if is_object(inner) else ((outer, inner),))
        if value is not None
    ]
    others = [(key, value) for key, value in recorded if not isinstance(value, int | float)]
    return any(not isinstance(value, bool | str) for _, value in recorded) and all(
        isinstance(v, str) and (key in _WHO or _MEASURED.fullmatch(v)) for key, v in others
    )


_NAMES: Final[Mapping[str, str]] = {
    "messages": "messages conversation conversations chat dialogue",
    "prompt": "prompt input inputs question query queries instruction problem prompt_text input_text "
    "ask user request",
    "response": "response output completion generation generated_text model_output output_text out "
    "answer text",
    "reward": "reward score total_reward reward_total final_reward total",
    "advantage": "advantage",
    "step": "step global_step iteration iter train_step training_step trainer_step update gen_step",
    "group_id": "group_id prompt_id problem_id task_id group uid",
    "rollout_id": "rollout_id sample_id request_id trajectory_id id",
    "ground_truth": "ground_truth gts gt label reference target expected solution",
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
_MOST_KEYS: Final = 500
_STEP_IN_PATH: Final = re.compile(
    r"(?:step|iter|iteration|update|rollout|version)[_-]?([0-9]{1,19})(?![0-9])"
    r"|(?:^|/)([0-9]{1,19})\.[a-z.]+$",
    re.IGNORECASE,
)


def suggested_mapping(head: Head) -> str | None:
    """The text of a mapping file that reads these records, by the names of their keys.

    None where no key is named as what a model generates is. A guess that the user is to look at.
    """
    for record in head.records:
        guesses = [(rows, keys) for rows, keys in _guesses(record) if keys.keys() & _GENERATED]
        for rows, keys in sorted(guesses, key=lambda guess: "reward" not in guess[1]):
            files = "" if "step" in keys else _files_pattern(head.path)
            lines = [f"files = '{files}'"] if files else []
            lines += [f"rows = {json.dumps(rows, ensure_ascii=False)}"] if rows else []
            fields = (f"{k} = {json.dumps(path, ensure_ascii=False)}" for k, path in keys.items())
            text = "\n".join([*lines, "[keys]", *fields]) + "\n"
            with suppress(BoardError, UnicodeEncodeError):  # names that no mapping can hold
                if not mapping_reader(text).why_not(head):
                    return text
    return None


def _guesses(record: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, str]]]:
    """`rows` and `[keys]` of a line that is a rollout or a table of them, or has a list of them."""
    keys = _keys_of(record)
    response = record.get(keys.get("response", ""))
    yield (WHOLE_LINE if is_list(response) and not is_messages(response) else ""), keys
    entries = {path: v[0] for path, v in _values(record) if is_list(v) and v and is_object(v[0])}
    lists = {
        path: own
        for path, row in entries.items()
        if not is_messages([row]) and path.partition(".")[0].lower() not in _GIVEN
        if (own := _keys_of(row)).keys() & _GENERATED
    }
    scored = {path: own for path, own in lists.items() if "reward" in own}
    lists = scored if len(scored) == 1 else lists
    if len(lists) == 1:  # nothing tells which of several is the one
        ((path, own),) = lists.items()
        root = path if path in record else path.partition(".")[0]
        shared = _keys_of({key: value for key, value in record.items() if key != root})
        yield path, {k: v for k, v in shared.items() if k in _SHARED} | own


def _keys_of(row: Mapping[str, Any]) -> dict[str, str]:
    """From fields to paths, by the names of keys; a key of null only where all are."""
    paths: dict[str, str] = {}
    names_only = all(value is None for value in row.values())
    for path, value in _values(row):
        root, _, last = path.lower().partition(".")
        if not is_object(value) and (names_only or value is not None):
            paths.setdefault(root if root in _GIVEN else last or root, path)
    paths_by_field = {
        field: next((paths[name] for name in names.split() if name in paths), None)
        for field, names in _NAMES.items()
    }
    keys = {field: path for field, path in paths_by_field.items() if path is not None}
    if "response" in keys:
        keys.pop("messages", None)
    return keys


def _values(row: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Dotted paths and their values, the outer ones first, up to a bound."""
    outer = list(row.items())[:_MOST_KEYS]
    yield from outer
    for path, value in outer:
        if is_object(value) and "." not in path:
            inner = [(key, entry) for key, entry in value.items() if "." not in key]
            yield from ((f"{path}.{key}", entry) for key, entry in inner[:_MOST_KEYS])


def _files_pattern(path: PurePath) -> str:
    """A pattern for the end of the path that takes the step from it; empty where it has none."""
    end = "/".join(path.parts[-2:])
    spans = [match.span(match.lastindex or 0) for match in _STEP_IN_PATH.finditer(end)]
    if not spans:
        return ""
    begin, after = spans[-1]
    texts = (end[end.rfind("/", 0, begin) + 1 : begin], end[after:])
    before, behind = (re.sub(r"[0-9]+", r"\\d+", re.escape(text)) for text in texts)
    return rf"{before}(?P<step>\d+){behind}"
