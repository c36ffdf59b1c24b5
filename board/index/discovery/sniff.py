"""Why a file is or is not recognised: what it is, what each reader makes of it, what would help."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any, Final

from board.core.problems import Problem
from board.errors import UnreadableError
from board.formats import READERS, mapping_text, reader_named, source_of
from board.formats.base import Head, LineContext, Reader, layout_match
from board.formats.frameworks.rllm import TRAJECTORY_EVENTS
from board.formats.generic import preview, suggested_mapping, what_is_missing
from board.formats.io.content import kind_by_content
from board.formats.io.csv_files import CSV
from board.formats.io.inspect_files import INSPECT
from board.formats.io.lines import read_bytes
from board.formats.io.locations import Location, pure_path
from board.formats.io.parquet_files import PARQUET
from board.formats.io.torch_files import TORCH
from board.formats.io.trackio_files import TRACKIO
from board.formats.io.yaml_files import YAML
from board.formats.mapping import MappingReader
from board.formats.recognition import NO_FORMAT, head_of
from board.formats.sources import JSON_DOCUMENT, JSON_LINES, TEXT, Source
from board.index.discovery.candidates import PICKLES, list_root
from board.index.discovery.format_detection import LEFT_OUT, detect_format, first_lines
from board.index.discovery.mappings import Mappings
from board.index.discovery.packed import HEAD_OF_KIND, is_packed, layer_of
from board.index.discovery.run_info import IgnoredFiles, LogFile

MOST_EXPLAINED: Final = 1000
"""Files of a folder that are explained; further ones are counted."""
_QUOTED: Final = re.compile(r'"(\w+)"')
_KINDS: Final[Mapping[Source, str]] = {
    JSON_LINES: "JSON lines",
    JSON_DOCUMENT: "JSON document",
    CSV: "CSV or TSV table",
    INSPECT: "Inspect log",
    TRAJECTORY_EVENTS: "trajectory events",
    PARQUET: "Parquet",
    TORCH: "torch",
    TEXT: "text",
    YAML: "YAML",
    TRACKIO: "SQLite",
}


@dataclass(frozen=True, slots=True)
class Layout:
    """A reader whose layout the end of the path matches, and what the path tells by it."""

    reader: str
    step: int | None
    split: str | None


@dataclass(frozen=True, slots=True)
class Sniffed:
    """What is known of one file.

    reader, title: of the reader it is read by; None: it is not recognised. reason: why it is not.
    kind: of file. keys: of its first records. layouts: its reader's, or else all that its path matches.
    first_error: what is wrong with its first line that can't be used. mapping: the mapping file it was
    compared with. missing: keys which that names and the first records do not have. readers: why each
    reader passes its records over, where nothing else is known of them, the nearest first. lacks: what of
    a rollout no key is named as, where no mapping can be suggested. suggested: the text of a
    mapping file that could read it, or by which it is read as generic. preview: the first rollouts that
    it gives.
    """

    path: Location
    kind: str
    reader: str | None = None
    title: str | None = None
    reason: str = ""
    keys: tuple[str, ...] = ()
    layouts: tuple[Layout, ...] = ()
    first_error: str = ""
    mapping: Location | None = None
    missing: tuple[str, ...] = ()
    readers: Mapping[str, str] = field(default_factory=dict[str, str])
    lacks: str = ""
    suggested: str | None = None
    preview: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class SniffedFolder:
    """Every file that might be a log, explained; problems: mapping files and folders not to be used.

    unexplained: files beyond MOST_EXPLAINED. ignored: files that are no logs by their names.
    """

    files: tuple[Sniffed, ...]
    problems: tuple[Problem, ...]
    unexplained: int = 0
    ignored: tuple[IgnoredFiles, ...] = ()


def sniff(path: Location) -> SniffedFolder:
    """Explains a file, or all files of a folder that might be logs; both may lie in a store.

    Raises NotFoundError when there is nothing, UnreadableError when it can't be looked into.
    """
    listing = list_root(path)
    if listing.is_file and isinstance(path, Path) and not os.access(path, os.R_OK):
        raise UnreadableError(f"{path} can't be read: permission denied")
    paths = sorted(listing.candidates(), key=pure_path)
    files = tuple(
        _sniffed(one, listing.mappings, is_named=listing.is_file) for one in paths[:MOST_EXPLAINED]
    )
    problems = (*listing.problems, *listing.mappings.problems.values())
    unexplained = max(len(paths) - MOST_EXPLAINED, 0)
    return SniffedFolder(files, problems, unexplained, listing.ignored.summary())


def _sniffed(path: Location, mappings: Mappings, *, is_named: bool) -> Sniffed:
    own = mappings.of(path)
    result = detect_format(path, mappings.root, own, is_named=is_named)
    plain = Sniffed(
        path,
        _kind(path),
        layouts=tuple(_layouts(path, own)),
        mapping=None if own is None else mappings.paths[own.name],
    )
    if isinstance(result, LogFile):
        reader = reader_named(result.reader)
        head, first_error = _head(path)
        return replace(
            plain,
            reader=reader.name,
            title=reader.title,
            layouts=tuple(layout for layout in plain.layouts if layout.reader == reader.name),
            keys=_keys(head),
            first_error=first_error,
            missing=() if own is None or own is not reader else own.missing(head),
            **_suggestion(head, mapping_text(reader.name) if own is not reader else None),
        )
    reason = result.reason.removeprefix(LEFT_OUT)
    if reason == result.reason:  # it was not looked into
        return replace(plain, reason=reason)
    head, first_error = _head(path)
    is_unknown = bool(head.records) and reason.startswith(NO_FORMAT)
    is_mappable = is_unknown and source_of(path).like in MappingReader.sources
    suggested = suggested_mapping(head) if is_mappable else None
    return replace(
        plain,
        # What discovery says beyond that is said here reader by reader.
        reason=_why_unknown(path) if is_unknown else reason,
        keys=_keys(head),
        first_error=first_error,
        missing=() if own is None else own.missing(head),
        readers=_nearest(path, head, own) if is_unknown else {},
        lacks=what_is_missing(head) if is_unknown and not suggested else "",
        **_suggestion(head, suggested),
    )


def _why_unknown(path: Location) -> str:
    """Why records that could be read are of no format; of a text what it is."""
    if source_of(path) is not TEXT:
        return "its records match no known format"
    kind = kind_by_content(path, read_bytes(path, 0, HEAD_OF_KIND)) or "it is likely JSON"
    return f"{kind} under the name of a text: call it .jsonl, .csv or .tsv if it is one"


def _suggestion(head: Head, text: str | None) -> dict[str, Any]:
    """A mapping file that reads a file, and the first rollouts that it gives."""
    if not text:
        return {}
    return {"suggested": text, "preview": preview(text, head)}


def _kind(path: Location) -> str:
    """What its name says of a file; JSON lines are what any other name is tried as."""
    if path.name.lower().endswith(PICKLES):
        return "pickle"
    source = source_of(path)
    kind = _KINDS.get(source, _KINDS[source.like])
    if is_packed(path):
        return f"{kind}, packed"
    with suppress(OSError):  # which is said where it is looked into
        if source.is_text and (layer := layer_of(read_bytes(path, 0, HEAD_OF_KIND))):
            return f"{kind}, {layer}"
    suffix = PurePosixPath(path.name).suffix or "its name"
    return kind if source.takes(path) else f"{suffix}, tried as {kind}"


def _head(path: Location) -> tuple[Head, str]:
    """The first records; none of a file that is not whole, with what is wrong with it."""
    try:
        return head_of(path, first_lines(path, path.stat().st_size))
    except OSError as error:
        return Head(pure_path(path), ()), error.strerror or str(error)


def _keys(head: Head) -> tuple[str, ...]:
    return tuple(dict.fromkeys(key for record in head.records for key in record))


def _layouts(path: Location, own: MappingReader | None) -> Iterator[Layout]:
    named = pure_path(path)
    for reader in _asked(own):
        if source_of(path).like in reader.sources and layout_match(reader.layout, named):
            place = LineContext(named, layout=reader.layout)
            yield Layout(reader.name, place.step, place.split)


def _nearest(path: Location, head: Head, own: MappingReader | None) -> dict[str, str]:
    """By readers' names why each passes the file over: the mapping file's own, then those that name most
    of the records' keys, last those of other kinds of files.
    """
    keys = {key for record in head.records for key in record}
    source = source_of(path).like
    named: list[tuple[int, str, str]] = []
    for reader in _asked(own):
        if isinstance(reader, MappingReader):
            named.append((len(keys) + 1, reader.name, reader.why_not(head)))
        elif source not in reader.sources:
            kinds = ", ".join(_KINDS[kind] for kind in reader.sources)
            named.append((-1, reader.name, f"reads {kinds} only"))
        else:
            wanted = inspect.getdoc(reader.recognises) or reader.title
            common = len(keys & _keys_named_by(type(reader)))
            reason = f"not found: {wanted.splitlines()[0].rstrip('.')}"
            named.append((common, reader.name, reason))
    ordered = sorted(named, key=lambda one: -one[0])  # of equally near ones the first that is asked
    return {name: reason for _, name, reason in ordered}


@cache
def _keys_named_by(reader: type[Reader]) -> frozenset[str]:
    """The keys that a reader names where it recognises its records."""
    return frozenset(_QUOTED.findall(inspect.getsource(reader.recognises))) | {*reader.keys}


def _asked(own: MappingReader | None) -> Sequence[Reader]:
    return READERS if own is None else (own, *READERS)
