"""Kinds of files, and how lines or rows are had of them. A reader names those it can make sense of.

A line or row is addressed by (offset, size). Of files of lines these are bytes; of files of rows they
are the row's number and 1; of a file that is one document they are 0 and its whole size.
"""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import PurePath
from typing import Any, Final

from board.errors import RecordError
from board.formats.io.lines import MAX_LINE_BYTES, Line, array_elements, read_bytes, read_lines
from board.formats.io.locations import Location
from board.formats.io.remote import RemoteLocation, RemoteStat
from board.formats.messages import is_messages
from board.formats.parse import is_list, objects_at, parse_exactly

_HEAD_BYTES: Final = 1 << 16
_GAP_BYTES: Final = 16 << 10
"""Lines are read by one request unless they are further apart."""


FileStat = os.stat_result | RemoteStat


class DamagedError(OSError):
    """A file that is not whole, or not what its name says. `strerror` says what was found."""

    def __init__(self, reason: str) -> None:
        super().__init__(0, reason)


@dataclass(frozen=True, slots=True)
class Row(Line):
    """A line that is no text: a row of a table, or a document that was parsed already."""

    record: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class RunInFile:
    """One of the runs that a file holds. size, mtime_ns: of its lines alone, which are others whenever
    these are; 0: not known, so that those of the file count.
    """

    key: str
    name: str
    size: int = 0
    mtime_ns: int = 0


class Source(ABC):
    """A kind of files. All of it raises OSError, or DamagedError, when a file can't be read."""

    suffixes: tuple[str, ...] = ()
    """How the names of such files end, in lower case."""
    appends: bool = False
    """Whether such files grow at their end; others are read again when they change."""
    is_text: bool = False
    """Whether they are text, which may be packed or encoded under a name that does not say so."""
    by_layout: bool = False
    """Whether only files that a reader's layout matches are looked into: most others are no logs."""
    likely: re.Pattern[str] | None = None
    """Names of files that are looked into as well."""
    unpacks: int = 1
    """About so many times as large as it is is what has to be read of a file."""

    def takes(self, path: PurePath | RemoteLocation) -> bool:
        """Whether a file is of this kind, by its name."""
        return path.name.lower().endswith(self.suffixes)

    @property
    def like(self) -> Source:
        """The kind that readers name in `sources` to be given such files."""
        return self

    @property
    def outline(self) -> Source:
        """The same lines or rows, of which ids, scores and single values alone may be there."""
        return self

    def stat(self, path: Location) -> FileStat:
        """Size and time of a file, which are others whenever its lines may be. Raises OSError."""
        listed = path.listed if isinstance(path, RemoteLocation) else None
        return listed or path.stat()

    def runs(self, path: Location) -> Sequence[RunInFile]:
        """The runs that a file holds; none where such files hold one."""
        return ()

    def of_run(self, run: str) -> Source:
        """The same kind of files, of which the lines of one run alone are given. run: its key."""
        return self

    def together(self, lines: Iterable[Line]) -> Iterable[Line]:
        """Lines that stood in such a file, each record as one of them."""
        return lines

    def head(self, path: Location) -> Iterator[Line]:
        """Enough of a file to recognise it: its first lines, or one row of its columns without values."""
        return self.lines(path)

    @abstractmethod
    def lines(self, path: Location) -> Iterator[Line]:
        """The lines or rows, in bounded memory."""

    @abstractmethod
    def fetch(self, path: Location, offset: int, size: int) -> Line:
        """One line or row again, by its place."""

    def fetch_many(self, path: Location, places: Sequence[tuple[int, int]]) -> Iterator[Line]:
        """Lines or rows again, by their places (offset, size), which ascend."""
        return (self.fetch(path, offset, size) for offset, size in places)

    def places(self, path: Location) -> Sequence[int] | None:
        """The offsets of the lines, where none of them ever changes and new ones come behind them: those
        that were read need not be read again. None of other files.
        """
        return None

    def between(self, path: Location, offset: int, size: int) -> Iterable[Line]:
        """The lines that begin in a range of bytes; of a table, whose places are numbers, the rows."""
        if self.is_text:
            return self.together(read_lines(path, offset, offset + size))
        return self.fetch_many(path, [(number, 1) for number in range(offset, offset + size)])


class JsonLines(Source):
    """One JSON object per line."""

    suffixes = (".jsonl", ".ndjson")
    appends = True
    is_text = True

    def lines(self, path: Location) -> Iterator[Line]:
        return read_lines(path)

    def fetch(self, path: Location, offset: int, size: int) -> Line:
        return Line(offset, size, read_bytes(path, offset, size).rstrip(b"\n"))

    def fetch_many(self, path: Location, places: Sequence[tuple[int, int]]) -> Iterator[Line]:
        # Near lines by one request.
        ends = [offset + size for offset, size in places]
        far = [i for i in range(1, len(ends)) if places[i][0] - ends[i - 1] > _GAP_BYTES]
        for start, stop in pairwise([0, *far, len(ends)] if places else ()):
            first = places[start][0]
            content = read_bytes(path, first, ends[stop - 1] - first)
            for offset, size in places[start:stop]:
                text = content[offset - first : offset - first + size]
                yield Line(offset, size, text.rstrip(b"\n"))


class JsonDocument(Source):
    """One JSON object per file, which is one line, or an array of objects, of which each is a line."""

    suffixes = (".json", ".traj", ".json.gz", ".json.zst")
    is_text = True
    by_layout = True
    likely = re.compile(
        r"^(?!.*config\.json$)(?:.*\.traj$|.*(?:result|rollout|sample|output|completion|generation|prediction"
        r"|response|traj|episode|simulation|conversation|transcript|table|eval)s?[^a-z])",
        re.IGNORECASE,
    )

    def lines(self, path: Location) -> Iterator[Line]:
        size = path.stat().st_size
        if read_bytes(path, 0, min(size, _HEAD_BYTES)).lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"[":
            yield from array_elements(path)
        elif size:
            text = read_bytes(path, 0, size) if size <= MAX_LINE_BYTES else None
            yield Line(0, size, text)

    def fetch(self, path: Location, offset: int, size: int) -> Line:
        return Line(offset, size, read_bytes(path, offset, size))

    def between(self, path: Location, offset: int, size: int) -> Iterable[Line]:
        array, _ = parse_exactly(b'{"rows": [%b]}' % read_bytes(path, offset, size))
        return [Row(offset, size, None, record=row) for row in objects_at(array, "rows")]


JSON_LINES = JsonLines()
JSON_DOCUMENT = JsonDocument()


def lfs_pointer(head: bytes) -> bool:
    """Whether a file that begins so is a git-lfs pointer."""
    return head.startswith(b"version https://git-lfs")


LFS_REASON = "it is a git-lfs pointer, not the file itself: run `git lfs pull`"


@contextmanager
def zstd_unpacker(name: str) -> Generator[Any]:
    """A decompressor of zstandard; what is wrong with the bytes of `name` is raised as DamagedError."""
    try:
        import zstandard
    except ImportError:
        raise DamagedError("zstandard is not installed (pip install zstandard)") from None
    try:
        yield zstandard.ZstdDecompressor(max_window_size=1 << 27)
    except zstandard.ZstdError as error:
        raise DamagedError(f"{name} is damaged: {error}") from error


def rows_of_table(
    line: Mapping[str, Any], names: Collection[str] | None = None
) -> Sequence[Mapping[str, Any]]:
    """One mapping per row of a line whose lists are columns; other values apply to all rows.

    names: of the columns, whose lists must be of one length; other lists are columns too where they have
    that length. None: all lists are columns. Raises RecordError where there is no list, or the columns
    are not of one length.
    """
    lengths = {len(own) for name in names or () if is_list(own := line.get(name))}
    columns = {
        key: value
        for key, value in line.items()
        if is_list(value)
        and (names is None or key in names or (len(value) in lengths and not is_messages(value)))
    }
    shared = {key: value for key, value in line.items() if key not in columns}
    if not columns:
        raise RecordError("the line holds no table", hint="a list of equal length for each key")
    lengths = {key: len(column) for key, column in columns.items()}
    if len(set(lengths.values())) > 1:
        columns = ", ".join(f"{key} {length}" for key, length in list(lengths.items())[:6])
        reason = "the columns of the table are of unequal length"
        raise RecordError(reason, hint=f"equal ones; found {columns}")
    rows = next(iter(lengths.values()), 0)
    return [{**shared, **{key: column[i] for key, column in columns.items()}} for i in range(rows)]


class TextFiles(Source):
    """One text per file, read whole; bytes that are not UTF-8 become U+FFFD."""

    suffixes = (".txt",)
    by_layout = True

    def head(self, path: Location) -> Iterator[Line]:
        content = read_bytes(path, 0, _HEAD_BYTES)
        if lfs_pointer(content):
            raise DamagedError(LFS_REASON)
        if content:
            yield Row(0, 1, None, record={"text": content.decode("utf-8", "replace")})

    def lines(self, path: Location) -> Iterator[Line]:
        yield self.fetch(path, 0, 1)

    def fetch(self, path: Location, offset: int, size: int) -> Line:
        if (length := path.stat().st_size) > MAX_LINE_BYTES:
            raise DamagedError(f"it is larger than {MAX_LINE_BYTES >> 20} MB")
        text = read_bytes(path, 0, length).decode("utf-8", "replace")
        return Row(offset, size, None, record={"text": text})


TEXT: Final = TextFiles()

_NAMES: Final = re.compile(
    r"(?:(?:train|eval)_rollout_[0-9]+|(?:rollout_idx|eval)_[0-9]+_trajectory)"
    r"\.jsonl(?:\.gz|\.zst)?",
    re.IGNORECASE,
)
"""What xtuner called files of records over many lines; it calls its files of lines so, too."""


class MultilineJson(Source):
    """One JSON object after the other, each on one line or over several, as json.dump indents them.

    One over several lines begins and ends with a line that is a brace alone; all between is indented.
    A record that never ends costs only itself.
    """

    def takes(self, path: PurePath | RemoteLocation) -> bool:
        return _NAMES.fullmatch(path.name) is not None

    @property
    def like(self) -> Source:
        """To readers they are lines of JSON."""
        return JSON_LINES

    def together(self, lines: Iterable[Line]) -> Iterator[Line]:
        """Each record as one line, followed by blank ones, so that counting them gives line numbers."""
        record = _OpenRecord()
        for line in lines:
            text = (line.text or b"").strip(b"\r\xef\xbb\xbf")
            # Within a record a line is blank, indented, or too long to be looked at.
            is_inside = line.text is None or not text or text[:1] in (b" ", b"\t")
            is_end = bool(record.count) and text == b"}"
            if is_end or (record.count and is_inside):
                record.add(line)
            if record.count and is_inside:
                continue
            yield from record.lines()
            record = _OpenRecord()
            if text == b"{":
                record.add(line)
            elif not is_end:
                yield line
        yield from record.lines()

    def lines(self, path: Location) -> Iterator[Line]:
        return self.together(read_lines(path))

    def fetch(self, path: Location, offset: int, size: int) -> Line:
        return JSON_LINES.fetch(path, offset, size)

    def between(self, path: Location, offset: int, size: int) -> Iterable[Line]:
        return self.together(JSON_LINES.between(path, offset, size))


@dataclass(slots=True)
class _OpenRecord:
    """A record whose end is still to come. texts: None of one that is too long."""

    texts: list[bytes] | None = field(default_factory=list[bytes])
    offset: int = 0
    size: int = 0
    count: int = 0

    def add(self, line: Line) -> None:
        """Adds one more of its lines."""
        self.offset = self.offset if self.count else line.offset
        self.size += line.size
        self.count += 1
        if line.text is None or self.size > MAX_LINE_BYTES:
            self.texts = None
        elif self.texts is not None:
            self.texts.append(line.text)

    def lines(self) -> Iterator[Line]:
        """The record as a line, and a blank one for each further line of it; without lines nothing."""
        end = self.offset + self.size
        for number in range(self.count):
            if number:
                yield Line(end, 0, b"")
            else:
                text = None if self.texts is None else b"\n".join(self.texts)
                yield Line(self.offset, self.size, text)


MULTILINE_JSON: Final = MultilineJson()
