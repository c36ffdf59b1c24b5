"""Writes a data set of a run: chosen rollouts in a shape, to a file or a folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final

from board.datasets.card import Source, Summary, card
from board.datasets.contents import DUPLICATES, UNWANTED, left_out_of
from board.datasets.files import FORMATS, README, DatasetFolder, Writer, replacing
from board.datasets.plain_values import PlainValues
from board.datasets.reading import column_names
from board.datasets.shapes import Conversations, Preferences, Rollouts, Row, Shape
from board.errors import ChoiceError, did_you_mean
from board.index.reading.scan import MENDED
from board.query.open_run import Run
from board.query.rollouts import Sorting, count

Progress = Callable[[int, int], None]
"""Called with rollouts (or groups) done and in all; raising from it stops the writing."""

KINDS: Final = ("parquet", "jsonl", "csv", "hf", "sft", "dpo")
_SUFFIXES: Final = {"": "hf", ".jsonl": "jsonl", ".parquet": "parquet"}


@dataclass(frozen=True, slots=True)
class Request:
    """kind: of KINDS, or "spreadsheet", a CSV in which no cell is a formula. columns: None is all. limit:
    rows at most; None is all. margin: least difference of rewards in a pair. choices: what the rollouts
    were chosen by, as the card says it. sorting: their order; pairs are by step. leave_out: what of
    contents.UNWANTED is left out; None: what is usual. by_turn: whether each turn is a row of its own, of
    a pair the first that differs.
    """

    kind: str
    target: Path
    columns: Sequence[str] | None = None
    limit: int | None = None
    margin: float | None = None
    overwrite: bool = False
    choices: Mapping[str, str] = field(default_factory=dict[str, str])
    sorting: Sorting = field(default_factory=Sorting)
    leave_out: Sequence[str] | None = None
    by_turn: bool = False

    @property
    def left_out(self) -> Collection[str]:
        """What is left out. Raises ChoiceError."""
        return left_out_of(self.kind, self.leave_out)


def write_dataset(run: Run, request: Request, progress: Progress) -> Summary:
    """Writes the rollouts of a run, which is narrowed to those that are wanted.

    Raises ChoiceError for a request that does not go, and where the target can't be written; then, and
    when interrupted, nothing is left of it. Raises UnreadableError.
    """
    _refuse(run, request)
    shape = _shape(run, request)
    file_format = _file_format(request)
    with replacing(request.target, overwrite=request.overwrite) as path:
        with closing(FORMATS[file_format](path, shape.schema)) as writer:
            summary = _write(run, request, shape, writer, progress)
        if isinstance(writer, DatasetFolder):
            source = Source(run.info.name, run.info.formats, request.choices)
            text = card(source, summary, shape.schema, writer.names)
            (path / README).write_text(text, encoding="utf-8")
    return summary


def _refuse(run: Run, request: Request) -> None:
    """Raises ChoiceError for options that do not go together, and for a target within the log."""
    of_pairs = request.kind == "dpo"
    if request.margin is not None and not of_pairs:
        raise ChoiceError("--margin goes with --as dpo alone")
    if request.margin is not None and not request.margin >= 0:
        raise ChoiceError(f"--margin {request.margin:g} is not 0 or more")
    if request.by_turn and request.kind not in ("sft", "dpo"):
        raise ChoiceError("--by-turn goes with --as sft and --as dpo alone")
    if request.limit == 0:
        raise ChoiceError("--limit 0 leaves nothing to write")
    if request.columns is not None and (of_pairs or request.kind == "sft"):
        raise ChoiceError(
            f"--columns does not go with --as {request.kind}, whose columns are fixed"
        )
    folder = None if run.info.only else run.info.path  # one file alone is read of that folder
    if isinstance(folder, Path) and request.target.resolve().is_relative_to(folder.resolve()):
        raise ChoiceError(
            f"{request.target} is in the run's folder, where it would be read as a log; choose "
            "another folder"
        )


def _shape(run: Run, request: Request) -> Shape:
    leave_out = request.left_out
    if request.kind == "sft":
        return Conversations(run, request.sorting, by_turn=request.by_turn)
    if request.kind == "dpo":
        return Preferences(run, request.margin or 0.0, leave_out, by_turn=request.by_turn)
    names = column_names(run)
    if request.columns is not None and not request.columns:
        raise ChoiceError(f"--columns names no column; {did_you_mean('', names)}")
    for name in request.columns or ():
        if name not in names:
            raise ChoiceError(f"the run has no column {name!r}; {did_you_mean(name, names)}")
    columns = request.columns or names
    compares = DUPLICATES in leave_out or {"prompt", "response"} <= {*columns}
    limit = None if leave_out else request.limit
    return Rollouts(run, columns, request.sorting, limit, compares=compares)


def _file_format(request: Request) -> str:
    """Which of FORMATS is written: for conversations as the target's suffix says."""
    if request.kind in FORMATS:
        return request.kind
    suffix = request.target.suffix
    if suffix not in _SUFFIXES:
        raise ChoiceError(
            f"{request.target.name} should end with .jsonl or .parquet; a name without an ending is "
            "that of a data set folder"
        )
    return _SUFFIXES[suffix]


def _write(run: Run, request: Request, shape: Shape, writer: Writer, progress: Progress) -> Summary:
    plain, rows, limit = PlainValues(), Counter[str](), request.limit
    groups: set[object] = set()
    prompts: set[int] = set()
    done, unread = 0, None
    sieve = _Sieve(shape, request.left_out)
    for batch in shape.batches():
        wanted = (row for own in batch for row in sieve.passing(own))
        written = [*islice(wanted, None if limit is None else limit - rows.total())]
        unread = next(wanted, None)
        sieve.count(written)
        splits = [row.split for row in written]
        if written:
            writer.write([plain.of(row.values) for row in written], splits)
        rows.update(splits)
        groups |= {hash(row.group) for row in written if row.group is not None}
        prompts |= {row.prompt_key for row in written if row.prompt_key is not None}
        done += len(batch)
        progress(done, shape.total)
        if rows.total() == limit:
            break
    notes = [*shape.notes(sieve.counts), *sieve.notes(run), *_notes(run, plain)]
    if rows.total() == limit and (unread or done < shape.total):
        notes.append(f"rows at most: {limit:,}, so that the last {shape.of} were not written")
    summary = Summary(
        *(shape.unit, shape.of, (run.whole or run).rollout_count, count(run), rows),
        *(len(groups), len(prompts), dict(shape.left_out.most_common()), notes),
    )
    if not rows:
        raise ChoiceError(f"there is nothing to write: {'; '.join(summary.lines()[3:])}")
    return summary


class _Sieve:
    """Keeps away what is left out, and counts the traits of what is written."""

    def __init__(self, shape: Shape, leave_out: Collection[str]) -> None:
        self._shape, self._leave_out = shape, leave_out
        self._seen: set[int] = set()
        self._compares, self._repeated = False, 0
        self.counts = Counter[str]()

    def passing(self, rows: Sequence[Row]) -> Iterator[Row]:
        """The rows of one rollout, or of one group, that are wanted."""
        # The traits of a pair are those of both, of which the better one was looked at before.
        of_pair = isinstance(self._shape, Preferences)
        for row in rows:
            unwanted = next((name for name in self._leave_out if name in row.traits), "")
            if unwanted and not of_pair:
                self._shape.left_out[UNWANTED[unwanted]] += 1
                return
            if DUPLICATES in self._leave_out and self._is_repeated(row):
                self._repeated += 1
            else:
                yield row

    def count(self, rows: Sequence[Row]) -> None:
        """Counts rows that are written."""
        for row in rows:
            self.counts.update(row.traits)
            if DUPLICATES not in self._leave_out:
                self.counts[DUPLICATES] += self._is_repeated(row)

    def _is_repeated(self, row: Row) -> bool:
        if row.content is None:
            return False
        self._compares = True
        is_repeated = row.content in self._seen
        self._seen.add(row.content)
        return is_repeated

    def notes(self, run: Run) -> Iterator[str]:
        """What was left out as a repetition, and what of the set a trainer may not want."""
        if self._repeated:
            yield f"{self._shape.unit} left out: {self._repeated:,}, {UNWANTED[DUPLICATES]}"
        columns = {"cause", "is_truncated"} & {*run.columns}
        known = {
            "infrastructure": "cause" in columns,
            "truncated": bool(columns),
            "unscored": not isinstance(self._shape, Preferences),
            DUPLICATES: self._compares,
        }
        counts = {name: f"{self.counts[name]:,}" for name, is_known in known.items() if is_known}
        said = [f"{UNWANTED[name]}: {count}" for name, count in counts.items()]
        yield f"among these {self._shape.unit}: {', '.join(said)}"


def _notes(run: Run, plain: PlainValues) -> Iterator[str]:
    """What was changed in texts."""
    mended = sum(one.count for one in run.problems if one.reason == MENDED.reason)
    if mended:
        yield f"lines of the run's log with bytes that are no text, which became U+FFFD: {mended:,}"
    if plain.replaced:
        yield f"texts in which NUL or half a character became U+FFFD: {plain.replaced:,}"
