"""What a reader is: the one thing that knows a framework's files. Everything else sees Records.

docs/adding_a_reader.md says step by step how to read another framework's files.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, wraps
from pathlib import Path, PurePath
from typing import Any, Final, Literal, TypeVar

from board.core.records import ReadOptions, Record
from board.formats.columns import Columns, gather
from board.formats.field_values import split_of, step_of_text
from board.formats.fields import Fields, record_of, too_deep
from board.formats.io.locations import Location, Objects, pure_path
from board.formats.io.remote import RemoteLocation
from board.formats.metrics.base import step_of
from board.formats.sources import JSON_LINES, Source

Result = TypeVar("Result")

Repeats = Literal[
    "unordered",
    "never",
    "same_id",
    "unique_id",
    "file_buffer",
    "line_buffer",
    "copied_steps",
    "merged_files",
]
"""How a framework writes the same rollout again.

- never: it does not.
- unordered: nor does it, and lines are in no order of steps, so that a step that falls is no resume.
- same_id: rows with equal step, split and rollout_id are one rollout; the last one is shown.
- unique_id: so are rows with equal rollout_id alone, whatever their step. Lines are in no order of
  steps, so that a step that falls is no resume.
- file_buffer, line_buffer: each file (or line of many rows) is a buffer of the newest rollouts, which
  may begin with the end of the one before; the copy that was written first is shown.
- copied_steps: whoever resumes copies files. Where two hold the same lines of a step, all of them and in
  the same order, from the first step that both hold on, those of the first file are shown.
- merged_files: one more file holds exactly the lines of several others; those of the others are shown.
"""


@dataclass(frozen=True, slots=True)
class Join:
    """With which other logs of its folder the files of a reader are joined, rollout by rollout.

    of: readers that say the same here are. by: the key, in words. label: its log among them, in a word.
    order: whose row is shown, the lowest first; the others' values are added to it. is_trainer: its
    token arrays come before the others'.
    """

    of: str
    by: str
    label: str
    order: int = 0
    is_trainer: bool = False


@dataclass(frozen=True, slots=True)
class Event:
    """A line that is no rollout: what a writer says about its file, a step or its end, or numbers of the
    trainer, or something aside that no rollout shows.

    line: its number, which whoever reads the file fills in.
    """

    kind: Literal["header", "step_end", "close", "metrics", "aside"]
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])
    line: int = 0


@dataclass(frozen=True, slots=True)
class Head:
    """The beginning of a file, for a reader to recognise: its path and its first usable records.

    The one record of a Parquet or .pt file has its columns or keys, all without a value.
    """

    path: PurePath
    records: Sequence[Mapping[str, Any]]

    @property
    def first(self) -> Mapping[str, Any]:
        """The first record; empty where there is none."""
        return self.records[0] if self.records else {}

    def has(self, *keys: str) -> bool:
        """Whether a record has all of these keys."""
        return any(all(key in record for key in keys) for record in self.records)


class LineContext:
    """Where a line is: its file, its number, and what its path says of it.

    path: as the framework named the file, its folders included. location: where it is, for what is
    beside it. line: 1-based number of the line or row. options: how the user wants logs to be read. step,
    split: what the path says, by the layout's groups of these names. folder_split: eval where the file's
    folder is named as one of evaluation, else train.
    """

    # A plain class, changed from line to line: one made for each would cost a microsecond.
    def __init__(
        self,
        path: PurePath | RemoteLocation,
        options: ReadOptions | None = None,
        layout: re.Pattern[str] | None = None,
        line: int = 1,
    ) -> None:
        self.path = pure_path(path) if isinstance(path, RemoteLocation) else path
        self.location = path if isinstance(path, Path | RemoteLocation) else None
        self.options = options or ReadOptions()
        self.line = line
        self._sidecars: dict[Callable[[Location], Any], Any] = {}
        match = layout_match(layout, self.path)
        self._named = match.groupdict() if match else dict[str, str | None]()
        step, split = self._named.get("step"), self._named.get("split")
        self.step = None if step is None else step_of_text(step)
        self.split = None if split is None else split_of(split)
        self.folder_split = split_of(self.path.parent.name)

    def named(self, group: str) -> str | None:
        """What the layout's group of that name holds; None where the path does not say."""
        return self._named.get(group)

    def sidecar(self, find: Callable[[Location], Result]) -> Result | None:
        """What `find` makes of the file's location, asked once for all of its lines; None where it has
        none.
        """
        if self.location is None:
            return None
        if find not in self._sidecars:
            self._sidecars[find] = find(self.location)
        return self._sidecars[find]


class Reader(ABC):
    """Knows one on-disk format of rollouts.

    Of a line that is nested too deep for it whatever it overrides says that it can't be used.
    """

    name: str
    """Short name, as in `rollout-board runs --json`."""
    title: str
    """Name on screen."""
    sources: tuple[Source, ...] = (JSON_LINES,)
    """Kinds of files it reads: JSON_LINES, JSON_DOCUMENT, PARQUET, TORCH, TEXT, YAML."""
    layout: re.Pattern[str] | None = None
    """The end of the path as the framework names it, from below the run's folder on.

    All such files below one folder are one run. Groups `step` and `split` become `step` and `split` of
    the LineContext, others are had by its `named()`. Other paths are read too, but for .json, .pt, .txt
    and .yaml files; their own folder is then the run's.
    """
    keys: Mapping[str, str] = {}
    """The record's names for keys of a line that are called otherwise; empty: the key is left out."""
    left_out: Mapping[str, str] = {}
    """What no rollout shows on purpose, with the reason: paths such as `response.usage`, which stand for
    all below them. Any other text or number of a line that is not shown is found by `core.conservation`.
    """
    repeats: Repeats = "never"
    """How the framework writes the same rollout again."""
    family: str = ""
    """Files of one folder whose readers are of one family are one run; empty: by the reader's name."""
    rollout_keys: frozenset[str] = frozenset()
    """Of readers without a `read`: keys of which one makes a line a rollout; empty: every line is one."""
    run_per_file: bool = False
    """Whether each of its files is a run of its own, not all those of a folder together."""
    recording: Mapping[str, str] = {}
    """By column that pages need, how its framework is made to log it: a sentence. Of a column that is not
    named here the exporter is recommended.
    """
    has_outline: bool = False
    """Whether ids and scores are had in a fraction of the time of whole lines: no reader that makes
    Records, or whose repeats are found by texts.
    """
    join: Join | None = None
    """With which other logs of its folder its files are joined; None: with none."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Bounds what the reader overrides, so that no reader has to think of nesting."""
        super().__init_subclass__(**options)
        for name in _BOUNDED & cls.__dict__.keys():
            setattr(cls, name, _bounded(cls.__dict__[name]))

    @abstractmethod
    def recognises(self, head: Head) -> bool:
        """Whether the records are of this format; decides by content, never by the folder's name."""

    def source(self, file: Source) -> Source:
        """How lines are had of a file of that kind, where several of them may be one rollout."""
        return file

    def rows(self, line: Mapping[str, Any], at: LineContext) -> Sequence[Mapping[str, Any]]:
        """The rollouts of one line as one mapping each, which `read` is given one by one.

        Only for formats of several rollouts a line. Must depend on the line alone: a rollout is addressed
        by its number in it. The line holds no RawNumbers. Raises RecordError when it can't be used.
        """
        return (line,)

    def join_keys(self, record: Record, part: int) -> Sequence[object]:
        """At most two keys of a rollout within its step, equal in the logs that are joined, the surest
        first; None where one is not known. part: its number in its line. Must be what orjson can write.
        """
        return ()

    def run_title(self, log: Location) -> str:
        """What a run of this log is of, such as `wordle · gpt-4.1-mini`; empty where nothing says so."""
        return ""

    def sidecar_files(self, log: Location, objects: Objects) -> Sequence[Location]:
        """The files that a log's rollouts are read with, in a fixed order; when one changes the log is
        read again. objects: those of the run's root, where it is in a store.
        """
        return ()

    def read(self, line: Mapping[str, Any], at: LineContext) -> Fields | Record | Event | None:
        """The rollout or event of one parsed line (or one of its rows); None: nothing to show.

        A rollout is what the line says by the record's names: many lines are then checked together, and
        what can't be used is left out and named. Formats that have to look at values themselves make a
        Record with a RecordBuilder, which takes some times as long. Arrays of the line may be RawNumbers.
        Raises RecordError when the line can't be used. Readers that do without it are the fastest.
        """
        if (event := self.event_of(line)) is not None:
            return event
        columns = self.read_columns((line,), at)
        return {name: value for name, (value,) in columns.items() if value is not None}

    def event_of(self, line: Mapping[str, Any]) -> Event | None:
        """A line of metrics among those of a reader without a `read`."""
        is_rollout = not self.rollout_keys or not self.rollout_keys.isdisjoint(line)
        return None if is_rollout or step_of(line) is None else Event("metrics", line)

    def read_columns(self, lines: Sequence[Mapping[str, Any]], at: LineContext) -> Columns:
        """The fields of many lines (or rows) of a file, each a rollout: their values, gathered by key and
        renamed by `keys`. Asked of readers without a `read` of their own; `at.line` is of none of them.
        """
        gathered, names = gather(lines), self.keys
        columns = {names.get(key, key): values for key, values in gathered.items()}
        if len(columns) < len(gathered):  # of two keys of one name each line's later one counts
            columns = gather(list(map(self.fields, lines)))
        columns.pop("", None)
        return columns

    def fields(self, line: Mapping[str, Any]) -> Fields:
        """The values of a line, its keys renamed by `keys`."""
        names = self.keys
        return {
            name: value
            for key, value in line.items()
            if value is not None and (name := names.get(key, key))
        }

    def record(self, line: Mapping[str, Any], at: LineContext) -> Record | Event | None:
        """What `read` says, a rollout as a Record. Raises RecordError when the line can't be used."""
        result = self.read(line, at)
        return record_of(result, at.options) if isinstance(result, dict) else result


def run_name(environment: object, model: object) -> str:
    """A run's name by its environment and its model, which may begin with who serves it."""
    names = (environment, str(model).rpartition("/")[2] if isinstance(model, str) else None)
    return " · ".join(name for name in names if isinstance(name, str) and name)


_BOUNDED: Final = frozenset({"read", "read_columns", "rows", "recognises"})
"""What readers do with lines, which may be of a thousand nested arrays: parsers take these, and Python
can neither compare nor print them.
"""


def _bounded(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def bounded(*arguments: Any) -> Any:
        try:
            return method(*arguments)
        except RecursionError:
            if method.__name__ == "recognises":
                return False
            raise too_deep() from None

    return bounded


_PACKED: Final = re.compile(r"(?:(?<=\.jsonl)|(?<=\.json))\.(?:gz|zst)$", re.IGNORECASE)


def layout_match(layout: re.Pattern[str] | None, path: PurePath) -> re.Match[str] | None:
    """The match of a layout with the end of a path, as much of it as the layout takes.

    A packed file is where its lines were before somebody packed it.
    """
    return None if layout is None else _at_end(layout).search(_PACKED.sub("", path.as_posix()))


def folder_above(match: re.Match[str]) -> str:
    """What of the path lies above the match: the run's folder."""
    return match.string[: match.start()]


@lru_cache(maxsize=256)
def _at_end(layout: re.Pattern[str]) -> re.Pattern[str]:
    return re.compile(rf"(?:^|/)(?:{layout.pattern})$", layout.flags)
