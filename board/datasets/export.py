"""Writes a data set of a run: chosen rollouts in a shape, to a file or a folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from board.datasets.card import Source, Summary, card
from board.datasets.files import FORMATS, README, DatasetFolder, Writer, replacing
from board.datasets.plain_values import PlainValues
from board.datasets.reading import column_names
from board.datasets.shapes import Conversations, Preferences, Rollouts, Shape
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
    were chosen by, as the card says it. sorting: their order; pairs are by step.
    """

    kind: str
    target: Path
    columns: Sequence[str] | None = None
    limit: int | None = None
    margin: float | None = None
    overwrite: bool = False
    choices: Mapping[str, str] = field(default_factory=dict[str, str])
    sorting: Sorting = field(default_factory=Sorting)


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
    if request.kind == "sft":
        return Conversations(run, request.sorting)
    if request.kind == "dpo":
        return Preferences(run, request.margin or 0.0)
    names = column_names(run)
    for name in request.columns or ():
        if name not in names:
            raise ChoiceError(f"the run has no column {name!r}; {did_you_mean(name, names)}")
    return Rollouts(run, request.columns or names, request.sorting, request.limit)


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
    plain, rows = PlainValues(), Counter[str]()
    groups: set[object] = set()
    prompts: set[int] = set()
    done, unread, limit = 0, 0, request.limit
    for batch in shape.batches():
        written = [row for row in batch if row is not None]
        unread = 0 if limit is None else max(rows.total() + len(written) - limit, 0)
        written = written[: len(written) - unread]
        splits = [row.split for row in written]
        if written:
            writer.write([plain.of(row.values) for row in written], splits)
        rows.update(splits)
        groups |= {hash(row.group) for row in written if row.group is not None}
        prompts |= {row.prompt_key for row in written if row.prompt_key is not None}
        done += len(batch)
        progress(done, shape.total)
        if limit is not None and rows.total() >= limit:
            break
    notes = [*shape.notes, *_notes(run, plain)]
    if limit is not None and rows.total() == limit and (unread or done < shape.total):
        notes.append(f"rows at most: {limit:,}, so that the last {shape.of} were not written")
    summary = Summary(
        *(shape.unit, shape.of, (run.whole or run).rollout_count, count(run), rows),
        *(len(groups), len(prompts), dict(shape.left_out.most_common()), notes),
    )
    if not rows:
        raise ChoiceError(f"there is nothing to write: {'; '.join(summary.lines()[3:])}")
    return summary


def _notes(run: Run, plain: PlainValues) -> Iterator[str]:
    """What was changed in texts."""
    mended = sum(one.count for one in run.problems if one.reason == MENDED.reason)
    if mended:
        yield f"lines of the run's log with bytes that are no text, which became U+FFFD: {mended:,}"
    if plain.replaced:
        yield f"texts in which NUL or half a character became U+FFFD: {plain.replaced:,}"
