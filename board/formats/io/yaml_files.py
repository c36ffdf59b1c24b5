"""YAML files (.yaml, .yml) whose document is a list: an entry is a row. Nothing in them is ever run.

PyYAML's parser alone is used, which gives events and makes no objects: of the tags only those of plain
values are followed, all others are passed by. Aliases stand for the value itself, not for a copy; how
large a document would be with each of them written out is counted before it is handed on, since nine
lines can stand for gigabytes. PyYAML is imported when the first such file is read.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, cast

from board.formats.io.lines import Line, read_bytes
from board.formats.io.locations import Location
from board.formats.sources import LFS_REASON, DamagedError, Row, Source, lfs_pointer

MOST_WRITTEN_OUT: Final = 256 << 20
"""Characters and values of a document, each alias counted as what it stands for."""
MOST_DEPTH: Final = 64


class YamlFiles(Source):
    """One list of mappings per file."""

    suffixes = (".yaml", ".yml")
    appends = False
    by_layout = True

    def head(self, path: Location) -> Iterator[Line]:
        """The first entry alone."""
        return itertools.islice(self.lines(path), 1)

    def lines(self, path: Location) -> Iterator[Line]:
        for number, record in enumerate(_entries(_content(path))):
            yield Row(number, 1, None, record=record)

    def fetch(self, path: Location, offset: int, size: int) -> Line:
        stat = path.stat()
        entries = _all_entries(path, stat.st_size, stat.st_mtime_ns, stat.st_ino)
        if offset >= len(entries):
            raise DamagedError(f"it has no entry {offset} any more")
        return Row(offset, size, None, record=entries[offset])


def _content(path: Location) -> bytes:
    size = path.stat().st_size
    if size > MOST_WRITTEN_OUT:
        raise DamagedError(f"it is larger than {MOST_WRITTEN_OUT >> 20} MB")
    content = read_bytes(path, 0, size)
    if lfs_pointer(content):
        raise DamagedError(LFS_REASON)
    return content


@lru_cache(maxsize=1)
def _all_entries(
    path: Location, size: int, mtime_ns: int, inode: int
) -> tuple[Mapping[str, Any], ...]:
    """All entries, kept until another file is asked for: neighbours are asked for next."""
    return tuple(_entries(_content(path)))


def _entries(content: bytes) -> Iterator[Mapping[str, Any]]:
    """The entries of the document's list, each as soon as it is whole. Raises DamagedError."""
    try:
        yaml: Any = importlib.import_module("yaml")
    except ImportError:
        raise DamagedError("PyYAML is not installed (pip install 'rollout-board[yaml]')") from None
    builder = _Builder(yaml)
    try:
        for event in yaml.parse(content, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            entry = builder.take(event)
            if entry is not None:
                yield entry
    except (yaml.YAMLError, UnicodeError) as error:
        first = " ".join(str(error).split())[:120]
        raise DamagedError(f"it is not valid YAML, or half-written: {first}") from error


@dataclass(slots=True)
class _Open:
    """A list or mapping that has not ended. size: of what is in it. key: of the value to come."""

    value: Any
    anchor: str | None
    size: int = 1
    key: str | None = None


@dataclass(slots=True)
class _Builder:
    """Makes plain values of events, one after the other, without recursion."""

    yaml: Any
    stack: list[_Open] = field(default_factory=list[_Open])
    anchors: dict[str, tuple[Any, int]] = field(default_factory=dict[str, tuple[Any, int]])

    def take(self, event: Any) -> Mapping[str, Any] | None:
        """Takes one event; the entry of the document's list that it ends, if it ends one."""
        kind = type(event).__name__
        if kind in ("SequenceStartEvent", "MappingStartEvent"):
            self._open(_Open([] if kind.startswith("Sequence") else {}, event.anchor))
        elif kind in ("SequenceEndEvent", "MappingEndEvent"):
            closed = self.stack.pop()
            return self._put(closed.value, closed.size, closed.anchor)
        elif kind == "ScalarEvent":
            return self._put(_scalar(self.yaml, event), 1 + len(event.value), event.anchor)
        elif kind == "AliasEvent":
            if event.anchor not in self.anchors:
                raise DamagedError("an alias refers to its own container, or to nothing")
            return self._put(*self.anchors[event.anchor], None)
        return None

    def _open(self, opened: _Open) -> None:
        if len(self.stack) >= MOST_DEPTH:
            raise DamagedError(f"it is nested deeper than {MOST_DEPTH} levels")
        if not self.stack and isinstance(opened.value, dict):
            raise DamagedError("its document is not a list")
        self.stack.append(opened)

    def _put(self, value: Any, size: int, anchor: str | None) -> Mapping[str, Any] | None:
        """Puts a whole value where it belongs."""
        if anchor is not None:
            self.anchors[anchor] = (value, size)
        if not self.stack:
            return None
        into = self.stack[-1]
        into.size += size
        if into.size > MOST_WRITTEN_OUT:
            most = f"{MOST_WRITTEN_OUT >> 20} MB"
            raise DamagedError(f"with its aliases written out it is larger than {most}")
        if len(self.stack) == 1:
            is_mapping = isinstance(value, dict)
            return cast("dict[str, Any]", value) if is_mapping else {"entry": value}
        container = into.value
        if isinstance(container, list):
            cast("list[Any]", container).append(value)
        elif into.key is not None:
            into.value[into.key] = value
            into.key = None
        elif isinstance(value, list | dict):
            raise DamagedError("a key in it is a list or a mapping")
        else:
            into.key = str(value)
        return None


def _scalar(yaml: Any, event: Any) -> Any:
    """Text, or what a plain value stands for: number, true, false, null."""
    loader = _loader()
    tag = event.tag or loader.resolve(yaml.ScalarNode, event.value, event.implicit)
    read = {
        "int": loader.construct_yaml_int,
        "float": loader.construct_yaml_float,
        "bool": loader.construct_yaml_bool,
        "null": loader.construct_yaml_null,
    }.get(tag.removeprefix("tag:yaml.org,2002:"))
    try:
        return event.value if read is None else read(yaml.ScalarNode(tag, event.value))
    except (ValueError, KeyError, IndexError):  # e.g. an integer of ten thousand digits
        return event.value


@lru_cache(maxsize=1)
def _loader() -> Any:
    """What tells numbers from texts, and reads them, as YAML's safe loader does."""
    return importlib.import_module("yaml").SafeLoader("")


YAML: Final = YamlFiles()
