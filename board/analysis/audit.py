"""Is all that a log's lines hold shown? Lines read again and compared with the rollouts made of them.

No reader knows of this: `core.conservation` compares the parsed line with what is shown of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from board.core.conservation import not_shown, remark_on
from board.core.problems import Problem, ProblemLog
from board.core.records import Record, Remark
from board.errors import RecordError
from board.formats import reader_named, source_read_by
from board.formats.base import Event, LineContext, Reader
from board.formats.io.lines import Line
from board.formats.parse import parse_whole, repeated_keys
from board.formats.sources import Row
from board.index.discovery.packed import readable
from board.index.discovery.run_info import LogFile
from board.query.open_run import Run

Progress = Callable[[int, int], None]
"""Called with bytes read and bytes to read; raising from it stops the reading."""

SAMPLE_LINES: Final = 200
"""Of a file, evenly spread from its first line on."""
_SAMPLE_BYTES: Final = 8 << 20
"""Of a run in all: about a second."""
_MOST_FILES: Final = 200
"""Of a run with more, every so many; a file is opened for its lines alone."""
NO_ROLLOUT: Final = Remark(None, "the line has texts and gives no rollout", severity="lost")


@dataclass(frozen=True, slots=True)
class Audit:
    """What was audited of a run. lines: how many lines, in how many files; problems: what they hold that
    is not shown.
    """

    lines: int
    files: int
    problems: tuple[Problem, ...]

    @property
    def summary(self) -> str:
        """The audit in a sentence."""
        of_files = f"{self.lines:,} lines of {self.files:,} files were audited"
        if not self.problems:
            return f"{of_files}: every text and number is shown, or left out for a stated reason"
        kinds = "kind of value is" if len(self.problems) == 1 else "kinds of values are"
        return f"{of_files}: {len(self.problems)} {kinds} not shown"


def audit_sample(run: Run) -> Audit:
    """What a sample of a run's lines holds and its rollouts do not show; the same sample each time.

    Files and lines that can't be read any more are left out. Raises UnreadableError.
    """
    auditors = [
        _Auditor(run, run.info.files[file], places) for file, places in _sample(run).items()
    ]
    for auditor in auditors:
        with suppress(OSError):
            auditor.audit_places()
    return _audit_of(auditors)


def audit_all(run: Run, progress: Progress) -> Audit:
    """What any line of a run holds and its rollouts do not show, lines without a rollout included.

    Files that can't be read are left out: the index has named them.
    """
    auditors = [_Auditor(run, file) for file in run.info.files]
    done = 0
    for auditor, file in zip(auditors, run.info.files, strict=True):
        with suppress(OSError):
            for bytes_read in auditor.audit_lines():
                progress(done + bytes_read, run.info.bytes)
        done += file.size
    return _audit_of(auditors)


def _audit_of(auditors: Sequence[_Auditor]) -> Audit:
    audited = [auditor for auditor in auditors if auditor.lines]
    problems = ProblemLog(problem for auditor in audited for problem in auditor.problems)
    return Audit(sum(auditor.lines for auditor in audited), len(audited), problems.as_tuple())


def audited_remarks(
    reader: Reader, line: Mapping[str, Any], records: Sequence[Record]
) -> list[Remark]:
    """The remarks on what a line holds and none of its rollouts shows."""
    missing = not_shown(line, records, reader.left_out)
    return [remark_on(path, value) for path, value in missing.items()]


def repeated_key(key: str) -> Remark:
    """The remark on a key that an object of a line has twice."""
    return Remark(
        key, f"the key {key!r} is written twice", "the last one is shown; the line has both"
    )


class _Auditor:
    """Audits lines of one file. places: of its lines, (line, offset, size) each in the file's order."""

    def __init__(
        self, run: Run, file: LogFile, places: Sequence[tuple[int, int, int]] = ()
    ) -> None:
        self._places = places
        self.lines = 0
        self._reader = reader_named(file.reader)
        self._source = source_read_by(file.reader, file.path, file.run)
        self._path = readable(file).path
        self._name = run.info.path_of(file)
        self._context = LineContext(file.path, run.options.read, self._reader.layout)
        self.problems = ProblemLog()

    def audit_places(self) -> None:
        """Audits the lines at the places."""
        lines = self._source.fetch_many(self._path, [place[1:] for place in self._places])
        for (number, _, _), line in zip(self._places, lines, strict=True):
            self._audit(number, line)

    def audit_lines(self) -> Iterator[int]:
        """Audits every line; gives the offset after each, of files of lines."""
        for number, line in enumerate(self._source.lines(self._path), 1):
            self._audit(number, line)
            yield line.offset + line.size

    def _audit(self, number: int, line: Line) -> None:
        self._context.line = number
        try:
            content = parsed_line(line)
            rows = self._reader.rows(content, self._context)
            results = [self._reader.record(row, self._context) for row in rows]
        except RecordError:  # which the index has named
            return
        self.lines += 1
        for key in [] if line.text is None else repeated_keys(line.text, content):
            self._add(number, repeated_key(key))
        records = [result for result in results if isinstance(result, Record)]
        if records:
            remarks = audited_remarks(self._reader, content, records)
        elif any(isinstance(result, Event) for result in results):
            return
        else:
            missing = not_shown(content, (), self._reader.left_out)
            is_text = any(isinstance(value, str) for value in missing.values())
            remarks = [NO_ROLLOUT] if is_text else []
        for remark in remarks:
            self._add(number, remark)

    def _add(self, number: int, remark: Remark) -> None:
        details = (remark.field, remark.reason, remark.hint, remark.severity)
        self.problems.add(Problem(self._name, number, *details))


def parsed_line(line: Line) -> Mapping[str, Any]:
    """The values of a line, none of a blank one. Raises RecordError."""
    if isinstance(line, Row):
        return line.record
    if not line.text or line.text.isspace():
        return {}
    return parse_whole(line.text)[0]


def _sample(run: Run) -> dict[int, list[tuple[int, int, int]]]:
    """The places (line, offset, size) that are audited, by number of the file, in the file's order."""
    table = (run.whole or run).table(f"""
        WITH lines AS (SELECT DISTINCT file, line, "offset", size FROM ({run.rows.visible()})),
        spread AS (
            SELECT *, greatest(1, count(*) OVER (PARTITION BY file) // {SAMPLE_LINES}) AS every,
                row_number() OVER (PARTITION BY file ORDER BY line) - 1 AS number
            FROM lines),
        chosen AS (
            SELECT *, number // every AS turn, dense_rank() OVER (ORDER BY file) AS nth
            FROM spread WHERE number % every = 0 AND number // every < {SAMPLE_LINES}),
        of_some AS (
            SELECT * FROM chosen
            WHERE (nth - 1) % greatest(1, ceil((SELECT max(nth) FROM chosen) / {_MOST_FILES})) = 0),
        bounded AS (
            SELECT *, sum(size) OVER (ORDER BY turn, file) AS bytes FROM of_some)
        SELECT file, line, "offset", size FROM bounded
        WHERE bytes <= {_SAMPLE_BYTES} OR bytes = size ORDER BY file, line
    """)
    places: dict[int, list[tuple[int, int, int]]] = {}
    for row in table.to_pylist():
        file_places = places.setdefault(row["file"], [])
        file_places.append((row["line"], row["offset"], row["size"]))
    return places
