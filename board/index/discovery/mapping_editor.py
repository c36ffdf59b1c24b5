"""What a log was read as by the names of its keys, and a mapping file that says otherwise."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from board.errors import BoardError, ChoiceError
from board.formats import mapping_text, reader_named
from board.formats.generic import key_paths, preview, quoted
from board.formats.mapping import GENERIC
from board.formats.mapping_files import mapping_reader
from board.formats.recognition import head_of
from board.index.discovery.format_detection import first_lines
from board.index.discovery.mappings import FILE_NAME
from board.index.discovery.run_info import RunInfo

FIELDS: Final = ("prompt", "response", "messages", "reward", "step", "group_id", "ground_truth")
"""Fields of a rollout that the page offers to change; others stay as they are."""


@dataclass(frozen=True, slots=True)
class MappingDraft:
    """The mapping by which the first log file of a run is read.

    text: of the mapping file. keys: from fields to the keys of a line. paths: all keys that there are.
    preview: of the first rollouts step, texts and reward.
    """

    text: str
    keys: Mapping[str, str]
    paths: tuple[str, ...]
    preview: tuple[Mapping[str, Any], ...]


def is_generic(info: RunInfo) -> bool:
    """Whether a run is read by the names of its keys alone."""
    return bool(info.formats) and reader_named(info.formats[0]).title == GENERIC


def is_saved(info: RunInfo) -> bool:
    """Whether the mapping is that of a mapping file in the run's folder."""
    path = info.path / FILE_NAME
    return isinstance(path, Path) and path.is_file()


def draft_of(info: RunInfo, changes: Mapping[str, str | None] | None = None) -> MappingDraft:
    """The mapping of a generic run. changes: other keys of fields, None for none.

    Raises OSError where the log can't be read, BoardError where such a mapping can't be used.
    """
    file = info.files[0]
    head, _ = head_of(file.path, first_lines(file.path, file.size, is_wrapped=file.is_wrapped))
    text = _changed(mapping_text(file.reader), changes or {})
    reader = mapping_reader(text)
    if reason := reader.why_not(head):
        raise ChoiceError(f"these keys give no rollout: {reason}")
    return MappingDraft(text, reader.keys, key_paths(head, reader), preview(text, head))


def save(info: RunInfo, text: str) -> Path:
    """Writes the mapping file into the run's folder, over one that reads the run now. Raises
    ChoiceError.
    """
    if not isinstance(info.path, Path):
        raise ChoiceError("a mapping file can't be saved in a store: copy it there")
    target = info.path / FILE_NAME
    try:
        is_other = target.exists() and target.read_text("utf-8") != mapping_text(info.formats[0])
        if is_other:
            raise ChoiceError(f"{target} already exists with other content")
        part = target.with_suffix(".tmp")
        part.write_text(text, encoding="utf-8")
        part.replace(target)
    except (OSError, UnicodeDecodeError) as error:
        raise ChoiceError(f"{target} can't be written: {error}") from None
    return target


def _changed(text: str, changes: Mapping[str, str | None]) -> str:
    """A mapping with other keys of some fields."""
    table: dict[str, Any] = tomllib.loads(text)
    keys = {**table["keys"], **changes}
    before, _, _ = text.partition("[keys]")
    lines = [f"{field} = {quoted(path)}" for field, path in keys.items() if isinstance(path, str)]
    if not lines:
        raise BoardError("no field has a key")
    return "\n".join([f"{before}[keys]", *lines]) + "\n"
