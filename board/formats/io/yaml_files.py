"""YAML files (.yaml, .yml) whose document is a list: an entry is a row. Nothing in them is ever run.

PyYAML's parser alone is used, which gives events and makes no objects: of the tags only those of plain
values are followed, all others are passed by. Aliases stand for the value itself, not for a copy; how
large a document would be with each of them written out is counted before it is handed on, since nine
lines can stand for gigabytes.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from board.formats.io.lines import Line, read_bytes
from board.formats.io.locations import Location
from board.formats.parse import is_object
from board.formats.sources import LFS_REASON, DamagedError, Row, Source, lfs_pointer

MOST_WRITTEN_OUT: Final = 256 << 20
"""Characters and values of a document, each alias counted as what it stands for."""
MOST_DEPTH: Final = 64


class YamlFiles(Source):
    """One list of mappings per file."""

    suffixes = (".yaml", ".yml")
    by_layout = True

    def head(self, path: Location) -> Iterator[Line]:
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
    try:
        for entry in _Document(yaml, content).entries():
            yield entry if is_object(entry) else {"entry": entry}
    except (yaml.YAMLError, UnicodeError) as error:
        first = " ".join(str(error).split())[:120]
        raise DamagedError(f"it is not valid YAML, or half-written: {first}") from error


class _Document:
    """Makes plain values of a document's events."""

    def __init__(self, yaml: Any, content: bytes) -> None:
        self._yaml = yaml
        self._loader = yaml.SafeLoader("")
        self._events = yaml.parse(content, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._written = 0

    def entries(self) -> Iterator[Any]:
        """The entries of its list."""
        for event in self._events:
            if type(event).__name__ == "SequenceStartEvent":
                yield from self._items(1)
            elif type(event).__name__ == "MappingStartEvent":
                raise DamagedError("its document is not a list")

    def _items(self, depth: int) -> Iterator[Any]:
        """The values of the list or mapping that has begun."""
        if depth > MOST_DEPTH:
            raise DamagedError(f"it is nested deeper than {MOST_DEPTH} levels")
        for event in self._events:
            if type(event).__name__ in ("SequenceEndEvent", "MappingEndEvent"):
                return
            yield self._value(event, depth)

    def _value(self, event: Any, depth: int) -> Any:
        before, kind = self._written, type(event).__name__
        if kind == "AliasEvent":
            if event.anchor not in self._anchors:
                raise DamagedError("an alias refers to its own container, or to nothing")
            value, size = self._anchors[event.anchor]
            self._written += size
        elif kind == "ScalarEvent":
            value = self._scalar(event)
            self._written += 1 + len(event.value)
        else:
            self._written += 1
            value = list(self._items(depth + 1))
            if kind == "MappingStartEvent":
                if any(isinstance(key, list | dict) for key in value[::2]):
                    raise DamagedError("a key in it is a list or a mapping")
                value = dict(zip(map(str, value[::2]), value[1::2], strict=True))
        if self._written > MOST_WRITTEN_OUT:
            most = f"{MOST_WRITTEN_OUT >> 20} MB"
            raise DamagedError(f"with its aliases written out it is larger than {most}")
        if event.anchor is not None and kind != "AliasEvent":
            self._anchors[event.anchor] = (value, self._written - before)
        return value

    def _scalar(self, event: Any) -> Any:
        """Text, or what a plain value stands for: number, true, false, null."""
        node = self._yaml.ScalarNode
        tag = event.tag or self._loader.resolve(node, event.value, event.implicit)
        kind = tag.removeprefix("tag:yaml.org,2002:")
        if kind not in ("int", "float", "bool", "null"):
            return event.value
        try:
            return getattr(self._loader, f"construct_yaml_{kind}")(node(tag, event.value))
        except (ValueError, KeyError, IndexError):  # e.g. an integer of ten thousand digits
            return event.value


YAML: Final = YamlFiles()
