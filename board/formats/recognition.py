"""Which reader reads a file: its beginning, the reader that recognises it, or why there is none."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Final

from board.errors import RecordError
from board.formats import READERS, known_mapping, source_of
from board.formats.base import Head, Reader, layout_match
from board.formats.generic import generic_mapping
from board.formats.io.lines import Fault, Line
from board.formats.io.locations import Location, pure_path
from board.formats.io.parquet_files import PARQUET
from board.formats.io.trackio_files import TRACKIO
from board.formats.mapping import MappingReader
from board.formats.metrics.base import step_of
from board.formats.number_arrays import LineParser, RawNumbers
from board.formats.parse import CUT_OFF, LARGE_LINE, is_object, parse_whole
from board.formats.sources import JSON_DOCUMENT, JSON_LINES, LFS_REASON, TEXT, Row, lfs_pointer
from board.formats.turn_rows import is_by_keys, turns_mapping

ONLY_NUMBERS: Final = "metrics by step, not rollouts"
"""How the reason ends why JSON lines of scalars have no reader."""
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
    (
        ({"results", "configs", "versions"},),
        "sum up an evaluation of lm-evaluation-harness: its samples are in samples_*.jsonl",
    ),
    (
        ({"eval", "plan", "status", "version"},),
        "are the header of an Inspect log, whose samples are not in the file",
    ),
    (({"state_path"}, {"sampler_path"}), "list saved checkpoints and hold no rollouts"),
)
"""Sets of keys of records that are no rollouts, and what such records do."""
_WHO: Final = frozenset({"producer", "split", "mode", "phase", "stage", "tag", "timestamp", "time"})
"""Keys whose texts say of a row of metrics who or when."""
_MEASURED: Final = re.compile(r"[\d.,:/%\s\-+dhms]{1,40}")
"""Numbers with units, as ms-swift logs them: `12/400`, `3.00%`, `1h 20m 3s`."""


def recognise(
    path: Location,
    lines: Iterable[Line] | None = None,
    mapping: MappingReader | None = None,
    *,
    is_named: bool = False,
) -> tuple[Reader | None, str]:
    """The reader of a file, and why none was found. Raises OSError when the file can't be read.

    lines: its first lines, where they are not in the file as they are. mapping: the user's own, which is
    asked first. is_named: whether the user named this very file.
    """
    head, first_error = head_of(path, lines)
    return recognise_head(path, head, first_error, mapping, is_named=is_named)


def recognise_head(
    path: Location,
    head: Head,
    first_error: str,
    mapping: MappingReader | None,
    *,
    is_named: bool = False,
) -> tuple[Reader | None, str]:
    """The same, of the beginning of a file and what was wrong with its first unusable line."""
    source = source_of(path).like
    if mapping is not None and mapping.layout is not None:  # is it for this file?
        mapping = mapping if layout_match(mapping.layout, head.path) else None
    if not head.records:
        return None, first_error or "the file is empty"
    for reader in READERS if mapping is None else (mapping, *READERS):
        if source in reader.sources and reader.recognises(head):
            if source is JSON_LINES and is_by_keys(reader) and (text := turns_mapping(head)):
                return known_mapping(text), ""
            return reader, ""
    is_json = source in (JSON_LINES, JSON_DOCUMENT)
    if (is_json or source is TRACKIO) and (kind := _known_as(head)):
        return None, f"its records {kind}"
    if mapping is None and (is_json or source is PARQUET):
        values = head if is_json else Head(head.path, _first_rows(path))
        has_rows = source in (JSON_LINES, PARQUET) or len(head.records) > 1
        text = turns_mapping(values, is_named=is_named) if has_rows else None
        text = text or generic_mapping(values, is_named=is_named)
        if text:
            return known_mapping(text), ""
    if source is TEXT:
        return None, "its records are plain text, of no format read here"
    keys = _first_keys(head)
    own = "" if mapping is None else f"; of the mapping file: {mapping.why_not(head)}"
    return None, f"{NO_FORMAT}{keys}) are of no format read here{own}"


def head_of(path: Location, lines: Iterable[Line] | None = None) -> tuple[Head, str]:
    """The beginning of a file, and what was wrong with its first unusable line; as `recognise`."""
    source = source_of(path)
    lines_of_head = source.head(path) if lines is None else source.together(lines)
    records, first_error = _head(lines_of_head, is_document=source is JSON_DOCUMENT)
    return Head(pure_path(path), records), first_error


def _first_rows(path: Location) -> list[Mapping[str, Any]]:
    """The first rows of a table, whose head has but the names of its columns."""
    lines = islice(source_of(path).lines(path), _HEAD_RECORDS)
    return [line.record for line in lines if isinstance(line, Row)]


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
        elif isinstance(line, Fault):
            first_error = first_error or line.reason
        elif line.text is None:
            what = "the document" if is_document else f"line {number}: the line"
            first_error = first_error or f"{what} is too long to be read"
        elif line.text.strip():
            seen += 1
            try:
                records.append(_record_of(line.text))
            except RecordError as error:
                reason = f"line {number}: {error.reason} (expected: {error.hint})"
                reason = _document_error(error) if is_document else reason
                first_error = first_error or (LFS_REASON if lfs_pointer(line.text) else reason)
        if len(records) >= _HEAD_RECORDS or seen >= _HEAD_LINES or used >= HEAD_BYTES:
            break
    return records, first_error


def _record_of(text: bytes) -> Mapping[str, Any]:
    """The values of a line, but for most entries of long arrays: see RawNumbers.sampled. Raises
    RecordError.
    """
    if len(text) <= LARGE_LINE:
        return parse_whole(text)[0]
    record, _ = LineParser().parse(text)
    return {k: v.sampled() if isinstance(v, RawNumbers) else v for k, v in record.items()}


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
        has_steps = any(step_of(record) for record in head.records)
        what = ONLY_NUMBERS if has_steps else "metrics, not rollouts"
        return f"hold only numbers ({_first_keys(head)}): {what}"
    return ""


def _first_keys(head: Head) -> str:
    return ", ".join(sorted({key for record in head.records for key in record})[:8])


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
