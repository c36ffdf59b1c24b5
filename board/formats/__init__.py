"""Every on-disk format the board reads, one file each. The order is the order of recognition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import PurePath
from typing import Any, Final

from board.errors import RecordError
from board.formats.base import Head, Reader, layout_match
from board.formats.episodes import EpisodesReader
from board.formats.frameworks.areal import ArealReader
from board.formats.frameworks.areal_texts import ArealTextsReader
from board.formats.frameworks.art import ArtReader
from board.formats.frameworks.ms_swift import MsSwiftReader
from board.formats.frameworks.native import NativeReader
from board.formats.frameworks.nemo_gym import NeMoGymReader
from board.formats.frameworks.nemo_rl import NemoRLReader
from board.formats.frameworks.open_instruct import OpenInstructReader
from board.formats.frameworks.prime_rl import PrimeRLReader
from board.formats.frameworks.rllb import RLLoggingBoardReader
from board.formats.frameworks.rllm import RllmReader
from board.formats.frameworks.roll import RollReader
from board.formats.frameworks.skyrl import SkyRLReader
from board.formats.frameworks.slime.miles import MilesTokensReader, MilesTrajectoryReader
from board.formats.frameworks.slime.reader import SlimeReader
from board.formats.frameworks.slime.relax import RelaxReader
from board.formats.frameworks.slime.train_data import SlimeTrainReader
from board.formats.frameworks.tinker.reader import TinkerReader
from board.formats.frameworks.trl import TRLReader
from board.formats.frameworks.verifiers import VerifiersReader
from board.formats.frameworks.verl import VerlReader
from board.formats.frameworks.xtuner import XtunerReader
from board.formats.io.lines import Line
from board.formats.io.locations import Location, pure_path
from board.formats.io.multiline_json import SPREAD
from board.formats.io.parquet_files import PARQUET
from board.formats.io.remote import RemoteLocation
from board.formats.io.text_files import TEXT
from board.formats.io.torch_files import TORCH
from board.formats.io.yaml_files import YAML
from board.formats.mapping import MappingReader, mapping_reader
from board.formats.other_files import known_as
from board.formats.parse import CUT_OFF, parse_whole
from board.formats.plugins import installed_readers
from board.formats.sources import (
    JSON_DOCUMENT,
    JSON_LINES,
    LFS_REASON,
    Row,
    Source,
    lfs_pointer,
)

SOURCES: Final[tuple[Source, ...]] = (SPREAD, JSON_LINES, JSON_DOCUMENT, PARQUET, TORCH, TEXT, YAML)
READERS: Final[tuple[Reader, ...]] = (
    *installed_readers(),
    *(PrimeRLReader(), VerlReader(), MsSwiftReader(), TRLReader()),
    *(EpisodesReader(), VerifiersReader(), NeMoGymReader()),
    *(NemoRLReader(), XtunerReader(), RelaxReader(), SlimeTrainReader(), SlimeReader()),
    *(MilesTokensReader(), MilesTrajectoryReader(), RollReader(), RllmReader()),
    *(
        SkyRLReader(),
        ArealReader(),
        ArealTextsReader(),
        OpenInstructReader(),
        ArtReader(),
        TinkerReader(),
    ),
    # These two take any line with a step and a text, so that they come last.
    *(NativeReader(), RLLoggingBoardReader()),
)

NO_FORMAT: Final = "its records (keys "
"""How the reason begins why a file has no reader whose records nobody knows."""
_HEAD_RECORDS: Final = 20
_HEAD_LINES: Final = 1000
"""Lines that are looked at for so many records: what a shell printed may stand before the first."""
HEAD_BYTES: Final = 1 << 19


_READERS_BY_NAME: Final = {reader.name: reader for reader in READERS}
_mappings: dict[str, MappingReader] = {}


def known_mapping(text: str) -> MappingReader:
    """The reader that the text of a mapping file tells of; `reader_named` knows it from then on.

    Raises BoardError naming the key that can't be used.
    """
    reader = mapping_reader(text)
    return _mappings.setdefault(reader.name, reader)


def mapping_text(name: str) -> str:
    """The text of the mapping that a reader was made of; empty for all others."""
    return _mappings[name].text if name in _mappings else ""


def reader_named(name: str) -> Reader:
    """The reader of that name; raises KeyError."""
    if name in _mappings:
        return _mappings[name]
    return _READERS_BY_NAME[name]


def family_of(name: str) -> str:
    """The family of the reader of that name."""
    return reader_named(name).family or name


def source_of(path: PurePath | RemoteLocation) -> Source:
    """The kind of a file by its name; of lines of JSON where the name says nothing."""
    return _source_named(path.name)


@lru_cache(maxsize=1024)
def _source_named(name: str) -> Source:
    """As source_of. One file is asked for several times, and a run may have a hundred thousand."""
    path = PurePath(name)
    return next((source for source in SOURCES if source.takes(path)), JSON_LINES)


def is_worth_a_look(path: PurePath) -> bool:
    """Whether the name of a file says that it may be a log, of those kinds of which most are none."""
    source = source_of(path)
    return not source.by_layout or bool(layouts_of(path))


def layouts_of(path: PurePath) -> tuple[Any, ...]:
    """How the layouts of all readers of that kind of file match a path."""
    source = source_of(path).like
    matches = (layout_match(r.layout, path) for r in READERS if source in r.sources)
    return tuple(match for match in matches if match is not None)


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
    if source in (JSON_LINES, JSON_DOCUMENT) and (told := known_as(head)):
        return None, f"its records {told}"
    keys = ", ".join(sorted({key for record in head.records for key in record})[:8])
    own = "" if mapping is None else f"; of the mapping file: {mapping.why_not(head)}"
    return None, f"{NO_FORMAT}{keys}) are of no format read here{own}"


def head_of(path: Location, lines: Iterable[Line] | None = None) -> tuple[Head, str]:
    """The beginning of a file, and what was wrong with its first unusable line; as `recognise`."""
    source = source_of(path)
    found = source.head(path) if lines is None else source.together(lines)
    records, first_error = _head(found, is_document=source is JSON_DOCUMENT)
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
                said = _document_error(error) if is_document else _line_error(number, error)
                first_error = first_error or (LFS_REASON if lfs_pointer(line.text) else said)
        if len(records) >= _HEAD_RECORDS or seen >= _HEAD_LINES or used >= HEAD_BYTES:
            break
    return records, first_error


def _line_error(number: int, error: RecordError) -> str:
    return f"line {number}: {error.reason} (expected: {error.hint})"


def _document_error(error: RecordError) -> str:
    """As of a line: the parser knows no other name for what it is given."""
    if CUT_OFF in error.hint:
        return "the document is cut off, or still being written"
    reason = error.reason.replace("the line", "the document", 1)
    reason += ", or half-written" if reason.endswith("not JSON") else ""
    return f"{reason} (expected: {error.hint.replace(' per line', '', 1)})"
